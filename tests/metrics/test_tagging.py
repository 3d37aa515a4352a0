"""Chunks by the rules of conlleval, on cases worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throughtime.metrics.classification import ChunkCounts, Tagging, chunks, is_chunked

GOLDEN = [
    ("B-A I-A O", [("A", 0, 2)]),
    ("O I-A I-A", [("A", 1, 3)]),  # I- after O begins a chunk
    ("I-A I-B", [("A", 0, 1), ("B", 1, 2)]),  # another type begins another chunk
    ("B-A I-B I-B", [("A", 0, 1), ("B", 1, 3)]),
    ("B-A B-A", [("A", 0, 1), ("A", 1, 2)]),  # B- after B- too
    ("I-A I-A B-A", [("A", 0, 2), ("A", 2, 3)]),  # IOB1: B- parts neighbours of one type
    ("B-A I-A E-A S-A O", [("A", 0, 3), ("A", 3, 4)]),
    ("S-A S-A I-A", [("A", 0, 1), ("A", 1, 2), ("A", 2, 3)]),
    ("O E-A E-A", [("A", 1, 2), ("A", 2, 3)]),
    ("B-A E-A B-A E-A", [("A", 0, 2), ("A", 2, 4)]),
    ("B-A L-A U-B", [("A", 0, 2), ("B", 2, 3)]),  # BILOU
    ("B-A-x I-A-x I-A", [("A-x", 0, 2), ("A", 2, 3)]),  # the first hyphen parts role and type
    ("O O", []),
    ("", []),
]


@pytest.mark.parametrize(("tags", "expected"), GOLDEN)
def test_chunks(tags, expected):
    assert chunks(tags.split()) == expected


def conlleval(given, found):
    """Counts chunks word by word with two flags, as the script of the shared task does: IOB tags only."""

    def starts(before, tag):
        (role0, type0), (role, type_) = before, tag
        return (role0, role) in {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")} or (
            role != "O" and type0 != type_
        )

    def ends(before, tag):
        (role0, type0), (role, type_) = before, tag
        return (role0, role) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")} or (
            role0 != "O" and type0 != type_
        )

    def parted(tag):
        return tuple(tag.split("-")) if "-" in tag else (tag, "")

    right = total_given = total_found = 0
    before_given = before_found = ("O", "")
    inside = False
    for one, other in zip([*given, "O"], [*found, "O"], strict=True):
        one, other = parted(one), parted(other)
        if inside:
            both = ends(before_given, one), ends(before_found, other)
            if all(both) and before_given[1] == before_found[1]:
                right, inside = right + 1, False
            elif any(both) or one[1] != other[1]:
                inside = False
        begin_given, begin_found = starts(before_given, one), starts(before_found, other)
        if begin_given and begin_found and one[1] == other[1]:
            inside = True
        total_given, total_found = total_given + begin_given, total_found + begin_found
        before_given, before_found = one, other
    return ChunkCounts(total_given, total_found, right)


TAGS = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])


@given(st.lists(st.tuples(TAGS, TAGS), max_size=12))
def test_counts_are_those_of_a_pass_with_flags(pairs):
    given_tags, found = [one for one, _ in pairs], [other for _, other in pairs]
    judged = Tagging()
    judged.add(given_tags, found)
    assert judged.chunks == conlleval(given_tags, found)


def test_measures_of_a_sentence():
    judged = Tagging()
    judged.add("B-PER I-PER O B-LOC".split(), "B-PER I-PER B-LOC I-LOC".split())
    judged.add(["O", "B-LOC"], ["O", "B-LOC"])
    assert judged.accuracy == pytest.approx(4 / 6)
    assert judged.chunks == ChunkCounts(given=3, found=3, right=2)
    assert judged.chunks.precision == judged.chunks.recall == judged.chunks.f1 == pytest.approx(2 / 3)
    assert judged.types["PER"] == ChunkCounts(1, 1, 1)
    assert judged.types["LOC"] == ChunkCounts(2, 2, 1)
    assert judged.confusions == [("B-LOC", "I-LOC", 1), ("O", "B-LOC", 1)]
    assert judged.table()["O"] == {"B-LOC": 1, "O": 1}


def test_nothing_to_judge_is_zero():
    nothing = Tagging()
    assert (nothing.accuracy, nothing.chunks.f1, nothing.chunks.precision) == (0.0, 0.0, 0.0)
    nothing.add(["O"], ["B-A"])
    assert (nothing.chunks.recall, nothing.chunks.precision) == (0.0, 0.0)


def test_sentences_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="zip"):
        Tagging().add(["O"], ["O", "O"])


def test_word_classes_mark_no_chunks():
    assert not is_chunked(["NOUN", "O", "B-A"])
    assert is_chunked(["S-A", "O"])
    assert not is_chunked([])
