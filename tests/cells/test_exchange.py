"""Weights to and from torch, one layer at a time."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import nn

from throughtime.cells import CELLS, GRU, LSTM, RNN, ProjectedLSTM
from throughtime.cells.exchange import counterpart, empty_module, load_torch, store_torch
from throughtime.recurrence import scan

PAIRS = [
    (RNN(4, 6), nn.RNN(4, 6)),
    (RNN(4, 6, "relu"), nn.RNN(4, 6, nonlinearity="relu")),
    (GRU(4, 6), nn.GRU(4, 6)),
    (LSTM(4, 6), nn.LSTM(4, 6)),
    (ProjectedLSTM(4, 6, 2), nn.LSTM(4, 6, proj_size=2)),
]
every_pair = pytest.mark.parametrize(("cell", "module"), PAIRS)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@every_pair
def test_stored_and_loaded_weights_compute_the_same(cell, module):
    x = torch.randn(7, 3, 4)
    store_torch(cell, module)
    torch.testing.assert_close(module(x)[0], scan(cell, x).outputs, atol=1e-6, rtol=1e-5)
    nn.init.normal_(next(module.parameters()))
    load_torch(cell, module)
    torch.testing.assert_close(module(x)[0], scan(cell, x).outputs, atol=1e-6, rtol=1e-5)


@every_pair
def test_there_and_back_loses_nothing(cell, module):
    before = {name: weight.clone() for name, weight in cell.weights().items()}
    store_torch(cell, module)
    for weight in cell.parameters():
        nn.init.zeros_(weight)
    load_torch(cell, module)
    torch.testing.assert_close(cell.weights(), before, rtol=0, atol=0)


@every_pair
def test_each_kind_finds_its_counterpart(cell, module):
    built = counterpart(module)(4, 6)
    assert type(built) is type(cell)
    assert built.state_sizes == cell.state_sizes
    empty = empty_module(cell)
    assert type(empty) is type(module)
    assert empty.mode == module.mode
    assert empty.proj_size == module.proj_size


def test_any_layer_and_direction_can_be_taken():
    module = nn.GRU(4, 6, num_layers=2, bidirectional=True)
    cell = GRU(12, 6)
    load_torch(cell, module, 1, reverse=True)
    assert torch.equal(cell.weight_ih, module.weight_ih_l1_reverse)
    assert torch.equal(cell.bias_hn, module.bias_hh_l1_reverse[12:])


def test_a_module_without_biases_gives_zeros():
    module, cell, x = nn.GRU(4, 6, bias=False), GRU(4, 6), torch.randn(7, 3, 4)
    load_torch(cell, module)
    assert torch.count_nonzero(cell.bias) == torch.count_nonzero(cell.bias_hn) == 0
    torch.testing.assert_close(module(x)[0], scan(cell, x).outputs, atol=1e-6, rtol=1e-5)
    with refuses("module", "bias=True"):
        store_torch(cell, module)


@pytest.mark.parametrize(
    ("cell", "module", "facts"),
    [
        (GRU(4, 6), nn.LSTM(4, 6), ("GRU", "nn.LSTM")),
        (LSTM(4, 6), nn.LSTM(4, 6, proj_size=2), ("LSTM", "nn.LSTM")),
        (GRU(4, 6, "before"), nn.GRU(4, 6), ("GRU", "nn.GRU")),
        (RNN(4, 6), nn.RNN(4, 6, nonlinearity="relu"), ("RNN", "'relu'")),
        (RNN(4, 6, torch.sin), nn.RNN(4, 6), ("RNN", "tanh", "relu")),
        (LSTM(4, 7), nn.LSTM(4, 6), ("weight_ih", "[28, 4]", "[24, 4]")),
        (LSTM(4, 6), nn.GRUCell(4, 6), ("module", "GRUCell")),
    ],
)
def test_what_does_not_fit_is_refused(cell, module, facts):
    with refuses(*facts):
        load_torch(cell, module)


@pytest.mark.parametrize("name", sorted({*CELLS} - {"rnn", "rnn-relu", "gru", "lstm", "lstm-projected"}))
def test_cells_without_a_counterpart_say_so(name):
    cell = CELLS[name](4, 6)
    with refuses(type(cell).__name__):
        empty_module(cell)


def test_a_missing_layer_or_direction_is_named():
    with refuses("layer", "1", "0"):
        load_torch(LSTM(4, 6), nn.LSTM(4, 6), 1)
    with refuses("reverse"):
        load_torch(LSTM(4, 6), nn.LSTM(4, 6), reverse=True)
