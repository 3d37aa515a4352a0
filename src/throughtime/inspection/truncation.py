"""What truncated and randomised back-propagation through time cost, and how wrong their gradients are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from throughtime.cells.base import Cell
from throughtime.errors import check_whole
from throughtime.inspection.gradients import INPUT, one_thread, random_cell
from throughtime.recurrence import scan
from throughtime.recurrence.backpropagation import Full, GradientHorizon, Randomised, Truncated, carries

GROUP = 32  # draws of one batch; each row is one draw


@dataclass(frozen=True)
class Error:
    """How the gradient of a strategy differs from the full one, relative to the norm of the full one."""

    bias: float  # |mean gradient - full gradient|
    chance: float  # one standard error of the bias, due to the number of draws
    deviation: float  # sqrt(E|gradient - mean gradient|^2) for one sequence


@dataclass(frozen=True)
class PassCost:
    """Time and memory of one forward and backward pass."""

    steps: int
    seconds: float
    saved: int  # maximum number of bytes kept for the backward pass, without weights and inputs


@dataclass(frozen=True)
class Problem:
    """A cell with fixed weights, sequences and targets, on which strategies are compared."""

    cell: Cell
    x: Tensor  # [T, B, I]
    target: Tensor  # [T, B, H]

    @property
    def steps(self) -> int:
        """The length of the sequences."""
        return len(self.x)

    def first(self, steps: int) -> Problem:
        """The same problem with shorter sequences."""
        return Problem(self.cell, self.x[:steps], self.target[:steps])


def random_problem(
    name: str, steps: int, *, hidden: int, batch: int = 16, keep: float | None = 0.9, seed: int = 0
) -> Problem:
    """Draw random sequences, and a cell whose gates keep the share `keep` of the state, or are as drawn."""
    cell = random_cell(name, 1.0, hidden, keep, seed).float()
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(steps, batch, INPUT, generator=generator)
    return Problem(cell, x, torch.randn(steps, batch, cell.output_size, generator=generator))


def gradient(problem: Problem, carry: Tensor | None = None) -> Tensor:
    """Compute the gradient of all weights as one vector, averaged over the rows: [W]"""
    problem.cell.zero_grad()
    _loss(scan(problem.cell, problem.x, carry=carry).outputs, problem).backward()
    return _gradients(problem.cell)


def gradient_in_chunks(problem: Problem, tau: int) -> tuple[Tensor, int]:
    """Compute the truncated gradient as training does: chunk by chunk, with the state detached in between.

    Also return the number of bytes that were kept for the backward pass of the largest chunk.
    """
    problem.cell.zero_grad()
    state, most = None, 0
    for x, target in zip(problem.x.split(tau), problem.target.split(tau), strict=True):
        with SavedBytes(problem) as saved:
            outputs, last = scan(problem.cell, x, state)
            loss = _loss(outputs, Problem(problem.cell, x, target)) * (len(x) / problem.steps)
        loss.backward()
        state, most = tuple(tensor.detach() for tensor in last), max(most, saved.bytes)
    return _gradients(problem.cell), most


def gradient_error(problem: Problem, strategy: GradientHorizon, draws: int = 1024) -> Error:
    """Compare the gradient of the first sequence with the full one, over many draws if it is random."""
    single = Problem(problem.cell, problem.x[:, :1], problem.target[:, :1])
    full = gradient(single)
    if not isinstance(strategy, Randomised):
        once = gradient(single, carries(strategy, single.steps, 1))
        return Error(float((once - full).norm() / full.norm()), 0.0, 0.0)
    check_whole("draws", draws, 2 * GROUP)
    rows = Problem(single.cell, single.x.expand(-1, GROUP, -1), single.target.expand(-1, GROUP, -1))
    generator = strategy.generator()
    means = torch.stack(
        [gradient(rows, carries(strategy, single.steps, GROUP, generator)) for _ in range(draws // GROUP)]
    )
    # A group's gradient is the mean of GROUP draws: its variance is that of one draw divided by GROUP.
    variance = means.var(0).sum() * GROUP
    bias = (means.mean(0) - full).norm()
    chance = (variance / (len(means) * GROUP)).sqrt()
    return Error(*(float(value / full.norm()) for value in (bias, chance, variance.sqrt())))


def cost(problem: Problem, strategy: GradientHorizon, repeats: int = 5) -> PassCost:
    """Measure the time and memory of one forward and backward pass; the fastest of several."""
    seconds, saved = [], 0
    for _ in range(repeats):
        start = time.perf_counter()
        saved = _pass(problem, strategy)
        seconds.append(time.perf_counter() - start)
    return PassCost(problem.steps, min(seconds), saved)


@dataclass(frozen=True)
class StrategyComparison:
    """The error of one strategy, and its cost for several lengths of sequences."""

    name: str
    strategy: GradientHorizon
    error: Error
    growth: list[PassCost]  # the last one is for the full length


def compare_strategies(problem: Problem, tau: int, pi: float, draws: int = 1024) -> list[StrategyComparison]:
    """Compare the three strategies on one problem, and on its first quarter, half and three quarters."""
    strategies: dict[str, GradientHorizon] = {
        "full": Full(), "truncated": Truncated(tau), "randomised": Randomised(pi)
    }  # fmt: skip
    lengths = [max(1, problem.steps * quarters // 4) for quarters in (1, 2, 3, 4)]
    with one_thread():
        return [
            StrategyComparison(
                name,
                strategy,
                gradient_error(problem, strategy, draws),
                [cost(problem.first(steps), strategy) for steps in lengths],
            )
            for name, strategy in strategies.items()
        ]


class SavedBytes(saved_tensors_hooks):
    """Counts the bytes that autograd keeps for the backward pass of the block.

    >>> x = torch.ones(1000, requires_grad=True)
    >>> with SavedBytes() as saved:
    ...     y = x.exp().sum()
    >>> saved.bytes
    4000
    """

    def __init__(self, problem: Problem | None = None) -> None:
        super().__init__(self.count, lambda kept: kept)
        known = [] if problem is None else [problem.x, problem.target, *problem.cell.parameters()]
        self._known = {_place(tensor) for tensor in known}
        self._sizes: dict[int, int] = {}

    def __enter__(self) -> SavedBytes:  # type: ignore[override]
        """Start to count."""
        super().__enter__()
        return self

    @property
    def bytes(self) -> int:
        """The size of all tensors that were kept; two views of one tensor count once."""
        return sum(self._sizes.values())

    def count(self, tensor: Tensor) -> Tensor:
        """Count a tensor, and return it detached: a saved output would otherwise keep itself alive."""
        if _place(tensor) not in self._known:
            self._sizes[_place(tensor)] = tensor.untyped_storage().nbytes()
        return tensor.detach()


def _pass(problem: Problem, strategy: GradientHorizon) -> int:
    if isinstance(strategy, Truncated):
        return gradient_in_chunks(problem, strategy.tau)[1]
    problem.cell.zero_grad()
    carry = carries(strategy, *problem.x.shape[:2])
    with SavedBytes(problem) as saved:
        loss = _loss(scan(problem.cell, problem.x, carry=carry).outputs, problem)
    loss.backward()
    return saved.bytes


def _loss(outputs: Tensor, problem: Problem) -> Tensor:
    return (outputs - problem.target).square().mean()


def _gradients(cell: Cell) -> Tensor:
    weights = cell.weights().values()
    return torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])


def _place(tensor: Any) -> int:
    address: int = tensor.untyped_storage().data_ptr()
    return address
