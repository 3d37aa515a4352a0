"""Output heads of forecasters: a point forecast, a distribution or quantiles of each value."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss, l1_loss, softplus

from throughtime.cells.base import Ops
from throughtime.errors import InputError, unknown

MIN_SCALE = 1e-4
"""In units of a series' spread: without a minimum the likelihood is unbounded."""
MAX_DEGREES = 100.0
MAX_ERROR = 1e6
"""A squared error grows linearly beyond this."""
MAX_DIFFERENCE = 1e30
"""Larger errors count as this one, so that no loss overflows."""
MAX_DEVIATIONS = 1e4
"""Beyond this number of deviations, the loss of a normal distribution grows logarithmically."""
FEW_QUANTILES = 9
"""Up to this number, a GPU adds the distances of quantiles by a table of all pairs, in few kernels."""
MAX_ROOT = 1e9
"""Numbers up to this are squared; for larger ones log(1 + x^2) is 2 log(x) in float32."""


class ForecastHead(nn.Module):
    """Reads `width` outputs [..., width] as the distribution of one value [...].

    Here are its loss and what its outputs say; `runtime.forecast.OutputDistribution` reads the quantiles and
    draws from that, for trained and exported models.
    """

    width: int
    measure: str
    """The name of its loss, as `loss_measure` returns it."""
    centre: int = 0
    """The position of the output that shifts the whole distribution."""
    probabilistic: bool = True
    reach: tuple[float, float] = (0.0, 1.0)
    """The lowest and highest probabilities for which it has quantiles."""

    @abstractmethod
    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each value, [...]."""

    def loss_measure(self, loss: float) -> float:
        """Convert a mean loss to the `measure`."""
        return loss

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the point forecast, [...]."""
        return outputs[..., self.centre]

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the settings of an `OutputDistribution`."""

    def describe_values(self, outputs: Tensor) -> Tensor:
        """Return what an `OutputDistribution` reads, [..., width]."""
        return outputs

    def graph_values(self, ops: Ops, outputs: str) -> str:
        """Return `describe_values` in a graph."""
        return outputs

    @abstractmethod
    def outputs_of(self, errors: Tensor) -> Tensor:
        """Return outputs [rows, width] with centre 0 and the spread of these errors, [rows, n]."""


class PointHead(ForecastHead):
    """A point forecast: the mean if the `loss` is mse, the median if it is mae; huber is in between.

    >>> PointHead("mae").loss(torch.tensor([[1.0], [3.0]]), torch.tensor([2.0, 0.0]))
    tensor([1., 3.])
    """

    width = 1
    probabilistic = False

    def __init__(self, loss: str = "mse") -> None:
        super().__init__()
        losses: dict[str, Callable[..., Tensor]] = {
            "mse": _squared_error,
            "mae": l1_loss,
            "huber": huber_loss,
        }
        if loss not in losses:
            raise unknown("loss", loss, losses)
        self._loss, self.measure = losses[loss], loss

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the squared, absolute or Huber error."""
        return self._loss(outputs[..., 0], target, reduction="none")

    def settings(self) -> dict[str, Any]:
        """Return the settings of an `OutputDistribution`."""
        return {"kind": "point"}

    def outputs_of(self, errors: Tensor) -> Tensor:
        """Return zeros."""
        return errors.new_zeros(len(errors), 1)


class LocationScaleHead(ForecastHead):
    """The base of distributions with a centre and a scale, the softplus of the second output."""

    width = 2
    measure = "nats"

    def describe_values(self, outputs: Tensor) -> Tensor:
        """Return the centre and the scale."""
        return torch.stack(_centre_and_scale(outputs), dim=-1)

    def graph_values(self, ops: Ops, outputs: str) -> str:
        """Return `describe_values` in a graph."""
        scale = ops.op("Softplus", ops.slice(outputs, 1, 2))
        return ops.concat([ops.slice(outputs, 0, 1), ops.op("Add", scale, ops.constant(MIN_SCALE))])

    def outputs_of(self, errors: Tensor) -> Tensor:
        """Return outputs whose scale is the root of the mean squared error."""
        scale = _inverse_softplus(errors.square().mean(1).sqrt() - MIN_SCALE)
        return torch.stack([torch.zeros_like(scale), scale], dim=-1)


class GaussianHead(LocationScaleHead):
    """A normal distribution with its mean and standard deviation.

    >>> GaussianHead().describe_values(torch.tensor([2.0, 0.5413])).round(decimals=2)
    tensor([2., 1.])
    """

    def settings(self) -> dict[str, Any]:
        """Return the settings of an `OutputDistribution`."""
        return {"kind": "gaussian"}

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood."""
        centre, scale = _centre_and_scale(outputs)
        near, beyond = _split(_error(target, centre) / scale, MAX_DEVIATIONS)
        tail = MAX_DEVIATIONS**2 * beyond.log()
        return scale.log() + 0.5 * near.square() + tail + 0.5 * math.log(2 * math.pi)


class StudentHead(LocationScaleHead):
    """Student's t distribution, for series with outliers; its degrees of freedom, 2 to 100, are learned."""

    def __init__(self) -> None:
        super().__init__()
        self.freedom = nn.Parameter(torch.tensor(3.0))

    @property
    def degrees(self) -> Tensor:
        """The degrees of freedom, above 2 so that the variance is finite.

        Beyond 100 the distribution is almost normal, and float32 is too coarse for its density.
        """
        return 2 + softplus(self.freedom).clamp(max=MAX_DEGREES - 2)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood."""
        centre, scale = _centre_and_scale(outputs)
        degrees = self.degrees
        constant = torch.lgamma(degrees / 2) - torch.lgamma((degrees + 1) / 2)
        constant = constant + 0.5 * (degrees * math.pi).log()
        near, beyond = _split(_error(target, centre) / scale, MAX_ROOT)
        tail = torch.log1p(near.square() / degrees) + 2 * beyond.log()
        return constant + scale.log() + 0.5 * (degrees + 1) * tail

    def settings(self) -> dict[str, Any]:
        """Return the settings of an `OutputDistribution`."""
        return {"kind": "student", "degrees": float(self.degrees.detach())}


class QuantileHead(ForecastHead):
    """Quantiles that cannot cross: the middle one, and positive distances from it in both directions.

    >>> head = QuantileHead((0.1, 0.5, 0.9))
    >>> head.describe_values(torch.tensor([-3.0, 1.0, 2.0]))
    tensor([0.9514, 1.0000, 3.1269])
    """

    measure = "pinball"
    probabilities: Tensor
    tilts: Tensor
    signs: Tensor

    def __init__(self, probabilities: Sequence[float]) -> None:
        super().__init__()
        known = list(probabilities)
        if not known or known != sorted(set(known)) or not 0 < known[0] <= known[-1] < 1:
            raise InputError("probabilities", f"are {known}; give increasing numbers between 0 and 1")
        self.width, self.centre = len(known), min(range(len(known)), key=lambda each: abs(known[each] - 0.5))
        self.register_buffer("probabilities", torch.tensor(known), persistent=False)
        self.register_buffer("tilts", torch.tensor([each - 0.5 for each in known]), persistent=False)
        # The sign with which each quantile, a column, contains the distance that belongs to each row.
        column = np.arange(self.width)  # on the meta device torch would import its compiler for a range
        row = column[:, None]
        above, below = (row > self.centre) & (row <= column), (row < self.centre) & (row >= column)
        signs = above.astype(float) - below
        self.register_buffer("signs", torch.tensor(signs.tolist()), persistent=False)
        self.known, self.reach = known, (known[0], known[-1])

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return twice the mean pinball loss, which for the median alone is the absolute error.

        max(p e, (p - 1) e) is (p - 1/2) e + |e| / 2, which has the same gradient in fewer operations.
        """
        over = target.unsqueeze(-1) - self.describe_values(outputs)
        return 2 * torch.add(self.tilts * over, over.abs(), alpha=0.5).mean(-1)

    def loss_measure(self, loss: float) -> float:
        """Return the mean pinball loss, which is half the loss."""
        return loss / 2

    def settings(self) -> dict[str, Any]:
        """Return the settings of an `OutputDistribution`."""
        return {"kind": "quantiles", "probabilities": self.known, "centre": self.centre}

    def outputs_of(self, errors: Tensor) -> Tensor:
        """Return outputs whose quantiles lie as far apart as those of the errors."""
        quantiles = torch.quantile(errors, self.probabilities.to(errors), dim=1).T
        distances = _inverse_softplus(quantiles.diff(dim=1))
        below, above = distances.split([self.centre, self.width - self.centre - 1], dim=1)
        return torch.cat([below, torch.zeros_like(quantiles[:, :1]), above], dim=1)

    def describe_values(self, outputs: Tensor) -> Tensor:
        """Return the quantiles in their order."""
        outputs = outputs.float()
        if outputs.device.type != "cpu" and self.width <= FEW_QUANTILES:
            return self.add_by_table(outputs)
        middle = self.centre
        centre = outputs[..., middle : middle + 1]
        above = centre + softplus(outputs[..., middle + 1 :]).cumsum(-1)
        below = centre - softplus(outputs[..., :middle]).flip(-1).cumsum(-1).flip(-1)
        return torch.cat([below, centre, above], dim=-1)

    def add_by_table(self, outputs: Tensor) -> Tensor:
        """Return the quantiles by plain sums: for few columns, a GPU is slow at cumulative ones."""
        distances = (softplus(outputs).unsqueeze(-1) * self.signs).sum(-2)
        return outputs[..., self.centre : self.centre + 1] + distances

    def graph_values(self, ops: Ops, outputs: str) -> str:
        """Return `describe_values` in a graph."""
        distances = ops.op("MatMul", ops.op("Softplus", outputs), ops.constant(self.signs.tolist()))
        return ops.op("Add", ops.slice(outputs, self.centre, self.centre + 1), distances)


def _squared_error(outputs: Tensor, target: Tensor, *, reduction: str = "none") -> Tensor:
    error = _error(outputs, target)
    return 2 * huber_loss(error, torch.zeros_like(error), reduction=reduction, delta=MAX_ERROR)


def _error(outputs: Tensor, target: Tensor) -> Tensor:
    return (outputs - target).clamp(-MAX_DIFFERENCE, MAX_DIFFERENCE)


def _split(values: Tensor, largest: float) -> tuple[Tensor, Tensor]:
    """Return the values clamped to `largest`, and the ratio of their sizes to it, at least 1."""
    return values.clamp(-largest, largest), (values.abs() / largest).clamp(min=1.0)


def _inverse_softplus(values: Tensor) -> Tensor:
    """Return the outputs whose softplus has these values, or 0.001 for smaller ones."""
    values = values.clamp(min=1e-3)
    return values + torch.log(-torch.expm1(-values))


def _centre_and_scale(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and scale of a distribution, in float32 whatever the precision of the products."""
    outputs = outputs.float()
    return outputs[..., 0], MIN_SCALE + softplus(outputs[..., 1])
