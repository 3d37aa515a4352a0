"""What training measured, line by line: `metrics.jsonl` always, TensorBoard where it is installed."""

from __future__ import annotations

import importlib.util
import json
import math
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

from throughtime.errors import InputError
from throughtime.files import naming, whole_file


class Metrics:
    """Appends to a `metrics.jsonl`; its neighbour `tensorboard/` gets the same values.

    Nothing is opened before the first line, so that a run that fails early leaves nothing behind.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._file: IO[str] | None = None
        self._board: Any = None
        self._purge: int | None = None
        self._before = 0.0
        self._started = time.monotonic()

    def write(self, kind: str, step: int, epoch: int, values: Mapping[str, float | int | str | None]) -> None:
        """Add one line, on disk when this returns. `seconds` counts the training before a resume too."""
        seconds = round(self._before + time.monotonic() - self._started, 3)
        line: dict[str, Any] = {"kind": kind, "step": step, "epoch": epoch, "seconds": seconds}
        if taken := line.keys() & values.keys():
            raise ValueError(f"the metrics' own names are taken: {', '.join(sorted(taken))}")
        line |= {name: _finite(value) for name, value in values.items()}
        if self._file is None:
            self._open()
        assert self._file is not None
        # One write, so that a kill tears at most the last line.
        with naming(self._path):
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def rewind(self, step: int, later: Collection[str] = ()) -> None:
        """Go on from this step: what was written of later ones, and a torn last line, is dropped.

        So are lines of this very step whose kind is among `later`: they are to be written again.
        """
        self.close()
        lines = read(self._path) if self._path.exists() else []
        kept = [line for line in lines if line["step"] < step + (line["kind"] not in later)]
        if self._path.exists():
            with whole_file(self._path) as file:
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
        self._before = kept[-1].get("seconds", 0.0) if kept else 0.0
        self._started = time.monotonic()
        self._purge = step + 1

    def close(self) -> None:
        """Let go of the files; writing again opens them anew."""
        if self._file is not None:
            file, self._file = self._file, None
            with naming(self._path):  # what could not be written before is tried once more
                file.close()
        if self._board is not None:
            self._board.close()
            self._board = None

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a", encoding="utf-8", newline="\n")
        self._board = _board(self._path.parent / "tensorboard", self._purge)


def read(path: Path | str) -> list[dict[str, Any]]:
    """The lines of a `metrics.jsonl`; a last one torn by a kill, and what is no measurement, is left out."""
    lines = Path(path).read_bytes().split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    values = []
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError
        except ValueError:  # neither JSON nor even UTF-8
            if number == len(lines):
                break
            raise InputError(str(path), "is not a JSON object; remove the line", line=number) from None
        if isinstance(value.get("step"), int) and isinstance(value.get("kind"), str):
            values.append(value)
    return values


def _finite(value: float | int | str | None) -> float | int | str | None:
    """JSON has no infinity and no NaN: they become null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _board(folder: Path, purge: int | None) -> Any:
    """A writer for TensorBoard that hides earlier events from step `purge` on; None where it is missing."""
    if importlib.util.find_spec("tensorboard") is None:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(log_dir=str(folder), purge_step=purge)
