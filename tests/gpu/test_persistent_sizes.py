"""The persistent kernels on a CPU at every kind of size: few units, one row, one step, any plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from benchmarks.recurrence_gpu_check import TOLERANCE, everything, problem, worst_error
from tests.emulated import machine
from tests.emulated.machine import SMALL
from tests.gpu.test_persistent import CELLS, assert_equals_reference, build
from tests.gpu.test_persistent import problem as small_problem

from throughtime.cells import RNN
from throughtime.gpu.persistent import Persistent, run_layers
from throughtime.gpu.persistent_plan import Plan
from throughtime.recurrence import scan
from throughtime.recurrence.backend import Reference
from throughtime.recurrence.backpropagation import scan_in_chunks

pytestmark = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")

NARROW = Plan(units=10, rows=8, warps=3, held=1, staged=1, staged_n=1, ring=1, batch=1)
FEW = {
    "lstm": {"float32": (1, 31), "tf32": (9,), "bfloat16": (1, 23), "float16": (2,)},
    "gru": {"float32": (31,), "tf32": (9,), "bfloat16": (1,), "float16": (23,)},
    "gru-before": {"float32": (1,), "bfloat16": (23,)},
    "rnn": {"float32": (31,), "bfloat16": (1,)},
    "rnn-relu": {"float32": (1,)},  # in others, a sum near the corner may fall on its other side
}
"""Numbers of units at which to compare a cell in a precision; each is compiled for itself, in half a second.
On a GPU all cells are compared at all of them."""


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch):
    """Take a CPU for a GPU, so that `scan` runs the kernels there."""
    monkeypatch.setattr(Persistent, "refuses", lambda *_: None)


@pytest.mark.parametrize(
    ("name", "precision", "hidden"),
    [
        (name, precision, hidden)
        for name, precisions in FEW.items()
        for precision, sizes in precisions.items()
        for hidden in sizes
    ],
)
def test_few_units_equal_the_reference(name, precision, hidden, plan):  # law 1, R105
    plan(SMALL)
    for steps, batch, ragged in ((1, 1, False), (1, 3, True), (9, 1, False), (7, 13, True)):
        shape = steps, batch, hidden
        part, error = worst_error(CELLS[name], shape, precision, ragged=ragged, device="cpu")
        assert error < TOLERANCE[precision], (part, shape)


def test_the_gradient_of_a_plain_network_does_not_suffer_from_rounded_states(plan):
    """With one unit, tanh is often near 1, where a state in bfloat16 tells little of its slope."""
    plan(SMALL)
    errors = {"persistent": 0.0, "reference": 0.0}
    for seed in range(3):
        cell, x, state, _ = problem(RNN, (33, 64, 1), torch.bfloat16, seed=seed, device="cpu")
        exact = RNN(cell.input_size, 1).double()
        exact.load_state_dict(cell.state_dict())
        wide = [part.detach().double().requires_grad_() for part in (x, *state)]
        truth = everything(exact, wide[0], tuple(wide[1:]), None, None, "reference")["d x"]
        for backend in errors:
            found = everything(cell, x, state, None, None, backend)["d x"]
            errors[backend] += float((found.double() - truth).norm() / truth.norm())
    assert errors["persistent"] < 0.75 * errors["reference"]


@pytest.mark.parametrize("name", CELLS)
def test_units_that_fill_no_instruction_equal_the_reference(name, plan):  # law 1
    plan(NARROW)
    cell = build(name, 31)
    assert_equals_reference(cell, *small_problem(cell, 4, 9, ragged=True, carry=True))


@pytest.mark.parametrize(
    ("name", "units", "split", "passes"),
    [("lstm", 32, 2, 1), ("lstm", 24, 4, 1), ("lstm", 64, 4, 2), ("gru", 12, 3, 1), ("gru", 48, 3, 3)],
)
def test_blocks_that_share_their_units_equal_the_reference(name, units, split, passes, plan):  # law 1
    plan(SMALL, replace(SMALL, units=units, split=split, passes=passes))
    cell = build(name, 40)
    assert_equals_reference(cell, *small_problem(cell, 6, 20, ragged=True, carry=True))
    assert_equals_reference(cell, *small_problem(cell, 1, 3))


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_both_directions_with_shared_units_equal_the_reference(name, plan):  # law 1
    plan(SMALL, replace(SMALL, units=24, split=3 if name == "gru" else 4))
    cells = build(name, 40), CELLS[name](3, 40)
    x, state, lengths, carry = small_problem(cells[0], 5, 9, ragged=True, carry=True)
    both = (*state, *(part.flip(0) for part in state))
    outputs, last = run_layers([cells], x, both, lengths, carry)
    ahead = scan(cells[0], x, state, lengths, carry=carry, backend="reference")
    back = scan(cells[1], x, both[len(state) :], lengths, reverse=True, carry=carry, backend="reference")
    truth = [torch.cat([ahead.outputs, back.outputs], 2), *ahead.state, *back.state]
    wanted = [x, *state, *cells[0].parameters(), *cells[1].parameters()]
    found = [outputs, *last]
    weights = [torch.randn_like(part) for part in found]
    for parts in (found, truth):
        loss = sum((part * weight).sum() for part, weight in zip(parts, weights, strict=True))
        parts += torch.autograd.grad(loss, wanted)
    torch.testing.assert_close(found, truth, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_chunks_of_ragged_rows_with_factors_equal_the_reference(name, reverse, plan):  # law 1
    plan(SMALL)
    cell = build(name, 9)
    x, state, lengths, carry = small_problem(cell, 7, 5, ragged=True, carry=True)
    lengths[0] = 0
    found = {}
    for backend in (Persistent.name, Reference.name):
        outputs, last = scan_in_chunks(
            cell, x, state, lengths, chunk=3, reverse=reverse, carry=carry, backend=backend
        )
        wanted = [x, *state, *cell.parameters()]
        loss = outputs.square().sum() + sum(part.sin().sum() for part in last)
        found[backend] = [outputs, *last, *torch.autograd.grad(loss, wanted)]
    torch.testing.assert_close(*found.values(), rtol=2e-5, atol=2e-6)
