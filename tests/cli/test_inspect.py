"""`throughtime inspect`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refuses

from throughtime.cli.inspect import graph
from throughtime.cli.inspect_gradients import gradients, truncation

Inspected = Callable[..., dict[str, Any]]


@pytest.fixture
def inspected(capsys: pytest.CaptureFixture[str]) -> Inspected:
    """Run a command's function and read the JSON that it prints."""

    def run(command: Callable[..., None], **options: Any) -> dict[str, Any]:
        capsys.readouterr()
        command(json=True, **options)
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    return run


@pytest.mark.parametrize(
    ("command", "options", "rows"),
    [
        (gradients, {"steps": 60, "hidden": 24, "seeds": 2}, "curves"),
        (graph, {"cell": "gru", "steps": 3}, "nodes"),
        (truncation, {"steps": 32, "tau": 4, "pi": 0.8, "hidden": 6, "draws": 256}, "strategies"),
    ],
)
def test_a_command_prints_one_object_and_draws_a_picture(
    tmp_path: Path, inspected: Inspected, command: Callable[..., None], options: dict[str, Any], rows: str
) -> None:
    plot = tmp_path / "picture.png"
    found = inspected(command, **options, plot=plot)
    assert plot.read_bytes().startswith(b"\x89PNG")
    told = {
        "curves": lambda row: (row["cell"], row["gain"], row["keep"], row["verdict"]),
        "nodes": tuple,
        "strategies": lambda row: (row["strategy"], len(row["growth"])),
    }[rows]
    expected = {
        "curves": ("lstm", 0.5, 0.98, "holds"),
        "nodes": ("w_h", None, "weight"),
        "strategies": ("randomised", 4),
    }
    assert expected[rows] in [told(row) for row in found[rows]]


def test_one_cell_at_one_scale(inspected: Inspected, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspected(gradients, cell="rnn", steps=5, hidden=4, scale="1.2", seeds=1)
    assert [row["gain"] for row in found["curves"]] == [1.2]
    gradients(cell="lstm", steps=5, hidden=4, scale="large", seeds=1)
    shown = capsys.readouterr().out
    assert "at lag 5" in shown
    assert "keep 0.98" in shown


@pytest.mark.parametrize(
    ("command", "options", "facts"),
    [
        (gradients, {"cell": "lstn"}, ("'lstn'", "'lstm'")),
        (gradients, {"scale": "huge"}, ("--scale", "'huge'", "0")),
        (gradients, {"scale": "-1"}, ("--scale", "'-1'")),
        (gradients, {"clip": 0.0}, ("--clip", "0.0", "0")),
        (gradients, {"clip": float("nan")}, ("--clip", "nan", "0")),
        (gradients, {"cell": "rnn", "keep": 0.5}, ("--keep", "rnn")),
        (gradients, {"keep": 1.5}, ("--keep", "1.5", "0", "1")),
        (gradients, {"plot": Path("g.gif")}, ("g.gif",)),
        (graph, {"cell": "lstn"}, ("'lstn'", "'lstm'")),
        (truncation, {"cell": "lstn"}, ("'lstn'", "'lstm'")),
        (truncation, {"pi": 0.0}, ("pi", "0.0", "0", "1")),
        (truncation, {"keep": 1.0}, ("--keep", "1.0", "0", "1")),
        (truncation, {"cell": "rnn", "keep": 0.5}, ("--keep", "rnn")),
        (truncation, {"text": "x"}, ("--text", "--plot")),
        (truncation, {"text": "", "plot": Path("t.png")}, ("--text",)),
    ],
)
def test_bad_options_get_one_sentence(
    command: Callable[..., None], options: dict[str, Any], facts: tuple[str, ...]
) -> None:
    with refuses(*facts):
        command(**options)


def test_the_comparison_is_shown_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    truncation(steps=16, tau=4, hidden=4, draws=64)
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("full", "truncated", "randomised", "deviation", "kept MB"))


def test_the_module_starts_without_torch() -> None:
    code = "import sys, throughtime.cli.inspect; print({'torch', 'numpy', 'matplotlib'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_all_is_a_name_only_where_cells_are_compared() -> None:
    with refuses("cell", "'all'") as told:
        truncation(cell="all")
    assert "'all'?" not in str(told.value)
    assert "nown: gru," in str(told.value)
    with refuses("cell", "'al'", "'all'"):
        gradients(cell="al")
