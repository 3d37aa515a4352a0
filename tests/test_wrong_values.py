"""Values of a wrong type, empty lists, nan and truth values in the public API."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.refusals import refuses

import throughtime as tt
from throughtime.data.batching.text import OverlappingWindows, RandomWindows, SequentialPartition
from throughtime.errors import check_number, check_whole
from throughtime.inspection.graph import unroll
from throughtime.ngram.smoothing import Dirichlet, Laplace, build_smoothing
from throughtime.recurrence.backpropagation import Randomised, Truncated, carries, scan_in_chunks
from throughtime.runtime.search import ArraySampling, check_beam
from throughtime.search.candidates import prune_by_token
from throughtime.search.constraints import no_repeated_ngram
from throughtime.search.strategies import build_strategy
from throughtime.series.rolling import Rolling
from throughtime.tasks.texts import DecodingConstraints
from throughtime.text.statistics import bits, entropy, surprisal

NAN, INF = math.nan, math.inf
WRONG = {
    "tau": [lambda: Truncated(2.5), lambda: Truncated(True), lambda: Truncated("2"), lambda: Truncated(NAN)],
    "pi": [
        lambda: Randomised([]),
        lambda: Randomised(np.array([])),
        lambda: Randomised([[0.5]]),
        lambda: Randomised("x"),
        lambda: Randomised(None),
        lambda: Randomised(True),
        lambda: Randomised([0.5, NAN]),
        lambda: Randomised(torch.tensor([0.5, 1.5])),
        lambda: carries(Randomised(np.array([0.5, 0.5])), steps=3, batch=1),
    ],
    "seed": [lambda: Randomised(0.5, seed=1.5)],
    "strategy": [lambda: carries("truncated", 2, 2)],
    "steps": [
        lambda: carries(Truncated(2), 2.5, 1),
        lambda: carries(Truncated(2), -1, 1),
        lambda: unroll("rnn", True),
        lambda: tt.ngram.MarkovChain.fit([[0, 1, 0]], 1, 2).after([], 2.5),
    ],
    "batch": [lambda: carries(Truncated(2), 2, True)],
    "chunk": [lambda: scan_in_chunks(tt.GRU(2, 3), torch.zeros(4, 1, 2), chunk=1.5)],
    "strengths": [
        lambda: Laplace((NAN,)),
        lambda: Laplace([1.0, INF]),
        lambda: Laplace(0.5),
        lambda: Laplace("1"),
        lambda: Laplace([True]),
        lambda: Laplace(()),
        lambda: Laplace([-1.0]),
        lambda: Dirichlet((NAN,)),
        lambda: build_smoothing("laplace", [INF]),
    ],
    "counts": [
        lambda: entropy([-1, 2]),
        lambda: entropy([NAN]),
        lambda: entropy("abc"),
        lambda: surprisal(5),
    ],
    "ids": [
        lambda: RandomWindows([], 2, 3),
        lambda: SequentialPartition([], 2, 3),
        lambda: OverlappingWindows([], 2, 3),
        lambda: RandomWindows([0.5] * 9, 2, 3),
    ],
    "batch_size": [lambda: RandomWindows(range(9), 2.5, 3), lambda: RandomWindows(range(9), True, 3)],
    "num_steps": [lambda: RandomWindows(range(9), 2, "3"), lambda: SequentialPartition(range(9), 2, NAN)],
    "stride": [lambda: OverlappingWindows(range(9), 2, 3, stride=1.5)],
    "hidden_size": [lambda: tt.LSTM(3, True), lambda: tt.GRU(3, 4.0), lambda: tt.Stack("gru", 3, "4")],
    "num_layers": [lambda: tt.Stack("gru", 3, 4, num_layers=1.5)],
    "dropout": [lambda: tt.Stack("gru", 3, 4, dropout="x"), lambda: tt.Stack("gru", 3, 4, dropout=NAN)],
    "order": [
        lambda: tt.ngram.NgramCounts.of([[0, 1]], 2.0, 3),
        lambda: tt.ngram.NgramCounts.of([[0, 1]], True, 3),
        lambda: tt.ngram.MarkovChain.fit([[0, 1]], 1.5, 2),
    ],
    "sentences": [lambda: tt.ngram.NgramCounts.of([0, 1], 1, 3)],
    "length": [lambda: tt.ngram.MarkovChain.fit([[0, 1, 0]], 1, 2).most_likely(True)],
    "min_freq": [lambda: tt.Vocabulary.build(["a"], min_freq=1.5), lambda: tt.Vocabulary.build(["a"], 0)],
    "max_size": [lambda: tt.Vocabulary.build(["a"], max_size=2.5)],
    "vocabulary": [lambda: tt.Vocabulary.build([1, 2])],
    "k": [lambda: tt.metrics.notes_bleu("a b", "a b", k=2.5)],
    "num_beams": [lambda: check_beam(2.5, 0.5, 1), lambda: build_strategy("beam", 1, num_beams=1_001)],
    "temperature": [lambda: ArraySampling(temperature="hot"), lambda: ArraySampling(temperature=NAN)],
    "top_k": [lambda: ArraySampling(top_k=2.5), lambda: ArraySampling(top_k=True)],
    "top_p": [lambda: ArraySampling(top_p=NAN)],
    "num_return_sequences": [lambda: build_strategy("stochastic", 1, num_beams="2", num_return_sequences=3)],
    "limit": [lambda limit=limit: prune_by_token(limit) for limit in ("0.5", NAN, -0.1, 1.1)],
    "no_repeat_ngram": [lambda: no_repeated_ngram(1.5), lambda: DecodingConstraints(no_repeat_ngram=0)],
    "min_length": [lambda: DecodingConstraints(min_length=-1)],
    "forbid[1]": [lambda: DecodingConstraints(forbid=["a", 5])],
    "h": [lambda: Rolling(3, 2, 4.5)],
}


@pytest.mark.parametrize(("name", "call"), [(name, call) for name, calls in WRONG.items() for call in calls])
def test_a_wrong_value_is_refused_in_a_sentence(name, call):
    with refuses(name):
        call()


def test_arrays_tensors_and_numbers_of_numpy_are_taken():
    for pi in ([0.5, 0.25], np.array([0.5, 0.25]), torch.tensor([0.5, 0.25])):
        assert Randomised(pi).probabilities(2).tolist() == [0.5, 0.25]
        assert Randomised(pi) == Randomised((0.5, 0.25))
    assert Randomised(torch.tensor(0.5)).probabilities(3).tolist() == [0.5] * 3
    assert carries(Truncated(np.int64(2)), 3, 1).tolist() == [[1.0], [1.0], [0.0]]
    assert Laplace(np.array([1.0, 0.5])) == Laplace((1.0, 0.5))
    assert tt.GRU(np.int64(2), 3).input_size == 2


def test_types_that_never_occur_add_nothing_to_the_entropy():
    for counts in ([5, 0], np.array([5, 0]), [5], [], [0, 0]):
        assert entropy(counts) == 0.0
    assert bits(entropy([2, 0, 2])) == pytest.approx(1.0)
    assert surprisal([1, 0]).tolist() == [0.0, INF]


@pytest.mark.parametrize(
    ("check", "facts"),
    [
        (lambda: check_whole("n", 2.5), ("2.5", "1")),
        (lambda: check_whole("n", 11, 0, 10), ("11", "0", "10")),
        (lambda: check_number("x", INF), ("inf", "finite", "0")),
        (lambda: check_number("x", 0, above=True), ("0", "finite", "above")),
        (lambda: check_number("x", 2, 0, 1), ("2", "0", "1")),
    ],
)
def test_an_error_says_what_is_expected(check, facts):
    with refuses(*(("n" if "n" in check.__code__.co_consts else "x"), *facts)):
        check()
