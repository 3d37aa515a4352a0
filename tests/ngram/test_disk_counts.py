"""Counting in files gives the very counts of counting in memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.disk_counts import BYTES_PER_POSITION, count_on_disk

SIZE = 20
DRAW = np.random.default_rng(0)
LINES = [(DRAW.zipf(1.3, DRAW.integers(0, 9)) % SIZE).tolist() for _ in range(25)]


@pytest.mark.parametrize(
    ("text", "positions", "order", "joined"),
    [
        (LINES, 7, 5, False),
        (LINES, 7, 3, True),
        (LINES, 40, 4, False),
        (LINES, 40, 5, True),
        (LINES, 100_000, 3, False),
        (LINES[:3], 2, 4, False),
        (LINES, 10, 1, False),
        ([[3]], 2, 3, False),
        ([[1], [], [2, 2]], 2, 5, False),
    ],
)
def test_counts_in_files_equal_those_in_memory(text, positions, order, joined, tmp_path):  # R115
    folder, memory = tmp_path / "files", positions * BYTES_PER_POSITION
    found = count_on_disk(iter(text), order, SIZE, [4, 0], folder, memory=memory, joined=joined)
    expected = NgramCounts.of(
        [[*itertools.chain.from_iterable(text)]] if joined else text, order, SIZE, [4, 0]
    )
    opened = found.open()
    assert (opened.order, opened.never) == (order, expected.never)
    for ours, theirs in zip(opened.levels, expected.levels, strict=True):
        assert ours.keys.tolist() == theirs.keys.tolist()
        assert ours.count.tolist() == theirs.count.tolist()
    assert {file.name for file in folder.iterdir()} == set(found.files)


def test_bad_input_is_refused(tmp_path):
    with refuses("ids", 30, 19):
        count_on_disk([[1, 30]], 2, SIZE, [], tmp_path / "a", memory=10_000)
    with refuses("the training text"):
        count_on_disk([[]], 2, SIZE, [], tmp_path / "b", memory=10_000)
    with refuses("order", 0):
        count_on_disk([[1]], 0, SIZE, [], tmp_path / "c", memory=10_000)
