"""The picture of segmentations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from throughtime import plots
from throughtime.inspection.truncation import Error, PassCost, StrategyComparison
from throughtime.plots.backpropagation import stretches
from throughtime.recurrence.backpropagation import Full

CUTS = {"randomised": [2, 3, 9], "truncated": [4, 8], "full": []}


@given(length=st.integers(1, 50), cuts=st.sets(st.integers(0, 60)))
def test_segments_cover_the_text_once(length: int, cuts: set[int]) -> None:
    found = stretches(sorted(cuts), length)
    assert [place for start, stop in found for place in range(start, stop)] == list(range(length))
    assert {start for start, _ in found} - {0} == {cut for cut in cuts if 0 < cut < length}


def test_three_segmentations_stand_side_by_side() -> None:
    # R52
    drawing: Any = plots.truncation("time machine", CUTS, [comparison(name, 0.1, 0.2) for name in CUTS])
    axes = drawing.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(CUTS)
    boxes = [patch for patch in axes.patches if type(patch).__name__ == "Rectangle"]
    assert len(boxes) == 4 + 3 + 1
    letters = "".join(text.get_text() for text in axes.texts if text.get_text())
    assert letters == "time machine" * 3


def comparison(name: str, bias: float, deviation: float) -> StrategyComparison:
    """The error and the costs of a strategy for two lengths."""
    growth = [PassCost(steps, steps * 1e-3, steps * 250_000) for steps in (4, 8)]
    return StrategyComparison(name, Full(), Error(bias, 0.0, deviation), growth)


def test_figures_are_drawn_below(tmp_path: Path) -> None:
    measured = [comparison(name, 0.1, 0.2) for name in CUTS]
    files = [tmp_path / f"{name}.png" for name in "abc"]
    for file in files[:2]:
        plots.truncation("time machine", CUTS, measured, path=file)
    plots.truncation("t", CUTS, [comparison(name, 0.0, 0.0) for name in CUTS], path=files[2])
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[2].stat().st_size > 5000
