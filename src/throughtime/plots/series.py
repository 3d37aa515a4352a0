"""Series: drift of their level, k-step-ahead predictions, and date labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from throughtime.plots.style import COLOURS, INK, figure
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from throughtime.series.figures import KSteps, SeriesKSteps
    from throughtime.series.stationarity import Drift


def date_axis(axes: Any, max_dates: int) -> None:
    """Label a time axis with at most `max_dates` dates, each with its year."""
    from matplotlib import dates

    known: Any = dates
    locator = known.AutoDateLocator(minticks=3, maxticks=max_dates)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(known.AutoDateFormatter(locator))


def describe_omitted(shown: int, count: int) -> str | None:
    """The title of a legend that says how many of the series are drawn, unless all are."""
    return f"{shown} of {count:,} series" if shown < count else None


_GREY = "#999999"


def drift(values: ArrayLike, drift: Drift, *, path: Path | str | None = None) -> Figure:
    """Draw a series with the mean and standard deviation of each segment, and their autocorrelations."""
    with figure(7.0, 5.0, path=path) as drawing:
        level, memory = drawing.subplots(2, sharex=True, height_ratios=(3, 1))
        series = np.asarray(values)
        level.plot(series, color=_GREY, linewidth=0.7, label="series")
        alone = _find_isolated(series)
        level.plot(alone, series[alone], color=_GREY, linestyle="none", marker=".", markersize=2)
        for number, segment in enumerate(drift.segments):
            span = (segment.start, segment.stop)
            low, high = segment.mean - segment.deviation, segment.mean + segment.deviation
            names = ("mean of a segment", "± one standard deviation") if number == 0 else (None, None)
            level.fill_between(span, low, high, color=COLOURS[5], alpha=0.35, linewidth=0, label=names[1])
            level.hlines(segment.mean, *span, color=COLOURS[0], linewidth=2.5, label=names[0])
            memory.hlines(segment.autocorrelation, *span, color=COLOURS[1], linewidth=2.5)
        level.set(title=_verdict(drift), ylabel="value")
        level.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, -0.17), fontsize=10)
        memory.axhline(0, color=INK, linewidth=0.8)
        memory.set(ylim=(-1.05, 1.05), xlabel="step", ylabel="lag-1 auto-\ncorrelation")
        level.margins(x=0.01)
    return drawing


def _find_isolated(series: NDArray[np.float64]) -> NDArray[np.int64]:
    """Steps whose neighbours are missing, which a line does not show."""
    absent = np.isnan(np.concatenate([[np.nan], series, [np.nan]]))
    return np.flatnonzero(absent[:-2] & ~absent[1:-1] & absent[2:])


def _verdict(drift: Drift) -> str:
    verdict = "The level drifts" if drift.drifts else "The level stays"
    return f"{verdict}: means spread by {drift.spread:.2f} sd, by chance {drift.expected:.2f}"


_SERIES = 3  # in one figure, side by side
_ROWS = 1_000  # the last rows of each series; more would be unreadable
_FEW = 120  # up to this number of rows, a line joins the dots
_PALE = "#A8A8A8"


def k_steps(answer: KSteps, *, trained: bool = True, path: Path | str | None = None) -> Figure:
    """Draw the predictions over the last 1,000 rows of each series, in a separate panel for each k.

    With `trained`, for series that the model was trained on, a line marks the first tested row.
    """
    shown, steps = answer.series[:_SERIES], answer.steps
    with figure(3.2 + 4.6 * len(shown), 1.2 + 1.65 * len(steps), path=path) as drawing:
        panels = drawing.subplots(len(steps), len(shown), sharex="col", sharey="col", squeeze=False)
        for row, step in enumerate(steps):
            for axes, one in zip(panels[row], shown, strict=True):
                _draw(axes, one, step, trained, first=row == 0)
        for axes, one in zip(panels[-1], shown, strict=True):
            if one.series.ds.dtype.kind == "M":
                date_axis(axes, max_dates=6)
            else:
                axes.set_xlabel("row")
        handles, labels = panels[0][0].get_legend_handles_labels()
        left_out = describe_omitted(len(shown), len(answer.series))
        drawing.legend(handles, labels, loc="outside upper right", ncols=len(labels), title=left_out)
    return drawing


def _draw(axes: Any, one: SeriesKSteps, step: int, trained: bool, first: bool) -> None:
    """Draw one series and its predictions `step` steps ahead."""
    series, begin = one.series, max(0, len(one.series) - _ROWS)
    ds, few = series.ds[begin:], len(series) - begin <= _FEW
    look = {"color": _PALE, "marker": ".", "linewidth": 0.8 if few else 0, "markersize": 5 if few else 3.5}
    axes.plot(ds, series.y[begin:], label="observed", **look)
    axes.plot(ds, one.predictions[step][begin:], color=COLOURS[0], linewidth=1.2, label="predicted")
    rows = f", the last {len(ds):,} of {len(series):,} rows" if begin else ""
    name = f"{series.unique_id}{rows}\n" if first else ""
    axes.set_title(f"{name}{format_count(step, 'step')} ahead, RMSE {one.rmse[step]:.3g}", fontsize=11, pad=5)
    axes.grid(visible=False, axis="x")
    axes.margins(x=0.01)
    if trained and begin < one.tested.start < len(series):
        axes.axvline(series.ds[one.tested.start], color=INK, linewidth=0.9, linestyle="--")
        if first:
            axes.annotate(
                "tested from here", (series.ds[one.tested.start], 1), xycoords=("data", "axes fraction"),
                xytext=(4, -1), textcoords="offset points", va="top", fontsize=9,
            )  # fmt: skip
