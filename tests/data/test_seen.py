"""The filter of training records: no false negatives, few false positives, two bytes a record. R130."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.data.seen import (
    FILE,
    HASHES,
    MIN_BYTES,
    SeenCount,
    SeenRecords,
    hash_rows,
    hash_texts,
    load_seen,
    save_seen,
)
from throughtime.folder import ModelFolder

SENTENCES = 40_000


def number(first: int, last: int) -> list[str]:
    return [f"Sentence number {place}, in full." for place in range(first, last)]


def test_every_record_is_known_and_hardly_another() -> None:
    seen = SeenRecords().add(hash_texts(number(0, SENTENCES)))
    known = seen.count(hash_texts(number(0, SENTENCES)))
    assert (known.records, known.trained_on, known.is_certain) == (SENTENCES, SENTENCES, True)
    others = seen.count(hash_texts(number(SENTENCES, 3 * SENTENCES)))
    assert 0 < others.trained_on <= 0.001 * 2 * SENTENCES
    assert others.by_chance == pytest.approx(others.trained_on, abs=5 * others.by_chance**0.5)
    assert not others.is_certain
    assert sum(map(len, seen.filters)) <= 2 * SENTENCES


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Café  au lait", "cafe\u0301 AU\tlait ", True),
        ("STRASSE", "straße", True),
        ("Ça va ?", "ça va\u202f?", True),
        ("ﬁn", "FIN", True),
        ("a b", "ab", False),
        ("resume", "résumé", False),
        ("あか", "アカ", False),
        ("\ud800 lone", "\ud800 LONE", True),
    ],
)
def test_case_spaces_and_composition_do_not_matter(one: str, other: str, same: bool) -> None:
    seen = SeenRecords().add(hash_texts([one]))
    assert seen.contains(next(hash_texts([other]))).tolist() == [same]


@pytest.mark.parametrize(("records", "known", "certain"), [(10, 1, True), (746, 2, False), (746, 4, True)])
def test_a_count_is_certain_if_chance_does_not_explain_it(records: int, known: int, certain: bool) -> None:
    assert SeenCount(records, known, 0.00047 * records).is_certain is certain


def test_rows_are_known_by_series_time_and_value() -> None:
    days = np.arange("2024-01-01", "2024-04-10", dtype="datetime64[D]").astype("datetime64[ns]")
    values = np.sin(np.arange(100.0))
    rows = hash_rows("shop", days, values)
    assert len(set(rows.tolist())) == 100
    seen = SeenRecords().add([rows[:80]])
    assert seen.count_after(rows) == 20
    assert seen.count_after(hash_rows("SHOP ", days, values + 1e-9)) == 20
    for other in (hash_rows("kiosk", days, values), hash_rows("shop", days[::-1], values)):
        assert seen.count_after(other) == 100
    gaps = np.where(np.arange(100) % 3 == 0, values, np.nan)  # missing values are rows too
    missing = hash_rows("shop", days, gaps)
    assert SeenRecords().add([missing[:80]]).count_after(missing) == 20
    assert hash_rows("a", np.arange(1), np.zeros(1)) == hash_rows("a", np.arange(1), np.full(1, -0.0))


def test_a_filter_is_read_as_it_was_written(tmp_path) -> None:
    seen = SeenRecords().add(hash_texts(number(0, 5)))
    save_seen(seen, folder := ModelFolder(tmp_path))
    save_seen(None, folder)
    loaded = load_seen(folder)
    assert loaded is not None
    assert loaded.filters[0].tobytes() == seen.filters[0].tobytes()
    assert len(loaded.filters[0]) == MIN_BYTES
    assert load_seen(None) is load_seen(ModelFolder(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("arrays", "about"),
    [
        ({"0": np.zeros(0, np.uint8)}, {"hashes": HASHES}),
        ({"0": np.zeros((2, 2), np.uint8)}, {"hashes": HASHES}),
        ({"0": np.zeros(8, np.float32)}, {"hashes": HASHES}),
        ({"0": np.zeros(8, np.uint8)}, {"hashes": 10**9}),
        ({"0": np.zeros(8, np.uint8)}, ["hashes"]),
    ],
)
def test_a_damaged_filter_is_refused(arrays, about, tmp_path) -> None:
    ModelFolder(tmp_path).write_arrays(FILE, arrays, about)
    with refuses(FILE):
        load_seen(ModelFolder(tmp_path))
    (tmp_path / FILE).write_bytes(b"no filter")
    with refuses(FILE):
        load_seen(ModelFolder(tmp_path))


def test_memory_holds_the_filter_alone() -> None:
    """Two million records have 32 MB of hashes and far more text; the filter has 4 MB."""
    script = """
import resource
from throughtime.data.seen import SeenRecords, hash_texts
SeenRecords().add(hash_texts(f"sentence {place}" for place in range(200_000)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seen = SeenRecords().add(hash_texts(f"sentence {place}" for place in range(2_000_000)))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, len(seen.filters[0]))
"""
    grown, size = map(int, subprocess.check_output([sys.executable, "-c", script]).split())
    assert size == 4_000_000
    assert grown < 12
