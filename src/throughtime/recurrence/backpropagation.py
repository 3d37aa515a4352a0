"""Full, truncated and randomised back-propagation through time, and full gradients in little memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.errors import InputError, check_number, check_whole
from throughtime.recurrence.backend import Result, first_order
from throughtime.recurrence.scan import check_carry, check_lengths, check_state, scan


@dataclass(frozen=True)
class Full:
    """Back-propagation through the whole sequence."""


@dataclass(frozen=True)
class Truncated:
    """The state goes on, but the gradient is cut before every step that is a multiple of `tau`.

    Cheap and biased: what lies further back than the cut is not learned from. Blocks are cut, so an output
    right after a cut has a gradient of one step; `scan_sliding` goes back `tau` steps from each output.
    """

    tau: int

    def __post_init__(self) -> None:
        """Check the values."""
        check_whole("tau", self.tau)


@dataclass(frozen=True)
class Randomised:
    r"""The gradient into the state before step t is multiplied by a random :math:`\xi_t`.

    .. math:: \xi_t = 0 \text{ with probability } 1 - \pi_t, \quad 1/\pi_t \text{ with probability } \pi_t

    As :math:`E[\xi_t] = 1`, the gradient is unbiased, at the cost of variance (Tallec and Ollivier, 2017).
    `pi` is one number, or one per step.
    """

    pi: float | Sequence[float] | np.ndarray[Any, Any] | Tensor
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        pi: Any = self.pi.tolist() if isinstance(self.pi, Tensor | np.ndarray) else self.pi
        several = isinstance(pi, Sequence) and not isinstance(pi, str)
        values = tuple(check_number("pi", value, 0, 1, above=True) for value in (pi if several else (pi,)))
        if not values:
            raise InputError("pi", "is empty, expected one number or one per step")
        object.__setattr__(self, "pi", values if several else values[0])
        check_whole("seed", self.seed, -(2**63), 2**64 - 1)

    def generator(self) -> torch.Generator:
        """Return a random generator that starts at the seed."""
        return torch.Generator().manual_seed(self.seed)

    def probabilities(self, steps: int) -> Tensor:
        """Return pi of each step: [T]."""
        pi = torch.as_tensor(self.pi, dtype=torch.float64)
        if pi.dim() and len(pi) != steps:
            raise InputError(
                "pi", f"has {len(pi)} values for {steps} steps, expected one number or one per step"
            )
        return pi.expand(steps)


GradientHorizon = Full | Truncated | Randomised


def carries(
    strategy: GradientHorizon,
    steps: int,
    batch: int,
    generator: torch.Generator | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Tensor | None:
    """Return the factors for `scan(..., carry=)`: [T, B], or None if gradients are not changed.

    Without a generator, every call draws from the seed of the strategy again.

    >>> carries(Truncated(2), steps=5, batch=1).T.tolist()
    [[1.0, 1.0, 0.0, 1.0, 0.0]]
    >>> carries(Randomised(0.5), steps=6, batch=2).unique().tolist()
    [0.0, 2.0]
    """
    check_whole("steps", steps, 0)
    check_whole("batch", batch, 0)
    match strategy:
        case Full():
            return None
        case Truncated(tau):
            t = torch.arange(steps)
            factors = ((t == 0) | (t % tau != 0)).to(dtype)
            return factors[:, None].expand(-1, batch).contiguous().to(device)
        case Randomised():
            pi = strategy.probabilities(steps)[:, None]
            drawn = torch.rand(steps, batch, dtype=torch.float64, generator=generator or strategy.generator())
            # Drawn on the CPU and in float64, so that a seed means the same everywhere.
            return torch.where(drawn < pi, 1 / pi, 0.0).to(device=device, dtype=dtype)
        case _:
            raise InputError("strategy", f"is {strategy!r}, expected Full, Truncated or Randomised")


def scan_sliding(run: Callable[..., Result], x: Tensor, state: State, tau: int) -> Result:
    r"""Run a recurrence so that the gradient of each output goes back through its own last `tau` steps.

    The gradient of the output at step t is the sum of :math:`\partial h_t / \partial h_s` over s from
    t - tau + 1 to t: it ends at the same distance for every t, where `Truncated` cuts all of them at the same
    steps. Each step is computed again in `tau` windows, so that it takes `tau` times the work and memory. The
    final state has no gradient. `run(x, state, lengths)` is a `Stack`, or `partial(scan, cell)`.

    >>> from throughtime.cells import GRU
    >>> cell, x = GRU(2, 3), torch.randn(7, 1, 2)
    >>> outputs, state = scan_sliding(partial(scan, cell), x, cell.initial_state(1), tau=2)
    >>> torch.allclose(outputs, scan(cell, x).outputs, atol=1e-6)
    True
    """
    check_whole("tau", tau)
    steps, rows = x.shape[:2]
    tau = min(tau, steps)
    entering = [state]
    with torch.no_grad():
        for t in range(steps):
            entering.append(tuple(run(x[t : t + 1], entering[-1]).state))
    # Windows that begin before the text are shorter: they start at step 0, and end at step t like the others.
    starts = [max(0, t - tau + 1) for t in range(steps)]
    padded = torch.cat([x, x.new_zeros(tau - 1, *x.shape[1:])])
    windows = torch.cat([padded[s : s + tau] for s in starts], dim=1)
    states = tuple(torch.cat([entering[s][part] for s in starts]) for part in range(len(state)))
    lengths = torch.tensor([t - s + 1 for t, s in enumerate(starts)]).repeat_interleave(rows)
    outputs = run(windows, states, lengths.to(x.device))[0]
    last = outputs[lengths - 1, torch.arange(steps * rows)]
    return Result(last.view(steps, rows, -1), entering[-1])


def scan_in_chunks(
    cell: Cell,
    x: Tensor,
    state: State | Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    chunk: int | None = None,
    reverse: bool = False,
    carry: Tensor | None = None,
    backend: str = "auto",
) -> Result:
    r"""Return what `scan` returns, with its full gradient, in the memory of a few chunks of time.

    Only the inputs and the state before each chunk are kept. What else the gradient needs is computed again,
    chunk by chunk, in the backward pass, which costs one more forward pass. With the default, chunks of
    :math:`\sqrt T` steps, there are as many chunks as steps in a chunk.

    >>> from throughtime.cells import LSTM
    >>> cell, x = LSTM(3, 4), torch.randn(100, 2, 3)
    >>> y, (h, c) = scan_in_chunks(cell, x)
    >>> torch.allclose(y, scan(cell, x).outputs, atol=1e-6)
    True
    """
    if chunk is not None:
        check_whole("chunk", chunk)
    steps = x.shape[0]
    chunk = chunk or math.isqrt(steps) + 1
    if steps <= chunk:
        return scan(cell, x, state, lengths, reverse=reverse, carry=carry, backend=backend)
    state, lengths = check_state(cell, x, state), check_lengths(x, lengths)
    carry = check_carry(x, carry)
    pieces = x.split(chunk)
    outputs: list[Tensor] = []
    # A row read from its end begins in the chunk that holds its end: the chunks after that are empty for it.
    for number in reversed(range(len(pieces))) if reverse else range(len(pieces)):
        piece, start = pieces[number], number * chunk
        within = None if lengths is None else (lengths - start).clamp(0, piece.shape[0])
        factors = None if carry is None else carry[start : start + chunk]
        run = partial(scan, cell, lengths=within, reverse=reverse, carry=factors, backend=backend)
        sources = (piece, *state, *cell.weights().values())
        output, *last = _Recomputed.apply(run, cell, *sources)  # type: ignore[no-untyped-call]
        outputs.append(output)
        state = tuple(last)
    return Result(torch.cat(outputs[::-1] if reverse else outputs), state)


class _Recomputed(torch.autograd.Function):
    """One chunk that keeps only its inputs; its graph is built when its gradient is needed.

    `torch.utils.checkpoint` keeps the nodes of that graph without their tensors, which alone are 2 GB for a
    loop of 100,000 steps.
    """

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Result], cell: Cell, *sources: Tensor) -> State:
        ctx.run, ctx.cell, ctx.names = run, cell, list(cell.weights())
        device = sources[0].device.type
        ctx.autocast = (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        ctx.save_for_backward(*sources)
        outputs, state = run(sources[0], sources[1 : len(sources) - len(ctx.names)])
        return outputs, *state

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad[2:]
        sources = [
            source.detach().requires_grad_(need)
            for source, need in zip(ctx.saved_tensors, needed, strict=True)
        ]
        x, *rest = sources
        weights = dict(zip(ctx.names, rest[-len(ctx.names) :], strict=True))
        # The weights of the forward pass: weight drop may have put the cell's own back by now.
        with torch.enable_grad(), torch.autocast(*ctx.autocast), ctx.cell.replacing(weights):
            outputs, state = ctx.run(x, tuple(rest[: -len(ctx.names)]))
        results = [
            (result, gradient)
            for result, gradient in zip((outputs, *state), gradients, strict=True)
            if result.requires_grad
        ]
        values = iter(
            torch.autograd.grad(
                [result for result, _ in results],
                [source for source in sources if source.requires_grad],
                [gradient for _, gradient in results],
                allow_unused=True,
            )
        )
        return None, None, *(next(values) if need else None for need in needed)
