"""The gated recurrent unit: both forms, their limits, their size."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from tests.refusals import refuses
from torch import nn
from torch.nn.functional import linear

from throughtime.cells import GRU, LSTM, RNN, MogrifierLSTM, ProjectedLSTM
from throughtime.cells.exchange import load_torch
from throughtime.recurrence import scan as scan_by

# By the equations of the cell itself: a faster backend has its own, and would hide what is wrong here.
scan = partial(scan_by, backend="reference")

FAR = 40.0  # the sigmoid of this is 1 in float64, of its negative 4e-18


def forced(reset: str, r: float, z: float, hidden: int = 5) -> GRU:
    """A cell whose gates are held at 0 or 1 by their biases."""
    cell = GRU(4, hidden, reset).double()
    with torch.no_grad():
        cell.weight_ih[: 2 * hidden] = 0
        cell.weight_hh[: 2 * hidden] = 0
        cell.bias[:hidden] = FAR * (2 * r - 1)
        cell.bias[hidden : 2 * hidden] = FAR * (2 * z - 1)
    return cell


def inputs(hidden: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 3, 4, dtype=torch.float64), torch.randn(3, hidden, dtype=torch.float64)


def test_reset_after_equals_torch():  # R57
    theirs, ours = nn.GRU(7, 9).double(), GRU(7, 9).double()
    load_torch(ours, theirs)
    x, h = torch.randn(12, 3, 7, dtype=torch.float64), torch.randn(3, 9, dtype=torch.float64)
    expected, last = theirs(x, h[None])
    y, (reached,) = scan(ours, x, h)
    torch.testing.assert_close(y, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(reached, last[0], atol=1e-9, rtol=0)


@pytest.mark.parametrize("reset", ["before", "after"])
def test_both_forms_equal_the_loop_of_the_notes(reset):  # R57
    cell = GRU(4, 5, reset).double()
    if reset == "after":
        nn.init.zeros_(cell.bias_hn)  # the notes have one bias a gate
    w_xr, w_xz, w_xh = (part.T for part in cell.weight_ih.split(5))
    w_hr, w_hz, w_hh = (part.T for part in cell.weight_hh.split(5))
    b_r, b_z, b_h = cell.bias.split(5)
    inputs_, hidden = inputs()
    expected = []
    start = hidden
    for x in inputs_:
        update = torch.sigmoid(x @ w_xz + hidden @ w_hz + b_z)
        forget = torch.sigmoid(x @ w_xr + hidden @ w_hr + b_r)
        if reset == "before":
            candidate = torch.tanh(x @ w_xh + (forget * hidden) @ w_hh + b_h)
        else:
            candidate = torch.tanh(x @ w_xh + forget * (hidden @ w_hh) + b_h)
        hidden = update * hidden + (1 - update) * candidate
        expected.append(hidden)
    torch.testing.assert_close(scan(cell, inputs_, start).outputs, torch.stack(expected), atol=1e-12, rtol=0)


def test_the_two_forms_differ():
    before, after = GRU(4, 5, "before").double(), GRU(4, 5).double()
    after.load_state_dict({**before.state_dict(), "bias_hn": torch.zeros(5)})
    x, h = inputs()
    assert not torch.allclose(scan(before, x, h).outputs, scan(after, x, h).outputs, atol=1e-3)


@pytest.mark.parametrize("reset", ["before", "after"])
def test_reset_open_and_update_closed_is_the_plain_network(reset):  # R58
    cell, plain = forced(reset, r=1, z=0), RNN(4, 5).double()
    with torch.no_grad():
        plain.weight_ih.copy_(cell.weight_ih[10:])
        plain.weight_hh.copy_(cell.weight_hh[10:])
        plain.bias.copy_(cell.bias[10:] + (cell.bias_hn if reset == "after" else 0))
    x, h = inputs()
    torch.testing.assert_close(scan(cell, x, h).outputs, scan(plain, x, h).outputs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("reset", ["before", "after"])
def test_both_gates_closed_is_a_multilayer_perceptron(reset):  # R58
    cell = forced(reset, r=0, z=0)
    x, h = inputs()
    expected = torch.tanh(linear(x, cell.weight_ih[10:], cell.bias[10:]))  # no step sees another
    torch.testing.assert_close(scan(cell, x, h).outputs, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("reset", ["before", "after"])
@pytest.mark.parametrize("r", [0, 1])
def test_update_open_copies_the_state(reset, r):  # R58
    x, h = inputs()
    y = scan(forced(reset, r=r, z=1), x, h).outputs
    torch.testing.assert_close(y, h.expand_as(y), atol=1e-12, rtol=0)


def test_it_has_three_quarters_of_the_weights_of_an_lstm():  # R61
    def count(cell: nn.Module, kind: str) -> int:
        return sum(weight.numel() for name, weight in cell.named_parameters() if kind in name)

    for reset in ("before", "after"):
        gru, lstm = GRU(100, 256, reset), LSTM(100, 256)
        assert 4 * count(gru, "weight") == 3 * count(lstm, "weight") == 12 * 256 * (100 + 256)
    assert count(GRU(100, 256, "before"), "bias") == 3 * 256
    assert count(GRU(100, 256), "bias") == 4 * 256  # one more, inside the reset gate's product


def test_sizes_are_whole_numbers():
    assert GRU(np.int64(4), 3).weight_ih.shape == (9, 4)
    with refuses("hidden_size", "3.0"):
        GRU(4, 3.0)
    with refuses("input_size", "'4'"):
        GRU("4", 3)
    with refuses("projection_size", "1.5"):
        ProjectedLSTM(4, 3, 1.5)
    with refuses("rounds", "2.0"):
        MogrifierLSTM(4, 3, 2.0)


def test_an_unknown_reset_is_refused():
    with refuses("reset", "'befor'", "'before'"):
        GRU(3, 4, "befor")
