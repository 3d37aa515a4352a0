"""Forecasts with their intervals, windows of a back-test, and the error at each step ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.plots.series import date_axis, describe_omitted
from throughtime.plots.style import COLOURS, INK, figure
from throughtime.runtime.forecast import ends

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from throughtime.data.datasets import DataLike
    from throughtime.data.panel import Panel, Series
    from throughtime.results import Forecast
    from throughtime.series.backtest import Backtest
    from throughtime.series.rolling import PastWindows

    History = Panel | DataLike | Mapping[str, Sequence[float]]

Array = NDArray[np.float64]

_SHOWN = 8  # series in one figure
_WINDOWS = 8  # of each series
_TAIL = 3  # horizons of history before the forecast
_TAIL_AT_LEAST = 24  # rows
_OTHERS = ("#999999", COLOURS[4], COLOURS[2], COLOURS[3])
_DASHES = ("--", ":", "-.", (0, (5, 1, 1, 1)))


def forecast(
    forecasts: Forecast | Sequence[Forecast],
    history: History | None = None,
    levels: Sequence[float] | None = None,
    *,
    path: Path | str | None = None,
) -> Figure:
    """Draw forecasts, each after the last rows of its series.

    Args:
        forecasts: the answer of `model.forecast(...)`, or one item of it. The first eight are drawn.
        history: the series before the forecasts: the path of a CSV file, a data set name, a DataFrame, a
            `Panel`, or a dict of values by series name. Without it, only the forecasts are drawn.
        levels: the intervals to draw, in per cent; by default all that the forecasts have.
        path: the file to write, ending in .png, .svg or .pdf.

    >>> from throughtime.results import Forecast
    >>> week = Forecast("sales", np.array([5.0, 6.0]), {0.1: np.array([4.0, 4.5]), 0.9: np.array([6.0, 7.5])})
    >>> drawing = forecast(week, history={"sales": [3.0, 3.5, 4.0, 4.5]})
    >>> [text.get_text() for text in drawing.legends[0].get_texts()]
    ['observed', 'forecast', '80 %']
    """
    chosen = list(forecasts) if isinstance(forecasts, Sequence) else [forecasts]
    if not chosen or not all(hasattr(answer, "quantiles") for answer in chosen):
        raise InputError("forecasts", "hold no forecasts; pass the answer of `model.forecast(...)`")
    if levels is None:
        levels = sorted({level for answer in chosen for level in _levels(answer.quantiles)})
    panel = None if history is None else _read_history(history)
    shown = chosen[:_SHOWN]
    with figure(*_size(len(shown)), path=path) as drawing:
        for axes, answer in zip(_grid(drawing, len(shown)), shown, strict=True):
            series = None if panel is None else _find_series(panel, answer.unique_id, len(chosen))
            ds = answer.ds
            if ds is None:
                ds = np.arange(len(answer.mean)) + (0 if series is None else len(series))
            if series is not None:
                tail = series.rows(slice(-max(_TAIL * len(answer.mean), _TAIL_AT_LEAST), None))
                axes.plot(tail.ds, tail.y, color=INK, linewidth=1.3, label="observed")
            _shade(axes, ds, answer.quantiles, levels)
            axes.plot(ds, answer.mean, color=COLOURS[0], label="forecast", marker=_marker(answer.mean))
            axes.set_title(answer.unique_id)
            _axes(axes, ds, () if panel is None else panel.target_names, len(shown))
        _legend(drawing, describe_omitted(len(shown), len(chosen)))
    return drawing


def _read_history(history: History) -> Panel:
    from throughtime.data.datasets import open_dataset
    from throughtime.data.panel import Panel, Series
    from throughtime.data.readers.panel import read_series_panel

    if isinstance(history, Panel):
        return history
    if isinstance(history, Mapping):
        return Panel(tuple(Series.of(name, values) for name, values in history.items()), None, undated=True)
    return read_series_panel(open_dataset(history, kind="series"))


def _find_series(panel: Panel, name: str, count: int) -> Series:
    """The series of a forecast; a single one may have another name, such as that of its file."""
    if count == len(panel.series) == 1:
        return panel.series[0]
    if name not in panel.series_by_name():
        problem = f"has no series {name!r}, but the forecasts have; pass the past of every series"
        raise InputError("history", problem)
    return panel.series_by_name()[name]


def backtest(
    result: Backtest,
    history: History,
    levels: Sequence[float] | None = None,
    *,
    path: Path | str | None = None,
) -> Figure:
    """Draw the forecasts of a back-test over the observed values.

    `result` is the answer of `model.backtest(...)` and `history` the series that it was run on, as for
    `forecast`. The last eight windows that do not overlap are drawn.
    """
    panel, cuts, windows = _read_history(history), result.rolling.cuts, result.figures[0].windows
    levels = result.levels if levels is None else levels
    shown = panel.series[:_SHOWN]
    apart = _choose_windows_apart(cuts, windows.y.shape[-1])[-_WINDOWS:]
    with figure(*_size(len(shown), wide=True), path=path) as drawing:
        for number, (axes, series) in enumerate(zip(_grid(drawing, len(shown)), shown, strict=True)):
            first = max(0, len(series) - max(cuts[window] for window in apart) - _TAIL_AT_LEAST)
            look = {"color": INK, "linewidth": 1.1, "zorder": 3}
            axes.plot(series.ds[first:], series.y[first:], label="observed", **look)
            for window in apart:
                _draw_window(axes, series, windows, (window, number), cuts[window], levels)
            axes.set_title(series.unique_id)
            axes.grid(visible=False, axis="x")
            axes.margins(x=0.01)
            _axes(axes, series.ds, panel.target_names, len(shown))
        _legend(drawing, describe_omitted(len(shown), len(panel.series)))
    return drawing


def _draw_window(
    axes: Any, series: Series, windows: PastWindows, at: tuple[int, int], cut: int, levels: Sequence[float]
) -> None:
    """Draw the forecast and the intervals of one window, and a line at its origin."""
    mean, origin = windows.mean[at], len(series) - cut
    ds = series.ds[origin : origin + len(mean)]
    _shade(axes, ds, {end: values[at] for end, values in windows.quantiles.items()}, levels)
    axes.plot(ds, mean, color=COLOURS[0], linewidth=1.5, label="forecast", marker=_marker(mean))
    axes.axvline(series.ds[origin - 1], color="#BBBBBB", linewidth=0.8, zorder=0)


def _choose_windows_apart(cuts: Sequence[int], h: int) -> list[int]:
    """Choose windows that do not overlap, from the last one back; return their positions.

    >>> _choose_windows_apart([7, 6, 5, 4, 3], h=3)
    [1, 4]
    """
    places: list[int] = []
    for window in reversed(range(len(cuts))):
        if not places or cuts[window] - cuts[places[0]] >= h:
            places.insert(0, window)
    return places


def forecast_error(
    errors: Mapping[str, Sequence[float]], measure: str = "RMSE", *, path: Path | str | None = None
) -> Figure:
    """Draw errors by model name against the step ahead, 1, 2, ...; the first is highlighted."""
    with figure(7.0, 4.2, path=path) as drawing:
        title = f"{measure} against steps ahead"
        axes: Any = drawing.add_subplot(xlabel="steps ahead", ylabel=measure, title=title)
        for number, (name, values) in enumerate(errors.items()):
            ahead = range(1, len(values) + 1)
            axes.plot(ahead, values, label=name, marker=_marker(values, 24), **_line(number))
        axes.locator_params(axis="x", integer=True)
        axes.set_ylim(bottom=0)
        _legend(drawing, None)
    return drawing


def _line(number: int) -> dict[str, Any]:
    if number == 0:
        return {"color": COLOURS[0], "linewidth": 2.2, "zorder": 5}
    other = (number - 1) % len(_OTHERS)
    return {"color": _OTHERS[other], "linewidth": 1.5, "linestyle": _DASHES[other]}


def _shade(axes: Any, ds: Any, quantiles: Mapping[float, Array], levels: Sequence[float]) -> None:
    """Shade the intervals, wider ones in a paler colour; a single step gets a vertical bar."""
    for rank, level in reversed([*enumerate(sorted(levels))]):
        if (interval := _interval(quantiles, level)) is None:
            continue
        alpha = 0.42 - 0.26 * rank / max(len(levels) - 1, 1)
        look = {"color": COLOURS[0], "alpha": alpha, "label": f"{level:g} %"}
        if len(ds) > 1:
            axes.fill_between(ds, *interval, linewidth=0, **look)
        else:
            axes.vlines(ds, *interval, linewidth=6, **look)


def _interval(quantiles: Mapping[float, Array], level: float) -> tuple[Array, Array] | None:
    """The two quantiles that bound an interval, or None if one is missing."""
    low, high = (quantiles.get(end) for end in ends(level))
    return None if low is None or high is None else (low, high)


def _levels(quantiles: Mapping[float, Array]) -> list[float]:
    """The levels, in per cent, of the intervals that these quantiles bound.

    >>> _levels(dict.fromkeys([0.05, 0.1, 0.5, 0.95], np.zeros(1)))
    [90.0]
    """
    levels = [round(100 - 200 * p, 6) for p in quantiles if p < 0.5]
    return sorted(level for level in levels if _interval(quantiles, level) is not None)


def _grid(drawing: Any, count: int) -> list[Any]:
    columns = _columns(count)
    return [drawing.add_subplot(-(-count // columns), columns, number + 1) for number in range(count)]


def _columns(count: int) -> int:
    return 1 if count < 4 else 2


def _size(count: int, wide: bool = False) -> tuple[float, float]:
    columns = _columns(count)
    return (9.0 if wide or columns > 1 else 7.0), 0.8 + (3.4 if count == 1 else 2.4 * -(-count // columns))


def _axes(axes: Any, ds: Any, names: Sequence[str], count: int) -> None:
    """Label the values with the name of their column, if there is only one, and the dates."""
    axes.set_ylabel(names[0] if len(names) == 1 else "value")
    if ds.dtype.kind == "M":
        date_axis(axes, max_dates=8 // _columns(count))


def _legend(drawing: Any, title: str | None) -> None:
    """Draw one legend above the whole figure."""
    labels: dict[str, Any] = {}
    for axes in drawing.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            labels.setdefault(label, handle)
    order = sorted(labels, key=lambda label: label.endswith("%"))  # lines first, then shades
    handles = [labels[label] for label in order]
    drawing.legend(handles, order, loc="outside upper right", ncols=len(order), title=title)


def _marker(values: Sequence[float] | Array, most: int = 2) -> str:
    """Mark the points of a line that has only a few."""
    return "." if len(values) <= most else ""
