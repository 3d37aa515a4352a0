"""Filters of sentence pairs."""

from __future__ import annotations

from tests.refusals import refuses

from throughtime.data.convert import LENGTHS, PairFilters
from throughtime.data.records import Pair

PAIRS = [
    Pair("Go.", "Va !"),
    Pair("Go.", "Va !"),
    Pair("Go.", "Allez-y !"),
    Pair("OK", "OK "),
    Pair("Hi", " "),
    Pair("one two three four", "un"),
]


def kept(**options: object) -> tuple[list[int], dict[str, int]]:
    """Which of PAIRS pass, and why the others do not."""
    filters = PairFilters(**options)  # type: ignore[arg-type]
    passed = list(filters.apply(PAIRS))
    assert filters.kept == len(passed)
    assert filters.kept + filters.num_dropped == len(PAIRS)
    rest = iter(enumerate(PAIRS))
    return [next(index for index, pair in rest if pair is wanted) for wanted in passed], dict(filters.counts)


def test_each_filter_and_its_count() -> None:
    assert kept() == ([0, 1, 2, 3, 4, 5], {})
    assert kept(duplicates=True) == ([0, 2, 3, 4, 5], {"duplicate": 1})
    assert kept(same_source=True) == ([0, 3, 4, 5], {"same source": 2})
    assert kept(identical=True) == ([0, 1, 2, 4, 5], {"identical sides": 1})
    assert kept(empty=True) == ([0, 1, 2, 3, 5], {"empty side": 1})
    assert kept(max_length=3) == ([0, 1, 2, 3, 4], {"too long": 1})
    assert kept(max_length=4) == ([0, 1, 2, 3, 4, 5], {})
    assert kept(max_length=4, length=LENGTHS["characters"]) == ([0, 1, 3, 4], {"too long": 2})
    assert kept(max_ratio=2) == ([0, 1, 2, 3, 4], {"length ratio": 1})
    assert kept(max_ratio=4) == ([0, 1, 2, 3, 4, 5], {})


def test_a_pair_is_counted_for_one_reason() -> None:
    _, counts = kept(empty=True, identical=True, duplicates=True, same_source=True, max_length=3, max_ratio=2)
    assert counts == {"empty side": 1, "identical sides": 1, "too long": 1, "same source": 2}


def test_counts_add_up_but_duplicates_are_of_one_call() -> None:
    filters = PairFilters(duplicates=True)
    assert len(list(filters.apply(PAIRS))) == len(list(filters.apply(PAIRS))) == 5
    assert filters.report() == "kept 10 of 12 pairs: 2 duplicate"
    assert PairFilters().report() == "kept 0 of 0 pairs"
    assert filters.active
    assert not PairFilters().active


def test_options_out_of_range() -> None:
    with refuses("max_length", "0", "1"):
        PairFilters(max_length=0)
    with refuses("max_ratio", "0.5", "1"):
        PairFilters(max_ratio=0.5)
