"""Intervals that cover as often as they say, from how far off forecasts were before.

A score tells how far an observation lay outside of a forecast. Of the n scores of the windows so far, taken
for each step ahead alone, the ceil((n + 1) level)-th smallest bounds the next one with at least that
probability, if the scores come in no particular order: no model needs to be right for that.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.errors import InputError
from throughtime.files import whole_file
from throughtime.folder import ModelFolder
from throughtime.results import Forecast
from throughtime.series.protocol import ForecastModel
from throughtime.series.rolling import ROUNDING, PastWindows, gather_window, windows_needed
from throughtime.text.texts import several

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(ABC):
    """Scores of past windows, and the quantiles that follow from them for new forecasts.

    `series` and `season` are those of the windows.
    """

    kind: ClassVar[str]
    series: tuple[str, ...]
    season: int
    scores: Any

    def __repr__(self) -> str:
        """What they are, without the scores."""
        ahead = several(next(iter(self.tensors().values())).shape[-1], "step")
        return f"{type(self).__name__}({len(self.series):,} series, season {self.season}, {ahead} ahead)"

    @classmethod
    @abstractmethod
    def of(cls, past: PastWindows) -> Self:
        """The intervals that these windows justify."""

    def required_quantiles(self, probabilities: Sequence[float]) -> Sequence[float]:
        """The quantiles that the model itself has to give for these; around a point the mean is enough."""
        return ()

    @abstractmethod
    def adjust(self, forecasts: PastWindows, probabilities: Sequence[float]) -> dict[float, Array]:
        """Quantiles [W, S, h] of new forecasts; p and 1 - p bound the interval of level |2p - 1|."""

    def tensors(self) -> dict[str, Array]:
        """The scores, to be saved; `restored` takes them back."""
        return {"scores": self.scores}

    @classmethod
    def from_tensors(cls, series: tuple[str, ...], season: int, tensors: Mapping[str, Array]) -> Self:
        """What was saved."""
        return cls(series, season, tensors["scores"])


class AbsoluteIntervals(Intervals):
    """mean ± a quantile of |y - mean| over the windows of the same series: for any model."""

    kind: ClassVar[str] = "absolute"

    @classmethod
    def of(cls, past: PastWindows) -> Self:
        """The intervals that these windows justify; scores [n, S, h]."""
        return cls(past.series, past.season, np.abs(past.y - past.mean))

    def adjust(self, forecasts: PastWindows, probabilities: Sequence[float]) -> dict[float, Array]:
        """Quantiles [W, S, h] of new forecasts."""
        scores = _of_series(self.scores, self.series, forecasts)
        return {p: forecasts.mean + _moved(scores, p) for p in probabilities}


class ScaledIntervals(Intervals):
    """mean ± a quantile of |y - mean| / u, times u: u tells how lively the series was just before.

    The scores have no unit, so all series share them, and series that were not there before have them too.
    """

    kind: ClassVar[str] = "scaled"

    @classmethod
    def of(cls, past: PastWindows) -> Self:
        """The intervals that these windows justify; scores [n x S, h]."""
        scores = np.abs(past.y - past.mean) / past.recent_change[..., None]
        return cls(past.series, past.season, scores.reshape(-1, scores.shape[-1]))

    def adjust(self, forecasts: PastWindows, probabilities: Sequence[float]) -> dict[float, Array]:
        """Quantiles [W, S, h] of new forecasts."""
        scores, unit = _of_steps(self.scores, forecasts), forecasts.recent_change[..., None]
        return {p: forecasts.mean + unit * _moved(scores, p) for p in probabilities}


class QuantileIntervals(Intervals):
    """The model's own quantiles, moved out or in by how far observations lay outside of them before.

    For the interval [a, b] of a level the score is max(a - y, y - b): below 0 within it. That is
    conformalised quantile regression; it keeps what the model knows of when to be unsure.
    """

    kind: ClassVar[str] = "quantiles"
    scores: dict[float, Array]  # of each probability below a half: [n, S, h]

    @classmethod
    def of(cls, past: PastWindows) -> Self:
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

    def required_quantiles(self, probabilities: Sequence[float]) -> Sequence[float]:
        """The same, which are moved, not made; for one between two that have scores, those two."""
        return sorted({near for p in probabilities for near in self._neighbours(p)[:2]})

    def adjust(self, forecasts: PastWindows, probabilities: Sequence[float]) -> dict[float, Array]:
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
                f"lies outside of those of the saved intervals, {narrowest} to {widest}; measure them anew "
                f"with `save_intervals(level=[{100 * _level(p):g}])`",
            )
        above = next(place for place, each in enumerate(known) if each > low)
        one, other = known[above - 1], known[above]
        share = (low - one) / (other - one)
        return (one, other, share) if p < 0.5 else (1 - one, 1 - other, share)

    def tensors(self) -> dict[str, Array]:
        """The scores, to be saved."""
        return {repr(p): scores for p, scores in self.scores.items()}

    @classmethod
    def from_tensors(cls, series: tuple[str, ...], season: int, tensors: Mapping[str, Array]) -> Self:
        """What was saved."""
        return cls(series, season, {float(p): scores for p, scores in tensors.items()})


KINDS: dict[str, type[Intervals]] = {
    kind.kind: kind for kind in (AbsoluteIntervals, ScaledIntervals, QuantileIntervals)
}


class Conformal(ForecastModel):
    """A model whose quantiles come from intervals that past windows justify."""

    def __init__(self, model: ForecastModel, intervals: Intervals) -> None:
        self.name, self.model, self.intervals = model.name, model, intervals

    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        *,
        paths: int = 0,
        future: Panel | None = None,
        seed: int | None = None,
    ) -> list[Forecast]:
        """The model's forecasts with quantiles that cover as often as windows before did."""
        required = self.intervals.required_quantiles(probabilities)
        forecasts = self.model.predict(panel, h, required, paths=paths, future=future, seed=seed)
        missing = np.full((len(panel.series), h), np.nan)
        window = gather_window(self.model, panel, forecasts, missing, self.intervals.season)
        quantiles = window.in_own_units(self.intervals.adjust(window.on_power_scale(), probabilities))
        for p, found in quantiles.items():
            if np.isinf(found).any():
                place, step = np.argwhere(np.isinf(found[0]))[0]
                raise InputError(
                    f"level {100 * _level(p):g}",
                    f"takes {windows_needed(_level(p))} windows, more than the saved intervals have with a "
                    f"value of series {window.series[place]!r} {several(int(step) + 1, 'step')} ahead; "
                    "measure them anew with `save_intervals(level=...)`, or ask for less",
                )
        places = {name: place for place, name in enumerate(window.series)}
        return [
            replace(one, quantiles={p: found[0, places[one.unique_id]] for p, found in quantiles.items()})
            for one in forecasts
        ]

    def power(self, series: Series) -> float:
        """That of the model."""
        return self.model.power(series)


def conformal_quantile(scores: Array, level: float) -> Array:
    """The ceil((n + 1) level)-th smallest of n scores along the first axis; infinite where n is too small.

    >>> float(conformal_quantile(np.arange(1.0, 20.0), 0.95)), float(conformal_quantile(np.ones(18), 0.95))
    (19.0, inf)
    """
    ordered = np.sort(scores, axis=0)  # NaN, of what was not observed, comes last
    count = (~np.isnan(ordered)).sum(axis=0)
    rank = np.ceil((count + 1) * level - ROUNDING).astype(np.int64)
    place = np.clip(rank - 1, 0, max(len(ordered) - 1, 0))
    found = np.take_along_axis(ordered, place[None], axis=0)[0] if len(ordered) else np.full(count.shape, 0.0)
    return np.where(rank > count, np.inf, found)


def _level(p: float) -> float:
    return abs(2 * p - 1)


def _moved(scores: Array, p: float) -> Array | float:
    """How far the quantile p lies above the centre; the median is the centre, whatever there is of scores."""
    side = int(np.sign(round(p - 0.5, 9)))
    return side * conformal_quantile(scores, _level(p)) if side else 0.0


def _mirrored(p: float, known: dict[float, Array]) -> float | None:
    """The probability among the known ones that is 1 - p, whatever floating point makes of it."""
    return next((other for other in known if math.isclose(other, 1 - p, abs_tol=ROUNDING)), None)


def _at(known: dict[float, Array], p: float) -> Array:
    """What is known of a probability, whatever floating point makes of it."""
    return next(values for each, values in known.items() if math.isclose(each, p, abs_tol=ROUNDING))


def _in_order(quantiles: dict[float, Array]) -> dict[float, Array]:
    """Quantiles that do not cross: sorted at each step."""
    order = sorted(quantiles)
    if not order:
        return quantiles
    return dict(zip(order, np.sort(np.stack([quantiles[p] for p in order]), axis=0), strict=True))


def _of_steps(scores: Array, forecasts: PastWindows) -> Array:
    """The scores of the steps that are forecast."""
    h = forecasts.mean.shape[-1]
    if h > scores.shape[-1]:
        raise InputError(
            "h",
            f"is {h}, and the intervals were measured up to {scores.shape[-1]} steps ahead; "
            f"measure them anew with `save_intervals(h={h})`",
        )
    return scores[..., :h]


def _of_series(scores: Array, series: tuple[str, ...], forecasts: PastWindows) -> Array:
    """The scores of the series and the steps that are forecast."""
    places = {name: place for place, name in enumerate(series)}
    for name in forecasts.series:
        if name not in places:
            raise InputError(
                f"series {name!r}",
                "was not there when the intervals were measured; measure them anew with its data by "
                "`save_intervals(data)`, or with intervals=scaled",
            )
    return _of_steps(scores, forecasts)[:, [places[name] for name in forecasts.series]]


FILE = "intervals.safetensors"


def save_intervals(folder: ModelFolder, intervals: Intervals) -> None:
    """Keep intervals with the model; forecasts with a level use them from then on."""
    from safetensors.numpy import save

    about = {"kind": intervals.kind, "series": list(intervals.series), "season": intervals.season}
    with whole_file(folder.path / FILE, "wb") as file:
        file.write(save(intervals.tensors(), metadata={"intervals": json.dumps(about)}))


def load_intervals(folder: ModelFolder) -> Intervals | None:
    """The intervals that were kept with a model, if any were."""
    from safetensors import SafetensorError, safe_open

    path = folder.path / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            about: dict[str, Any] = json.loads(file.metadata()["intervals"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        kind = KINDS[about["kind"]]
        found = kind.from_tensors(tuple(about["series"]), about["season"], tensors)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            str(path), f"cannot be read ({error}); measure the intervals anew with `save_intervals`"
        ) from None
    return found


def add_saved_intervals(model: ForecastModel, folder: ModelFolder | None) -> Conformal:
    """The model with the intervals that were kept with it."""
    intervals = None if folder is None else load_intervals(folder)
    if intervals is None:
        run = "RUN" if folder is None else folder.path
        raise InputError(
            "level",
            f"needs intervals, which {run} has not yet: measure them with "
            f"`throughtime backtest {run} --save-intervals`, or train with head=quantiles",
        )
    return Conformal(model, intervals)
