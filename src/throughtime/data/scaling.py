"""Series brought to one scale, each by its own level and spread."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.data.power import PLAIN, Transform, power_of, powered, unpowered
from throughtime.errors import InputError

Scaling = Literal["standard", "robust", "none"]
Values = NDArray[np.float64]


class Scale(NamedTuple):
    """`(x - centre) / spread`, and back."""

    centre: float = 0.0
    spread: float = 1.0

    @property
    def power(self) -> float:
        """Of Box and Cox: 1, which changes nothing."""
        return PLAIN

    def applied(self, values: Values) -> Values:
        """The values in units of the spread."""
        return (values - self.centre) / self.spread

    def undone(self, values: Values) -> Values:
        """Scaled values in their own units again."""
        return values * self.spread + self.centre


class PowerScale(NamedTuple):
    """The same of `g(x)`, with the power of Box and Cox that evens a series out; see `data.power`.

    >>> PowerScale(power=0.0).undone(PowerScale(power=0.0).applied(np.array([5.0]))).round(9)
    array([5.])
    """

    centre: float = 0.0
    spread: float = 1.0
    power: float = 0.0

    def applied(self, values: Values) -> Values:
        """The values on the power's scale, in units of their spread there."""
        return (powered(values, self.power) - self.centre) / self.spread

    def undone(self, values: Values) -> Values:
        """Scaled values in their own units again."""
        return unpowered(values * self.spread + self.centre, self.power)


SeriesScale = Scale | PowerScale


def series_scale_of(name: str, values: Values, scaling: Scaling, transform: Transform) -> SeriesScale:
    """The scale of a series whose values are first transformed."""
    power = power_of(name, values, transform)
    if power == PLAIN:
        return scale_of(name, values, scaling)
    return PowerScale(*scale_of(name, powered(values, power), scaling), power)


def scale_of(name: str, values: Values, scaling: Scaling) -> Scale:
    """The scale of what is there of `values`; a constant series keeps a spread of 1.

    `standard` is mean and standard deviation; `robust`, for series with outliers, is the median and the
    distance between the quartiles, in units in which a normal distribution has 1.

    >>> scale_of("load", np.array([1.0, 3.0, np.nan]), "standard")
    Scale(centre=2.0, spread=1.0)
    >>> scale_of("load", np.array([1.0, 2.0, 3.0, 1e9]), "robust").spread < 1e9
    True
    """
    if scaling == "none":
        return Scale()
    present = values[~np.isnan(values)]
    if not len(present):
        raise InputError(
            f"series {name!r}", "has no value in its training part; leave it out, or set scaling=none"
        )
    centre, spread = float(present.mean()), float(present.std())
    if scaling == "robust":
        low, centre, high = (float(each) for each in np.quantile(present, (0.25, 0.5, 0.75)))
        # More than half of the values may be equal, as sales of nothing are; then the deviation has to do.
        spread = (high - low) / 1.349 or spread
    # Rounding leaves a constant of 0.1 with a deviation of 1e-17.
    constant = spread <= 1e-12 * max(1.0, abs(centre))
    return Scale(centre, 1.0 if constant else spread)
