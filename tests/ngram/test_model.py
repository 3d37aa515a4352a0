"""The model behind the step interface, and the published perplexities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import KneserNey, Laplace

TEXT = [[1, 2, 3, 1, 2, 1, 3, 3, 2, 1, 1, 2, 3], [3, 3, 1, 2]]


@pytest.fixture
def model():
    return NgramModel(NgramCounts.of(TEXT, 3, 4), Laplace((1.0, 2.0, 3.0)))


@pytest.mark.parametrize("backward", [False, True])
def test_both_factorisations_sum_to_one_over_all_strings_of_length_three(backward):  # R6
    text = [sentence[::-1] for sentence in TEXT] if backward else TEXT
    model = NgramModel(NgramCounts.of(text, 3, 4), KneserNey())
    strings = list(itertools.product(range(4), repeat=3))
    read = [string[::-1] if backward else string for string in strings]
    total = sum(math.exp(log_p.sum()) for log_p in model.log_probs(read))
    assert total == pytest.approx(1.0, abs=1e-12)


def test_streaming_score_equals_batch_score(model):  # R7
    sequence = [2, 1, 1, 3, 0, 2, 3]
    whole = model.log_probs([sequence])[0]
    last, state, memory = model.start([[]])
    streamed, running = [], 0.0
    for token, expected in zip(sequence, np.cumsum(whole), strict=True):
        step = model.step(last, state, memory)
        streamed.append(float(step.log_probs[0, token]))
        running += streamed[-1]
        assert running == pytest.approx(expected, abs=1e-12)  # P(x_1..x_t+1) = P(x_1..x_t) P(x_t+1 | past)
        last, state = torch.tensor([token]), step.state
    assert streamed == pytest.approx(whole.tolist(), abs=1e-12)


def test_tensors_rebuild_the_same_model(model):
    again = NgramModel.from_tensors(model.tensors(), (), Laplace((1.0, 2.0, 3.0)))
    assert again.log_probs(TEXT)[0].tolist() == model.log_probs(TEXT)[0].tolist()
    with refuses("tensors", "count.1"):
        NgramModel.from_tensors({}, (), KneserNey())


def test_ids_outside_the_vocabulary_are_refused(model):
    for wrong in (4, -1):
        with refuses("ids", wrong, "0", "3"):
            model.log_probs([[1, wrong]])
    for wrong in (0.5, True, "a"):
        with refuses("ids"):
            model.log_probs([[wrong]])
    with refuses("ids", "9"):
        model.start([[1, 9]])


@pytest.mark.parametrize(("order", "published"), [(3, 148.3), (5, 141.2)])
def test_penn_treebank_meets_the_published_perplexity(corpora, order, published):
    def read(split):
        return [line.split() for line in (corpora / "ptb" / f"ptb.{split}.txt").read_text().splitlines()]

    ids = {"<s>": 0, "</s>": 1}
    train = [[0, *(ids.setdefault(word, len(ids)) for word in line), 1] for line in read("train")]
    test = [[0, *(ids[word] for word in line), 1] for line in read("test")]
    model = NgramModel(NgramCounts.of(train, order, len(ids), never=[0]), KneserNey())
    tokens = sum(len(line) - 1 for line in test)
    assert tokens == 82_430
    perplexity = math.exp(-sum(p.sum() for p in model.log_probs(test)) / tokens)
    assert perplexity == pytest.approx(published, rel=0.005)
