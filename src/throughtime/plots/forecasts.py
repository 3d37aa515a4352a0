"""Forecasts: the history and the fan ahead, windows of a back-test, and the error at each step ahead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from throughtime.plots.series import date_axis
from throughtime.plots.style import COLOURS, INK, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from throughtime.data.panel import Panel, Series
    from throughtime.results import Forecast
    from throughtime.series.rolling import PastWindows

Array = NDArray[np.float64]

_SHOWN = 8  # series in one picture
_WINDOWS = 8  # of each of them
_TAIL = 3  # horizons of history before the fan
_TAIL_AT_LEAST = 24  # rows
_OTHERS = ("#999999", COLOURS[4], COLOURS[2], COLOURS[3])
_DASHES = ("--", ":", "-.", (0, (5, 1, 1, 1)))


def forecast(
    panel: Panel,
    forecasts: Sequence[Forecast],
    levels: Sequence[float] | None = None,
    *,
    path: Path | str | None = None,
) -> Figure:
    """Draw the end of each series and its forecast.

    `levels`, in per cent, are the shades of the fan, by default all intervals whose two quantiles there are.
    """
    if levels is None:
        levels = sorted({level for one in forecasts for level in _levels(one.quantiles)})
    series = panel.by_name()
    shown = forecasts[:_SHOWN]
    with figure(*_size(len(shown)), path=path) as drawing:
        for axes, one in zip(_grid(drawing, len(shown)), shown, strict=True):
            own = series[one.unique_id]
            tail = own.rows(slice(-max(_TAIL * len(one.mean), _TAIL_AT_LEAST), None))
            axes.plot(tail.ds, tail.y, color=INK, linewidth=1.3, label="observed")
            for level in sorted(levels, reverse=True):
                ends = _interval(one.quantiles, level)
                if ends is not None:
                    _shade(axes, one.ds, *ends, level, levels)
            axes.plot(one.ds, one.mean, color=COLOURS[0], label="forecast", marker=_marker(one.mean))
            axes.set_title(one.unique_id)
            _axes(axes, own, panel, len(shown))
        _legend(drawing, _left_out(len(shown), len(forecasts)))
    return drawing


def backtest(
    panel: Panel,
    windows: PastWindows,
    cuts: Sequence[int],
    levels: Sequence[float] | None = None,
    *,
    path: Path | str | None = None,
) -> Figure:
    """Draw what the windows forecast upon what came; `cuts` are the rows that lay after each origin.

    The last eight are drawn; of windows that overlap only every second, third, ..., the last one always.
    """
    levels = _levels(windows.quantiles) if levels is None else levels
    shown = panel.series[:_SHOWN]
    apart = _apart(cuts, windows.y.shape[-1])[-_WINDOWS:]
    with figure(*_size(len(shown), wide=True), path=path) as drawing:
        for place, (axes, own) in enumerate(zip(_grid(drawing, len(shown)), shown, strict=True)):
            first = max(0, len(own) - max(cuts[window] for window in apart) - _TAIL_AT_LEAST)
            axes.plot(own.ds[first:], own.y[first:], color=INK, linewidth=1.1, label="observed", zorder=3)
            for window in apart:
                _draw_window(axes, own, windows, (window, place), cuts[window], levels)
            axes.set_title(own.unique_id)
            axes.grid(visible=False, axis="x")
            axes.margins(x=0.01)
            _axes(axes, own, panel, len(shown))
        _legend(drawing, _left_out(len(shown), len(panel.series)))
    return drawing


def _draw_window(
    axes: Any, series: Series, windows: PastWindows, at: tuple[int, int], cut: int, levels: Sequence[float]
) -> None:
    """The forecast and the fan of one window of one series, and a line where it begins."""
    mean, origin = windows.mean[at], len(series) - cut
    ds = series.ds[origin : origin + len(mean)]
    for level in sorted(levels, reverse=True):
        ends = _interval(windows.quantiles, level)
        if ends is not None:
            _shade(axes, ds, ends[0][at], ends[1][at], level, levels)
    axes.plot(ds, mean, color=COLOURS[0], linewidth=1.5, label="forecast", marker=_marker(mean))
    axes.axvline(series.ds[origin - 1], color="#BBBBBB", linewidth=0.8, zorder=0)


def _apart(cuts: Sequence[int], h: int) -> list[int]:
    """The places of windows that do not overlap, from the last one back.

    >>> _apart([7, 6, 5, 4, 3], h=3)
    [1, 4]
    """
    found: list[int] = []
    for place in reversed(range(len(cuts))):
        if not found or cuts[place] - cuts[found[0]] >= h:
            found.insert(0, place)
    return found


def forecast_error(
    errors: Mapping[str, Sequence[float]],
    measure: str = "RMSE",
    steps: Sequence[int] | None = None,
    *,
    path: Path | str | None = None,
) -> Figure:
    """Draw the error against the step ahead, 1, 2, ... or `steps`: the first in colour, the others beside."""
    longest = max(len(values) for values in errors.values())
    ahead = np.arange(1, longest + 1) if steps is None else np.asarray(steps)
    with figure(7.0, 4.2, path=path) as drawing:
        axes: Any = drawing.add_subplot(xlabel="steps ahead", ylabel=measure)
        for number, (name, values) in enumerate(errors.items()):
            style = _line(number)
            axes.plot(ahead[: len(values)], values, label=name, marker=_marker(values, 24), **style)
        # Steps that grow by factors stand evenly on a logarithmic axis.
        if steps is not None and len(ahead) > 2 and ahead[-1] >= 8 * ahead[0]:
            axes.set_xscale("log", base=2)
            axes.set_xticks(ahead, [str(step) for step in ahead])
            axes.minorticks_off()
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylim(bottom=0)
        axes.set_title(f"{measure} against steps ahead")
        _legend(drawing, None)
    return drawing


def _line(number: int) -> dict[str, Any]:
    if number == 0:
        return {"color": COLOURS[0], "linewidth": 2.2, "zorder": 5}
    other = (number - 1) % len(_OTHERS)
    return {"color": _OTHERS[other], "linewidth": 1.5, "linestyle": _DASHES[other]}


def _shade(axes: Any, ds: Any, low: Array, high: Array, level: float, levels: Sequence[float]) -> None:
    """One band of the fan; the less likely, the paler. A single step has an upright bar."""
    rank = sorted(levels).index(level)
    alpha = 0.42 - 0.26 * rank / max(len(levels) - 1, 1)
    look = {"color": COLOURS[0], "alpha": alpha, "linewidth": 0, "label": f"{level:g} %"}
    if len(ds) > 1:
        axes.fill_between(ds, low, high, **look)
    else:
        axes.vlines(ds, low, high, **{**look, "linewidth": 6})


def _interval(quantiles: Mapping[float, Array], level: float) -> tuple[Array, Array] | None:
    """The two quantiles that bound an interval, where both are there."""
    ends = [
        next(
            (quantiles[p] for p in quantiles if math.isclose(p, 0.5 + side * level / 200, abs_tol=1e-6)), None
        )
        for side in (-1, 1)
    ]
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _levels(quantiles: Mapping[float, Array]) -> list[float]:
    """The levels, in per cent, of the intervals that these quantiles bound.

    >>> _levels(dict.fromkeys([0.05, 0.1, 0.5, 0.95], np.zeros(1)))
    [90.0]
    """
    levels = [round(100 - 200 * p, 6) for p in quantiles if p < 0.5]
    return sorted(level for level in levels if _interval(quantiles, level) is not None)


def _grid(drawing: Any, count: int) -> list[Any]:
    columns = _columns(count)
    return [drawing.add_subplot(-(-count // columns), columns, place + 1) for place in range(count)]


def _columns(count: int) -> int:
    return 1 if count < 4 else 2


def _size(count: int, wide: bool = False) -> tuple[float, float]:
    columns = _columns(count)
    return (9.0 if wide or columns > 1 else 7.0), 0.8 + (3.4 if count == 1 else 2.4 * -(-count // columns))


def _axes(axes: Any, series: Series, panel: Panel, count: int) -> None:
    """Values by the name of their column; where several are drawn, each is named above its own."""
    axes.set_ylabel(panel.target_names[0] if len(panel.target_names) == 1 else "value")
    if series.ds.dtype.kind == "M":
        date_axis(axes, max_dates=8 // _columns(count))


def _legend(drawing: Any, title: str | None) -> None:
    """One legend for the whole picture, above it."""
    labels: dict[str, Any] = {}
    for axes in drawing.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            labels.setdefault(label, handle)
    order = sorted(labels, key=lambda label: label.endswith("%"))  # lines first, then shades
    handles = [labels[label] for label in order]
    drawing.legend(handles, order, loc="outside upper right", ncols=len(order), title=title)


def _left_out(shown: int, count: int) -> str | None:
    return f"{shown} of {count:,} series" if shown < count else None


def _marker(values: Sequence[float] | Array, most: int = 2) -> str:
    """A line of very few points is hardly seen without marks."""
    return "." if len(values) <= most else ""
