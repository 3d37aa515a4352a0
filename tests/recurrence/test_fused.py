"""The fused backend against the loop of the equations: odd sizes, ragged rows, poisoned memory."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.cells import GRU, LSTM, RNN
from throughtime.errors import ThroughtimeError
from throughtime.recurrence import fused, layout, scan
from throughtime.recurrence.layout import RowLayout

CELLS = {
    "rnn": RNN,
    "rnn-relu": partial(RNN, activation="relu"),
    "gru": GRU,
    "gru-before": partial(GRU, reset="before"),
}
TOLERANCE = {torch.float64: (1e-9, 1e-11), torch.float32: (1e-5, 2e-5), torch.bfloat16: (2e-2, 2e-2)}
every_cell = pytest.mark.parametrize("name", CELLS)


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch):
    """Scratch memory holds NaN: what is read before it is written shows."""
    monkeypatch.setattr(
        layout, "scratch", lambda shape, like: torch.full(shape, float("nan"), dtype=like.dtype)
    )


def build(name, inputs=3, hidden=4, dtype=torch.float64):
    torch.manual_seed(hidden)
    return CELLS[name](inputs, hidden).to(dtype)


def everything(cell, steps, batch, lengths=None, carry=None, dtype=torch.float64, backend="fused"):
    """Outputs, last state, and every gradient of a random function of both."""
    source = torch.Generator().manual_seed(steps)
    draw = partial(torch.randn, generator=source, dtype=dtype)
    x = draw(steps, batch, cell.input_size).requires_grad_()
    initial = draw(batch, cell.hidden_size).requires_grad_()
    outputs, (last,) = scan(cell, x, initial, lengths, carry=carry, backend=backend)
    loss = (outputs * draw(outputs.shape)).sum() + (last * draw(last.shape)).sum()
    weights = cell.weights()
    gradients = torch.autograd.grad(loss, [x, initial, *weights.values()])
    return dict(zip(["outputs", "last", "x", "initial", *weights], [outputs, last, *gradients], strict=True))


def assert_equals_reference(cell, steps, batch, lengths=None, carry=None, dtype=torch.float64):
    ours = everything(cell, steps, batch, lengths, carry, dtype)
    truth = everything(cell, steps, batch, lengths, carry, dtype, backend="reference")
    relative, floor = TOLERANCE[dtype]
    for name, value in truth.items():
        at_zero = floor * max(1.0, float(value.detach().abs().max()))
        torch.testing.assert_close(
            ours[name], value, rtol=relative, atol=at_zero, msg=lambda m, n=name: f"{n}: {m}"
        )


@every_cell
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(1, 1, 1), (63, 3, 5), (7, 1, 4), (2, 6, 1)])
def test_equals_the_reference_at_odd_sizes(name, steps, batch, hidden, dtype):
    assert_equals_reference(build(name, hidden=hidden, dtype=dtype), steps, batch, dtype=dtype)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), steps=st.integers(1, 9), batch=st.integers(1, 5), carried=st.booleans())
@every_cell
def test_equals_the_reference_on_ragged_rows(name, data, steps, batch, carried):
    lengths = torch.tensor(data.draw(st.lists(st.integers(0, steps), min_size=batch, max_size=batch)))
    carry = 2 * torch.rand(steps, batch) if carried else None
    assert_equals_reference(build(name), steps, batch, lengths, carry)


@pytest.mark.parametrize("rows", [1, 5, 8])
@pytest.mark.parametrize("name", ["gru", "gru-before"])
@pytest.mark.parametrize("lengths", [None, [13, 0, 4, 9]])
def test_parts_add_up_to_the_whole(name, rows, lengths, monkeypatch):
    monkeypatch.setattr(fused, "PART", rows)
    assert_equals_reference(build(name), 13, 4, None if lengths is None else torch.tensor(lengths))


@every_cell
@pytest.mark.parametrize("lengths", [None, [3, 0, 1]])
def test_gradients_agree_with_finite_differences(name, lengths):
    cell = build(name, inputs=2, hidden=2)
    names, values = zip(*cell.weights().items(), strict=True)
    source = torch.Generator().manual_seed(0)
    x, h = (torch.randn(shape, generator=source, dtype=torch.float64) for shape in ((3, 3, 2), (3, 2)))

    def run(x, h, *weights):
        with cell.replacing(dict(zip(names, weights, strict=True))):
            outputs, (last,) = scan(
                cell, x, h, None if lengths is None else torch.tensor(lengths), backend="fused"
            )
        return outputs, last

    assert torch.autograd.gradcheck(run, (x.requires_grad_(), h.requires_grad_(), *values), atol=1e-6)


@every_cell
def test_padding_is_never_read(name):
    cell, lengths = build(name), torch.tensor([2, 5, 0])
    x = torch.randn(5, 3, 3, dtype=torch.float64)
    clean = scan(cell, x, lengths=lengths, backend="fused").outputs
    x[torch.arange(5)[:, None] >= lengths] = float("nan")
    dirty = scan(cell, x.requires_grad_(), lengths=lengths, backend="fused").outputs
    assert torch.equal(dirty, clean)
    dirty.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in cell.parameters())
    assert x.grad.isfinite().all()


@every_cell
def test_gradients_reach_the_weights_that_stand_in(name):
    cell = build(name)
    halved = cell.weights()["weight_hh"].detach().div(2).requires_grad_()
    with cell.replacing({"weight_hh": halved}):
        scan(cell, torch.randn(4, 2, 3, dtype=torch.float64), backend="fused").outputs.sum().backward()
    assert cell.weight_hh.grad is None
    assert halved.grad.abs().sum() > 0


@every_cell
def test_frozen_inputs_turned_inputs_and_a_second_backward(name):
    cell = build(name)
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    outputs = scan(cell, x, batch_first=True, backend="fused").outputs
    torch.testing.assert_close(outputs, scan(cell, x, batch_first=True, backend="reference").outputs)
    outputs.sum().backward(retain_graph=True)
    first = cell.weight_hh.grad.clone()
    outputs.sum().backward()
    torch.testing.assert_close(cell.weight_hh.grad, 2 * first, rtol=0, atol=0)


@every_cell
def test_an_output_that_the_gradient_needs_cannot_be_overwritten(name):
    outputs = scan(build(name), torch.randn(4, 2, 3, dtype=torch.float64), backend="fused").outputs
    with pytest.raises(RuntimeError, match="inplace"):
        outputs.mul_(2)


@every_cell
def test_without_gradients_nothing_is_kept(name):
    with torch.no_grad():
        outputs, (last,) = scan(build(name), torch.randn(4, 2, 3, dtype=torch.float64), backend="fused")
    assert outputs.grad_fn is None
    assert last.grad_fn is None


@every_cell
def test_a_second_derivative_is_refused_and_not_taken_for_zero(name):
    x = torch.randn(3, 1, 3, dtype=torch.float64, requires_grad=True)
    outputs = scan(build(name), x, backend="fused").outputs
    with refuses("create_graph=True", "backend='reference'", error=ThroughtimeError):
        torch.autograd.grad(outputs.sum(), x, create_graph=True)


@pytest.mark.parametrize(
    ("cell", "facts"),
    [
        (LSTM(3, 4), ("backend 'fused'", "RNN", "GRU")),
        (RNN(3, 4, torch.sin), ("backend 'fused'", "tanh", "relu")),
    ],
)
def test_refusals_give_a_reason(cell, facts):
    with refuses(*facts):
        scan(cell, torch.zeros(2, 1, 3), backend="fused")


def test_a_cell_derived_from_a_known_one_is_not_taken_for_it():
    class Doubled(GRU):
        def step(self, projected, state):
            return (2 * super().step(projected, state)[0],)

    cell = Doubled(3, 4)
    assert torch.equal(
        scan(cell, torch.ones(2, 1, 3)).outputs, scan(cell, torch.ones(2, 1, 3), backend="reference").outputs
    )


def test_no_step_works_on_padding():
    lengths = torch.tensor([2, 7, 0, 5])
    rows = RowLayout.for_lengths(lengths, steps=9)
    assert sum(rows.living) == int(lengths.sum())
    assert rows.rows <= int(lengths.sum()) + len(lengths)
