r"""The derivatives of one step, the derivatives of a sequence, and how a gradient changes with the lag.

A step is :math:`s_t = f(x_t, s_{t-1}, w)`, with s the whole state in one vector (h and c of an LSTM). Its
local derivatives :math:`A_t = \partial f / \partial s_{t-1}` and :math:`B_t = \partial f / \partial w` give

.. math::
    \frac{d s_t}{d w} = B_t + A_t \frac{d s_{t-1}}{d w}
                      = B_t + \sum_{i < t} \Big( \prod_{j = i + 1}^{t} A_j \Big) B_i

All functions take one sequence without a batch, x [T, I].
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from throughtime.cells import CELLS, FORMS
from throughtime.cells.base import Cell
from throughtime.errors import InputError
from throughtime.inspection.gates import check_keeping_gate, step_gates
from throughtime.recurrence import scan

GAINS = {"small": 0.5, "large": 2.5}
"""Recurrent weights are drawn from N(0, gain^2 / hidden); a gain below 1 shrinks a state."""

INPUT = 16
_FADED, _GROWN = 1e-3, 1e3


def flat_step(cell: Cell, x: Tensor, state: Tensor, weights: Mapping[str, Tensor] | None = None) -> Tensor:
    """Compute one step of one row, with the state as one vector: [I], [S] -> [S]."""
    with contextlib.nullcontext() if weights is None else cell.replacing(weights):
        parts = state[None].split(cell.state_sizes, dim=-1)
        return torch.cat(cell.step(cell.project(x[None, None])[0], parts), dim=-1)[0]


def flat_states(cell: Cell, x: Tensor, initial: Tensor | None = None) -> Tensor:
    """Compute the state before the first step and after each step: [T + 1, S]."""
    states = [torch.cat(cell.initial_state(1), dim=-1)[0] if initial is None else initial]
    for x_t in x:
        states.append(flat_step(cell, x_t, states[-1]))
    return torch.stack(states)


def local_derivatives(cell: Cell, x: Tensor, initial: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute the states, [T + 1, S], beginning with the initial one, and A of every step: [T, S, S]."""
    with torch.no_grad():
        states = flat_states(cell, x, initial)
    by_state = torch.func.jacrev(lambda state, x_t: flat_step(cell, x_t, state))
    return states, torch.func.vmap(by_state)(states[:-1], x).detach()


def weight_derivatives(cell: Cell, x: Tensor, states: Tensor) -> Tensor:
    """Compute B of every step, for all weights in one vector in the order of `cell.weights()`: [T, S, W]."""
    weights = _detach_weights(cell)
    of_step = torch.func.jacrev(lambda weights, state, x_t: flat_step(cell, x_t, state, weights))
    parts = torch.func.vmap(of_step, in_dims=(None, 0, 0))(weights, states[:-1], x)
    return torch.cat([parts[name].flatten(2) for name in weights], dim=-1).detach()


def pull_back(cell: Cell, x: Tensor, states: Tensor, gradients: Tensor) -> Tensor:
    """Compute what each step adds to the gradient of the weights, from the gradient of its state: [T, W]."""
    weights = _detach_weights(cell)

    def of_step(gradient: Tensor, state: Tensor, x_t: Tensor) -> dict[str, Tensor]:
        pull = torch.func.vjp(lambda weights: flat_step(cell, x_t, state, weights), weights)[1]
        pulled: dict[str, Tensor] = pull(gradient)[0]
        return pulled

    parts = torch.func.vmap(of_step)(gradients, states[:-1], x)
    return torch.cat([parts[name].flatten(1) for name in weights], dim=-1)


def recursion(by_state: Tensor, by_weight: Tensor) -> Tensor:
    """Compute ds_T/dw by recursion over the steps: [S, W]."""
    total = torch.zeros_like(by_weight[0])
    for a, b in zip(by_state, by_weight, strict=True):
        total = b + a @ total
    return total


def closed_form(by_state: Tensor, by_weight: Tensor) -> Tensor:
    """Compute ds_T/dw as the sum of the terms of all steps: [S, W]."""
    steps, size = by_state.shape[:2]
    total = torch.zeros_like(by_weight[0])
    for i in range(steps):
        product = torch.eye(size, dtype=by_state.dtype)
        for j in range(i + 1, steps):
            product = by_state[j] @ product
        total += product @ by_weight[i]
    return total


def _detach_weights(cell: Cell) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in cell.weights().items()}


def descent_bound(
    function: Callable[[Tensor], Tensor],
    point: Tensor,
    eta: float,
    lipschitz: float,
    clip: float | None = None,
) -> tuple[float, float]:
    r"""Both sides of :math:`|f(x) - f(x - \eta g)| \le L \eta |g|` for an f with Lipschitz constant L.

    If g is clipped to the norm `clip`, no step changes f by more than L eta clip, however steep f is.

    >>> change, bound = descent_bound(lambda x: 3 * x.abs().sum(), torch.tensor([2.0]), eta=0.1, lipschitz=3)
    >>> round(change, 4), round(bound, 4)
    (0.9, 0.9)
    """
    point = point.detach().requires_grad_()
    before = function(point)
    (gradient,) = torch.autograd.grad(before, point)
    if clip is not None and (norm := float(gradient.norm())) > clip:
        gradient = gradient * (clip / norm)
    after = function(point.detach() - eta * gradient)
    return float((before - after).detach().abs()), lipschitz * eta * float(gradient.norm())


@dataclass(frozen=True)
class Curve:
    """The norm of a gradient after each number of steps back, for one cell with weights of one size.

    Norms are geometric means over the seeds.
    """

    cell: str
    gain: float
    keep: float | None  # value of the gates that keep the state; None if they are random
    norms: list[float]  # |ds_T/ds_t| at lag 0, 1, ..., T; the identity has norm 1
    added: list[float]  # norm of what the step at lag 0, 1, ..., T - 1 adds to the gradient of the weights
    gradient: float  # norm of the gradient of the weights
    clipped: float  # its norm after clipping

    @property
    def factor(self) -> float:
        """The factor by which a step back multiplies the norm, on average."""
        return float(self.norms[-1] ** (1 / (len(self.norms) - 1)))

    @property
    def verdict(self) -> str:
        """Whether the gradient vanishes, explodes or holds at the longest lag."""
        if self.norms[-1] < _FADED:
            return "vanishes"
        return "explodes" if self.norms[-1] > _GROWN else "holds"

    @property
    def added_clipped(self) -> list[float]:
        """`added` after clipping, which scales all steps by the same factor."""
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

    The state includes c if the cell has one. The loss is a random projection of the last h.
    """
    with one_thread():
        runs = [_follow_gradient(name, gain, steps, hidden, keep, clip, seed) for seed in range(seeds)]
    norms, added, gradient, clipped = (_geometric_mean(parts) for parts in zip(*runs, strict=True))
    return Curve(name, gain, keep, norms.tolist(), added.tolist(), gradient.item(), clipped.item())


def list_kinds() -> tuple[str, ...]:
    """Return the names of all cells that are not forms of another one.

    >>> list_kinds()[:3]
    ('rnn', 'gru', 'lstm')
    """
    return tuple(name for name in CELLS.available() if name not in FORMS)


def keeps(name: str) -> bool:
    """Whether the cell has a gate that keeps the state and that its bias can set to a share.

    >>> keeps("lstm"), keeps("rnn")
    (True, False)
    """
    with torch.random.fork_rng(devices=[]):
        return _set_keeping_gate(CELLS[name](2, 2).double(), 0.9)


def random_cell(name: str, gain: float, hidden: int, keep: float | None, seed: int) -> Cell:
    """Draw a cell in float64 with weights of this gain, whose gates keep the share `keep` of the state."""
    if keep is not None and not 0 < keep < 1:
        raise InputError("keep", f"is {keep}, expected a number between 0 and 1")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cell = CELLS[name](INPUT, hidden).double()
        weights = cell.weights()
        with torch.no_grad():
            if "weight_hh" in weights:
                weights["weight_hh"].normal_(0, gain * hidden**-0.5)
            if keep is not None and cell.keeping_gate is not None and not _set_keeping_gate(cell, keep):
                problem = f"cannot be set: the keeping gate of {name} is not the sigmoid of a bias"
                raise InputError("keep", problem)
    return cell


def _set_keeping_gate(cell: Cell, keep: float) -> bool:
    """Set the gate that keeps the state to a share through its bias; return whether there is such a gate."""
    bias = cell.weights().get("bias")
    if cell.keeping_gate is None or bias is None:
        return False
    check_keeping_gate(cell)
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(_keeping_values(cell).sum(), bias, allow_unused=True)
    if slope is None:
        return False
    gate, sign = slope != 0, slope.sign()
    with torch.no_grad():
        bias[gate] = sign[gate] * math.log(keep / (1 - keep))
        kept = _keeping_values(cell)
    return torch.allclose(kept, torch.full_like(kept, keep))


def _keeping_values(cell: Cell) -> Tensor:
    """The values of the keeping gate at the first step, if the input is zero."""
    state = cell.initial_state(1)
    x = state[0].new_zeros(1, 1, cell.input_size)
    assert cell.keeping_gate is not None
    return step_gates(cell, cell.project(x)[0], state)[1][cell.keeping_gate]


def _follow_gradient(
    name: str, gain: float, steps: int, hidden: int, keep: float | None, clip: float, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    cell = random_cell(name, gain, hidden, keep, seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2 * steps, INPUT, generator=generator, dtype=torch.float64)
    target = torch.nn.functional.normalize(
        torch.randn(cell.output_size, generator=generator, dtype=torch.float64), dim=0
    )
    # The first half only lets the state settle, since the first steps are not typical.
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
    added = pull_back(cell, x, states, torch.stack(gradients[:-1]).flip(0)).flip(0)
    weights = torch.zeros_like(added[0])
    weights.grad = added.sum(0)
    whole = clip_grad_norm_(weights, clip)
    return torch.stack(norms), added.norm(dim=1), whole, weights.grad.norm()


def _geometric_mean(parts: tuple[Tensor, ...]) -> Tensor:
    # 0 has no logarithm, so values that underflowed are replaced by the smallest number.
    return torch.stack(parts).clamp_min(torch.finfo(torch.float64).tiny).log().mean(0).exp()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread inside the block, which is faster for small products."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
