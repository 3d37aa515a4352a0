"""The measures of a back-test: errors of the mean, CRPS over a grid of quantiles, coverage and width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.metrics import forecast as measures
from throughtime.runtime.forecast import ends, interval_ends
from throughtime.series.rolling import PastWindows

Array = NDArray[np.float64]

GRID = tuple(round(0.05 * each, 2) for each in range(1, 20))
"""The probabilities that CRPS is computed over, for the model and the baselines."""


@dataclass(frozen=True)
class ModelFigures:
    """The measures of one model: in total, for each step ahead, and for each series."""

    name: str
    total: dict[str, float]
    steps: dict[str, list[float]]
    series: dict[str, dict[str, float]]
    windows: PastWindows

    def to_dict(self) -> dict[str, Any]:
        """Return all measures by name, for JSON."""
        return {"total": self.total, "by_step": self.steps, "by_series": self.series}


def probabilities(levels: Sequence[float], grid: Sequence[float]) -> list[float]:
    """Return the ends of the intervals of these levels, in per cent, and the grid of CRPS, sorted.

    >>> probabilities([50, 95], [0.25, 0.5, 0.75])
    [0.025, 0.25, 0.5, 0.75, 0.975]
    """
    return sorted({*grid, *interval_ends(levels)})


def grid_within(low: float, high: float) -> tuple[float, ...]:
    """Return the part of the grid of CRPS between two probabilities, symmetric around the median.

    >>> grid_within(0.4, 0.95)
    (0.4, 0.45, 0.5, 0.55, 0.6)
    """
    outermost = max(low, 1 - high) - 1e-9
    return tuple(p for p in GRID if outermost <= p <= 1 - outermost)


def measure_model(
    name: str, windows: PastWindows, levels: Sequence[float], scale: Array, grid: Sequence[float] = GRID
) -> ModelFigures:
    """Measure in total, by step and by series; MASE divides the errors of each series by its `scale`."""
    total, steps, series = (
        measure_windows(windows, levels, scale, axis, grid) for axis in (None, (0, 1), (0, 2))
    )
    return ModelFigures(
        name,
        {figure: float(value) for figure, value in total.items()},
        {figure: value.tolist() for figure, value in steps.items()},
        {
            unique_id: {figure: float(value[number]) for figure, value in series.items()}
            for number, unique_id in enumerate(windows.series)
        },
        windows,
    )


def measure_windows(
    windows: PastWindows,
    levels: Sequence[float],
    scale: Array,
    axis: measures.Axis,
    grid: Sequence[float] = GRID,
) -> dict[str, Any]:
    """Compute every measure over the given axes of windows, series and steps.

    The CRPS of a point is |y - f|. Values with infinite quantiles count as points in the CRPS, and are left
    out of coverage and width.
    """
    y, mean, quantiles = windows.y, windows.mean, windows.quantiles
    on_grid = {p: quantiles[p] for p in grid if p in quantiles}
    points = np.any([np.isinf(values) for values in on_grid.values()], axis=0)
    on_grid = {p: np.where(points, mean, values) for p, values in on_grid.items()}
    figures = {
        "mae": measures.mae(y, mean, axis),
        "rmse": measures.rmse(y, mean, axis),
        "smape": measures.smape(y, mean, axis),
        "mase": measures.mase(y, mean, scale[:, None], axis),
        "crps": measures.crps_quantiles(y, on_grid, axis) if on_grid else measures.mae(y, mean, axis),
    }
    for level in levels if quantiles else ():
        low, high = (quantiles[p] for p in ends(level))
        infinite = infinite_intervals(windows, level)
        figures[f"coverage-{level:g}"] = 100 * measures.coverage(
            np.where(infinite, np.nan, y), low, high, axis
        )
        # `mae` from 0 is the mean over the finite widths.
        figures[f"width-{level:g}"] = measures.mae(np.where(infinite, np.nan, 0.0), high - low, axis)
    return figures


def infinite_intervals(windows: PastWindows, level: float) -> NDArray[np.bool_]:
    """Return where the interval of a level has an infinite end; with a power, the other end may be 0."""
    low, high = (windows.quantiles[p] for p in ends(level))
    return np.isinf(low) | np.isinf(high)


def beaten_by(
    model: Mapping[str, float], others: Mapping[str, Mapping[str, float]], figures: Sequence[str]
) -> dict[str, list[str]]:
    """Return the baselines with a lower error than a model, compared by the four digits that are shown.

    >>> beaten_by({"mae": 3.0, "rmse": 4.0}, {"naive": {"mae": 9.0, "rmse": 3.5}}, ["mae", "rmse"])
    {'naive': ['rmse']}
    """
    shown = {each: float(f"{model[each]:.4g}") for each in figures}
    less = {
        name: [each for each in figures if float(f"{total[each]:.4g}") < shown[each]]
        for name, total in others.items()
    }
    return {name: lost for name, lost in less.items() if lost}


def loss_sentences(
    name: str,
    model: Mapping[str, float],
    others: Mapping[str, Mapping[str, float]],
    beaten: Mapping[str, Sequence[str]],
) -> list[str]:
    """Write a sentence for each baseline that beats a model.

    >>> loss_sentences("linear", {"mae": 3.0}, {"naive": {"mae": 2.5}}, {"naive": ["mae"]})
    ['linear loses to naive: MAE 3 against 2.5.']
    """
    sentences = []
    for other, figures in beaten.items():
        values = others[other]
        against = (f"{each.upper()} {model[each]:,.4g} against {values[each]:,.4g}" for each in figures)
        sentences.append(f"{name} loses to {other}: {', '.join(against)}.")
    return sentences
