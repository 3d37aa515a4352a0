"""Every smoothing is a distribution; the notes' formulas and Kneser-Ney's hold exactly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.ngram.counts import MISSING, NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import (
    SMOOTHINGS,
    Dirichlet,
    KneserNey,
    Laplace,
    RelativeFrequency,
    build_smoothing,
    discounts,
)

WORDS = 6
BEGIN = 0
texts = st.lists(st.lists(st.integers(1, WORDS - 1), min_size=1, max_size=15), min_size=1, max_size=5)


def fitted(sentences, order, chosen, marked=True):
    sequences = [[BEGIN, *s] for s in sentences] if marked else sentences
    return NgramModel(NgramCounts.of(sequences, order, WORDS, [BEGIN] if marked else []), chosen)


@pytest.mark.parametrize("name", SMOOTHINGS)
@given(sentences=texts, order=st.integers(1, 5), marked=st.booleans(), data=st.data())
def test_every_distribution_sums_to_one(name, sentences, order, marked, data):  # R10, R15
    model = fitted(sentences, order, build_smoothing(name), marked)
    context = data.draw(
        st.lists(st.lists(st.integers(MISSING, WORDS - 1), min_size=4, max_size=4), min_size=1, max_size=8)
    )
    p = model.distribution(np.array(context))
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    if marked:
        assert (p[:, BEGIN] == 0).all()


@pytest.mark.parametrize("name", SMOOTHINGS)
@given(sentences=texts, order=st.integers(1, 4))
def test_scoring_a_sequence_equals_looking_up_each_distribution(name, sentences, order):
    model = fitted(sentences, order, build_smoothing(name))
    sequence = [BEGIN, *sentences[0][::-1], *sentences[-1]]
    log_probs = model.log_probs([sequence])[0]
    for i in range(1, len(sequence)):
        context = np.full((1, 4), MISSING)
        recent = sequence[max(0, i - 4) : i]
        context[0, 4 - len(recent) :] = recent
        with np.errstate(divide="ignore"):
            expected = np.log(model.distribution(context)[0, sequence[i]])
        assert log_probs[i] == pytest.approx(expected, rel=1e-9) or log_probs[i] == expected == -math.inf


def test_relative_frequency_counts_contexts_not_words():  # R14
    # b ends the text: it stands twice, but only once as a context.
    model = NgramModel(NgramCounts.of([[0, 1, 2, 0, 1]], 2, 3), RelativeFrequency())
    after_a, after_b, nothing = model.distribution(np.array([[0], [1], [MISSING]]))
    assert after_a.tolist() == [0, 1, 0]
    assert after_b.tolist() == [0, 0, 1]
    assert nothing.tolist() == [2 / 5, 2 / 5, 1 / 5]


def test_relative_frequency_falls_to_the_shorter_context():  # R14
    model = NgramModel(NgramCounts.of([[0, 1, 0, 2, 2, 1]], 3, 3), RelativeFrequency())
    unseen = model.distribution(np.array([[1, 1]]))  # "b b" never stood, "b" did, once before "a"
    assert unseen.tolist() == [[1.0, 0.0, 0.0]]


@settings(max_examples=25)
@given(sentences=texts, e=st.tuples(*[st.floats(0.01, 50)] * 3))
def test_laplace_is_the_notes_formula_on_three_levels(sentences, e):  # R15
    counts = NgramCounts.of(sentences, 3, WORDS)
    model = NgramModel(counts, Laplace(e))
    total = sum(len(s) for s in sentences)

    def as_context(gram):
        return sum(counts.count((*gram, w)) for w in range(WORDS))

    def single(w):
        return (counts.count((w,)) + e[0] / WORDS) / (total + e[0])

    pair = NgramModel(NgramCounts.of(sentences, 2, WORDS), Laplace(e))
    contexts = np.array(list(itertools.product(range(WORDS), repeat=2)))
    thirds, seconds = model.distribution(contexts), pair.distribution(contexts)
    singles = [single(w) for w in range(WORDS)]
    for (x, y), third, second in zip(contexts.tolist(), thirds, seconds, strict=True):
        before, both = as_context((y,)), as_context((x, y))
        own = [(counts.count((y, w)) + e[1] * singles[w]) / (before + e[1]) for w in range(WORDS)]
        assert second == pytest.approx(own, rel=1e-9)
        own = [(counts.count((x, y, w)) + e[2] * singles[w]) / (both + e[2]) for w in range(WORDS)]
        assert third == pytest.approx(own, rel=1e-9)


@settings(max_examples=25)
@given(sentences=texts, e=st.tuples(*[st.floats(0.01, 50)] * 4), marked=st.booleans())
def test_laplace_of_the_first_words_is_that_of_the_context_they_have(sentences, e, marked):  # R15
    """What no order of context is long enough for is not what was never seen."""
    shorter, longer = (fitted(sentences, order, Laplace(e), marked) for order in (2, 4))
    contexts = np.array([[word] for word in range(WORDS)])
    assert longer.distribution(contexts) == pytest.approx(shorter.distribution(contexts))
    padded = np.insert(contexts, [0, 0], MISSING, axis=1)
    assert longer.distribution(padded) == pytest.approx(shorter.distribution(contexts))
    sequences = [[BEGIN, *s] for s in sentences] if marked else sentences
    pairs = zip(longer.log_probs(sequences), shorter.log_probs(sequences), strict=True)
    for ours, theirs in pairs:
        assert ours[:2] == pytest.approx(theirs[:2])


def test_laplace_limits():  # R15
    counts = NgramCounts.of([[1, 1, 2]], 1, 4)
    nothing = np.array([[MISSING]])
    likeliest = NgramModel(counts, Laplace((0.0,))).distribution(nothing)[0]
    assert likeliest == pytest.approx([0, 2 / 3, 1 / 3, 0])
    flat = NgramModel(counts, Laplace((1e12,))).distribution(nothing)[0]
    assert flat == pytest.approx([0.25] * 4, abs=1e-9)


def test_dirichlet_mixes_with_the_next_shorter_context():
    counts = NgramCounts.of([[0, 1, 2, 0, 2]], 3, 3)
    model = NgramModel(counts, Dirichlet((1.0, 2.0, 3.0)))
    single = (np.array([2, 1, 2]) + 1 / 3) / 6
    after_b = (np.array([0, 0, 1]) + 2 * single) / 3
    after_ab = (np.array([0, 0, 1]) + 3 * after_b) / 4
    assert model.distribution(np.array([[0, 1]]))[0] == pytest.approx(after_ab)


def test_kneser_ney_by_hand():
    # Bigrams of "a b a b a c": ab 2, ba 2, ac 1. Too few for estimates: D = .5, 1, 1.5.
    model = NgramModel(NgramCounts.of([[0, 1, 0, 1, 0, 2]], 2, 3), KneserNey())
    # Different words before: a 1 (b), b 1 (a), c 1 (a); each loses .5 to the uniform distribution.
    base = np.array([1, 1, 1]) * 0.5 / 3 + 0.5 / 3
    assert model.interpolation.base == pytest.approx(base)
    after_a = np.array([0, 2 - 1.0, 1 - 0.5]) / 3 + (1.0 + 0.5) / 3 * base
    assert model.distribution(np.array([[0]]))[0] == pytest.approx(after_a)


def test_discounts_follow_chen_and_goodman():
    adjusted = np.repeat([1.0, 2.0, 3.0, 4.0, 9.0], [40, 20, 10, 5, 3])
    y = 40 / (40 + 2 * 20)
    expected = [0, 1 - 2 * y * 20 / 40, 2 - 3 * y * 10 / 20, 3 - 4 * y * 5 / 10]
    assert discounts(adjusted) == pytest.approx(expected)
    assert discounts(np.ones(7)).tolist() == [0, 0.5, 1.0, 1.5]


def test_names_and_strengths_are_checked():
    with refuses("smoothing", "'kneserney'", "'kneser-ney'"):
        build_smoothing("kneserney")
    with refuses("strengths", "kneser-ney"):
        build_smoothing("kneser-ney", (1.0,))
    with refuses("strengths", "0"):
        build_smoothing("laplace", (-1.0,))
