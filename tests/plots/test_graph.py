"""The picture of the unrolled graph."""

from __future__ import annotations

import pytest
from tests.inspection.test_gates import Threefold

from throughtime import plots
from throughtime.cells import CELLS
from throughtime.inspection.graph import unroll


@pytest.mark.parametrize("cell", [*CELLS, "threefold"])
def test_no_two_values_of_a_graph_overlap(cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # R54
    monkeypatch.setitem(CELLS._added, "threefold", Threefold)
    graph = unroll(cell, 3)
    (axes,) = plots.graph(graph, title=cell).axes
    circles = [patch for patch in axes.patches if type(patch).__name__ == "Circle"]
    assert len(circles) == len(graph.nodes)
    for number, one in enumerate(circles):
        for other in circles[number + 1 :]:
            apart = sum((a - b) ** 2 for a, b in zip(one.center, other.center, strict=True)) ** 0.5
            assert apart > one.radius + other.radius
    labels = {text.get_text() for text in axes.texts}
    assert {"$x_{1}$", "$h_{0}$", "$w_h$", r"$\hat y_{3}$", "$L_{2}$", "$L$"} <= labels
    weights = {circle.get_facecolor() for circle in circles if circle.center[0] < -1}
    assert len(weights) == 2  # weights one colour, initial states another
