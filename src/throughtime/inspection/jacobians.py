r"""The derivatives of one step, and what they make of a whole sequence.

A step is :math:`s_t = f(x_t, s_{t-1}, w)`, with s the whole state in one vector (h and c of an LSTM). Its
local derivatives :math:`A_t = \partial f / \partial s_{t-1}` and :math:`B_t = \partial f / \partial w` give

.. math::
    \frac{d s_t}{d w} = B_t + A_t \frac{d s_{t-1}}{d w}
                      = B_t + \sum_{i < t} \Big( \prod_{j = i + 1}^{t} A_j \Big) B_i

Everything here is one sequence without a batch, x [T, I].
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.cells.base import Cell


class Local(NamedTuple):
    """The states of a sequence, and the derivatives of each step taken alone."""

    states: Tensor  # [T + 1, S], the initial one first
    by_state: Tensor  # A: [T, S, S]


def flat_step(cell: Cell, x: Tensor, state: Tensor, weights: Mapping[str, Tensor] | None = None) -> Tensor:
    """One step of one row, with the state as one vector: [I], [S] -> [S]."""
    with contextlib.nullcontext() if weights is None else cell.replacing(weights):
        parts = state[None].split(cell.state_sizes, dim=-1)
        return torch.cat(cell.step(cell.project(x[None, None])[0], parts), dim=-1)[0]


def flat_states(cell: Cell, x: Tensor, initial: Tensor | None = None) -> Tensor:
    """The state before the first step and after each step: [T + 1, S]."""
    states = [torch.cat(cell.initial_state(1), dim=-1)[0] if initial is None else initial]
    for x_t in x:
        states.append(flat_step(cell, x_t, states[-1]))
    return torch.stack(states)


def local_derivatives(cell: Cell, x: Tensor, initial: Tensor | None = None) -> Local:
    """The states, and A of every step."""
    with torch.no_grad():
        states = flat_states(cell, x, initial)
    by_state = torch.func.jacrev(lambda state, x_t: flat_step(cell, x_t, state))
    return Local(states, torch.func.vmap(by_state)(states[:-1], x).detach())


def by_weights(cell: Cell, x: Tensor, states: Tensor) -> Tensor:
    """B of every step, all weights in one vector in the order of `cell.weights()`: [T, S, W]."""
    own = _detached(cell)
    of_step = torch.func.jacrev(lambda weights, state, x_t: flat_step(cell, x_t, state, weights))
    parts = torch.func.vmap(of_step, in_dims=(None, 0, 0))(own, states[:-1], x)
    return torch.cat([parts[name].flatten(2) for name in own], dim=-1).detach()


def pulled_back(cell: Cell, x: Tensor, states: Tensor, gradients: Tensor) -> Tensor:
    """What each step adds to the gradient of the weights, given the gradient of its state [T, S]: [T, W]."""
    own = _detached(cell)

    def of_step(gradient: Tensor, state: Tensor, x_t: Tensor) -> dict[str, Tensor]:
        pull = torch.func.vjp(lambda weights: flat_step(cell, x_t, state, weights), own)[1]
        pulled: dict[str, Tensor] = pull(gradient)[0]
        return pulled

    parts = torch.func.vmap(of_step)(gradients, states[:-1], x)
    return torch.cat([parts[name].flatten(1) for name in own], dim=-1)


def recursion(by_state: Tensor, by_weight: Tensor) -> Tensor:
    """ds_T/dw, one step after the other: [S, W]."""
    total = torch.zeros_like(by_weight[0])
    for a, b in zip(by_state, by_weight, strict=True):
        total = b + a @ total
    return total


def closed_form(by_state: Tensor, by_weight: Tensor) -> Tensor:
    """ds_T/dw, as the sum over all steps of what each one added: [S, W]."""
    steps, size = by_state.shape[:2]
    total = torch.zeros_like(by_weight[0])
    for i in range(steps):
        product = torch.eye(size, dtype=by_state.dtype)
        for j in range(i + 1, steps):
            product = by_state[j] @ product
        total += product @ by_weight[i]
    return total


def _detached(cell: Cell) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in cell.weights().items()}
