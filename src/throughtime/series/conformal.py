"""Intervals that cover as often as they say, from how far off forecasts were before.

A score tells how far an observation lay outside of a forecast. Of the n scores of the windows so far, taken
for each step ahead alone, the ceil((n + 1) level)-th smallest bounds the next one with at least that
probability, if the scores come in no particular order: no model needs to be right for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel
from throughtime.errors import InputError
from throughtime.series.forecasts import Forecast, Forecasting
from throughtime.series.rolling import Rolled, gathered
from throughtime.text.texts import several

Array = NDArray[np.float64]
_ROUNDING = 1e-9  # 0.95 x 20 is 19, whatever floating point says


class Intervals(Protocol):
    """Scores of past windows, and the quantiles that follow from them for new forecasts."""

    kind: ClassVar[str]

    @property
    def series(self) -> tuple[str, ...]:
        """Whose windows they were."""
        ...

    @property
    def season(self) -> int:
        """How many rows made a season."""
        ...

    @classmethod
    def of(cls, past: Rolled) -> Intervals:
        """The intervals that these windows justify."""
        ...

    def asks(self, probabilities: Sequence[float]) -> Sequence[float]:
        """The quantiles that the model has to give itself for these."""
        ...

    def adjusted(self, forecasts: Rolled, probabilities: Sequence[float]) -> dict[float, Array]:
        """Quantiles [W, S, h] of new forecasts; p and 1 - p bound the interval of level |2p - 1|."""
        ...

    def tensors(self) -> dict[str, Array]:
        """The scores, to be saved; `restored` takes them back."""
        ...

    @classmethod
    def restored(cls, series: tuple[str, ...], season: int, tensors: Mapping[str, Array]) -> Intervals:
        """What was saved."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class PointIntervals:
    """What intervals around a point have in common."""

    series: tuple[str, ...]
    season: int
    scores: Array

    def __repr__(self) -> str:
        """What they are, without the scores."""
        return _shown(self, self.scores)

    def asks(self, probabilities: Sequence[float]) -> Sequence[float]:
        """Nothing: the mean is enough."""
        return ()

    def tensors(self) -> dict[str, Array]:
        """The scores, to be saved."""
        return {"scores": self.scores}

    @classmethod
    def restored(cls, series: tuple[str, ...], season: int, tensors: Mapping[str, Array]) -> Self:
        """What was saved."""
        return cls(series, season, tensors["scores"])


class AbsoluteIntervals(PointIntervals):
    """mean ± a quantile of |y - mean| over the windows of the same series: for any model."""

    kind: ClassVar[str] = "absolute"

    @classmethod
    def of(cls, past: Rolled) -> AbsoluteIntervals:
        """The intervals that these windows justify; scores [n, S, h]."""
        return cls(past.series, past.season, np.abs(past.y - past.mean))

    def adjusted(self, forecasts: Rolled, probabilities: Sequence[float]) -> dict[float, Array]:
        """Quantiles [W, S, h] of new forecasts."""
        scores = _of_series(self.scores, self.series, forecasts)
        return {p: forecasts.mean + _moved(scores, p) for p in probabilities}


class ScaledIntervals(PointIntervals):
    """mean ± a quantile of |y - mean| / u, times u: u tells how lively the series was just before.

    The scores have no unit, so all series share them, and series that were not there before have them too.
    """

    kind: ClassVar[str] = "scaled"

    @classmethod
    def of(cls, past: Rolled) -> ScaledIntervals:
        """The intervals that these windows justify; scores [n x S, h]."""
        scores = np.abs(past.y - past.mean) / past.lately[..., None]
        return cls(past.series, past.season, scores.reshape(-1, scores.shape[-1]))

    def adjusted(self, forecasts: Rolled, probabilities: Sequence[float]) -> dict[float, Array]:
        """Quantiles [W, S, h] of new forecasts."""
        scores, unit = _of_steps(self.scores, forecasts), forecasts.lately[..., None]
        return {p: forecasts.mean + unit * _moved(scores, p) for p in probabilities}


@dataclass(frozen=True, eq=False, repr=False)
class QuantileIntervals:
    """The model's own quantiles, moved out or in by how far observations lay outside of them before.

    For the interval [a, b] of a level the score is max(a - y, y - b): below 0 within it. That is
    conformalised quantile regression; it keeps what the model knows of when to be unsure.
    """

    kind: ClassVar[str] = "quantiles"
    series: tuple[str, ...]
    season: int
    scores: dict[float, Array]  # of each probability below a half: [n, S, h]

    def __repr__(self) -> str:
        """What they are, without the scores."""
        return _shown(self, next(iter(self.scores.values())))

    @classmethod
    def of(cls, past: Rolled) -> QuantileIntervals:
        """The intervals that these windows justify."""
        pairs = {p: _mirrored(p, past.quantiles) for p in past.quantiles if p < 0.5}
        scores = {
            p: np.maximum(past.quantiles[p] - past.y, past.y - past.quantiles[other])
            for p, other in pairs.items()
            if other is not None
        }
        if not scores:
            raise InputError(
                "intervals", "of kind quantiles need a model with quantiles; this one has none: use scaled"
            )
        return cls(past.series, past.season, scores)

    def asks(self, probabilities: Sequence[float]) -> Sequence[float]:
        """The same, which are moved, not made; for one between two that have scores, those two."""
        return sorted({near for p in probabilities for near in self._neighbours(p)[:2]})

    def adjusted(self, forecasts: Rolled, probabilities: Sequence[float]) -> dict[float, Array]:
        """Quantiles [W, S, h] of new forecasts.

        Between two levels that have scores, interval and score are interpolated: a score is convex in the
        ends of its interval, so that what is interpolated is no less than it would be.
        """
        found = {}
        for p in probabilities:
            one, other, share = self._neighbours(p)
            own = (1 - share) * _at(forecasts.quantiles, one) + share * _at(forecasts.quantiles, other)
            found[p] = own
            if not math.isclose(p, 0.5):
                low, high = (_at(self.scores, min(each, 1 - each)) for each in (one, other))
                scores = _of_series((1 - share) * low + share * high, self.series, forecasts)
                found[p] = own + _moved(scores, p)
        return _in_order(found)

    def _neighbours(self, p: float) -> tuple[float, float, float]:
        """The two probabilities with scores, on its side, that p lies between, and how far on it lies."""
        if math.isclose(p, 0.5) or _mirrored(max(p, 1 - p), self.scores) is not None:
            return p, p, 0.0
        low, known = min(p, 1 - p), sorted(self.scores)
        if not known[0] < low < known[-1]:
            widest, narrowest = (f"{100 * _level(each):g}" for each in (known[0], known[-1]))
            raise InputError(
                f"level {100 * _level(p):g}",
                f"lies outside of those of the saved intervals, {narrowest} to {widest}; make them anew with "
                f"`throughtime backtest RUN --save-intervals --level {100 * _level(p):g}`",
            )
        above = next(place for place, each in enumerate(known) if each > low)
        one, other = known[above - 1], known[above]
        share = (low - one) / (other - one)
        return (one, other, share) if p < 0.5 else (1 - one, 1 - other, share)

    def tensors(self) -> dict[str, Array]:
        """The scores, to be saved."""
        return {repr(p): scores for p, scores in self.scores.items()}

    @classmethod
    def restored(
        cls, series: tuple[str, ...], season: int, tensors: Mapping[str, Array]
    ) -> QuantileIntervals:
        """What was saved."""
        return cls(series, season, {float(p): scores for p, scores in tensors.items()})


KINDS: dict[str, Any] = {kind.kind: kind for kind in (AbsoluteIntervals, ScaledIntervals, QuantileIntervals)}


class Conformal:
    """A model whose quantiles come from intervals that past windows justify."""

    def __init__(self, model: Forecasting, intervals: Intervals) -> None:
        self.name, self.model, self.intervals = model.name, model, intervals

    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        paths: int = 0,
        future: Panel | None = None,
    ) -> list[Forecast]:
        """The model's forecasts with quantiles that cover as often as windows before did."""
        asked = self.intervals.asks(probabilities)
        forecasts = self.model.predict(panel, h, asked, paths, future)
        window = gathered(panel, forecasts, np.full((len(panel.series), h), np.nan), self.intervals.season)
        quantiles = window.in_own_units(self.intervals.adjusted(window.evened(), probabilities))
        for p, found in quantiles.items():
            if np.isinf(found).any():
                place, step = np.argwhere(np.isinf(found[0]))[0]
                raise InputError(
                    f"level {100 * _level(p):g}",
                    f"takes {windows_needed(_level(p))} windows, more than the saved intervals have with a "
                    f"value of series {window.series[place]!r} {several(int(step) + 1, 'step')} ahead; make "
                    "them anew with `throughtime backtest RUN --save-intervals --level ...`, or ask for less",
                )
        places = {name: place for place, name in enumerate(window.series)}
        return [
            one._replace(quantiles={p: found[0, places[one.unique_id]] for p, found in quantiles.items()})
            for one in forecasts
        ]


def conformal_quantile(scores: Array, level: float) -> Array:
    """The ceil((n + 1) level)-th smallest of n scores along the first axis; infinite where n is too small.

    >>> float(conformal_quantile(np.arange(1.0, 20.0), 0.95)), float(conformal_quantile(np.ones(18), 0.95))
    (19.0, inf)
    """
    ordered = np.sort(scores, axis=0)  # NaN, of what was not observed, comes last
    count = (~np.isnan(ordered)).sum(axis=0)
    rank = np.ceil((count + 1) * level - _ROUNDING).astype(np.int64)
    place = np.clip(rank - 1, 0, max(len(ordered) - 1, 0))
    found = np.take_along_axis(ordered, place[None], axis=0)[0] if len(ordered) else np.full(count.shape, 0.0)
    return np.where(rank > count, np.inf, found)


def windows_needed(level: float) -> int:
    """How many windows it takes for an interval of this level to be finite.

    >>> windows_needed(0.8), windows_needed(0.95)
    (4, 19)
    """
    return math.ceil(level / (1 - level) - _ROUNDING)


def _shown(intervals: PointIntervals | QuantileIntervals, scores: Array) -> str:
    ahead = f"{several(scores.shape[-1], 'step')} ahead"
    series = f"{len(intervals.series):,} series, season {intervals.season}"
    return f"{type(intervals).__name__}({series}, {ahead})"


def _level(p: float) -> float:
    return abs(2 * p - 1)


def _moved(scores: Array, p: float) -> Array | float:
    """How far the quantile p lies above the centre; the median is the centre, whatever there is of scores."""
    side = int(np.sign(round(p - 0.5, 9)))
    return side * conformal_quantile(scores, _level(p)) if side else 0.0


def _mirrored(p: float, known: dict[float, Array]) -> float | None:
    """The probability among the known ones that is 1 - p, whatever floating point makes of it."""
    return next((other for other in known if math.isclose(other, 1 - p, abs_tol=_ROUNDING)), None)


def _at(known: dict[float, Array], p: float) -> Array:
    """What is known of a probability, whatever floating point makes of it."""
    return next(values for each, values in known.items() if math.isclose(each, p, abs_tol=_ROUNDING))


def _in_order(quantiles: dict[float, Array]) -> dict[float, Array]:
    """Quantiles that do not cross: sorted at each step."""
    order = sorted(quantiles)
    if not order:
        return quantiles
    return dict(zip(order, np.sort(np.stack([quantiles[p] for p in order]), axis=0), strict=True))


def _of_steps(scores: Array, forecasts: Rolled) -> Array:
    """The scores of the steps that are forecast."""
    h = forecasts.mean.shape[-1]
    if h > scores.shape[-1]:
        raise InputError(
            "--h",
            f"is {h}, and the intervals were measured up to {scores.shape[-1]} steps ahead; "
            f"make them anew with `throughtime backtest RUN --h {h} --save-intervals`",
        )
    return scores[..., :h]


def _of_series(scores: Array, series: tuple[str, ...], forecasts: Rolled) -> Array:
    """The scores of the series and the steps that are forecast."""
    places = {name: place for place, name in enumerate(series)}
    for name in forecasts.series:
        if name not in places:
            raise InputError(
                f"series {name!r}",
                "was not there when the intervals were measured; make them anew with "
                "`throughtime backtest RUN --data DATA --save-intervals`, or with --intervals scaled",
            )
    return _of_steps(scores, forecasts)[:, [places[name] for name in forecasts.series]]
