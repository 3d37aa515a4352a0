"""Dropout between layers, through time, of words and of recurrent weights."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import Tensor, nn

from throughtime.cells import RNN
from throughtime.layers.layer import embedding_dropout, variational_dropout, weight_drop
from throughtime.layers.stack import Stack


class Recorder(RNN):
    """A cell that remembers the recurrent weights that last stood in for its own."""

    def weights(self):
        weights = super().weights()
        if not isinstance(weights["weight_hh"], nn.Parameter):
            self.used = weights["weight_hh"].detach()
        return weights


def recording(layers: int = 2, **options) -> Stack:
    return Stack(Recorder, 50, 50, layers, **options)


def watched(stack: Stack) -> list[Tensor]:
    """What enters each layer, from now on."""
    read: list[Tensor] = []
    for layer in stack.layers:
        layer.register_forward_pre_hook(lambda _, given: read.append(given[0].detach()))
    return read


@pytest.mark.parametrize("variational", [False, True])
def test_dropout_falls_between_layers_only(variational):  # R62
    torch.manual_seed(0)
    stack = recording(3, dropout=0.5, variational=variational)
    x = torch.randn(20, 30, 50)
    read = watched(stack)
    y, _ = stack(x)
    first, second, third = read
    assert torch.equal(first, x)
    for entering in (second, third):
        assert (entering == 0).float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert torch.count_nonzero(y) == y.numel()
    kept = second != 0
    assert bool((kept == kept[0]).all()) is variational
    assert not (kept == kept[:, :1]).all()  # each row has a mask of its own
    below, _ = Stack.of([stack.layers[0].from_left])(x)
    torch.testing.assert_close(second[kept], 2 * below[kept])


def test_a_residual_path_is_not_dropped():
    torch.manual_seed(0)
    stack = recording(2, dropout=0.5, residual=True)
    for weight in stack.layers[1].parameters():
        nn.init.zeros_(weight)
    x = torch.randn(5, 3, 50)
    read = watched(stack)
    y, _ = stack(x)
    below, _ = Stack.of([stack.layers[0].from_left], residual=True)(x)
    torch.testing.assert_close(y, below)
    assert torch.count_nonzero(read[1]) < below.numel()


def test_weight_drop_takes_some_recurrent_weights_for_one_scan():
    torch.manual_seed(0)
    stack = recording(1, weight_drop=0.25)
    cell = stack.layers[0].from_left
    before = cell.weight_hh.clone()
    stack(torch.randn(5, 3, 50)).outputs.sum().backward()
    kept = cell.used != 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.03)
    torch.testing.assert_close(cell.used[kept], before[kept] / 0.75)
    assert torch.equal(cell.weight_hh, before)
    assert torch.equal(cell.weight_hh.grad != 0, kept)  # the cell's own weights are trained, the kept ones
    assert cell.weights()["weight_hh"] is cell.weight_hh
    first = cell.used
    stack(torch.randn(5, 3, 50))
    assert not torch.equal(first, cell.used)


def test_weight_drop_ends_with_its_block_even_by_an_error():
    cell = RNN(3, 4)
    with pytest.raises(RuntimeError), weight_drop(cell, 0.5):
        assert cell.weights()["weight_hh"] is not cell.weight_hh
        raise RuntimeError
    assert cell.weights()["weight_hh"] is cell.weight_hh


def test_a_step_in_training_refuses_masks_of_whole_sequences():
    x = torch.randn(3, 50)
    for options in ({"weight_drop": 0.5}, {"dropout": 0.5, "variational": True}):
        stack = recording(2, **options)
        with refuses("step"):
            stack.step(x, stack.initial_state(3))
        stack.eval().step(x, stack.initial_state(3))
    stack = recording(2, dropout=0.5)
    masked, unmasked = stack.step(x, stack.initial_state(3)), stack.eval().step(x, stack.initial_state(3))
    assert torch.equal(masked[1][0], unmasked[1][0])
    assert not torch.equal(masked[1][1], unmasked[1][1])  # plain dropout can be drawn step by step


def test_variational_dropout_keeps_the_mean():
    torch.manual_seed(0)
    x = torch.ones(3, 200, 100)
    assert variational_dropout(x, 0.3).mean().item() == pytest.approx(1, abs=0.02)
    assert variational_dropout(x, 0.3, training=False) is x


def test_embedding_dropout_drops_whole_words_everywhere():
    torch.manual_seed(0)
    table = nn.Embedding(1000, 8)
    ids = torch.randint(1000, (50, 40))
    embedded = table(ids)
    dropped = embedding_dropout(embedded, ids, 1000, 0.2)
    gone = (dropped == 0).all(dim=-1)
    assert torch.equal(gone, (dropped == 0).any(dim=-1))
    words_gone = set(ids[gone].tolist())
    assert words_gone.isdisjoint(ids[~gone].tolist())
    assert len(words_gone) / len(ids.unique()) == pytest.approx(0.2, abs=0.04)
    torch.testing.assert_close(dropped[~gone], embedded[~gone] / 0.8)
    assert embedding_dropout(embedded, ids, 1000, 0.2, training=False) is embedded


def test_mistakes_are_named():
    with refuses("dropout", "1.0"):
        Stack("rnn", 3, 4, dropout=1.0)
    with refuses("weight_drop", "-0.1"):
        Stack("rnn", 3, 4, weight_drop=-0.1)
    with refuses("weight_drop", "MinGRU"):
        Stack("mingru", 3, 4, weight_drop=0.1)
    with refuses("embedding dropout", "2"):
        embedding_dropout(torch.ones(1, 1, 2), torch.zeros(1, 1, dtype=torch.long), 3, 2)
