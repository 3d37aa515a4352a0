"""Counts against a Counter over tuples."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.ngram.counts import NgramCounts, NgramLevel, read_parts, release
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import SMOOTHINGS

WORDS = 5
texts = st.lists(st.lists(st.integers(0, WORDS - 1), max_size=12), min_size=1, max_size=6).filter(any)


@given(texts, st.integers(1, 5))
def test_counts_equal_a_plain_counter(sentences, order):  # R13
    counts = NgramCounts.of(sentences, order, WORDS)
    for n in range(1, order + 1):
        plain = Counter(tuple(s[i : i + n]) for s in sentences for i in range(len(s) - n + 1))
        for gram, count in plain.items():
            assert counts.count(gram) == count
        assert int(counts.levels[n - 1].count.sum()) == plain.total()
        if n > 1:
            assert len(counts.levels[n - 1].keys) == len(plain)


@given(texts, st.integers(2, 4))
def test_suffix_links_and_first_words(sentences, order):
    counts = NgramCounts.of(sentences, order, WORDS)
    grams = [[(w,) for w in range(WORDS)]]
    for n in range(1, order):
        level = counts.levels[n]
        grams.append([(*grams[-1][c], int(w)) for c, w in zip(level.context, level.word, strict=True)])
        for node, gram in enumerate(grams[n]):
            assert grams[n - 1][counts.suffix[n][node]] == gram[1:]


def test_nothing_to_count_and_bad_orders_are_refused():
    with refuses("the training text"):
        NgramCounts.of([[]], 2, 3)
    with refuses("order", "0"):
        NgramCounts.of([[1]], 0, 3)


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_a_model_takes_little_memory_besides_its_counts(name, monkeypatch):
    smoothing = SMOOTHINGS[name]()
    monkeypatch.setattr(NgramLevel.slices, "__defaults__", (4096,))
    ids = np.random.default_rng(0).geometric(0.01, 200_000) % 500
    counts = NgramCounts.of_stream(ids, np.arange(0, len(ids), 20), 4, 500, (0,))
    tensors = NgramModel(counts, smoothing).tensors()
    tracemalloc.start()
    NgramModel.from_tensors(tensors, (0,), smoothing).interpolation  # noqa: B018 - computed when asked for
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.25 * sum(one.nbytes for one in tensors.values())


def test_arrays_on_a_file_their_parts_and_their_copies_leave_memory(tmp_path):  # R115
    np.arange(5_000).tofile(tmp_path / "file")
    whole = np.memmap(tmp_path / "file", np.int64, "r")
    for part in (
        whole,
        whole[700:],
        whole[:0],
        whole[5_000:],
        whole[::-7],
        whole[9],
        whole.copy(),
        whole + 1,
    ):
        before = part.tolist()
        release(part)
        assert part.tolist() == before
    assert [part.tolist() for part in read_parts(whole[1_000:1_005], 2)] == [
        [1_000, 1_001],
        [1_002, 1_003],
        [1_004],
    ]
