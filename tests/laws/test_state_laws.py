"""Laws of states, for every cell: the first is zero, learned or carried, and drawn ones are legal."""

from __future__ import annotations

import pytest
import torch

from throughtime.cells import CELLS
from throughtime.cells.base import Cell
from throughtime.recurrence import scan

every_cell = pytest.mark.parametrize("name", CELLS)


@pytest.fixture(autouse=True)
def seeded():
    """Draw the same numbers each time."""
    torch.manual_seed(0)


@every_cell
def test_zero_is_the_default(name):  # R43
    cell, x = CELLS[name](4, 6), torch.randn(5, 3, 4)
    state = cell.initial_state(3)
    assert [tuple(part.shape) for part in state] == [(3, size) for size in cell.state_sizes]
    if type(cell).initial_state is Cell.initial_state:
        assert all((part == 0).all() for part in state)
    torch.testing.assert_close(scan(cell, x), scan(cell, x, state), rtol=0, atol=0)


@every_cell
def test_a_drawn_state_is_legal(name):
    cell, x = CELLS[name](4, 6), torch.randn(5, 3, 4)
    state = cell.draw_state(3, torch.Generator().manual_seed(1))
    assert [tuple(part.shape) for part in state] == [(3, size) for size in cell.state_sizes]
    again = cell.draw_state(3, torch.Generator().manual_seed(1))
    torch.testing.assert_close(state, again, rtol=0, atol=0)
    outputs, last = scan(cell, x, state)
    assert all(part.isfinite().all() for part in (outputs, *last))


@every_cell
def test_a_learned_one_gets_a_gradient_and_is_used(name):  # R43
    cell, x = CELLS[name](4, 6, initial="learned").double(), torch.randn(5, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        for learned, part in zip(cell.learned_state, cell.draw_state(1), strict=True):
            learned.copy_(part[0])
    given = [learned.detach().expand(3, -1).clone().requires_grad_() for learned in cell.learned_state]
    learnt, told = scan(cell, x), scan(cell, x, tuple(given))
    torch.testing.assert_close(learnt, told, rtol=0, atol=1e-9)
    learnt.outputs.sum().backward()
    told.outputs.sum().backward()
    assert len(cell.learned_state) == len(cell.state_sizes)
    for learned, part in zip(cell.learned_state, given, strict=True):
        assert learned.grad.abs().max() > 0
        torch.testing.assert_close(learned.grad, part.grad.sum(dim=0), rtol=0, atol=1e-9)


@every_cell
def test_a_carried_one_goes_on_where_the_last_scan_stopped(name):  # R43
    cell = CELLS[name](4, 6).double()
    x = torch.randn(9, 3, 4, dtype=torch.float64)
    first = scan(cell, x[:4])
    second = scan(cell, x[4:], tuple(part.detach() for part in first.state))
    whole = scan(cell, x)
    torch.testing.assert_close(torch.cat([first.outputs, second.outputs]), whole.outputs, rtol=0, atol=1e-9)
    torch.testing.assert_close(second.state, whole.state, rtol=0, atol=1e-9)


@every_cell
def test_a_learned_state_is_no_weight_of_the_recurrence(name):
    assert CELLS[name](4, 6).weights().keys() == CELLS[name](4, 6, initial="learned").weights().keys()
