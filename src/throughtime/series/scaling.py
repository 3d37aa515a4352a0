"""Scales of series: each series gets its own centre and spread, after an optional Box-Cox transform."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from throughtime.errors import DamagedModelError, InputError
from throughtime.results import Forecast

Transform = Literal["none", "log", "box-cox"]
Scaling = Literal["standard", "robust", "none"]
Values = NDArray[np.float64]
PLAIN = 1.0
POWERS = np.linspace(0, 1, 101)
"""From the logarithm to no transform. Powers below 0 are bounded above, which makes forecasts diverge."""


def fit_power(name: str, values: Values, transform: Transform) -> float:
    """Return 0 for log, the power between 0 and 1 of highest likelihood for box-cox, and 1 for none.

    >>> fit_power("a", np.exp(np.sin(np.arange(99.0))), "log")
    0.0
    """
    if transform == "none":
        return PLAIN
    present = values[~np.isnan(values)]
    if not (present > 0).all():
        raise InputError(f"series {name!r}", _problem(transform, present.min()))
    return 0.0 if transform == "log" else float(POWERS[np.argmax([likelihood(present, p) for p in POWERS])])


def likelihood(values: Values, power: float) -> float:
    r"""Return the log-likelihood of a power, up to a constant, if transformed values are normal.

    .. math:: (\lambda - 1) \sum_i \log x_i - \frac{n}{2} \log \operatorname{var} g_\lambda(x)
    """
    variance = max(float(np.var(apply_power(values, power))), np.finfo(float).tiny)
    return float((power - 1) * np.log(values).sum() - len(values) / 2 * np.log(variance))


def apply_power(values: Values, power: ArrayLike) -> Values:
    r"""Transform values by :math:`g_\lambda(x) = (x^\lambda - 1) / \lambda`, or by log x for a power of 0.

    >>> apply_power(np.array([1.0, 9.0]), 0.5), apply_power(np.array([1.0, np.e]), 0)
    (array([0., 4.]), array([0., 1.]))
    """
    power = np.broadcast_to(np.asarray(power, dtype=np.float64), values.shape)
    logged, raised = power == 0, (power != 0) & (power != PLAIN)
    refused = (logged & (values <= 0)) | (raised & (values < 0))
    if refused.any():
        raise InputError("transform", _problem("log" if logged.any() else "box-cox", values[refused].min()))
    changed = values.copy()
    changed[logged] = np.log(values[logged])
    changed[raised] = (values[raised] ** power[raised] - 1) / power[raised]
    return changed


def undo_power(values: Values, power: ArrayLike) -> Values:
    """Invert `apply_power`; values below the range of the transform become 0.

    >>> undo_power(np.array([0.0, 4.0, -9.0]), 0.5)
    array([1., 9., 0.])
    """
    power = np.broadcast_to(np.asarray(power, dtype=np.float64), values.shape)
    logged, raised = power == 0, (power != 0) & (power != PLAIN)
    changed = values.copy()
    changed[logged] = np.exp(values[logged])
    changed[raised] = np.maximum(values[raised] * power[raised] + 1, 0) ** (1 / power[raised])
    return changed


def _problem(transform: str, value: float) -> str:
    return f"has the value {value:g}, but transform={transform} needs positive values; use transform=none"


class Scale(NamedTuple):
    """The map `(g(x) - centre) / spread` and its inverse; g is the Box-Cox transform of `power`.

    No forecast is below `low`, and values that stand out from those around them by more than `limit` are
    outliers: see `series.outliers`.

    >>> scale = Scale(centre=1.0, spread=2.0, power=0.0)
    >>> scale.undo(scale.apply(np.array([5.0]))).round(9)
    array([5.])
    """

    centre: float = 0.0
    spread: float = 1.0
    power: float = PLAIN
    low: float = -math.inf
    limit: float = math.inf

    @property
    def scaled_low(self) -> float:
        """The lowest value of a forecast on this scale; a Box-Cox transform keeps to it anyway."""
        return (self.low - self.centre) / self.spread if self.power == PLAIN else -math.inf

    def to_values(self) -> list[float | None]:
        """Return the numbers for JSON; None for infinity."""
        return [value if math.isfinite(value) else None for value in self]

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> Scale:
        """Restore a scale from the values of `to_values`."""
        named = zip(cls._fields[: len(values)], values, strict=True)
        known = {
            name: float(each) for name, each in named if each is not None or name not in ("low", "limit")
        }
        if not all(map(math.isfinite, known.values())):
            raise ValueError(f"a scale of {values}")
        return cls(**known)

    def apply(self, values: Values) -> Values:
        """Scale values."""
        plain = values if self.power == PLAIN else apply_power(values, self.power)
        return (plain - self.centre) / self.spread

    def undo(self, values: NDArray[Any]) -> Values:
        """Return scaled values to their original units."""
        restored = values.astype(np.float64) * self.spread + self.centre
        plain = restored if self.power == PLAIN else undo_power(restored, self.power)
        return np.maximum(plain, self.low)


def fit_scale(name: str, values: Values, scaling: Scaling, power: float = PLAIN) -> Scale:
    """Measure the scale of the observed `values` after a Box-Cox transform; a constant series has spread 1.

    `standard` uses the mean and the standard deviation; `robust`, for series with outliers, the median and
    the interquartile range, divided by that of a standard normal distribution.

    >>> fit_scale("load", np.array([1.0, 3.0, np.nan]), "standard")
    Scale(centre=2.0, spread=1.0, power=1.0, low=-inf, limit=inf)
    >>> fit_scale("load", np.array([1.0, 2.0, 3.0, 1e9]), "robust").spread < 1e9
    True
    """
    if scaling == "none":
        return Scale(power=power)
    present = values[~np.isnan(values)]
    if power != PLAIN:
        present = apply_power(present, power)
    if not len(present):
        raise InputError(
            f"series {name!r}", "has no value in its training part; leave it out, or set scaling=none"
        )
    centre, spread = float(present.mean()), float(present.std())
    if scaling == "robust":
        low, centre, high = (float(each) for each in np.quantile(present, (0.25, 0.5, 0.75)))
        # Half of the values may be equal, such as days without sales: then use the deviation.
        spread = (high - low) / 1.349 or spread
    # Rounding leaves a constant of 0.1 with a deviation of 1e-17.
    constant = spread <= 1e-12 * max(1.0, abs(centre))
    return Scale(centre, 1.0 if constant else spread, power)


def fill_gaps(values: Values) -> Values:
    """Fill gaps [T] or [T, columns] with the value before them, and with 0 at the beginning.

    >>> fill_gaps(np.array([np.nan, 2.0, np.nan]))
    array([0., 2., 2.])
    """
    rows = np.where(np.isnan(values).T, -1, np.arange(len(values))).T
    last = np.maximum.accumulate(rows, axis=0) if len(rows) else rows
    return np.where(last < 0, 0.0, np.take_along_axis(values, np.maximum(last, 0), axis=0))


def unscale_forecasts(
    names: Sequence[str],
    scales: Sequence[Scale],
    mean: NDArray[Any],
    quantiles: Mapping[float, NDArray[Any]],
    samples: NDArray[Any] | None,
    times: Sequence[NDArray[Any] | None],
) -> list[Forecast]:
    """Convert scaled means [h, B], quantiles [h, B] and paths [h, B, n] of B series to forecasts."""
    if not all(np.isfinite(each).all() for each in (mean, *quantiles.values())):
        raise DamagedModelError
    return [
        Forecast(
            name,
            scale.undo(mean[:, column]),
            {p: scale.undo(values[:, column]) for p, values in quantiles.items()},
            None if samples is None else scale.undo(samples[:, column].T),
            ds,
        )
        for column, (name, scale, ds) in enumerate(zip(names, scales, times, strict=True))
    ]
