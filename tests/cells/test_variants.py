"""The variants against their equations, written out once more from the papers."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tests.refusals import refuses
from torch import Tensor, nn

from throughtime.cells import CoupledLSTM, LayerNormLSTM, MinGRU, MinLSTM, MogrifierLSTM, ProjectedLSTM
from throughtime.cells.exchange import load_torch
from throughtime.recurrence import scan as scan_by

# By the equations of the cell itself: a faster backend has its own, and would hide what is wrong here.
scan = partial(scan_by, backend="reference")

H = 5


@pytest.fixture
def xs() -> Tensor:
    return torch.randn(6, 3, 4, dtype=torch.float64)


def states(*sizes: int) -> tuple[Tensor, ...]:
    return tuple(torch.randn(3, size, dtype=torch.float64) for size in sizes)


def perturbed(cell: nn.Module) -> nn.Module:
    """In float64, with every weight drawn, so that gains of 1 and biases of 0 cannot hide."""
    for weight in cell.double().parameters():
        nn.init.normal_(weight, 0.1, 0.6)
    return cell


def assert_same(actual, expected) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)


def test_coupled_gates(xs):
    cell = perturbed(CoupledLSTM(4, H))
    start = h, c = states(H, H)
    for x in xs:
        f, g, o = (x @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias).split(H, dim=1)
        f, o = 1 / (1 + torch.exp(-f)), 1 / (1 + torch.exp(-o))
        c = f * c + (1 - f) * torch.tanh(g)
        h = o * torch.tanh(c)
    assert_same(scan(cell, xs, start).state, (h, c))


def normalised(x: Tensor) -> Tensor:
    centred = x - x.mean(dim=1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(dim=1, keepdim=True) + 1e-5)


def test_layer_normalisation(xs):
    cell = perturbed(LayerNormLSTM(4, H))
    start = h, c = states(H, H)
    for x in xs:
        from_input = cell.gain_ih * normalised(x @ cell.weight_ih.T)
        from_state = cell.gain_hh * normalised(h @ cell.weight_hh.T)
        i, f, g, o = (from_input + from_state + cell.bias).split(H, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(cell.gain_c * normalised(c) + cell.bias_c)
    assert_same(scan(cell, xs, start).state, (h, c))


def test_a_fresh_layer_normalisation_neither_scales_nor_shifts():
    cell = LayerNormLSTM(4, H)
    assert all((gain == 1).all() for gain in (cell.gain_ih, cell.gain_hh, cell.gain_c))
    assert (cell.bias_c == 0).all()


def test_projection_equals_torch(xs):
    theirs, ours = nn.LSTM(4, H, proj_size=2).double(), ProjectedLSTM(4, H, 2).double()
    load_torch(ours, theirs)
    h, c = states(2, H)
    expected, last = theirs(xs, (h[None], c[None]))
    y, state = scan(ours, xs, (h, c))
    assert y.shape == (6, 3, 2)
    torch.testing.assert_close(y, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(state, (last[0][0], last[1][0]), atol=1e-9, rtol=0)


@pytest.mark.parametrize("size", [0, H, H + 1])
def test_a_projection_must_be_smaller(size):
    with refuses("projection_size", "1", "hidden_size"):
        ProjectedLSTM(4, H, size)


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_mogrifier(xs, rounds):
    cell = perturbed(MogrifierLSTM(4, H, rounds))
    assert (len(cell.weight_q), len(cell.weight_r)) == ((rounds + 1) // 2, rounds // 2)
    start = h, c = states(H, H)
    for x in xs:
        for i in range(1, rounds + 1):  # the paper counts rounds from 1: odd ones gate x, even ones h
            if i % 2 == 1:
                x = 2 * torch.sigmoid(h @ cell.weight_q[(i - 1) // 2].T) * x
            else:
                h = 2 * torch.sigmoid(x @ cell.weight_r[i // 2 - 1].T) * h
        i_, f, g, o = (x @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias).split(H, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i_) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    assert_same(scan(cell, xs, start).state, (h, c))


def test_minimal_gru(xs):
    cell = perturbed(MinGRU(4, H))
    (h,) = start = states(H)
    for x in xs:
        z, candidate = (x @ cell.weight_ih.T + cell.bias).split(H, dim=1)
        z = torch.sigmoid(z)
        h = (1 - z) * h + z * candidate
    assert_same(scan(cell, xs, start).state, (h,))


def test_minimal_lstm(xs):
    cell = perturbed(MinLSTM(4, H))
    (h,) = start = states(H)
    for x in xs:
        f, i, candidate = (x @ cell.weight_ih.T + cell.bias).split(H, dim=1)
        f, i = torch.sigmoid(f), torch.sigmoid(i)
        h = f / (f + i) * h + i / (f + i) * candidate
    assert_same(scan(cell, xs, start).state, (h,))
