"""Powers that even out a series whose swings grow with its level: Box and Cox's, the logarithm among them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from throughtime.errors import InputError

Transform = Literal["none", "log", "box-cox"]
Values = NDArray[np.float64]
PLAIN = 1.0
POWERS = np.linspace(0, 1, 101)
"""From the logarithm to nothing at all. Below 0 values have a ceiling, where forecasts would run away."""


def power_of(name: str, values: Values, transform: Transform) -> float:
    """0 for log; for box-cox the likeliest power between 0 and 1; 1, which changes nothing, for none.

    >>> power_of("a", np.exp(np.sin(np.arange(99.0))), "log")
    0.0
    """
    if transform == "none":
        return PLAIN
    present = values[~np.isnan(values)]
    if not (present > 0).all():
        raise InputError(f"series {name!r}", _problem(transform, present.min()))
    return 0.0 if transform == "log" else float(POWERS[np.argmax([likelihood(present, p) for p in POWERS])])


def likelihood(values: Values, power: float) -> float:
    r"""The log-likelihood of a power if the series is normal on its scale, but for a constant.

    .. math:: (\lambda - 1) \sum_i \log x_i - \frac{n}{2} \log \operatorname{var} g_\lambda(x)
    """
    variance = max(float(np.var(powered(values, power))), np.finfo(float).tiny)
    return float((power - 1) * np.log(values).sum() - len(values) / 2 * np.log(variance))


def powered(values: Values, power: ArrayLike) -> Values:
    r"""Values on the scale of a power, :math:`g_\lambda(x) = (x^\lambda - 1) / \lambda`, or log x for 0.

    >>> powered(np.array([1.0, 9.0]), 0.5), powered(np.array([1.0, np.e]), 0)
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


def unpowered(values: Values, power: ArrayLike) -> Values:
    """Back again; what lies below the scale of a power becomes 0.

    >>> unpowered(np.array([0.0, 4.0, -9.0]), 0.5)
    array([1., 9., 0.])
    """
    power = np.broadcast_to(np.asarray(power, dtype=np.float64), values.shape)
    logged, raised = power == 0, (power != 0) & (power != PLAIN)
    changed = values.copy()
    changed[logged] = np.exp(values[logged])
    changed[raised] = np.maximum(values[raised] * power[raised] + 1, 0) ** (1 / power[raised])
    return changed


def _problem(transform: str, value: float) -> str:
    return f"has the value {value:g}, and transform={transform} takes positive ones only; use transform=none"
