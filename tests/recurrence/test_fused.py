"""The fused backend against the loop of the equations: odd sizes, ragged rows, poisoned memory."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tests.refusals import refuses

from throughtime.cells import GRU, LSTM, RNN
from throughtime.errors import ThroughtimeError
from throughtime.recurrence import layout, scan
from throughtime.recurrence.layout import RowLayout

CELLS = {
    "rnn": RNN,
    "rnn-relu": partial(RNN, activation="relu"),
    "gru": GRU,
    "gru-before": partial(GRU, reset="before"),
}
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
