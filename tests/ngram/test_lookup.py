"""Finding many keys at once: both ways equal a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from throughtime.ngram import lookup
from throughtime.ngram.lookup import MISSING, SortedKeys, build_table

DRAW = np.random.default_rng(0)
KEYS = {
    "none": np.empty(0, np.int64),
    "one": np.array([5]),
    "side by side": np.arange(1_000),
    "far apart": np.unique(DRAW.integers(0, 2**62, 3_000)),
    "in groups": np.unique(DRAW.integers(0, 40, 2_000) * 2**40 + DRAW.integers(0, 300, 2_000)),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("number", [0, 1, 7, 2_000])
def test_a_table_and_a_search_find_what_a_dictionary_finds(keys, number):  # R115
    there = DRAW.choice(keys, number) if len(keys) else np.empty(0, np.int64)
    wanted = DRAW.permutation(np.concatenate([there, there + 1, DRAW.integers(-1, 2**62, number)]))
    places = {int(key): place for place, key in enumerate(keys)}
    expected = [places.get(int(one), MISSING) for one in wanted]
    found = SortedKeys(keys)
    assert found.search(wanted).tolist() == expected
    if len(keys):
        assert found.look_up(wanted, build_table(keys)).tolist() == expected


def test_a_table_is_made_once_it_pays_and_never_for_very_many_keys(monkeypatch):
    made = []
    monkeypatch.setattr(lookup, "build_table", lambda keys: made.append(len(keys)) or build_table(keys))
    found, wanted = SortedKeys(np.arange(0, 2_000, 2)), np.array([4, 5])
    for _ in range(1_000):
        assert found.find(wanted).tolist() == [2, MISSING]
    assert made == [1_000]
    monkeypatch.setattr(lookup, "MAX_TABLE", 100)
    large = SortedKeys(np.arange(1_000))
    assert large.find(np.arange(2_000)).tolist() == [*range(1_000), *[MISSING] * 1_000]
    assert made == [1_000]
