"""Perplexity and bits, aggregated over tokens."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.metrics import log_loss

from throughtime.metrics.measures import Likelihood

log_probs = st.lists(st.floats(-30, 0), min_size=1, max_size=30)


def test_cross_entropy_agrees_with_scikit_learn():  # R33
    logits = [[0.3, 1.2, -0.5], [2.0, 0.1, 0.0], [-1.0, 0.5, 0.4]]
    labels = [1, 0, 2]
    p = [[math.exp(x - logsumexp(row)) for x in row] for row in logits]
    ours = Likelihood.of(math.log(row[label]) for row, label in zip(p, labels, strict=True))
    assert ours.cross_entropy == pytest.approx(log_loss(labels, p, labels=[0, 1, 2]))


def test_perplexity_at_its_limits():  # R34
    assert Likelihood.of([0.0] * 7).perplexity == 1.0
    assert Likelihood.of([-math.log(28)] * 50).perplexity == pytest.approx(28.0)
    assert Likelihood.of([-1.0, -math.inf]).perplexity == math.inf
    assert math.isnan(Likelihood().perplexity)


@given(log_probs, log_probs)
def test_batches_add_up_to_the_whole(first, second):  # R34
    parts = Likelihood.of(first) + Likelihood.of(second)
    whole = Likelihood.of(first + second)
    assert parts.tokens == whole.tokens
    assert parts.cross_entropy == pytest.approx(whole.cross_entropy, rel=1e-12, abs=1e-12)


def test_a_mean_of_batch_means_would_be_wrong():  # R34
    first, second = Likelihood.of([-4.0]), Likelihood.of([-1.0] * 3)
    assert (first + second).cross_entropy == 1.75
    assert (first.cross_entropy + second.cross_entropy) / 2 == 2.5


@given(log_probs)
def test_bits_are_nats_over_ln_two(values):  # R21
    one = Likelihood.of(values, characters=5 * len(values))
    assert one.bits_per_token == pytest.approx(one.cross_entropy / math.log(2))
    assert one.bits_per_character == pytest.approx(one.bits_per_token / 5)
