"""First weights: from scratch, Xavier's, and torch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from throughtime.cells import CELLS, GRU, LSTM, LayerNormLSTM, MogrifierLSTM
from throughtime.cells.initial import scratch_, xavier_


@pytest.mark.parametrize("name", CELLS)
def test_scratch_draws_small_normal_weights_and_zero_biases(name):  # R37
    cell = scratch_(CELLS[name](60, 64))
    for label, weight in cell.named_parameters():
        if label.startswith("bias"):
            assert (weight == 0).all(), label
        elif label.startswith("weight"):
            assert abs(weight.mean()) < 0.01 * 6 / weight.numel() ** 0.5, label
            assert weight.std().item() == pytest.approx(0.01, rel=0.06), label


def test_xavier_draws_each_gate_by_its_own_fans():  # R38
    cell = xavier_(GRU(40, 64))
    for gate in cell.weight_ih.split(64):
        assert gate.abs().max().item() == pytest.approx((6 / (40 + 64)) ** 0.5, rel=0.02)
    for gate in cell.weight_hh.split(64):
        assert gate.abs().max().item() == pytest.approx((6 / 128) ** 0.5, rel=0.02)
    assert (cell.bias == 0).all()
    assert (cell.bias_hn == 0).all()
    module = xavier_(nn.GRU(40, 64))
    assert module.weight_hh_l0.abs().max().item() == pytest.approx((6 / 128) ** 0.5, rel=0.02)
    assert (module.bias_hh_l0 == 0).all()


def test_xavier_knows_the_matrices_of_a_mogrifier():
    cell = xavier_(MogrifierLSTM(40, 64))
    for matrix in (*cell.weight_q, *cell.weight_r):
        assert matrix.abs().max().item() == pytest.approx((6 / (40 + 64)) ** 0.5, rel=0.02)


def test_torch_draws_uniform_ones_by_default():  # R37
    bound = 64**-0.5
    for weight in LSTM(40, 64).parameters():
        assert 0.97 * bound < weight.abs().max() <= bound


@pytest.mark.parametrize("draw", [scratch_, xavier_])
def test_gains_first_states_and_padding_stay(draw):
    cell = LayerNormLSTM(4, 6, initial="learned")
    nn.init.ones_(cell.learned_state[0])
    draw(cell)
    assert (cell.gain_hh == 1).all()
    assert (cell.learned_state[0] == 1).all()
    table = draw(nn.Embedding(9, 4, padding_idx=2))
    assert (table.weight[2] == 0).all()
    assert torch.count_nonzero(table.weight) == 8 * 4
