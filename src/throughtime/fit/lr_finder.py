"""The learning-rate finder: one update at each of many rising rates, and the best of them."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, ThroughtimeError
from throughtime.fit.config import TrainingConfig
from throughtime.fit.objective import Objective
from throughtime.fit.progress import Reporter
from throughtime.fit.trainer import Trainer

UPDATES = {"sgd": 300, "nt-asgd": 300, "adam": 100, "adamw": 100}
"""Number of rates to try: plain SGD needs more updates to get beyond word frequencies."""
SPAN = 1e6
MAX_RATES = {"sgd": 1e3, "nt-asgd": 1e3, "adam": 1.0, "adamw": 1.0}
"""The highest rate to try; the step of Adam is as long as its rate, whatever the gradient."""

_MIN_RATES = 10
_SMOOTHING = 0.9  # of the exponential average, for a hundred rates
_NOTICEABLE = 4.0  # a fall of fewer standard errors is noise


@dataclass(frozen=True)
class RateSearch:
    """The rates that were tried, the loss at each, and the suggested rate."""

    rates: list[float]
    losses: list[float]
    suggestion: float


def find_learning_rate(
    objective: Objective, config: TrainingConfig, updates: int | None = None
) -> RateSearch:
    """Train with a rate that rises from update to update, until the loss diverges."""
    updates = updates or UPDATES[config.optimizer]
    high = MAX_RATES[config.optimizer]
    rates = [high / SPAN * SPAN ** (number / (updates - 1)) for number in range(updates)]
    losses: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(objective, config, Path(folder), Reporter(), improved=lambda measured: None)
        if trainer.settled is not None:
            raise InputError("find_lr", f"has nothing to do: {trainer.settled}")
        trainer.rate_of = lambda standing: rates[standing.step]
        objective.model.train()
        groups = itertools.chain.from_iterable(trainer.groups() for _ in itertools.count())
        with trainer.learner.computing():
            for group in itertools.islice(groups, updates):
                trainer.update(group)
                lap = trainer.learner.tally.lap(trainer.processes)
                losses.append(lap.total / lap.targets if lap.targets else math.nan)  # NaN was skipped
                if not math.isfinite(losses[-1]) or losses[-1] > 4 * losses[0]:
                    break
    tried = rates[: len(losses)]
    return RateSearch(tried, losses, suggest_rate(tried, losses))


def suggest_rate(rates: Sequence[float], losses: Sequence[float]) -> float:
    """Return the rate at which the loss falls most steeply against its logarithm, before the minimum.

    `rates` rise; `losses` were measured one after another at these rates and may end in infinity or NaN.

    >>> rates = [10 ** (k / 20 - 5) for k in range(100)]
    >>> losses = [4 - 2 / (1 + (1e-3 / rate) ** 2) + rate**2 * 100 for rate in rates]
    >>> f"{suggest_rate(rates, losses):.0e}"
    '9e-04'
    """
    if len(rates) != len(losses):
        raise InputError("losses", f"are {len(losses)} for {len(rates)} rates; expected one for each")
    x, y = np.log(np.asarray(rates, dtype=np.float64)), np.asarray(losses, dtype=np.float64)
    if not (np.diff(x) > 0).all():
        raise InputError("rates", "do not rise; expected each larger than the one before")
    x, y = _before_divergence(x, y)
    if len(y) < _MIN_RATES:
        raise ThroughtimeError(
            f"the loss diverged after {len(y)} rates, too few to decide; start from a smaller learning rate"
        )
    # Averaged both ways: over the past alone it lags, and would suggest a rate that is too large.
    smooth = _average(y, _kernel(len(y)))
    lowest = int(smooth.argmin())
    noise = float(np.median(np.abs(np.diff(y))))  # about one standard deviation, whatever the curve
    least = max(_NOTICEABLE * noise * np.sqrt(1 - _SMOOTHING), 1e-6 * abs(smooth[0]))
    if smooth[0] - smooth[lowest] <= least:
        raise ThroughtimeError(
            f"the loss fell at no learning rate from {rates[0]:.1e} to {np.exp(x[-1]):.1e}; try other rates, "
            "and look at the data"
        )
    return float(np.exp(x[_steepest(x[: lowest + 1], smooth[: lowest + 1])]))


def _before_divergence(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut where the loss is no number, or lies above its start by more than it ever fell below it."""
    broken = np.flatnonzero(~np.isfinite(y))
    x, y = (x[: broken[0]], y[: broken[0]]) if len(broken) else (x, y)
    if len(y) < _MIN_RATES:
        return x, y
    smooth = _average(y, np.tril(_kernel(len(y))))  # the past alone: what explodes later must not leak in
    lowest = np.minimum.accumulate(smooth)
    start = float(np.median(y[: _MIN_RATES // 2]))
    limit = start + np.maximum(start - lowest, 0.1 * abs(start))
    risen = np.flatnonzero((smooth > limit) & (np.arange(len(y)) >= _MIN_RATES))
    return (x[: risen[0]], y[: risen[0]]) if len(risen) else (x, y)


def _kernel(size: int) -> NDArray[np.float64]:
    """How much of each loss goes into each average: less by a factor for every rate between."""
    numbers = np.arange(size)
    kernel: NDArray[np.float64] = _SMOOTHING ** np.abs(numbers[:, None] - numbers)
    return kernel


def _average(y: NDArray[np.float64], kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """An exponential average. Dividing by the weights that are there corrects it at the ends."""
    average: NDArray[np.float64] = kernel @ y / kernel.sum(1)
    return average


def _steepest(x: NDArray[np.float64], y: NDArray[np.float64]) -> int:
    """Where a line through a point's neighbours falls most; many neighbours, so that no bump decides."""
    reach = max(1, len(x) // 12)
    slopes = [
        np.polyfit(x[max(0, i - reach) : i + reach + 1], y[max(0, i - reach) : i + reach + 1], 1)[0]
        for i in range(len(x))
    ]
    return int(np.argmin(slopes))
