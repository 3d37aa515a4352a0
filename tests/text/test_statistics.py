"""Counting running text; the Time Machine gives the known figures."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from throughtime.text.statistics import Running, bits, coverage, entropy, ngram_counts, surprisal, zipf_fit
from throughtime.text.tokenizer import tokenizer
from throughtime.text.vocabulary import Vocabulary

LINES = st.lists(st.lists(st.sampled_from("abcd"), max_size=12), max_size=6)


@given(lines=LINES, n=st.integers(1, 5))
def test_counts_are_those_of_a_counter(lines: list[list[str]], n: int) -> None:
    expected = Counter(tuple(line[at : at + n]) for line in lines for at in range(len(line) - n + 1))
    grams = ngram_counts(Running.of(lines), n)
    # most_common keeps ties in the order of first appearance, as ours must.
    assert grams.top(grams.distinct) == expected.most_common()
    assert (grams.total, grams.distinct) == (expected.total(), len(expected))
    assert grams.possible == len({token for line in lines for token in line}) ** n


def test_a_text_in_parts_is_one_text() -> None:
    parts = [["a", "b"], ["c"], [], ["a", "b"]]
    joined = ngram_counts(Running.of(parts, joined=True), 2)
    assert joined.top(9) == ngram_counts(["a", "b", "c", "a", "b"], 2).top(9)


def test_entropy_and_bits() -> None:
    # R21
    counts = np.array([8, 4, 2, 2])
    assert bits(entropy(counts)) == pytest.approx(1.75)
    assert entropy(counts) == pytest.approx(1.75 * math.log(2))
    np.testing.assert_allclose(surprisal(counts) / math.log(2), [1, 2, 3, 3])
    assert entropy(np.array([], dtype=np.int64)) == 0.0


def test_too_few_types_have_no_zipf_exponent() -> None:
    assert zipf_fit(np.array([5, 3, 1])) is None
    fit = zipf_fit(2e6 / np.arange(1, 2000) ** 0.7)
    assert fit is not None
    assert fit.exponent == pytest.approx(0.7)
    assert fit.frequency(100) == pytest.approx(2e6 / 100**0.7)


@pytest.fixture(scope="module")
def novel(corpora: Path) -> str:
    return (corpora / "timemachine" / "timemachine.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def words(novel: str) -> list[str]:
    return tokenizer("word").tokenize(novel)


def test_characters_and_words(novel: str, words: list[str]) -> None:
    # R24
    characters = tokenizer("char", normaliser="letters").tokenize(novel)
    assert len(characters) == 173_428
    assert len(Vocabulary.build(characters)) == 28
    assert len(words) == 32_775
    assert len(set(words)) == 4_579


def test_vocabulary_at_min_freq_2(words: list[str]) -> None:
    # R25
    vocabulary = Vocabulary.build(words, min_freq=2)
    assert len(vocabulary) == 2_183
    assert vocabulary["the"] == 1
    assert vocabulary["xylophone"] == vocabulary.unk_id == 0


def test_known_ngrams(words: list[str]) -> None:
    # R13
    assert [ngram_counts(words, n).top(1)[0] for n in (1, 2, 3)] == [
        (("the",), 2_261),
        (("of", "the"), 309),
        (("the", "time", "traveller"), 59),
    ]


def test_stored_against_possible(words: list[str]) -> None:
    # R20
    trigrams = ngram_counts(words, 3)
    assert trigrams.possible == 4_579**3
    assert trigrams.distinct == len({*zip(words, words[1:], words[2:], strict=False)})


def test_zipf_exponents_fall(words: list[str]) -> None:
    # R18
    fits = [zipf_fit(ngram_counts(words, n).counts) for n in (1, 2, 3)]
    exponents = [fit.exponent for fit in fits if fit is not None]
    assert exponents == pytest.approx([1.04, 0.69, 0.47], abs=0.005)


def test_coverage_grows(words: list[str]) -> None:
    shares = coverage(ngram_counts(words, 1).counts, (100, 1000, 4579))
    assert all(fewer < more for fewer, more in pairwise(shares.values()))
    assert shares[4579] == 1.0
    top = Counter(words).most_common(100)
    assert shares[100] == sum(count for _, count in top) / len(words)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_scikit_learn_counts_the_same(novel: str, words: list[str], n: int) -> None:
    # R19
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    ours = {" ".join(gram): count for gram, count in ngram_counts(words, n).top(10**6)}
    # It cuts the raw text itself. Its pattern must say what `word` calls a word: a run of letters, whole,
    # in small letters (its own default); \w would take digits and the underscores of italics for letters.
    whole_words = r"[a-z]+"
    counting = CountVectorizer(ngram_range=(n, n), token_pattern=whole_words)
    weighing = TfidfVectorizer(ngram_range=(n, n), token_pattern=whole_words, use_idf=False, norm=None)
    for judge in (counting, weighing):
        row = judge.fit_transform([novel]).toarray()[0]
        theirs = dict(zip(judge.get_feature_names_out(), row.tolist(), strict=True))
        assert theirs == ours
