"""The plain network: its equation, its shapes, its defaults."""

from __future__ import annotations

import inspect
from functools import partial

import pytest
import torch
from tests.refusals import refuses
from torch import nn

from throughtime.cells import CELLS, RNN
from throughtime.cells.exchange import load_torch
from throughtime.recurrence import scan as scan_by

# By the equations of the cell itself: a faster backend has its own, and would hide what is wrong here.
scan = partial(scan_by, backend="reference")


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_it_equals_torch_with_copied_weights(activation):  # R35
    theirs = nn.RNN(16, 32, nonlinearity=activation)
    ours = RNN(16, 32, activation)
    load_torch(ours, theirs)
    x, h = torch.randn(100, 2, 16), torch.randn(2, 32)
    expected, last = theirs(x, h[None])
    y, (reached,) = scan(ours, x, h)
    torch.testing.assert_close(y, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(reached, last[0], atol=1e-6, rtol=1e-6)


def test_it_is_the_equation_with_its_output_layer():  # R35
    cell, output = RNN(4, 5).double(), nn.Linear(5, 3).double()
    x = torch.randn(6, 2, 4, dtype=torch.float64)
    w_xh, w_hh, b_h = cell.weight_ih.T, cell.weight_hh.T, cell.bias
    hidden, answers = torch.zeros(2, 5, dtype=torch.float64), []
    for x_t in x:
        hidden = torch.tanh(x_t @ w_xh + hidden @ w_hh + b_h)
        answers.append(hidden @ output.weight.T + output.bias)
    torch.testing.assert_close(output(scan(cell, x).outputs), torch.stack(answers), atol=1e-12, rtol=0)


def test_two_products_are_one_of_the_joined_matrices():  # R35
    cell = RNN(3, 4).double()
    x, h = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)
    joined = torch.cat([x, h], dim=1) @ torch.cat([cell.weight_ih.T, cell.weight_hh.T])
    (stepped,) = cell.step(cell.project(x[None])[0], (h,))
    torch.testing.assert_close(stepped, torch.tanh(joined + cell.bias))


@pytest.mark.parametrize("steps", [1, 7, 50])
def test_weights_are_shared_over_time(steps):  # R36
    cell = RNN(16, 32)
    scan(cell, torch.randn(steps, 2, 16)).outputs.sum().backward()
    assert sum(weight.numel() for weight in cell.parameters()) == 32 * 16 + 32 * 32 + 32
    assert all(weight.grad is not None and weight.grad.shape == weight.shape for weight in cell.parameters())


def test_the_shapes_of_the_notes():  # R37
    y, state = scan(RNN(16, 32), torch.randn(100, 2, 16))
    assert y.shape == (100, 2, 32)
    assert [part.shape for part in state] == [(2, 32)]


def test_batch_first_shapes():  # R38
    y, (h,) = scan(RNN(10, 20), torch.randn(3, 5, 10), batch_first=True)
    assert y.shape == (3, 5, 20)
    assert h.shape == (3, 20)
    assert torch.equal(y[:, -1], h)


def test_tanh_is_the_default():  # R46
    cell, x = RNN(4, 5), torch.randn(6, 2, 4)
    spelled_out = RNN(4, 5, "tanh")
    spelled_out.load_state_dict(cell.state_dict())
    assert torch.equal(scan(cell, x).outputs, scan(spelled_out, x).outputs)
    relu = RNN(4, 5, "relu")
    relu.load_state_dict(cell.state_dict())
    assert not torch.allclose(scan(cell, x).outputs, scan(relu, x).outputs)
    assert inspect.signature(RNN).parameters["activation"].default == "tanh"


def test_any_function_can_be_the_activation():
    cell, x = RNN(4, 5, torch.sin), torch.randn(3, 2, 4)
    (h,) = cell.step(cell.project(x)[0], cell.initial_state(2))
    torch.testing.assert_close(h, torch.sin(nn.functional.linear(x[0], cell.weight_ih, cell.bias)))


def test_hidden_layer_and_hidden_state_are_told_apart():  # R48
    words = " ".join(inspect.getdoc(RNN).replace("*", "").split())
    assert "hidden state h is what one step passes to the next" in words
    assert "hidden layer is between the input and the output of one step" in words


def test_bad_options_are_named():
    with refuses("activation", "'tahn'", "'tanh'"):
        RNN(3, 4, "tahn")
    with refuses("hidden_size", "0"):
        RNN(3, 0)
    with refuses("initial state", "'zeros'", "'zero'"):
        CELLS["rnn"](3, 4, initial="zeros")
