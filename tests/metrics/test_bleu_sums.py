"""BLEU from sums that processes add up, and the paired bootstrap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.metrics.bleu import BleuSums, corpus_bleu
from throughtime.metrics.significance import paired_bootstrap

words = st.lists(st.sampled_from("the cat sat on a Mat .".split()), min_size=1, max_size=9).map(" ".join)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=8), st.integers(1, 4), st.booleans())
def test_shares_add_up_to_the_whole(pairs, shares, lowercase):
    predictions, references = (list(side) for side in zip(*pairs, strict=True))
    total = BleuSums()
    for first in range(shares):
        own = slice(first, None, shares)
        total += BleuSums.of(predictions[own], references[own], lowercase=lowercase)
    whole = corpus_bleu(predictions, references, lowercase=lowercase)
    assert total.bleu == pytest.approx(whole.value, abs=1e-9)


def test_nothing_scores_nothing():
    assert BleuSums().bleu == 0
    assert BleuSums.of([], []).to_values() == [0.0] * 10
    assert BleuSums.of([""], ["a b"]).bleu == 0


def test_the_better_system_is_found():
    references = [f"the {word} sat on the mat number {n}" for n, word in enumerate(["cat", "dog"] * 20)]
    worse = [text.replace("sat", "stood") if n % 2 else text for n, text in enumerate(references)]
    bleu, chrf = paired_bootstrap({"good": references, "bad": worse}, references, samples=100)
    assert (bleu.measure, chrf.measure) == ("BLEU", "chrF2")
    good, bad = bleu.systems
    assert good.value == pytest.approx(100)
    assert bad.value < good.value
    assert good.p_value is None
    assert bad.p_value < 0.05
    assert bad.value == pytest.approx(corpus_bleu(worse, references).value)
    assert "bs:100" in bleu.signature


def test_systems_of_other_lengths_are_refused():
    with refuses("a comparison"):
        paired_bootstrap({"one": ["a"]}, ["a"])
    with refuses("bad", "2", "1"):
        paired_bootstrap({"good": ["a"], "bad": ["a", "b"]}, ["a"])
