"""What a forecaster says of a value to come: a number, a distribution, or quantiles."""

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
    """Reads `width` numbers [..., width] as what is said of one value [...]."""

    width: int
    measure: str
    """What its loss is called, as `measured` has it."""
    centre: int = 0
    """Which of the numbers moves the whole of what is said up and down."""
    probabilistic: bool = True
    reach: tuple[float, float] = (0.0, 1.0)
    """The outermost probabilities that it has quantiles of."""

    @abstractmethod
    def loss(self, said: Tensor, target: Tensor) -> Tensor:
        """The loss of each value, [...]."""

    def measured(self, loss: float) -> float:
        """The `measure` of a mean loss."""
        return loss

    @abstractmethod
    def mean(self, said: Tensor) -> Tensor:
        """The one number for those who want one, [...]."""

    @abstractmethod
    def quantiles(self, said: Tensor, probabilities: Sequence[float]) -> Tensor:
        """The values below which the next one lies with these probabilities, [probabilities, ...]."""

    @abstractmethod
    def draw(self, said: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A value drawn from what is said, [...]."""


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

    def loss(self, said: Tensor, target: Tensor) -> Tensor:
        """Squared, absolute or Huber's error."""
        return self._loss(said[..., 0], target, reduction="none")

    def mean(self, said: Tensor) -> Tensor:
        """The number."""
        return said[..., 0]

    def quantiles(self, said: Tensor, probabilities: Sequence[float]) -> Tensor:
        """None: a number has no quantiles."""
        raise InputError("head", "is point, which has no quantiles; train with head=quantiles, or back-test")

    def draw(self, said: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """None: there is nothing to draw from."""
        raise InputError("head", "is point, which has nothing to draw from; train with head=gaussian, say")


class GaussianHead(ForecastHead):
    """A normal distribution: its mean, and its standard deviation by way of a softplus.

    >>> head = GaussianHead()
    >>> said = torch.tensor([[2.0, 0.5413]])  # softplus(0.5413) is 1
    >>> head.quantiles(said, [0.025, 0.5]).round(decimals=2)
    tensor([[0.0400],
            [2.0000]])
    """

    width = 2
    measure = "nats"

    def loss(self, said: Tensor, target: Tensor) -> Tensor:
        """The negative logarithm of the density."""
        centre, scale = _placed(said)
        return scale.log() + 0.5 * ((target - centre) / scale).square() + 0.5 * math.log(2 * math.pi)

    def mean(self, said: Tensor) -> Tensor:
        """The mean."""
        return said[..., 0]

    def quantiles(self, said: Tensor, probabilities: Sequence[float]) -> Tensor:
        """By the inverse of the error function."""
        centre, scale = _placed(said)
        points = torch.tensor(probabilities, dtype=torch.float64)
        normal = (math.sqrt(2) * torch.erfinv(2 * points - 1)).to(said)
        return centre + scale * _leading(normal, centre)

    def draw(self, said: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A normal draw."""
        centre, scale = _placed(said)
        return centre + scale * torch.randn(centre.shape, generator=generator, device=said.device)


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

    def loss(self, said: Tensor, target: Tensor) -> Tensor:
        """The negative logarithm of the density."""
        centre, scale = _placed(said)
        degrees = self.degrees
        constant = torch.lgamma(degrees / 2) - torch.lgamma((degrees + 1) / 2)
        constant = constant + 0.5 * (degrees * math.pi).log()
        tail = torch.log1p(((target - centre) / scale).square() / degrees)
        return constant + scale.log() + 0.5 * (degrees + 1) * tail

    def mean(self, said: Tensor) -> Tensor:
        """The centre."""
        return said[..., 0]

    def quantiles(self, said: Tensor, probabilities: Sequence[float]) -> Tensor:
        """From a table of the distribution."""
        centre, scale = _placed(said)
        points = self._standard(torch.tensor(probabilities, device=said.device))
        return centre + scale * _leading(points, centre)

    def draw(self, said: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw by the inverse of the distribution."""
        centre, scale = _placed(said)
        return centre + scale * self._standard(
            torch.rand(centre.shape, generator=generator, device=said.device)
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
        angle = _interpolated(probabilities.double(), table, angles)
        return (degrees.sqrt() * angle.tan()).float()


class QuantileHead(ForecastHead):
    """Quantiles that cannot cross: the middle one, and positive distances from it upwards and downwards.

    >>> head = QuantileHead((0.1, 0.5, 0.9))
    >>> said = torch.tensor([[-3.0, 1.0, 2.0]])
    >>> head.quantiles(said, (0.1, 0.5, 0.9)).ravel()
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

    def loss(self, said: Tensor, target: Tensor) -> Tensor:
        """Twice the mean of the pinball losses: for the median alone, the absolute error."""
        over = target.unsqueeze(-1) - self._ordered(said)
        return 2 * torch.maximum(self.probabilities * over, (self.probabilities - 1) * over).mean(-1)

    def measured(self, loss: float) -> float:
        """The mean pinball loss, of which the loss is twice as much."""
        return loss / 2

    def mean(self, said: Tensor) -> Tensor:
        """The median, or the nearest to it: quantiles have no mean."""
        return said[..., self.centre].float()

    def quantiles(self, said: Tensor, probabilities: Sequence[float]) -> Tensor:
        """Those that were learned; what lies between two of them is interpolated."""
        for each in probabilities:
            if not self.known[0] - 1e-6 <= each <= self.known[-1] + 1e-6:
                raise InputError(
                    "probabilities",
                    f"{each:g} lies outside of {self.known[0]:g} to {self.known[-1]:g}, which were learned; "
                    "train with --set probabilities=[...], or ask for another level",
                )
        ordered = self._ordered(said)
        return torch.stack([self._at(ordered, each) for each in probabilities])

    def draw(self, said: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw between the quantiles; beyond the outermost it is the outermost."""
        ordered = self._ordered(said)
        if self.width == 1:
            return ordered[..., 0]
        drawn = torch.rand(ordered.shape[:-1], generator=generator, device=said.device)
        table = self.probabilities
        above = torch.searchsorted(table, drawn).clamp(1, self.width - 1)
        low, high = table[above - 1], table[above]
        share = ((drawn - low) / (high - low)).clamp(0, 1)
        ends = [ordered.gather(-1, place.unsqueeze(-1)).squeeze(-1) for place in (above - 1, above)]
        return torch.lerp(ends[0], ends[1], share)

    def _ordered(self, said: Tensor) -> Tensor:
        said = said.float()
        middle = self.centre
        centre = said[..., middle : middle + 1]
        above = centre + softplus(said[..., middle + 1 :]).cumsum(-1)
        below = centre - softplus(said[..., :middle]).flip(-1).cumsum(-1).flip(-1)
        return torch.cat([below, centre, above], dim=-1)

    def _at(self, ordered: Tensor, probability: float) -> Tensor:
        above = next(
            (place for place, each in enumerate(self.known) if each >= probability - 1e-9), self.width - 1
        )
        if above == 0 or abs(self.known[above] - probability) < 1e-9:
            return ordered[..., above]
        low, high = self.known[above - 1], self.known[above]
        return torch.lerp(ordered[..., above - 1], ordered[..., above], (probability - low) / (high - low))


def _placed(said: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and scale of a distribution; densities are computed in float32 whatever products are in."""
    said = said.float()
    return said[..., 0], LEAST_SCALE + softplus(said[..., 1])


def _leading(points: Tensor, like: Tensor) -> Tensor:
    """Points along a new first axis."""
    return points.view(-1, *[1] * like.dim())


def _interpolated(at: Tensor, rising: Tensor, values: Tensor) -> Tensor:
    above = torch.searchsorted(rising, at.contiguous()).clamp(1, len(rising) - 1)
    low, high = rising[above - 1], rising[above]
    share = (at - low) / (high - low).clamp(min=1e-300)
    return torch.lerp(values[above - 1], values[above], share.clamp(0, 1))
