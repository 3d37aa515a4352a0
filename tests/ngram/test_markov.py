"""Chains against matrix powers and brute force."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.ngram import markov
from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.markov import MarkovChain
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import SMOOTHINGS, KneserNey, Laplace, build_smoothing

WORDS = 4
texts = st.lists(st.integers(0, WORDS - 1), min_size=5, max_size=40)
smoothings = st.sampled_from(
    [
        *map(build_smoothing, SMOOTHINGS),
        *(build_smoothing(name, (0.3, 2.0)) for name in ("laplace", "dirichlet")),
    ]
)


def score(chain, context, tail):
    return chain.model.log_probs([[*context, *tail]])[0][len(context) :].sum()


def every_tail(chain, context, length):
    """All sequences of this length with their ln P."""
    tails = list(itertools.product(range(WORDS), repeat=length))
    rows = chain.model.log_probs([[*context, *tail] for tail in tails])
    return {tail: row[len(context) :].sum() for tail, row in zip(tails, rows, strict=True)}


def transition(chain):
    """The dense matrix P(next k words | last k words), [V^k, V^k]; a row's words are digits in base V."""
    size = WORDS**chain.order
    contexts = np.stack(np.unravel_index(np.arange(size), (WORDS,) * chain.order), axis=1)
    following = (np.arange(size) * WORDS % size)[:, None] + np.arange(WORDS)
    matrix = np.zeros((size, size))
    matrix[np.arange(size)[:, None], following] = chain.model.distribution(contexts)
    return matrix


@settings(max_examples=30, deadline=None)
@given(text=texts, order=st.integers(1, 3))
def test_rows_sum_to_one(text, order):  # R10
    np.testing.assert_allclose(transition(MarkovChain.fit([text], order, WORDS)).sum(axis=1), 1.0)


@settings(max_examples=60, deadline=None)
@given(text=texts, order=st.integers(1, 3), steps=st.integers(1, 6), smoothing=smoothings)
def test_steps_ahead_equal_the_power_of_the_transition_matrix(text, order, steps, smoothing):  # R11
    chain = MarkovChain.fit([text], order, WORDS, smoothing)
    power = np.linalg.matrix_power(transition(chain), steps)
    for state, context in enumerate(itertools.product(range(WORDS), repeat=order)):
        by_last_word = power[state].reshape(-1, WORDS).sum(axis=0)
        np.testing.assert_allclose(chain.after(context, steps), by_last_word, rtol=1e-9, atol=1e-15)


@settings(max_examples=60, deadline=None)
@given(text=texts, order=st.integers(1, 4), steps=st.integers(1, 5), smoothing=smoothings, data=st.data())
def test_steps_ahead_equal_the_sum_over_all_sequences(text, order, steps, smoothing, data):  # R11
    chain = MarkovChain.fit([text], order, WORDS, smoothing)
    context = data.draw(st.lists(st.integers(0, WORDS - 1), max_size=order + 1))
    expected = np.zeros(WORDS)
    for tail, log_p in every_tail(chain, context, steps).items():
        expected[tail[-1]] += np.exp(log_p)
    np.testing.assert_allclose(chain.after(context, steps), expected, rtol=1e-9, atol=1e-15)


@settings(max_examples=100, deadline=None)
@given(text=texts, order=st.integers(1, 4), length=st.integers(1, 5), smoothing=smoothings, data=st.data())
def test_most_likely_sequence_equals_brute_force(text, order, length, smoothing, data):  # R12
    chain = MarkovChain.fit([text], order, WORDS, smoothing)
    context = data.draw(st.lists(st.integers(0, WORDS - 1), max_size=order + 1))
    best = max(every_tail(chain, context, length).values())
    words, log_prob = chain.most_likely(length, context)
    assert log_prob == pytest.approx(best, rel=1e-9)
    assert score(chain, context, words) == pytest.approx(best, rel=1e-9)


def test_the_greedy_continuation_is_not_the_most_likely_one():  # R12
    # After 0, 1 is likelier than 2, but anything may follow 1, and only 3 follows 2.
    text = [0, 1, 1, 0, 1, 2, 3, 0, 1, 3, 0, 1, 0, 2, 3, 0, 2, 3]
    chain = MarkovChain.fit([text], 1, WORDS)
    assert chain.after([0], 1).argmax() == 1
    assert chain.most_likely(2, [0])[0] == [2, 3]


@pytest.mark.parametrize(
    ("text", "context", "best"),
    [([3, 3, 2, 3, 1, 3, 1, 1], [1, 2], [3, 1, 3, 1]), ([2, 0, 2, 1, 0, 3, 3, 0], [1, 2], [0, 2, 1, 0])],
)
def test_a_text_never_forgets_words_that_make_it_less_likely(text, context, best):  # R12
    # In these texts 3 3 3 3 and 0 0 0 0 would win if a state could be taken for a shorter, likelier one.
    chain = MarkovChain.fit([text], 2, WORDS, Laplace((0.0, 1.0, 5.0)))
    totals = every_tail(chain, context, 4)
    words, log_prob = chain.most_likely(4, context)
    assert words == best
    assert log_prob == pytest.approx(max(totals.values()), rel=1e-9)


def test_a_text_that_has_ended_stays_ended():
    sentences = [[0, 1, 2, 3], [0, 1, 3], [0, 2, 1, 2, 3], [0, 3]]
    model = NgramModel(NgramCounts.of(sentences, 3, WORDS, never=[0]), KneserNey())
    chain = MarkovChain(model, end_id=3)
    ended = [chain.after([0], steps)[3] for steps in range(1, 30)]
    assert ended == sorted(ended)
    assert ended[-1] == pytest.approx(1.0, abs=1e-3)
    sequences = [
        (*tail, *[3] * (5 - len(tail)))
        for length in range(6)
        for tail in itertools.product((1, 2), repeat=length)
    ]
    totals = {tail: score(chain, [0], tail[: [*tail, 3].index(3) + 1]) for tail in sequences}
    expected = np.bincount([tail[-1] for tail in totals], np.exp(list(totals.values())), WORDS)
    np.testing.assert_allclose(chain.after([0], 5), expected, rtol=1e-9)
    words, log_prob = chain.most_likely(5, [0])
    assert (tuple(words), log_prob) == (max(totals, key=totals.get), pytest.approx(max(totals.values())))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_chain_over_thousands_of_words_needs_no_matrix(order):  # R11, R12
    vocabulary = 4_579
    ids = np.minimum(np.random.default_rng(0).zipf(1.3, 30_000) - 1, vocabulary - 1)
    model = NgramModel(NgramCounts.of([ids.tolist()], order + 1, vocabulary), KneserNey())
    context = ids[100 : 100 + order].tolist()
    tracemalloc.start()
    try:
        chain = MarkovChain(model)
        two_ahead = chain.after(context, 2)
        words, log_prob = chain.most_likely(5, context)
        assert tracemalloc.get_traced_memory()[1] < 48e6  # the dense matrix of order 1 alone has 168 MB
    finally:
        tracemalloc.stop()
    first = model.distribution(np.array([context]))[0]
    second = np.zeros(vocabulary)
    for word in np.array_split(np.arange(vocabulary), 40):
        contexts = np.column_stack([np.tile(context, (len(word), 1)), word])
        second += first[word] @ model.distribution(contexts)
    np.testing.assert_allclose(two_ahead, second, rtol=1e-9)
    assert score(chain, context, words) == pytest.approx(log_prob, rel=1e-9)
    greedy: list[int] = []
    for _ in range(5):
        greedy.append(int(model.distribution(np.array([[*context, *greedy]])).argmax()))
    assert log_prob >= score(chain, context, greedy) - 1e-9


def test_refusals_say_what_to_do(monkeypatch):
    with refuses("order", "0"):
        MarkovChain.fit([[0, 1]], 0, 3)
    with refuses("order", "2"):
        MarkovChain(NgramModel(NgramCounts.of([[0, 1]], 1, 2), Laplace()))
    for wrong in (5, -1, 0.5):
        facts = ("float64",) if wrong == 0.5 else (wrong, "0", "1")
        with refuses("ids", *facts):
            MarkovChain.fit([[0, wrong, wrong]], 1, 2)
        with refuses("ids", *facts):
            MarkovChain.fit([[0, 1, 0]], 1, 2).after([wrong], 1)
    with refuses("vocabulary_size", "0"):
        MarkovChain.fit([[0, 1]], 1, 0)
    chain = MarkovChain.fit([[0, 1, 2, 0]], 2, 3)
    with refuses("steps", "0"):
        chain.after([1], 0)
    with refuses("length", "0"):
        chain.most_likely(0)
    monkeypatch.setattr(markov, "MAX_POINTERS", 10 * chain.num_states)
    with refuses("length", "11", "10"):
        chain.most_likely(11)
