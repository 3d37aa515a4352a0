"""A series with the mean, spread and memory of each of its segments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from throughtime.plots.style import COLOURS, INK, figure, save

if TYPE_CHECKING:
    from throughtime.series.stationarity import Drift

_GREY = "#999999"


def drift_plot(values: ArrayLike, drift: Drift, path: Path | str, title: str | None = None) -> Path:
    """Draw a series with each segment's mean and standard deviation; below it, their autocorrelations."""
    with figure(7.0, 5.0) as drawing:
        level, memory = drawing.subplots(2, sharex=True, height_ratios=(3, 1))
        series = np.asarray(values)
        level.plot(series, color=_GREY, linewidth=0.7, label="series")
        alone = _alone(series)
        level.plot(alone, series[alone], color=_GREY, linestyle="none", marker=".", markersize=2)
        for number, segment in enumerate(drift.segments):
            span = (segment.start, segment.stop)
            low, high = segment.mean - segment.deviation, segment.mean + segment.deviation
            names = ("mean of a segment", "± one standard deviation") if number == 0 else (None, None)
            level.fill_between(span, low, high, color=COLOURS[5], alpha=0.35, linewidth=0, label=names[1])
            level.hlines(segment.mean, *span, color=COLOURS[0], linewidth=2.5, label=names[0])
            memory.hlines(segment.autocorrelation, *span, color=COLOURS[1], linewidth=2.5)
        level.set_title(title or _verdict(drift))
        level.set_ylabel("value")
        level.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, -0.17), fontsize=10)
        memory.axhline(0, color=INK, linewidth=0.8)
        memory.set(ylim=(-1.05, 1.05), xlabel="step", ylabel="lag-1 auto-\ncorrelation")
        level.margins(x=0.01)
        return save(drawing, path)


def _alone(series: NDArray[np.float64]) -> NDArray[np.int64]:
    """The steps whose neighbours are missing, which a line does not show."""
    absent = np.isnan(np.concatenate([[np.nan], series, [np.nan]]))
    return np.flatnonzero(absent[:-2] & ~absent[1:-1] & absent[2:])


def _verdict(drift: Drift) -> str:
    verdict = "The level drifts" if drift.drifts else "The level stays"
    return f"{verdict}: means spread by {drift.spread:.2f} sd, by chance {drift.expected:.2f}"
