"""The derivative of a state by the weights, in four ways."""

from __future__ import annotations

import math

import pytest
import torch

from throughtime.cells import CELLS, RNN, Cell
from throughtime.inspection.gradients import (
    closed_form,
    flat_states,
    local_derivatives,
    pull_back,
    recursion,
    weight_derivatives,
)


def by_autograd(cell: Cell, x: torch.Tensor) -> torch.Tensor:
    weights = list(cell.weights().values())
    rows = [torch.autograd.grad(value, weights, retain_graph=True) for value in flat_states(cell, x)[-1]]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])


def by_differences(cell: Cell, x: torch.Tensor, width: float = 1e-5) -> torch.Tensor:
    columns = []
    with torch.no_grad():
        for weight in cell.weights().values():
            values = weight.view(-1)
            for number in range(len(values)):
                ends = []
                for move in (width, -2 * width):
                    values[number] += move
                    ends.append(flat_states(cell, x)[-1])
                values[number] += width
                columns.append((ends[0] - ends[1]) / (2 * width))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("name", CELLS)
def test_closed_form_recursion_autograd_and_differences_agree(name: str) -> None:
    # R49
    torch.manual_seed(0)
    cell = CELLS[name](2, 3).double()
    x = torch.randn(5, 2, dtype=torch.float64)
    states, by_state = local_derivatives(cell, x)
    by_weight = weight_derivatives(cell, x, states)
    recursive = recursion(by_state, by_weight)
    torch.testing.assert_close(closed_form(by_state, by_weight), recursive, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(by_autograd(cell, x), recursive, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(by_differences(cell, x), recursive, rtol=1e-6, atol=1e-9)


def test_a_scalar_network_by_hand() -> None:
    # R49: h = tanh(w h), so dh_t/dw = (1 - h_t^2)(h_{t-1} + w dh_{t-1}/dw).
    cell = RNN(1, 1, initial="learned").double()
    with torch.no_grad():
        cell.weight_hh.fill_(0.8)
        cell.weight_ih.zero_()
        cell.bias.zero_()
        cell.learned_state[0].fill_(0.9)
    h, slope = 0.9, 0.0
    for _ in range(4):
        new = math.tanh(0.8 * h)
        h, slope = new, (1 - new**2) * (h + 0.8 * slope)
    x = torch.ones(4, 1, dtype=torch.float64)
    states, by_state = local_derivatives(cell, x)
    weight_hh = list(cell.weights()).index("weight_hh")
    found = closed_form(by_state, weight_derivatives(cell, x, states))[0, weight_hh]
    assert found.item() == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm", "mingru"])
def test_what_the_steps_add_sums_to_the_whole_gradient(name: str) -> None:
    torch.manual_seed(0)
    cell = CELLS[name](2, 3).double()
    x = torch.randn(6, 2, dtype=torch.float64)
    states, by_state = local_derivatives(cell, x)
    gradients = [torch.ones(states.shape[1], dtype=torch.float64)]
    for a in by_state[1:].flip(0):
        gradients.append(gradients[-1] @ a)
    added = pull_back(cell, x, states, torch.stack(gradients).flip(0))
    torch.testing.assert_close(added.sum(0), by_autograd(cell, x).sum(0), rtol=1e-9, atol=1e-12)
