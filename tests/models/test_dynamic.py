"""Learning from what was scored, and forgetting it afterwards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.errors import ThroughtimeError
from throughtime.models.readers import FLOOR, DynamicEvaluation, NeuralCache, gradient_scales, surprisals

CELLS = ["lstm", "gru", "rnn", "mingru", "lstm-mogrifier"]


def read(model, ids, reader=None):
    return torch.cat(list(surprisals(model, np.asarray(ids), 0, reader=reader)))


def weights(model):
    return [weight.detach().clone() for weight in model.parameters()]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("scaled", [False, True])
def test_one_step_is_the_formula(small, scaled):
    model, ids = small(), torch.tensor([[1], [4], [2]])
    before = weights(model)
    scales = [6 * torch.rand_like(weight) for weight in before] if scaled else None
    reader = DynamicEvaluation(rate=0.3, decay=0.25, steps=3, clip=0.1, scales=scales)
    divisors = [scale + FLOOR for scale in scales or ()] or [1.0] * len(before)
    decays = [(0.25 * scale).clamp(max=1) for scale in scales or ()] or [0.25] * len(before)
    expected = before
    for _ in range(2):
        outputs = model(torch.cat([ids[:1] * 0, ids[:-1]]), model.initial_state(1)).outputs
        loss = model.head.loss(outputs.flatten(0, 1), ids.flatten()) / 3
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        assert norm > 0.1, "the test is about a clipped gradient"
        expected = [
            w - 0.3 * g * (0.1 / norm) / divisor + decay * (first - w)
            for w, g, first, divisor, decay in zip(expected, gradients, before, divisors, decays, strict=True)
        ]
        reader.read(model, torch.cat([ids[:1] * 0, ids[:-1]]), ids, model.initial_state(1))
        torch.testing.assert_close(weights(model), expected)


@pytest.mark.usefixtures("double")
def test_scales_are_root_mean_squares_about_one(small):
    model = small(num_layers=2)
    text = torch.arange(42).view(3, 14).T * 3 % 5
    pieces = [(text[i : i + 4], text[i + 1 : i + 5]) for i in (0, 4, 8)]
    squares, state = [torch.zeros_like(weight) for weight in model.parameters()], None
    for inputs, labels in pieces[:2]:
        outputs, _, state = model(inputs, state)
        state = tuple(part.detach() for part in state)
        loss = model.head.loss(outputs, labels) / 12
        for square, gradient in zip(
            squares, torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            square += gradient**2
    mean = torch.cat([square.sqrt().flatten() for square in squares]).mean()
    found = gradient_scales(model, iter(pieces[:2]))
    torch.testing.assert_close(found, [square.sqrt() / mean for square in squares])
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("head", [{"head": "softmax"}, {"head": "adaptive"}, {"experts": 3}])
def test_a_strange_phrase_is_learned_while_it_is_read(small, cell, head):
    model = small(cell, vocabulary_size=30, embedding_size=16, hidden_size=16, tied=False, **head)
    ids = [7, 23, 2, 29, 11, 5, 13] * 30
    plain = read(model, ids).mean()
    with DynamicEvaluation(rate=0.3) as reader:
        learned = read(model, ids, reader).mean()
    assert learned < 0.8 * plain


def test_a_piece_is_scored_before_it_is_learned_from(small):
    model, ids = small(), np.arange(25) % 5
    with DynamicEvaluation(rate=1.0, steps=10) as reader:
        found = read(model, ids, reader)
    plain = read(model, ids)
    torch.testing.assert_close(found[:10], plain[:10])
    assert not torch.allclose(found[10:], plain[10:])


def test_weights_come_back_bit_for_bit_even_after_an_error(small):
    model = small(num_layers=2)
    before = weights(model)
    with DynamicEvaluation(rate=1.0) as reader:
        read(model, np.arange(40) % 5, reader)
        assert not torch.equal(before[0], weights(model)[0])
    assert all(torch.equal(a, b) for a, b in zip(before, weights(model), strict=True))
    with pytest.raises(IndexError), DynamicEvaluation(rate=1.0) as reader:
        read(model, [*range(5), 99, *range(5)], reader)
    assert all(torch.equal(a, b) for a, b in zip(before, weights(model), strict=True))
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.usefixtures("double")
def test_a_cache_goes_with_it(small):
    model, ids = small(), np.arange(40) * 3 % 5
    with DynamicEvaluation(rate=0.0, cache=NeuralCache(9)) as reader:
        torch.testing.assert_close(read(model, ids, reader), read(model, ids, NeuralCache(9)))
    with DynamicEvaluation(rate=0.1, cache=NeuralCache(9)) as both, DynamicEvaluation(rate=0.1) as alone:
        mixed = read(model, ids, both)
        both.close()
        assert not torch.allclose(mixed, read(model, ids, alone))


def test_two_models_at_once_are_refused(small):
    reader = DynamicEvaluation()
    read(small(), [1, 2], reader)
    with pytest.raises(ThroughtimeError, match="one model"):
        read(small(), [1, 2], reader)


@pytest.mark.parametrize(
    "wrong", [{"rate": -1}, {"rate": float("nan")}, {"decay": 2}, {"steps": 0}, {"clip": 0}]
)
def test_numbers_without_meaning_are_refused(wrong):
    with refuses(*wrong, *wrong.values()):
        DynamicEvaluation(**wrong)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("cell", CELLS)
def test_a_gpu_reads_the_same(small, cell):
    model, ids = small(cell), np.arange(40) * 3 % 5
    with DynamicEvaluation(rate=0.1, cache=NeuralCache(9)) as reader:
        expected = read(model, ids, reader)
        reader.close()
        reader.cache = NeuralCache(9)
        found = read(model.cuda(), ids, reader).cpu()
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
