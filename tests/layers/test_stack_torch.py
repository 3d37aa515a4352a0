"""Whole stacks to and from torch by one call."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import nn

from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.layers.stack import Stack

MODULES = [
    nn.RNN(4, 6),
    nn.RNN(4, 6, 2, nonlinearity="relu", bidirectional=True),
    nn.GRU(4, 6, 3, batch_first=True, dropout=0.3),
    nn.GRU(4, 6, bias=False, bidirectional=True),
    nn.LSTM(4, 6, 2, bidirectional=True, dropout=0.1),
    nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True, batch_first=True),
]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_there_and_back_computes_the_same(module):
    module = module.double().eval()
    stack = Stack.from_torch(module)
    back = stack.to_torch()
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    expected, last = module(x)
    torch.testing.assert_close(stack(x).outputs, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(back(x), (expected, last), atol=1e-9, rtol=0)
    assert type(back) is type(module)
    for option in ("mode", "num_layers", "bidirectional", "batch_first", "dropout", "proj_size", "training"):
        assert getattr(back, option) == getattr(module, option), option


def test_training_mode_and_precision_are_kept():
    module = nn.GRU(4, 6).to(torch.bfloat16)
    stack = Stack.from_torch(module)
    assert stack.training
    assert {weight.dtype for weight in stack.parameters()} == {torch.bfloat16}
    assert not Stack.from_torch(module.eval()).training
    assert stack.to_torch().weight_ih_l0.dtype == torch.bfloat16


def test_what_acts_in_training_only_stays_behind():
    stack = Stack("lstm", 4, 6, 2, dropout=0.5, variational=True, weight_drop=0.5).eval()
    module, x = stack.to_torch(), torch.randn(5, 3, 4)
    assert module.dropout == 0.5
    torch.testing.assert_close(module(x)[0], stack(x).outputs, atol=1e-6, rtol=1e-5)
    assert Stack("lstm", 4, 6, dropout=0.5).to_torch().dropout == 0  # nothing to fall between


@pytest.mark.parametrize(
    ("stack", "facts"),
    [
        (Stack("lstm", 4, 6, residual=True), ("residual",)),
        (Stack("lstm", 4, 6, layer_norm=True), ("layer_norm",)),
        (Stack("lstm", 4, 6, initial="learned"), ("initial='learned'",)),
        (Stack("mingru", 4, 6), ("MinGRU",)),
        (Stack("gru-before", 4, 6), ("GRU", "nn.GRU")),
        (Stack.of([GRU(4, 6), RNN(6, 6)]), ("RNN", "nn.GRU")),
        (Stack.of([GRU(4, 6), GRU(6, 5)]), ("weight_ih", "[15, 6]", "[18, 6]")),
    ],
)
def test_what_torch_cannot_compute_is_refused(stack, facts):
    with refuses(*facts):
        stack.to_torch()
