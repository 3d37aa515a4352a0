"""How the gradient fares on its way back through time: the norm of ds_T/ds_t against the lag T - t."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from throughtime.cells import CELLS, Cell
from throughtime.errors import InputError
from throughtime.inspection.jacobians import local_derivatives, pulled_back
from throughtime.inspection.threads import one_thread
from throughtime.recurrence import scan

GAINS = {"small": 0.5, "large": 2.5}
"""Recurrent weights are drawn from N(0, gain^2 / hidden): below 1 they shrink a state, above stretch it."""

INPUT = 16
_FADED, _GROWN = 1e-3, 1e3


@dataclass(frozen=True)
class Curve:
    """One cell with weights of one size: what is left of a gradient after each number of steps back.

    Norms are geometric means over the seeds.
    """

    cell: str
    gain: float
    keep: float | None  # where the gates that keep the state were set; None: as they were drawn
    norms: list[float]  # |ds_T/ds_t| at lag 0, 1, ..., T; the identity has norm 1
    added: list[
        float
    ]  # the norm of what the step at lag 0, 1, ..., T - 1 adds to the gradient of the weights
    gradient: float  # the norm of the whole gradient of the weights
    clipped: float  # the same after clipping

    @property
    def factor(self) -> float:
        """How much a step back multiplies the norm by, on average."""
        return float(self.norms[-1] ** (1 / (len(self.norms) - 1)))

    @property
    def verdict(self) -> str:
        """What has become of the gradient at the longest lag."""
        if self.norms[-1] < _FADED:
            return "vanishes"
        return "explodes" if self.norms[-1] > _GROWN else "holds"

    @property
    def added_clipped(self) -> list[float]:
        """`added` once the whole gradient is clipped: every step is scaled alike."""
        return [value * self.clipped / self.gradient for value in self.added]


def lag_curve(
    name: str,
    gain: float,
    *,
    steps: int,
    hidden: int,
    keep: float | None = None,
    clip: float = 1.0,
    seeds: int = 3,
) -> Curve:
    """Follow the gradient back through `steps` steps of a random cell on random inputs.

    The state is the whole state: h, and c with it where there is one. The loss is a random projection of the
    last h.
    """
    with one_thread():
        runs = [_followed(name, gain, steps, hidden, keep, clip, seed) for seed in range(seeds)]
    norms, added, gradient, clipped = (_geometric_mean(parts) for parts in zip(*runs, strict=True))
    return Curve(name, gain, keep, norms.tolist(), added.tolist(), gradient.item(), clipped.item())


def keeps(name: str) -> bool:
    """Whether the cell has a gate that decides how much of its state is kept.

    >>> keeps("lstm"), keeps("rnn")
    (True, False)
    """
    with torch.random.fork_rng(devices=[]):
        return _keeping_rows(CELLS[name](2, 2)) is not None


def _keeping_rows(cell: Cell) -> tuple[slice, int] | None:
    """The rows of the bias that decide how much of the state is kept, and the sign in which they do."""
    gate = (cell.keeping_gate or "").removeprefix("1 - ")
    if gate not in cell.gates:
        return None
    first = cell.gates.index(gate) * cell.hidden_size
    return slice(first, first + cell.hidden_size), 1 if gate == cell.keeping_gate else -1


def random_cell(name: str, gain: float, hidden: int, keep: float | None, seed: int) -> Cell:
    """A cell in float64 with recurrent weights of this gain, and gates that keep this much of the state."""
    if keep is not None and not 0 < keep < 1:
        raise InputError("keep", f"is {keep}, expected a number between 0 and 1")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cell = CELLS[name](INPUT, hidden).double()
        weights = cell.weights()
        with torch.no_grad():
            if "weight_hh" in weights:
                weights["weight_hh"].normal_(0, gain * hidden**-0.5)
            if keep is not None and (keeping := _keeping_rows(cell)) is not None:
                rows, sign = keeping
                weights["bias"][rows] = sign * math.log(keep / (1 - keep))
    return cell


def _followed(
    name: str, gain: float, steps: int, hidden: int, keep: float | None, clip: float, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    cell = random_cell(name, gain, hidden, keep, seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2 * steps, INPUT, generator=generator, dtype=torch.float64)
    target = torch.nn.functional.normalize(
        torch.randn(cell.output_size, generator=generator, dtype=torch.float64), dim=0
    )
    # The first half only lets the state settle: a network that has just begun is not typical.
    with torch.no_grad():
        settled = scan(cell, x[:steps, None]).state
    x = x[steps:]
    states, by_state = local_derivatives(cell, x, torch.cat(settled, dim=-1)[0])
    size = states.shape[1]
    product = torch.eye(size, dtype=torch.float64)
    gradient = torch.zeros(size, dtype=torch.float64)
    gradient[: len(target)] = target
    norms, gradients = [torch.ones((), dtype=torch.float64)], [gradient]
    for a in by_state.flip(0):
        product = product @ a
        norms.append(product.norm() / size**0.5)
        gradients.append(gradients[-1] @ a)
    added = pulled_back(cell, x, states, torch.stack(gradients[:-1]).flip(0)).flip(0)
    weights = torch.zeros_like(added[0])
    weights.grad = added.sum(0)
    whole = clip_grad_norm_(weights, clip)
    return torch.stack(norms), added.norm(dim=1), whole, weights.grad.norm()


def _geometric_mean(parts: tuple[Tensor, ...]) -> Tensor:
    # What has underflowed to 0 has no logarithm; the smallest number stands in for it.
    return torch.stack(parts).clamp_min(torch.finfo(torch.float64).tiny).log().mean(0).exp()
