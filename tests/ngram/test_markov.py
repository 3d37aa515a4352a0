"""Chains against matrix powers and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from throughtime.errors import InputError
from throughtime.ngram.markov import MarkovChain
from throughtime.ngram.smoothing import Laplace

WORDS = 4
texts = st.lists(st.integers(0, WORDS - 1), min_size=5, max_size=40)


@settings(max_examples=30, deadline=None)
@given(text=texts, order=st.integers(1, 3))
def test_rows_sum_to_one(text, order):  # R10
    chain = MarkovChain.fit([text], order, WORDS)
    np.testing.assert_allclose(chain.next_word.sum(axis=1), 1.0)
    np.testing.assert_allclose(chain.transition.sum(axis=1), 1.0)


@settings(max_examples=30, deadline=None)
@given(text=texts, order=st.integers(1, 2), steps=st.integers(1, 6))
def test_steps_ahead_equal_the_power_of_the_transition_matrix(text, order, steps):  # R11
    chain = MarkovChain.fit([text], order, WORDS, Laplace())
    power = np.linalg.matrix_power(chain.transition, steps)
    for state, context in enumerate(itertools.product(range(WORDS), repeat=order)):
        by_last_word = power[state].reshape(-1, WORDS).sum(axis=0)
        np.testing.assert_allclose(chain.after(context, steps), by_last_word, rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(text=texts, order=st.integers(1, 3), length=st.integers(1, 5))
def test_most_likely_sequence_equals_brute_force(text, order, length):  # R12
    chain = MarkovChain.fit([text], order, WORDS, Laplace())
    everything = list(itertools.product(range(WORDS), repeat=length))
    scores = [log_p.sum() for log_p in chain.model.log_probs(everything)]
    words, log_prob = chain.most_likely(length)
    assert log_prob == pytest.approx(max(scores), rel=1e-9)
    assert chain.model.log_probs([words])[0].sum() == pytest.approx(max(scores), rel=1e-9)


def test_most_likely_continuation_of_a_context():  # R12
    chain = MarkovChain.fit([[0, 1, 2, 3, 0, 1, 2, 0]], 2, WORDS, Laplace((0.1,)))
    words, log_prob = chain.most_likely(5, context=[3, 0])
    best = max(
        itertools.product(range(WORDS), repeat=5),
        key=lambda tail: chain.model.log_probs([[3, 0, *tail]])[0][2:].sum(),
    )
    assert words == list(best)
    assert log_prob == pytest.approx(chain.model.log_probs([[3, 0, *best]])[0][2:].sum())


def test_refusals_say_what_to_do():
    with pytest.raises(InputError, match="lower order"):
        MarkovChain.fit([[0, 1, 2]], 3, 30)
    with pytest.raises(InputError, match="order 2 or more"):
        MarkovChain.fit([[0, 1]], 0, 3)
    for wrong in (5, -1, 0.5):
        problem = (
            "are float64, expected whole numbers" if wrong == 0.5 else f"hold {wrong}, outside .* 0 to 1"
        )
        with pytest.raises(InputError, match=f"ids: {problem}"):
            MarkovChain.fit([[0, wrong, wrong]], 1, 2)
        with pytest.raises(InputError, match=f"ids: {problem}"):
            MarkovChain.fit([[0, 1, 0]], 1, 2).after([wrong], 1)
    with pytest.raises(InputError, match="vocabulary_size: is 0, expected 1 or more"):
        MarkovChain.fit([[0, 1]], 1, 0)
    chain = MarkovChain.fit([[0, 1, 2, 0]], 2, 3)
    with pytest.raises(InputError, match="needs 2 words of context, got 1"):
        chain.after([1], 1)
