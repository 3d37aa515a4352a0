"""Laws of the recurrent language model, over cells, layers and heads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.cells import CELLS
from throughtime.models import language as language
from throughtime.models.language import RecurrentLanguageModel
from throughtime.models.weights import load_weights, named_weights
from throughtime.search.generate import generate
from throughtime.search.sampling import Sampling

KINDS = [
    *((cell, {"num_layers": 1, "tied": True}) for cell in CELLS if cell != "lstm-projected"),
    *(
        (cell, {"num_layers": 2, "tied": False})
        for cell in ("rnn", "gru", "lstm", "minlstm", "lstm-projected")
    ),
    ("lstm", {"num_layers": 2, "tied": True, "hidden_size": 9, "residual": True, "layer_norm": True}),
    ("gru", {"num_layers": 2, "tied": True, "initial": "learned"}),
    ("lstm", {"tied": False, "head": "adaptive", "embedding_size": 16, "hidden_size": 16}),
    ("gru", {"tied": True, "experts": 3, "last_size": 7}),
]
each_kind = pytest.mark.parametrize(
    ("cell", "options"),
    KINDS,
    ids=[f"{cell}-{'-'.join(map(str, options.values()))}" for cell, options in KINDS],
)
TEXT = [3, 0, 4, 4, 1, 2, 0, 3, 3, 1]


def stepwise(model, ids):
    """ln P of each id, by the interface of search, from an empty prompt."""
    last, state, memory = model.start([[]])
    found = []
    for one in ids:
        log_probs, state, _ = model.step(last, state, memory)
        found.append(float(log_probs[0, one]))
        last = torch.tensor([one])
    return found


@pytest.mark.usefixtures("double")
@each_kind
@torch.inference_mode()
def test_the_whole_is_its_steps_and_its_chunks(small, monkeypatch, cell, options):
    model = small(cell, **options)
    [whole] = model.log_probs([TEXT])
    np.testing.assert_allclose(stepwise(model, TEXT), whole, atol=1e-9)
    for cut in range(len(TEXT)):  # a prompt read at once, the next token by a step
        step = model.step(*model.start([TEXT[:cut]]))
        assert float(step.log_probs[0, TEXT[cut]]) == pytest.approx(whole[cut], abs=1e-9)
    monkeypatch.setattr(language, "STEPS_AT_ONCE", 3)
    [chunked] = model.log_probs([TEXT])
    np.testing.assert_allclose(chunked, whole, atol=1e-9)
    prompted = model.step(*model.start([TEXT[:-1]])).log_probs[0, TEXT[-1]]
    assert float(prompted) == pytest.approx(whole[-1], abs=1e-9)


@pytest.mark.usefixtures("double")
@each_kind
@torch.inference_mode()
def test_a_padded_batch_is_each_row_alone(small, monkeypatch, cell, options):
    model = small(cell, **options)
    rows = [TEXT[:4], TEXT, [], TEXT[2:3], TEXT[5:]]
    monkeypatch.setattr(language, "ROWS_AT_ONCE", 3)
    for row, found in zip(rows, model.log_probs(rows), strict=True):
        np.testing.assert_allclose(found, model.log_probs([row])[0], atol=1e-9)
        assert len(found) == len(row)
    started = model.start(rows)
    together = model.step(*started).log_probs
    for i, row in enumerate(rows):
        torch.testing.assert_close(together[i : i + 1], model.step(*model.start([row])).log_probs)


@pytest.mark.usefixtures("double")
@each_kind
def test_all_strings_of_one_length_sum_to_one(small, cell, options):  # R6
    model = small(cell, **options)
    strings = [list(ids) for ids in itertools.product(range(5), repeat=3)]
    total = sum(np.exp(found.sum()) for found in model.log_probs(strings))
    assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_shared_over_time(tied):  # R36
    v, e, h = 11, 6, 8
    model = RecurrentLanguageModel(v, embedding_size=e, hidden_size=h, num_layers=2, tied=tied)
    last = e if tied else h
    lstm = 4 * h * (e + h + 1) + 4 * last * (h + last + 1)
    expected = v * e + lstm + v + (0 if tied else v * h)
    for steps in (1, 10, 1000):
        model(torch.zeros(steps, 1, dtype=torch.long))
        assert sum(weight.numel() for weight in named_weights(model).values()) == expected
    model(torch.zeros(50, 1, dtype=torch.long)).outputs.sum().backward()
    used = [weight for name, weight in named_weights(model).items() if not name.startswith("head")]
    assert all(weight.grad is not None and weight.grad.shape == weight.shape for weight in used)


def test_weights_that_do_not_fit_are_named(small):
    model = small()
    saved = dict(named_weights(model))
    with refuses("file", "embedding.weight"):
        load_weights(model, {k: v for k, v in saved.items() if k != "embedding.weight"}, "file")
    with refuses("file", "'more'"):
        load_weights(model, {**saved, "more": torch.zeros(1)}, "file")
    with refuses("file", "head.bias", "[4]", "[5]"):
        load_weights(model, {**saved, "head.bias": torch.zeros(4)}, "file")


def test_a_tied_table_is_saved_once(small):
    assert "head.weight" not in named_weights(small(tied=True))
    assert "head.weight" in named_weights(small(tied=False))


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"cell": "ltsm"}, ("cell", "'ltsm'", "'lstm'")),
        ({"head": "adaptve"}, ("head", "'adaptve'", "'adaptive'")),
        ({"num_layers": 0}, ("num_layers", "0", "1")),
        ({"head": "adaptive", "tied": True}, ("tied", "tied=false")),
    ],
)
def test_wrong_options_are_refused(options, facts):
    with refuses(*facts):
        RecurrentLanguageModel(5, **options)


def test_samples_have_the_models_own_frequencies(small):  # R16
    from scipy.stats import chisquare

    model, draws = small("gru"), 4000
    pairs = list(itertools.product(range(5), repeat=2))
    expected = np.array(
        [np.exp(found[1:].sum()) for found in model.log_probs([[2, *pair] for pair in pairs])]
    )
    strategy = Sampling(None, num_return_sequences=draws, seed=5)
    [found] = generate(model, [[2]], strategy, max_new_tokens=2)
    drawn = [one.tokens for one in found]
    counts = np.array([drawn.count(pair) for pair in pairs])
    wanted = expected / expected.sum() * draws
    assert wanted.min() >= 5, "the approximation by chi-squared wants so many"
    assert chisquare(counts, wanted).pvalue > 0.01
    assert chisquare(counts, np.roll(wanted, 1)).pvalue < 0.01  # the test has teeth


def test_nothing_is_emitted_while_the_prefix_is_read(small):  # R41
    model = small("gru")
    moments = []
    prefix = TEXT * 30
    [[found]] = generate(model, [prefix], Sampling(None, seed=0), max_new_tokens=3, watch=moments.append)
    assert len(moments) == 3
    assert len(found.tokens) == 3
    [whole] = model.log_probs([[*prefix, *found.tokens]])
    assert found.log_prob == pytest.approx(whole[-3:].sum(), abs=1e-4)
