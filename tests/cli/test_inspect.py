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


def test_gradients_of_all_three_cells_for_small_and_large_weights(
    tmp_path: Path, inspected: Inspected
) -> None:
    # R47
    plot = tmp_path / "g.png"
    found = inspected(gradients, steps=60, hidden=24, seeds=2, plot=plot)
    assert plot.read_bytes().startswith(b"\x89PNG")
    curves = {(row["cell"], row["gain"], row["keep"]): row for row in found["curves"]}
    assert {cell for cell, _, _ in curves} == {"rnn", "gru", "lstm"}
    assert curves["rnn", 0.5, None]["verdict"] == "vanishes"
    assert curves["rnn", 2.5, None]["norms"][-1] > 100
    assert curves["lstm", 0.5, 0.98]["verdict"] == "holds"
    assert all(row["clipped_norm"] <= 1.001 for row in found["curves"])
    assert all((len(row["norms"]), len(row["step_gradients"])) == (61, 60) for row in found["curves"])


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


def test_the_graph_is_drawn_and_told(tmp_path: Path, inspected: Inspected) -> None:
    # R54
    plot = tmp_path / "graph.svg"
    found = inspected(graph, cell="gru", steps=3, plot=plot)
    assert plot.read_bytes().startswith(b"<?xml")
    assert ["h_2", "r_3"] in found["edges"]
    assert ["r_1", "n_1"] in found["edges"]
    assert ["w_h", None, "weight"] in found["nodes"]


def test_the_three_strategies_are_compared(tmp_path: Path, inspected: Inspected) -> None:
    # R50, R51, R52
    plot = tmp_path / "t.png"
    found = inspected(truncation, steps=32, tau=4, pi=0.8, hidden=6, draws=256, plot=plot)
    assert plot.stat().st_size > 10_000
    full, cut, drawn = found["strategies"]
    assert (full["strategy"], cut["strategy"], drawn["strategy"]) == ("full", "truncated", "randomised")
    assert full["bias"] == full["deviation"] == cut["deviation"] == 0
    assert cut["bias"] > drawn["bias"]
    assert cut["saved_bytes"] < full["saved_bytes"] <= drawn["saved_bytes"]
    assert [part["steps"] for part in full["growth"]] == [8, 16, 24, 32]


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
