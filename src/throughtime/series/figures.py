"""The measures of forecasts: errors of the mean, CRPS over quantiles, coverage, errors k steps ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.errors import InputError
from throughtime.metrics import forecast as measures
from throughtime.runtime.forecast import ends, interval_ends
from throughtime.series.rolling import PastWindows
from throughtime.text.texts import align_columns, format_count

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


@dataclass(frozen=True, eq=False)
class SeriesKSteps:
    """The predictions for each row of one series, by k, in its own units; NaN where there is none."""

    series: Series
    predictions: dict[int, Array]  # k to [T]
    tested: range  # the rows whose errors are measured
    rmse: dict[int, float]  # NaN if no tested row has a prediction for every k


@dataclass(frozen=True, eq=False)
class KSteps:
    """k-step-ahead predictions of all series, and their root mean squared error for each k."""

    steps: tuple[int, ...]
    rmse: dict[int, float]
    rows: int  # number of rows whose errors are counted, the same for each k
    series: tuple[SeriesKSteps, ...]

    @classmethod
    def measure(
        cls,
        steps: tuple[int, ...],
        panel: Panel,
        predictions: Sequence[dict[int, Array]],
        tested: Sequence[range],
    ) -> KSteps:
        """Measure the errors on the tested rows that have a prediction for every k."""
        total, rows = np.zeros(len(steps)), 0
        measured = []
        for series, by_step, tested_rows in zip(panel.series, predictions, tested, strict=True):
            kept = slice(tested_rows.start, tested_rows.stop)
            errors = np.stack([by_step[step][kept] - series.y[kept] for step in steps])
            errors = errors[:, ~np.isnan(errors).any(axis=0)]
            squared, count = (errors**2).sum(axis=1), errors.shape[1]
            measured.append(SeriesKSteps(series, by_step, tested_rows, _roots(steps, squared, count)))
            total += squared
            rows += count
        if not rows:
            raise InputError(
                "k_steps",
                f"has {steps[-1]}, but no tested row is that many rows after a look-back; choose fewer",
            )
        return cls(steps, _roots(steps, total, rows), rows, tuple(measured))

    def __str__(self) -> str:
        """The errors as text, one line for each k."""
        rows = [["k", "RMSE"], *([str(step), f"{error:,.4g}"] for step, error in self.rmse.items())]
        return "\n".join([f"errors over {format_count(self.rows, 'row')}", *align_columns(rows)])

    def to_dict(self) -> dict[str, Any]:
        """Return the errors as values for JSON."""
        return {
            "k_steps": list(self.steps),
            "rmse": {str(step): error for step, error in self.rmse.items()},
            "rows": self.rows,
            "by_series": {
                errors.series.unique_id: {str(step): error for step, error in errors.rmse.items()}
                for errors in self.series
            },
        }


def _roots(steps: tuple[int, ...], squared: Array, rows: int) -> dict[int, float]:
    means = np.sqrt(squared / rows) if rows else np.full(len(steps), np.nan)
    return dict(zip(steps, means.tolist(), strict=True))
