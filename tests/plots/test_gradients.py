"""The picture of gradients against the lag."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from throughtime import plots
from throughtime.inspection.gradients import Curve

LAGS = np.arange(31)


def curve(cell: str, gain: float, factor: float, keep: float | None = None) -> Curve:
    norms = factor**LAGS
    return Curve(cell, gain, keep, norms.tolist(), norms[:-1].tolist(), float(norms.sum()), 1.0)


CURVES = [
    curve("rnn", 0.5, 0.5), curve("lstm", 0.5, 0.6), curve("lstm", 0.5, 0.99, keep=0.98),
    curve("rnn", 2.5, 1.5), curve("lstm", 2.5, 0.9), curve("lstm", 2.5, 1.0, keep=0.98),
]  # fmt: skip


@pytest.fixture
def drawn() -> Any:
    return plots.gradients(CURVES, 1.0)


def test_each_size_of_weights_is_a_column_and_clipping_a_row(drawn: Any) -> None:
    # R47
    assert len(drawn.axes) == 4
    assert [axes.get_title(loc="left") for axes in drawn.axes[:2]] == [
        "small recurrent weights (gain 0.5)", "large recurrent weights (gain 2.5)"
    ]  # fmt: skip
    assert all(axes.get_yscale() == "log" for axes in drawn.axes)
    plotted = [line.get_ydata() for line in drawn.axes[1].lines]
    assert any(np.array_equal(values, 1.5**LAGS) for values in plotted)


def key(legend: Any) -> dict[str, Any]:
    return dict(zip((text.get_text() for text in legend.get_texts()), legend.legend_handles, strict=True))


def test_every_line_has_its_like_in_a_legend(drawn: Any) -> None:
    above, below = (drawn.axes[place].get_legend() for place in (0, 2))
    assert list(key(drawn.legends[0])) == ["RNN", "LSTM"]
    assert list(key(above)) == ["gates set to keep 0.98\n(RNN: no gates)", "gates as drawn"]
    assert list(key(below)) == ["before clipping", "after clipping"]
    for axes, legend in ((drawn.axes[1], above), (drawn.axes[3], below)):
        plotted = {look(line) for line in axes.lines[1:]}  # the first is the line at 1
        assert plotted == {look(line) for line in key(legend).values()}


def look(line: Any) -> tuple[str, float | None]:
    return line.get_linestyle(), line.get_alpha()


def test_gates_are_not_spoken_of_where_none_are_set() -> None:
    alone, gated = plots.gradients([curve("rnn", 0.5, 0.5)], 1.0), plots.gradients(CURVES[1:3], 1.0)
    assert alone.axes[0].get_legend() is None
    assert list(key(gated.axes[0].get_legend())) == ["gates set to keep 0.98", "gates as drawn"]


def test_clipped_lines_are_scaled_by_one_factor(drawn: Any) -> None:
    # R47
    _, before, after, *_ = (np.asarray(line.get_ydata()) for line in drawn.axes[3].lines)
    np.testing.assert_allclose(after, before / (1.5**LAGS).sum())
