"""Records written as CSV, TSV and JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.convert import write_records
from throughtime.data.readers import build_reader, reader_for
from throughtime.data.records import Flashcard, Line, Observation, Pair, TaggedSentence
from throughtime.data.source import BadRecords
from throughtime.errors import InputError, ThroughtimeError

ANY = st.text(st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from('\n\t",'))


def back(path: Path) -> list[Pair]:
    reader = reader_for([path])
    assert reader.kind == "pairs"
    return list(reader.read([path], BadRecords()))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@settings(deadline=None)
@given(pairs=st.lists(st.builds(Pair, ANY, ANY), min_size=1))
def test_pairs_come_back(tmp_path_factory: pytest.TempPathFactory, suffix: str, pairs: list[Pair]) -> None:
    out = tmp_path_factory.mktemp("convert") / f"pairs{suffix}"
    assert write_records(pairs, out) == (len(pairs), ("source", "target"))
    # The reader is named: a CSV file whose first row is two numbers would be taken for a series.
    assert list(build_reader(suffix[1:]).read([out], BadRecords())) == pairs


def test_flashcards_have_four_columns(tmp_path: Path) -> None:  # R78
    card = Flashcard("Don't rush: take it easy.", "1", "别急。", "bié jí。")
    count, columns = write_records([card, card], tmp_path / "deck.csv")
    assert (count, columns) == (2, ("english", "hsk", "mandarin", "pinyin"))
    with (tmp_path / "deck.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [card._asdict()] * 2


def test_tagged_sentences(tmp_path: Path) -> None:
    record = TaggedSentence(("play", "u2"), ("O", "B-artist"), "Play")
    write_records([record], tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text() == "play u2\tO B-artist\tPlay\n"
    write_records([record], tmp_path / "a.jsonl")
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {
        "words": ["play", "u2"],
        "tags": ["O", "B-artist"],
        "label": "Play",
    }
    with refuses("b.csv", "2", "'10 000'"):
        write_records([record, TaggedSentence(("10 000",), ("NUM",))], tmp_path / "b.csv")


def test_numbers_and_blank_lines(tmp_path: Path) -> None:
    write_records([Observation("a", "2020-01", 0.1)], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "unique_id,ds,y\na,2020-01,0.1\n"
    write_records([Line(""), Line("b")], tmp_path / "b.csv")
    with (tmp_path / "b.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["text"], [""], ["b"]]


@pytest.mark.parametrize("text", ["a\tb", "a\nb"])
def test_tsv_cannot_hold_tabs_and_line_breaks(tmp_path: Path, text: str) -> None:
    with refuses("a.tsv", "3"):
        write_records([Pair("a", "b")] * 2 + [Pair("a", text)], tmp_path / "a.tsv")
    assert list(tmp_path.iterdir()) == []


def test_whole_or_not_at_all(tmp_path: Path) -> None:
    def breaking() -> Iterator[Pair]:
        yield Pair("a", "b")
        raise InputError("a.tsv", "is bad", line=2)

    with refuses("a.tsv:2"):
        write_records(breaking(), tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_refusals(tmp_path: Path) -> None:
    pairs = [Pair("a", "b")]
    out = tmp_path / "a.csv"
    out.write_text("precious")
    with refuses("a.csv"):
        write_records(pairs, out)
    assert out.read_text() == "precious"
    write_records(pairs, out, force=True)
    assert back(out) == pairs
    with refuses("a.xlsx", "'.xlsx'"):
        write_records(pairs, tmp_path / "a.xlsx")
    (tmp_path / "b.csv").mkdir()
    with refuses("b.csv"):
        write_records(pairs, tmp_path / "b.csv")
    with refuses("c.csv", error=ThroughtimeError):
        write_records([], tmp_path / "c.csv")
