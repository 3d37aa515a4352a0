"""How far the gradient walks back through time: all the way, tau steps, or a random number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from throughtime.errors import InputError


@dataclass(frozen=True)
class Full:
    """Back-propagation through the whole sequence."""


@dataclass(frozen=True)
class Truncated:
    """The state goes on, but the gradient is cut before every step that is a multiple of `tau`.

    Cheap and biased: what lies further back than the cut is not learned from.
    """

    tau: int

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.tau < 1:
            raise InputError("tau", f"is {self.tau}, expected 1 or more")


@dataclass(frozen=True)
class Randomised:
    r"""The gradient into the state before step t is multiplied by a random :math:`\xi_t`.

    .. math:: \xi_t = 0 \text{ with probability } 1 - \pi_t, \quad 1/\pi_t \text{ with probability } \pi_t

    As :math:`E[\xi_t] = 1` the gradient is right on average; it pays with variance (Tallec and Ollivier,
    2017). `pi` is one number or one a step.
    """

    pi: float | Sequence[float]
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        for value in self.pi if isinstance(self.pi, Sequence) else (self.pi,):
            if not 0 < value <= 1:
                raise InputError("pi", f"is {value}, expected more than 0 and at most 1")

    def generator(self) -> torch.Generator:
        """A stream of draws that starts at the seed; training takes one and keeps it."""
        return torch.Generator().manual_seed(self.seed)

    def probabilities(self, steps: int) -> Tensor:
        """pi of each step: [T]"""
        pi = torch.as_tensor(self.pi, dtype=torch.float64)
        if pi.dim() and len(pi) != steps:
            raise InputError(
                "pi", f"has {len(pi)} values for {steps} steps, expected one number or one a step"
            )
        return pi.expand(steps)


Strategy = Full | Truncated | Randomised


def carries(
    strategy: Strategy,
    steps: int,
    batch: int,
    generator: torch.Generator | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Tensor | None:
    """The factors for `scan(..., carry=)`, [T, B]; None where every gradient passes as it is.

    Without a generator the draws start at the strategy's seed, at every call anew.

    >>> carries(Truncated(2), steps=5, batch=1).T.tolist()
    [[1.0, 1.0, 0.0, 1.0, 0.0]]
    >>> carries(Randomised(0.5), steps=6, batch=2).unique().tolist()
    [0.0, 2.0]
    """
    match strategy:
        case Full():
            return None
        case Truncated(tau):
            t = torch.arange(steps)
            kept = ((t == 0) | (t % tau != 0)).to(dtype)
            return kept[:, None].expand(-1, batch).contiguous().to(device)
        case Randomised():
            pi = strategy.probabilities(steps)[:, None]
            drawn = torch.rand(steps, batch, dtype=torch.float64, generator=generator or strategy.generator())
            # Drawn on the CPU and in float64, so that a seed means the same everywhere.
            return torch.where(drawn < pi, 1 / pi, 0.0).to(device=device, dtype=dtype)
