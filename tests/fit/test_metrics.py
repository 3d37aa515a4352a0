"""The lines that training leaves behind."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.refusals import refuses

from throughtime.fit.metrics import Metrics, read_metrics


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be imported, which stops no training."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)


def filled(path: Path, steps: int = 4) -> Metrics:
    metrics = Metrics(path)
    for step in range(1, steps + 1):
        metrics.write("train", step, (step + 1) // 2, {"loss": 1 / step})
    return metrics


def test_each_line_is_an_object_on_disk_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    metrics = Metrics(path)
    assert not path.parent.exists()
    metrics.write("train", 50, 1, {"loss": 2.5, "lr": 1e-3})
    metrics.write("valid", 60, 1, {"perplexity": 12.0, "sample": "né"})
    first, second = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert list(first) == ["kind", "step", "epoch", "seconds", "loss", "lr"]
    assert first["seconds"] >= 0
    assert (second["kind"], second["perplexity"], second["sample"]) == ("valid", 12.0, "né")
    assert read_metrics(path) == [first, second]
    metrics.close()


def test_what_is_no_number_becomes_null(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    metrics.write("train", 1, 1, {"loss": float("nan"), "perplexity": float("inf"), "lr": 1.0})
    metrics.close()
    assert "NaN" not in path.read_text()
    assert read_metrics(path)[0].items() >= {"loss": None, "perplexity": None, "lr": 1.0}.items()


def test_the_own_names_are_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seconds, step"):
        Metrics(tmp_path / "metrics.jsonl").write("train", 1, 1, {"step": 2, "seconds": 1.0})


def test_rewinding_drops_later_steps_and_a_torn_line_and_time_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    filled(path).close()
    lines = [line | {"seconds": 100.0 * line["step"]} for line in read_metrics(path)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "tra')
    metrics = Metrics(path)
    metrics.rewind(2)
    assert [line["step"] for line in read_metrics(path)] == [1, 2]
    metrics.write("train", 3, 2, {"loss": 0.0})
    metrics.close()
    assert [line["step"] for line in read_metrics(path)] == [1, 2, 3]
    assert 200 <= read_metrics(path)[-1]["seconds"] < 300
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_torn_at_any_byte_reads_as_the_lines_before(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(path)
    metrics.write("train", 1, 1, {"loss": 1.0})
    metrics.write("valid", 1, 1, {"sample": "时间"})
    metrics.close()
    whole, lines = path.read_bytes(), read_metrics(path)
    start = whole.index(b"\n") + 1
    for size in range(start, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert read_metrics(path) == lines[:1]
    path.write_bytes(whole[:-1])
    assert read_metrics(path) == lines


def test_a_bad_line_within_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nnothing\n{"step": 2}\n')
    with refuses("metrics.jsonl:2", "JSON"):
        read_metrics(path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to write to")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.symlink_to("/dev/full")
    metrics = Metrics(path)
    for attempt in (lambda: metrics.write("train", 1, 1, {}), metrics.close):
        with pytest.raises(OSError, match="No space left") as full:
            attempt()
        assert full.value.filename == str(path)
    metrics.close()


class Writer:
    """As much of TensorBoard's writer as is called."""

    made: ClassVar[list[Writer]] = []

    def __init__(self, log_dir: str, purge_step: int | None) -> None:
        self.folder, self.purge, self.closed = Path(log_dir), purge_step, False
        self.scalars: list[tuple[str, Any, int]] = []
        self.made.append(self)

    def add_scalar(self, tag: str, value: Any, step: int) -> None:
        self.scalars.append((tag, value, step))

    def close(self) -> None:
        self.closed = True


def test_tensorboard_gets_the_numbers_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("torch.utils.tensorboard")
    module.__dict__["SummaryWriter"] = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(Writer, "made", [])
    metrics = filled(tmp_path / "metrics.jsonl", steps=1)
    metrics.write("valid", 1, 1, {"perplexity": 9.0, "sample": "text", "none": None})
    metrics.rewind(1)
    metrics.write("valid", 2, 1, {"perplexity": 8.0})
    metrics.close()
    first, second = Writer.made
    assert first.scalars == [("train/loss", 1.0, 1), ("valid/perplexity", 9.0, 1)]
    assert second.scalars == [("valid/perplexity", 8.0, 2)]
    assert (first.purge, second.purge) == (None, 2)
    assert first.folder == second.folder == tmp_path / "tensorboard"
    assert first.closed
    assert second.closed
