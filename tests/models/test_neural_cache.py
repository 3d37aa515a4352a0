"""The cache against its formula, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.models.readers import NeuralCache, surprisals


def plain_loop(model, ids, begin, window, theta, share):
    """The formula of the paper, one word at a time."""
    inputs = torch.tensor([begin, *ids[:-1]])[:, None]
    outputs = model(inputs).outputs[:, 0]
    probs = model.head.log_probs(outputs).exp()
    found = []
    for t, word in enumerate(ids):
        p = float(probs[t, word])
        past = range(max(0, t - window), t)
        if past:
            weights = [math.exp(theta * float(outputs[t] @ outputs[i])) for i in past]
            same = sum(w for w, i in zip(weights, past, strict=True) if ids[i] == word)
            p = (1 - share) * p + share * same / sum(weights)
        found.append(-math.log(p))
    return found


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("window", [1, 3, 8, 100])
@pytest.mark.parametrize("steps", [1, 5, 64])
@torch.no_grad()
def test_it_equals_the_formula_over_any_pieces(small, window, steps):
    model, ids = small(), np.random.default_rng(1).integers(5, size=23)
    reader = NeuralCache(window, theta=0.8, share=0.4)
    reader.steps = steps
    found = torch.cat(list(surprisals(model, ids, 0, reader=reader)))
    expected = plain_loop(model, ids.tolist(), 0, window, 0.8, 0.4)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9)


@pytest.mark.usefixtures("double")
def test_every_step_is_a_distribution(small):
    model, ids = small(), [0, 3, 3, 1, 4, 0, 3]
    for t in range(len(ids)):
        total = 0.0
        for word in range(5):
            reader = NeuralCache(4, theta=0.5, share=0.3)
            text = np.array([*ids[:t], word])
            total += float(torch.cat(list(surprisals(model, text, 0, reader=reader)))[-1].neg().exp())
        assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.usefixtures("double")
def test_what_comes_later_changes_nothing_before(small):
    model, ids = small(), np.random.default_rng(2).integers(5, size=20)
    changed = ids.copy()
    changed[12:] = (changed[12:] + 1) % 5
    one, other = (torch.cat(list(surprisals(model, x, 0, reader=NeuralCache(6)))) for x in (ids, changed))
    assert torch.equal(one[:12], other[:12])
    assert not torch.equal(one[12:], other[12:])


@pytest.mark.usefixtures("double")
def test_no_share_is_the_model_and_rows_do_not_mix(small):
    model = small()
    labels = torch.randint(5, (12, 3), generator=torch.Generator().manual_seed(0))
    inputs = torch.cat([labels[:1] * 0, labels[:-1]])
    alone = -model.head.log_probs(model(inputs).outputs.flatten(0, 1)).gather(1, labels.reshape(-1, 1))
    found, _ = NeuralCache(5, share=0.0).read(model, inputs, labels, model.initial_state(3))
    torch.testing.assert_close(found, alone.detach().view(12, 3))
    together, _ = NeuralCache(5).read(model, inputs, labels, model.initial_state(3))
    for row in range(3):
        part = slice(row, row + 1)
        single, _ = NeuralCache(5).read(model, inputs[:, part], labels[:, part], model.initial_state(1))
        torch.testing.assert_close(together[:, part], single)


@pytest.mark.parametrize("wrong", [{"window": 0}, {"share": 1.0}, {"share": -0.1}, {"theta": math.inf}])
def test_numbers_without_meaning_are_refused(wrong):
    with refuses(*wrong, *wrong.values()):
        NeuralCache(**wrong)
