"""k-step-ahead predictions over the series that they predict, a row of panels for each k."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.plots.dates import date_axis
from throughtime.plots.style import COLOURS, INK, figure, save
from throughtime.text.numbers import several

if TYPE_CHECKING:
    from throughtime.series.k_steps import KSteps, SeriesKSteps

_SERIES = 3  # in one picture, side by side
_ROWS = 1_000  # the last rows of each series; more would be unreadable
_FEW = 120  # up to this number of rows, a line joins the dots
_PALE = "#A8A8A8"


def k_steps_plot(found: KSteps, path: Path | str, trained: bool = True) -> Path:
    """Draw the predictions over the last 1,000 rows of each series, in a separate panel for each k.

    With `trained`, for series that the model was trained on, a line marks the first tested row.
    """
    shown, steps = found.series[:_SERIES], found.steps
    with figure(3.2 + 4.6 * len(shown), 1.2 + 1.65 * len(steps)) as drawing:
        panels = drawing.subplots(len(steps), len(shown), sharex="col", sharey="col", squeeze=False)
        for row, step in enumerate(steps):
            for axes, one in zip(panels[row], shown, strict=True):
                _draw(axes, one, step, trained, first=row == 0)
        for axes, one in zip(panels[-1], shown, strict=True):
            if one.series.ds.dtype.kind == "M":
                date_axis(axes, most=6)
            else:
                axes.set_xlabel("row")
        handles, labels = panels[0][0].get_legend_handles_labels()
        left_out = f"{len(shown)} of {len(found.series):,} series" if len(found.series) > len(shown) else None
        drawing.legend(handles, labels, loc="outside upper right", ncols=len(labels), title=left_out)
        return save(drawing, path)


def _draw(axes: Any, one: SeriesKSteps, step: int, trained: bool, first: bool) -> None:
    """Draw one series and its predictions `step` steps ahead."""
    series, begin = one.series, max(0, len(one.series) - _ROWS)
    ds, few = series.ds[begin:], len(series) - begin <= _FEW
    look = {"color": _PALE, "marker": ".", "linewidth": 0.8 if few else 0, "markersize": 5 if few else 3.5}
    axes.plot(ds, series.y[begin:], label="observed", **look)
    axes.plot(ds, one.predictions[step][begin:], color=COLOURS[0], linewidth=1.2, label="predicted")
    rows = f", the last {len(ds):,} of {len(series):,} rows" if begin else ""
    name = f"{series.unique_id}{rows}\n" if first else ""
    axes.set_title(f"{name}{several(step, 'step')} ahead, RMSE {one.rmse[step]:.3g}", fontsize=11, pad=5)
    axes.grid(visible=False, axis="x")
    axes.margins(x=0.01)
    if trained and begin < one.tested.start < len(series):
        axes.axvline(series.ds[one.tested.start], color=INK, linewidth=0.9, linestyle="--")
        if first:
            told = {"xytext": (4, -1), "textcoords": "offset points", "va": "top", "fontsize": 9}
            place = (series.ds[one.tested.start], 1)
            axes.annotate("tested from here", place, xycoords=("data", "axes fraction"), **told)
