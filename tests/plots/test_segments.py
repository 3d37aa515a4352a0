"""The picture of segmentations."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from throughtime import plots
from throughtime.plots.backpropagation import stretches

CUTS = {"randomised": [2, 3, 9], "truncated": [4, 8], "full": []}


@given(length=st.integers(1, 50), cuts=st.sets(st.integers(0, 60)))
def test_segments_cover_the_text_once(length: int, cuts: set[int]) -> None:
    found = stretches(sorted(cuts), length)
    assert [place for start, stop in found for place in range(start, stop)] == list(range(length))
    assert {start for start, _ in found} - {0} == {cut for cut in cuts if 0 < cut < length}


def test_three_segmentations_stand_side_by_side() -> None:
    # R52
    axes: Any
    (axes,) = plots.segments("time machine", CUTS).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(CUTS)
    boxes = [patch for patch in axes.patches if type(patch).__name__ == "Rectangle"]
    assert len(boxes) == 4 + 3 + 1
    letters = "".join(text.get_text() for text in axes.texts if text.get_text())
    assert letters == "time machine" * 3
