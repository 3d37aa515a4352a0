"""Output heads of forecasters: a point forecast, a distribution or quantiles of each value."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss, l1_loss, softplus

from throughtime.errors import InputError, unknown
from throughtime.runtime.forecast import GRID, MIN_SCALE

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
    """Reads `width` outputs [..., width] as the distribution of one value [...]."""

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

    @abstractmethod
    def mean(self, outputs: Tensor) -> Tensor:
        """Return the point forecast, [...]."""

    @abstractmethod
    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """Return the quantiles for these probabilities, [probabilities, ...]."""

    @abstractmethod
    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw a value from the distribution, [...]."""

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

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the point forecast."""
        return outputs[..., 0]

    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """Raise an error: a point has no quantiles."""
        raise InputError("head", "is point, which has no quantiles; train with head=quantiles, or back-test")

    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Raise an error: there is no distribution to draw from."""
        raise InputError("head", "is point, which has no distribution to draw from; train with head=gaussian")

    def outputs_of(self, errors: Tensor) -> Tensor:
        """Return zeros."""
        return errors.new_zeros(len(errors), 1)


class LocationScaleHead(ForecastHead):
    """The base of distributions with a centre and a scale, the softplus of the second output."""

    width = 2
    measure = "nats"

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the centre."""
        return outputs[..., 0]

    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """Return the quantiles for these probabilities, [probabilities, ...]."""
        centre, scale = _centre_and_scale(outputs)
        points = torch.tensor(probabilities, dtype=torch.float64, device=outputs.device)
        return centre + scale * self.standard_quantiles(points).view(-1, *[1] * centre.dim())

    def outputs_of(self, errors: Tensor) -> Tensor:
        """Return outputs whose scale is the root of the mean squared error."""
        scale = _inverse_softplus(errors.square().mean(1).sqrt() - MIN_SCALE)
        return torch.stack([torch.zeros_like(scale), scale], dim=-1)

    @abstractmethod
    def standard_quantiles(self, probabilities: Tensor) -> Tensor:
        """Return the quantiles for centre 0 and scale 1."""


class GaussianHead(LocationScaleHead):
    """A normal distribution with its mean and standard deviation.

    >>> head = GaussianHead()
    >>> outputs = torch.tensor([[2.0, 0.5413]])  # softplus(0.5413) is 1
    >>> head.quantiles(outputs, [0.025, 0.5]).round(decimals=2)
    tensor([[0.0400],
            [2.0000]])
    """

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood."""
        centre, scale = _centre_and_scale(outputs)
        near, beyond = _split(_error(target, centre) / scale, MAX_DEVIATIONS)
        tail = MAX_DEVIATIONS**2 * beyond.log()
        return scale.log() + 0.5 * near.square() + tail + 0.5 * math.log(2 * math.pi)

    def standard_quantiles(self, probabilities: Tensor) -> Tensor:
        """Return the quantiles of the standard normal distribution."""
        return (math.sqrt(2) * torch.erfinv(2 * probabilities.double() - 1)).float()

    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw from the normal distribution."""
        centre, scale = _centre_and_scale(outputs)
        return centre + scale * torch.randn(centre.shape, generator=generator, device=outputs.device)


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

    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw by inverting the distribution function."""
        centre, scale = _centre_and_scale(outputs)
        uniform = torch.rand(centre.shape, generator=generator, device=outputs.device)
        return centre + scale * self.standard_quantiles(uniform)

    def standard_quantiles(self, probabilities: Tensor) -> Tensor:
        """Return the quantiles for centre 0 and scale 1, from a table.

        With t = sqrt(n) tan(a) the density becomes cos(a)^(n - 1), which is smooth on a finite range.
        """
        degrees = self.degrees.detach().double()
        half = math.pi / 2
        angles = torch.linspace(-half, half, GRID, dtype=torch.float64, device=probabilities.device)
        density = angles.cos().clamp(min=0) ** (degrees - 1)
        below = torch.cumulative_trapezoid(density, angles)
        table = torch.cat([below.new_zeros(1), below / below[-1]])
        at = probabilities.double().contiguous()
        above = torch.searchsorted(table, at).clamp(1, GRID - 1)
        low, high = table[above - 1], table[above]
        share = ((at - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
        angle = torch.lerp(angles[above - 1], angles[above], share)
        return (degrees.sqrt() * angle.tan()).float()


class QuantileHead(ForecastHead):
    """Quantiles that cannot cross: the middle one, and positive distances from it in both directions.

    >>> head = QuantileHead((0.1, 0.5, 0.9))
    >>> outputs = torch.tensor([[-3.0, 1.0, 2.0]])
    >>> head.quantiles(outputs, (0.1, 0.5, 0.9)).ravel()
    tensor([0.9514, 1.0000, 3.1269])
    """

    measure = "pinball"
    probabilities: Tensor
    tilts: Tensor
    signs: Tensor

    def __init__(self, probabilities: Sequence[float]) -> None:
        super().__init__()
        given = list(probabilities)
        if not given or given != sorted(set(given)) or not 0 < given[0] <= given[-1] < 1:
            raise InputError("probabilities", f"are {given}; give increasing numbers between 0 and 1")
        self.width, self.centre = len(given), min(range(len(given)), key=lambda each: abs(given[each] - 0.5))
        self.register_buffer("probabilities", torch.tensor(given), persistent=False)
        self.register_buffer("tilts", torch.tensor([each - 0.5 for each in given]), persistent=False)
        # The sign with which each quantile, a column, contains the distance that belongs to each row.
        column = torch.arange(self.width)
        row = column[:, None]
        above, below = (row > self.centre) & (row <= column), (row < self.centre) & (row >= column)
        self.register_buffer("signs", above.float() - below.float(), persistent=False)
        self.known, self.reach = given, (given[0], given[-1])

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return twice the mean pinball loss, which for the median alone is the absolute error.

        max(p e, (p - 1) e) is (p - 1/2) e + |e| / 2, which has the same gradient in fewer operations.
        """
        over = target.unsqueeze(-1) - self._sort_quantiles(outputs)
        return 2 * torch.add(self.tilts * over, over.abs(), alpha=0.5).mean(-1)

    def loss_measure(self, loss: float) -> float:
        """Return the mean pinball loss, which is half the loss."""
        return loss / 2

    def mean(self, outputs: Tensor) -> Tensor:
        """Return the median, or the quantile nearest to it."""
        return outputs[..., self.centre].float()

    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """Return the learned quantiles; others are interpolated between two of them."""
        for each in probabilities:
            if not self.known[0] - 1e-6 <= each <= self.known[-1] + 1e-6:
                raise InputError(
                    "probabilities",
                    f"{each:g} is outside the learned range, {self.known[0]:g} to {self.known[-1]:g}; train "
                    "with other probabilities, or ask for another level",
                )
        ordered = self._sort_quantiles(outputs)
        return torch.stack([self._interpolate(ordered, each) for each in probabilities])

    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw between the quantiles; draws beyond the outermost quantiles are set to them."""
        ordered = self._sort_quantiles(outputs)
        if self.width == 1:
            return ordered[..., 0]
        drawn = torch.rand(ordered.shape[:-1], generator=generator, device=outputs.device)
        table = self.probabilities
        above = torch.searchsorted(table, drawn).clamp(1, self.width - 1)
        low, high = table[above - 1], table[above]
        share = ((drawn - low) / (high - low)).clamp(0, 1)
        ends = [ordered.gather(-1, place.unsqueeze(-1)).squeeze(-1) for place in (above - 1, above)]
        return torch.lerp(ends[0], ends[1], share)

    def outputs_of(self, errors: Tensor) -> Tensor:
        """Return outputs whose quantiles lie as far apart as those of the errors."""
        quantiles = torch.quantile(errors, self.probabilities.to(errors), dim=1).T
        distances = _inverse_softplus(quantiles.diff(dim=1))
        below, above = distances.split([self.centre, self.width - self.centre - 1], dim=1)
        return torch.cat([below, torch.zeros_like(quantiles[:, :1]), above], dim=1)

    def _sort_quantiles(self, outputs: Tensor) -> Tensor:
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

    def _interpolate(self, ordered: Tensor, probability: float) -> Tensor:
        above = next(
            (place for place, each in enumerate(self.known) if each >= probability - 1e-9), self.width - 1
        )
        if above == 0 or abs(self.known[above] - probability) < 1e-9:
            return ordered[..., above]
        low, high = self.known[above - 1], self.known[above]
        return torch.lerp(ordered[..., above - 1], ordered[..., above], (probability - low) / (high - low))


def _squared_error(outputs: Tensor, target: Tensor, *, reduction: str = "none") -> Tensor:
    error = _error(outputs, target)
    return 2 * huber_loss(error, torch.zeros_like(error), reduction=reduction, delta=MAX_ERROR)


def _error(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).clamp(-MAX_DIFFERENCE, MAX_DIFFERENCE)


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
