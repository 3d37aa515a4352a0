"""Conformal intervals: they cover as often as they claim, because they are measured on past forecasts.

A score is the distance of an observation from its forecast. Of the n scores of past windows, taken for each
step ahead separately, the ceil((n + 1) level)-th smallest bounds the next score with at least that
probability if the scores are exchangeable, whether or not the model is right.
"""

from __future__ import annotations

import math
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Series
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.results import Forecast
from throughtime.series.baselines import ForecastModel, ForecastQuery
from throughtime.series.rolling import ROUNDING, PastWindows, gather_window, windows_needed
from throughtime.text.texts import format_count

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(ABC):
    """Scores of past windows by name, as they are saved; `series` and `season` are those of the windows."""

    kind: ClassVar[str]
    series: tuple[str, ...]
    season: int
    scores: dict[str, Array]

    @property
    def about(self) -> dict[str, Any]:
        """Everything except the scores, for JSON."""
        return {"kind": self.kind, "series": list(self.series), "season": self.season}

    def __repr__(self) -> str:
        """Show everything except the scores."""
        ahead = format_count(next(iter(self.scores.values())).shape[-1], "step")
        return f"{type(self).__name__}({len(self.series):,} series, season {self.season}, {ahead} ahead)"

    @classmethod
    @abstractmethod
    def of(cls, past: PastWindows) -> Self:
        """Measure the scores of past windows."""

    def required_quantiles(self, probabilities: Sequence[float]) -> Sequence[float]:
        """Return the quantiles that the model has to forecast; around a point, the mean is enough."""
        return ()

    @abstractmethod
    def adjust(self, forecasts: PastWindows, probabilities: Sequence[float]) -> dict[float, Array]:
        """Return quantiles [W, S, h] of new forecasts; p and 1 - p bound the interval of level |2p - 1|."""


class AbsoluteIntervals(Intervals):
    """mean ± a quantile of |y - mean| over the windows of the same series; for any model."""

    kind = "absolute"

    @classmethod
    def of(cls, past: PastWindows) -> Self:
        """Measure the scores [n, S, h] of past windows."""
        return cls(past.series, past.season, {"scores": np.abs(past.y - past.mean)})

    def adjust(self, forecasts: PastWindows, probabilities: Sequence[float]) -> dict[float, Array]:
        """Return quantiles [W, S, h] of new forecasts."""
        scores = _scores_of_series(self.scores["scores"], self.series, forecasts)
        return {p: forecasts.mean + _offset(scores, p) for p in probabilities}


class ScaledIntervals(Intervals):
    """mean ± u times a quantile of |y - mean| / u, where u is the recent change of the series.

    The scores have no unit, so all series share them, and new series can use them too.
    """

    kind = "scaled"

    @classmethod
    def of(cls, past: PastWindows) -> Self:
        """Measure the scores [n x S, h] of past windows."""
        scores = np.abs(past.y - past.mean) / past.recent_change[..., None]
        return cls(past.series, past.season, {"scores": scores.reshape(-1, scores.shape[-1])})

    def adjust(self, forecasts: PastWindows, probabilities: Sequence[float]) -> dict[float, Array]:
        """Return quantiles [W, S, h] of new forecasts."""
        scores, unit = _scores_of_steps(self.scores["scores"], forecasts), forecasts.recent_change[..., None]
        return {p: forecasts.mean + unit * _offset(scores, p) for p in probabilities}


class QuantileIntervals(Intervals):
    """The model's own quantiles, moved outwards or inwards by past errors: conformalised quantile regression.

    The score of an interval [a, b] is max(a - y, y - b), which is negative for values inside. The intervals
    stay wide where the model is unsure. The name of a score is its probability, below a half.
    """

    kind = "quantiles"

    @classmethod
    def of(cls, past: PastWindows) -> Self:
        """Measure the scores [n, S, h] of each interval of past windows."""
        known = past.quantiles
        scores = {
            repr(p): np.maximum(known[p] - past.y, past.y - known[_round_probability(1 - p)])
            for p in known
            if p < 0.5 and _round_probability(1 - p) in known
        }
        if not scores:
            raise InputError(
                "intervals", "of kind quantiles need a model with quantiles; this one has none: use scaled"
            )
        return cls(past.series, past.season, scores)

    def required_quantiles(self, probabilities: Sequence[float]) -> Sequence[float]:
        """Return the quantiles to move; between two measured ones, both of them."""
        return sorted({near for p in probabilities for near in self._neighbours(p)[:2]})

    def adjust(self, forecasts: PastWindows, probabilities: Sequence[float]) -> dict[float, Array]:
        """Return quantiles [W, S, h] of new forecasts.

        Between two measured levels, interval and score are interpolated. A score is convex in the ends of its
        interval, so the interpolated score is no less than the true one.
        """
        measured = {float(p): scores for p, scores in self.scores.items()}
        moved = {}
        for p in probabilities:
            near, far, share = self._neighbours(p)
            moved[p] = (1 - share) * forecasts.quantiles[near] + share * forecasts.quantiles[far]
            if not math.isclose(p, 0.5):
                low, high = (measured[_round_probability(min(each, 1 - each))] for each in (near, far))
                scores = _scores_of_series((1 - share) * low + share * high, self.series, forecasts)
                moved[p] = moved[p] + _offset(scores, p)
        if not moved:
            return moved
        order = sorted(moved)  # sorted at each step, so that quantiles do not cross
        return dict(zip(order, np.sort(np.stack([moved[p] for p in order]), axis=0), strict=True))

    def _neighbours(self, p: float) -> tuple[float, float, float]:
        """The two measured probabilities around p, on its side of the median, and where it lies between."""
        known = sorted(map(float, self.scores))
        low = _round_probability(min(p, 1 - p))
        if math.isclose(p, 0.5) or low in known:
            return p, p, 0.0
        if not known[0] < low < known[-1]:
            widest, narrowest = (f"{100 * _level(each):g}" for each in (known[0], known[-1]))
            raise InputError(
                f"level {100 * _level(p):g}",
                f"is outside the saved intervals, which range from {narrowest} to {widest}; measure them "
                f"again with `save_intervals(level=[{100 * _level(p):g}])`",
            )
        above = next(number for number, each in enumerate(known) if each > low)
        near, far = known[above - 1], known[above]
        share = (low - near) / (far - near)
        return (
            (near, far, share)
            if p < 0.5
            else (_round_probability(1 - near), _round_probability(1 - far), share)
        )


KINDS: dict[str, type[Intervals]] = {
    kind.kind: kind for kind in (AbsoluteIntervals, ScaledIntervals, QuantileIntervals)
}


class Conformal(ForecastModel):
    """A model with conformal intervals in place of its own quantiles."""

    def __init__(self, model: ForecastModel, intervals: Intervals) -> None:
        self.name, self.model, self.intervals = model.name, model, intervals

    def answer(self, query: ForecastQuery) -> list[Forecast]:
        """Return the model's forecasts with conformal quantiles."""
        required = self.intervals.required_quantiles(query.probabilities)
        forecasts = self.model.answer(replace(query, probabilities=required))
        missing = np.full((len(query.panel.series), query.h), np.nan)
        panel = self.model.clean(query.panel)
        window = gather_window(self.model, panel, forecasts, missing, self.intervals.season)
        adjusted = self.intervals.adjust(window.to_power_scale(), query.probabilities)
        quantiles = window.to_own_units(adjusted)
        for p, values in quantiles.items():
            if np.isinf(values).any():
                number, step = np.argwhere(np.isinf(values[0]))[0]
                ahead = format_count(int(step) + 1, "step")
                raise InputError(
                    f"level {100 * _level(p):g}",
                    f"needs {windows_needed(_level(p))} windows, more than the saved intervals have for "
                    f"series {window.series[number]!r} {ahead} ahead; measure them again "
                    "with `save_intervals(level=...)`, or ask for a lower level",
                )
        # The window has the forecasts in the order of the panel.
        lows = np.array([[self.model.lowest(series)] for series in query.panel.series])
        rows = {
            p: dict(zip(window.series, np.maximum(values[0], lows), strict=True))
            for p, values in quantiles.items()
        }
        return [
            replace(forecast, quantiles={p: mine[forecast.unique_id] for p, mine in rows.items()})
            for forecast in forecasts
        ]

    def power(self, series: Series) -> float:
        """Return the power of the model's scale."""
        return self.model.power(series)


def conformal_quantile(scores: Array, level: float) -> Array:
    """Return the ceil((n + 1) level)-th smallest of n scores along the first axis; infinite if n is too low.

    >>> float(conformal_quantile(np.arange(1.0, 20.0), 0.95)), float(conformal_quantile(np.ones(18), 0.95))
    (19.0, inf)
    """
    ordered = np.sort(scores, axis=0)  # NaN, for values that were not observed, comes last
    count = (~np.isnan(ordered)).sum(axis=0)
    rank = np.ceil((count + 1) * level - ROUNDING).astype(np.int64)
    index = np.clip(rank - 1, 0, len(ordered) - 1)
    if not len(ordered):
        return np.full(count.shape, np.inf)
    return np.where(rank > count, np.inf, np.take_along_axis(ordered, index[None], axis=0)[0])


def _level(p: float) -> float:
    return abs(2 * p - 1)


def _offset(scores: Array, p: float) -> Array | float:
    """The distance of the quantile p from the centre; 0 for the median, even without scores."""
    side = int(np.sign(round(p - 0.5, 9)))
    return side * conformal_quantile(scores, _level(p)) if side else 0.0


def _round_probability(p: float) -> float:
    """A probability without what floating point adds to it, as the keys of quantiles are."""
    return round(p, 10)


def _scores_of_steps(scores: Array, forecasts: PastWindows) -> Array:
    """The scores of the steps that are forecast."""
    h = forecasts.mean.shape[-1]
    if h > scores.shape[-1]:
        raise InputError(
            "h",
            f"is {h}, but the intervals were measured up to {scores.shape[-1]} steps ahead; "
            f"measure them again with `save_intervals(h={h})`",
        )
    return scores[..., :h]


def _scores_of_series(scores: Array, series: tuple[str, ...], forecasts: PastWindows) -> Array:
    """The scores of the series and the steps that are forecast."""
    numbers = {name: number for number, name in enumerate(series)}
    for name in forecasts.series:
        if name not in numbers:
            raise InputError(
                f"series {name!r}",
                "has no measured intervals; measure them again with its data by `save_intervals(data)`, or "
                "with intervals=scaled",
            )
    return _scores_of_steps(scores, forecasts)[:, [numbers[name] for name in forecasts.series]]


FILE = "intervals.safetensors"


def save_intervals(folder: ModelFolder, intervals: Intervals) -> None:
    """Save intervals in the folder of their model; forecasts with a level then use them."""
    with folder.replace() as new:
        new.write_arrays(FILE, intervals.scores, intervals.about)


def load_intervals(folder: ModelFolder) -> Intervals | None:
    """Load the intervals that were saved with a model, or return None."""
    if not (folder.path / FILE).is_file():
        return None
    cure = "measure the intervals again with `save_intervals`"
    with folder.read_arrays(FILE, cure) as (scores, about):
        kind = KINDS[about["kind"]]
        named = [float(name) for name in scores] if kind is QuantileIntervals else scores["scores"]
        if not len(named):
            raise ValueError("it holds no scores")
        if not isinstance(about["season"], int) or about["season"] < 1:
            raise ValueError(f"a season of {about['season']!r:.60}")
        return kind(tuple(about["series"]), about["season"], scores)


def add_saved_intervals(model: ForecastModel, folder: ModelFolder | None) -> Conformal:
    """Return the model with the intervals that were saved in its folder."""
    intervals = None if folder is None else load_intervals(folder)
    if intervals is None:
        run = "RUN" if folder is None else shlex.quote(str(folder.path))
        raise InputError(
            "level",
            f"needs intervals, which {run} does not have yet: measure them with "
            f"`throughtime backtest {run} --save-intervals`, or train with head=quantiles",
        )
    return Conformal(model, intervals)
