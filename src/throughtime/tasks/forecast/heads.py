"""What a head says of a value to come: a number, a distribution, or quantiles."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss, l1_loss, mse_loss, softplus

from throughtime.errors import InputError, unknown

LEAST_SCALE = 1e-4
"""In units of a series' spread: a likelihood has no bound where a distribution may shrink to a point."""
GRID = 4_097
"""Angles at which the distribution of Student's t is tabled."""


class ForecastHead(nn.Module):
    """Reads `width` numbers [..., width] as the distribution of one value [...]."""

    width: int
    measure: str
    """What its loss is called, as `measured` has it."""
    centre: int = 0
    """Which of the numbers moves the whole distribution up and down."""
    probabilistic: bool = True
    reach: tuple[float, float] = (0.0, 1.0)
    """The outermost probabilities that it has quantiles of."""

    @abstractmethod
    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The loss of each value, [...]."""

    def loss_measure(self, loss: float) -> float:
        """The `measure` of a mean loss."""
        return loss

    @abstractmethod
    def mean(self, outputs: Tensor) -> Tensor:
        """The one number for those who want one, [...]."""

    @abstractmethod
    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """The values below which the next one lies with these probabilities, [probabilities, ...]."""

    @abstractmethod
    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A value drawn from the distribution, [...]."""


class PointHead(ForecastHead):
    """One number; `loss` says which: mse makes it the mean, mae the median, huber is between.

    >>> PointHead("mae").loss(torch.tensor([[1.0], [3.0]]), torch.tensor([2.0, 0.0]))
    tensor([1., 3.])
    """

    width = 1
    probabilistic = False

    def __init__(self, loss: str = "mse") -> None:
        super().__init__()
        losses: dict[str, Callable[..., Tensor]] = {"mse": mse_loss, "mae": l1_loss, "huber": huber_loss}
        if loss not in losses:
            raise unknown("loss", loss, losses)
        self._loss, self.measure = losses[loss], loss

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Squared, absolute or Huber's error."""
        return self._loss(outputs[..., 0], target, reduction="none")

    def mean(self, outputs: Tensor) -> Tensor:
        """The number."""
        return outputs[..., 0]

    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """None: a number has no quantiles."""
        raise InputError("head", "is point, which has no quantiles; train with head=quantiles, or back-test")

    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """None: there is nothing to draw from."""
        raise InputError("head", "is point, which has nothing to draw from; train with head=gaussian, say")


class GaussianHead(ForecastHead):
    """A normal distribution: its mean, and its standard deviation by way of a softplus.

    >>> head = GaussianHead()
    >>> outputs = torch.tensor([[2.0, 0.5413]])  # softplus(0.5413) is 1
    >>> head.quantiles(outputs, [0.025, 0.5]).round(decimals=2)
    tensor([[0.0400],
            [2.0000]])
    """

    width = 2
    measure = "nats"

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The negative logarithm of the density."""
        centre, scale = _centre_and_scale(outputs)
        return scale.log() + 0.5 * ((target - centre) / scale).square() + 0.5 * math.log(2 * math.pi)

    def mean(self, outputs: Tensor) -> Tensor:
        """The mean."""
        return outputs[..., 0]

    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """By the inverse of the error function."""
        centre, scale = _centre_and_scale(outputs)
        points = torch.tensor(probabilities, dtype=torch.float64)
        normal = (math.sqrt(2) * torch.erfinv(2 * points - 1)).to(outputs)
        return centre + scale * _leading(normal, centre)

    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A normal draw."""
        centre, scale = _centre_and_scale(outputs)
        return centre + scale * torch.randn(centre.shape, generator=generator, device=outputs.device)


class StudentHead(ForecastHead):
    """Student's t, for series with outliers. The degrees of freedom, above 2, are learned, one for all."""

    width = 2
    measure = "nats"

    def __init__(self) -> None:
        super().__init__()
        self.freedom = nn.Parameter(torch.tensor(3.0))

    @property
    def degrees(self) -> Tensor:
        """The degrees of freedom; above 2, so that there is a variance."""
        return 2 + softplus(self.freedom)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """The negative logarithm of the density."""
        centre, scale = _centre_and_scale(outputs)
        degrees = self.degrees
        constant = torch.lgamma(degrees / 2) - torch.lgamma((degrees + 1) / 2)
        constant = constant + 0.5 * (degrees * math.pi).log()
        tail = torch.log1p(((target - centre) / scale).square() / degrees)
        return constant + scale.log() + 0.5 * (degrees + 1) * tail

    def mean(self, outputs: Tensor) -> Tensor:
        """The centre."""
        return outputs[..., 0]

    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """From a table of the distribution."""
        centre, scale = _centre_and_scale(outputs)
        points = self._standard(torch.tensor(probabilities, device=outputs.device))
        return centre + scale * _leading(points, centre)

    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw by the inverse of the distribution."""
        centre, scale = _centre_and_scale(outputs)
        return centre + scale * self._standard(
            torch.rand(centre.shape, generator=generator, device=outputs.device)
        )

    def _standard(self, probabilities: Tensor) -> Tensor:
        """Quantiles at centre 0 and scale 1.

        With t = sqrt(n) tan(a) the density becomes cos(a)^(n - 1), which has a finite range and is smooth.
        """
        degrees = self.degrees.detach().double()
        half = math.pi / 2
        angles = torch.linspace(-half, half, GRID, dtype=torch.float64, device=probabilities.device)
        density = angles.cos().clamp(min=0) ** (degrees - 1)
        below = torch.cumulative_trapezoid(density, angles)
        table = torch.cat([below.new_zeros(1), below / below[-1]])
        angle = _interpolate(probabilities.double(), table, angles)
        return (degrees.sqrt() * angle.tan()).float()


class QuantileHead(ForecastHead):
    """Quantiles that cannot cross: the middle one, and positive distances from it upwards and downwards.

    >>> head = QuantileHead((0.1, 0.5, 0.9))
    >>> outputs = torch.tensor([[-3.0, 1.0, 2.0]])
    >>> head.quantiles(outputs, (0.1, 0.5, 0.9)).ravel()
    tensor([0.9514, 1.0000, 3.1269])
    """

    measure = "pinball"
    probabilities: Tensor

    def __init__(self, probabilities: Sequence[float]) -> None:
        super().__init__()
        given = list(probabilities)
        if not given or given != sorted(set(given)) or not 0 < given[0] <= given[-1] < 1:
            raise InputError("probabilities", f"are {given}; give rising numbers between 0 and 1")
        self.width, self.centre = len(given), min(range(len(given)), key=lambda each: abs(given[each] - 0.5))
        self.register_buffer("probabilities", torch.tensor(given), persistent=False)
        self.known, self.reach = given, (given[0], given[-1])

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Twice the mean of the pinball losses: for the median alone, the absolute error."""
        over = target.unsqueeze(-1) - self._ordered(outputs)
        return 2 * torch.maximum(self.probabilities * over, (self.probabilities - 1) * over).mean(-1)

    def loss_measure(self, loss: float) -> float:
        """The mean pinball loss, of which the loss is twice as much."""
        return loss / 2

    def mean(self, outputs: Tensor) -> Tensor:
        """The median, or the nearest to it: quantiles have no mean."""
        return outputs[..., self.centre].float()

    def quantiles(self, outputs: Tensor, probabilities: Sequence[float]) -> Tensor:
        """Those that were learned; what lies between two of them is interpolated."""
        for each in probabilities:
            if not self.known[0] - 1e-6 <= each <= self.known[-1] + 1e-6:
                raise InputError(
                    "probabilities",
                    f"{each:g} lies outside of {self.known[0]:g} to {self.known[-1]:g}, which were learned; "
                    "train with probabilities=[...], or ask for another level",
                )
        ordered = self._ordered(outputs)
        return torch.stack([self._at(ordered, each) for each in probabilities])

    def draw(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw between the quantiles; beyond the outermost it is the outermost."""
        ordered = self._ordered(outputs)
        if self.width == 1:
            return ordered[..., 0]
        drawn = torch.rand(ordered.shape[:-1], generator=generator, device=outputs.device)
        table = self.probabilities
        above = torch.searchsorted(table, drawn).clamp(1, self.width - 1)
        low, high = table[above - 1], table[above]
        share = ((drawn - low) / (high - low)).clamp(0, 1)
        ends = [ordered.gather(-1, place.unsqueeze(-1)).squeeze(-1) for place in (above - 1, above)]
        return torch.lerp(ends[0], ends[1], share)

    def _ordered(self, outputs: Tensor) -> Tensor:
        outputs = outputs.float()
        middle = self.centre
        centre = outputs[..., middle : middle + 1]
        above = centre + softplus(outputs[..., middle + 1 :]).cumsum(-1)
        below = centre - softplus(outputs[..., :middle]).flip(-1).cumsum(-1).flip(-1)
        return torch.cat([below, centre, above], dim=-1)

    def _at(self, ordered: Tensor, probability: float) -> Tensor:
        above = next(
            (place for place, each in enumerate(self.known) if each >= probability - 1e-9), self.width - 1
        )
        if above == 0 or abs(self.known[above] - probability) < 1e-9:
            return ordered[..., above]
        low, high = self.known[above - 1], self.known[above]
        return torch.lerp(ordered[..., above - 1], ordered[..., above], (probability - low) / (high - low))


def _centre_and_scale(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and scale of a distribution; densities are computed in float32 whatever products are in."""
    outputs = outputs.float()
    return outputs[..., 0], LEAST_SCALE + softplus(outputs[..., 1])


def _leading(points: Tensor, like: Tensor) -> Tensor:
    """Points along a new first axis."""
    return points.view(-1, *[1] * like.dim())


def _interpolate(at: Tensor, rising: Tensor, values: Tensor) -> Tensor:
    above = torch.searchsorted(rising, at.contiguous()).clamp(1, len(rising) - 1)
    low, high = rising[above - 1], rising[above]
    share = (at - low) / (high - low).clamp(min=1e-300)
    return torch.lerp(values[above - 1], values[above], share.clamp(0, 1))
