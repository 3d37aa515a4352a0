"""k-step-ahead predictions: every row forecast k steps ahead, and how the error grows with k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from throughtime.data.batching.series import PanelWindows
from throughtime.data.panel import Panel, Series
from throughtime.errors import InputError
from throughtime.results import Progress
from throughtime.tasks.forecast.prediction import forecast_windows
from throughtime.text.texts import align_columns, several

if TYPE_CHECKING:
    from throughtime.tasks.forecast.predictor import SeriesForecaster

Array = NDArray[np.float64]


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

    def __str__(self) -> str:
        """The errors as text, one line for each k."""
        rows = [["k", "RMSE"], *([str(step), f"{error:,.4g}"] for step, error in self.rmse.items())]
        return "\n".join([f"errors over {several(self.rows, 'row')}", *align_columns(rows)])

    def to_dict(self) -> dict[str, Any]:
        """Return the errors as values for JSON."""
        return {
            "k_steps": list(self.steps),
            "rmse": {str(step): error for step, error in self.rmse.items()},
            "rows": self.rows,
            "by_series": {
                one.series.unique_id: {str(step): error for step, error in one.rmse.items()}
                for one in self.series
            },
        }


def predict_k_steps(
    forecaster: SeriesForecaster,
    panel: Panel,
    steps: Sequence[int],
    tested: Sequence[range],
    progress: Progress | None = None,
) -> KSteps:
    """Forecast every row `k` steps ahead, for each k of `steps`.

    Errors are measured on the `tested` rows of each series that have a value and a prediction for every k, so
    that all k are compared on the same rows. Beyond one step a recursive model reads its own forecasts; a
    direct model can forecast no further than its horizon.
    """
    chosen, lookback, model = tuple(sorted(set(steps))), forecaster.lookback, forecaster.model
    if not chosen or chosen[0] < 1:
        raise InputError("k_steps", f"are {tuple(steps)}, expected numbers of 1 or more, such as 1, 4, 16")
    if not model.recursive and chosen[-1] > model.horizon:
        raise InputError(
            "k_steps",
            f"has {chosen[-1]}, but the model was trained for the next {model.horizon} rows at once; ask "
            f"for fewer, or train with horizon={chosen[-1]} or strategy=recursive",
        )
    found = [{step: np.full(len(one), np.nan) for step in chosen} for one in panel.series]
    arrays, scales = forecaster.scaled_arrays(panel)
    for step in chosen:
        windows = PanelWindows(arrays, [range(len(one)) for one in panel.series], lookback, step)
        if not len(windows):
            longest = max(len(one) for one in panel.series)
            raise InputError(
                "k_steps", f"has {step}, too many for {longest:,} rows and a look-back of {lookback}"
            )
        for one in forecast_windows(forecaster, windows, progress):
            rows = one.starts + lookback + step - 1
            for number in np.unique(one.series):
                mine = one.series == number
                own = scales[number].undo(one.forecast[-1, mine])
                found[number][step][rows[mine] - arrays.offsets[number]] = own
    return _measure(chosen, panel, found, tested)


def _measure(
    steps: tuple[int, ...], panel: Panel, found: list[dict[int, Array]], tested: Sequence[range]
) -> KSteps:
    """Measure the errors on the tested rows that have a prediction for every k."""
    squared, rows = np.zeros(len(steps)), 0
    series = []
    for one, predictions, part in zip(panel.series, found, tested, strict=True):
        kept = slice(part.start, part.stop)
        errors = np.stack([predictions[step][kept] - one.y[kept] for step in steps])
        errors = errors[:, ~np.isnan(errors).any(axis=0)]
        own, count = (errors**2).sum(axis=1), errors.shape[1]
        series.append(SeriesKSteps(one, predictions, part, _roots(steps, own, count)))
        squared += own
        rows += count
    if not rows:
        raise InputError(
            "k_steps", f"has {steps[-1]}, but no tested row is that many rows after a look-back; choose fewer"
        )
    return KSteps(steps, _roots(steps, squared, rows), rows, tuple(series))


def _roots(steps: tuple[int, ...], squared: Array, rows: int) -> dict[int, float]:
    means = np.sqrt(squared / rows) if rows else np.full(len(steps), np.nan)
    return dict(zip(steps, means.tolist(), strict=True))
