"""Encoders: against torch's own layers, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from throughtime.cells import GRU, LSTM
from throughtime.layers.stack import Stack
from throughtime.models.encoders import RecurrentEncoder


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("module", [nn.GRU, nn.LSTM])
def test_outputs_and_states_are_torchs(module, bidirectional):  # R65, R87, R88
    torch.manual_seed(0)
    theirs = module(4, 5, num_layers=2, bidirectional=bidirectional).double()
    encoder = RecurrentEncoder(nn.Embedding(9, 4).double(), Stack.from_torch(theirs))
    source, lengths = torch.randint(0, 9, (6, 3)), torch.tensor([6, 2, 4])
    encoded = encoder(source, lengths)
    packed = pack_padded_sequence(encoder.embedding(source), lengths, enforce_sorted=False)
    outputs, last = theirs(packed)
    torch.testing.assert_close(encoded.outputs, pad_packed_sequence(outputs)[0])
    parts = last if isinstance(last, tuple) else (last,)
    ways = 1 + bidirectional
    expected = [
        torch.cat(list(part[layer * ways : (layer + 1) * ways]), -1) for layer in range(2) for part in parts
    ]
    torch.testing.assert_close(list(encoded.state), expected)
    assert tuple(part.shape[1] for part in encoded.state) == encoder.state_sizes
    torch.testing.assert_close(encoded.final, expected[-len(parts)])


def test_empty_sentences_are_read():
    encoder = RecurrentEncoder(nn.Embedding(9, 4), Stack("gru", 4, 5, bidirectional=True))
    encoded = encoder(torch.zeros(0, 2, dtype=torch.long), torch.tensor([0, 0]))
    assert encoded.outputs.shape == (1, 2, 10)
    assert not encoded.outputs.any()
    assert not encoded.final.any()


def test_what_cannot_be_is_refused():
    with refuses("encoder"):
        RecurrentEncoder(nn.Embedding(9, 4), Stack.of([GRU(4, 5)], [LSTM(4, 5)]))
    with refuses("dropout", "1.5", "0", "1"):
        RecurrentEncoder(nn.Embedding(9, 4), Stack("gru", 4, 5), dropout=1.5)
