"""The five-line HSK format."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.readers import build_reader
from throughtime.data.records import Flashcard, Pair
from throughtime.data.source import BadRecords

CARD = Flashcard("Don't rush: take it easy: slowly.", "1", "别急: 慢慢来。", "bié jí: màn màn lái。")
SECOND = Flashcard("Go.", "2", "去。", "qù。")
VALUE = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1).filter(str.strip)


def block(card: Flashcard) -> list[str]:
    return [f"{field}: {value}" for field, value in card._asdict().items()] + ["--"]


def read(path: Path, lines: list[str], bad: BadRecords | None = None) -> list[Flashcard]:
    path.write_text("\n".join(lines), encoding="utf-8")
    return list(build_reader("hsk").read([path], bad or BadRecords()))


def test_text_after_a_second_colon_is_kept(tmp_path: Path) -> None:  # R78
    assert read(tmp_path / "deck.txt", block(CARD) + block(SECOND) + [""]) == [CARD, SECOND]


def test_the_last_dashes_and_blank_lines_between_records_may_differ(tmp_path: Path) -> None:
    assert read(tmp_path / "deck.txt", ["", *block(CARD), "", *block(SECOND)[:-1]]) == [CARD, SECOND]


@settings(deadline=None)
@given(cards=st.lists(st.builds(Flashcard, VALUE, VALUE, VALUE, VALUE), min_size=1))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, cards: list[Flashcard]) -> None:
    lines = [line for card in cards for line in block(card)]
    assert read(tmp_path_factory.mktemp("hsk") / "deck.txt", lines) == cards


FAULTS: list[tuple[int, str, tuple[str, ...]]] = [
    (1, "level: 2", ("'hsk: ...'", "'level: 2'")),
    (2, "mandarin: ", ("'mandarin:'",)),
    (3, "--", ("'pinyin: ...'",)),
    (4, "note: x\n--", ("'--'", "'note: x'")),
    (0, "english:Go.", ("'english: ...'", "'english:Go.'")),
]


@pytest.mark.parametrize(("place", "line", "facts"), FAULTS)
def test_malformed_records_name_their_line(
    tmp_path: Path, place: int, line: str, facts: tuple[str, ...]
) -> None:  # R77, R78
    wrong = block(SECOND)
    wrong[place] = line
    if line == "--":
        wrong.pop()
    lines = block(CARD) + wrong + block(CARD)
    file = tmp_path / "deck.txt"
    with refuses(f"{file}:{6 + place}", *facts):
        read(file, lines)
    bad = BadRecords(skip=True)
    assert read(file, lines, bad) == [CARD, CARD]
    assert bad.count == 1


@pytest.mark.parametrize("left", [1, 2, 3])
def test_an_unfinished_last_record_is_named_by_a_line_that_is_there(tmp_path: Path, left: int) -> None:  # R77
    with refuses(f"deck.txt:{5 + left}", f"'{Flashcard._fields[left]}: ...'"):
        read(tmp_path / "deck.txt", block(CARD) + block(SECOND)[:left])


def test_a_line_that_is_not_utf8_spoils_its_record_once(tmp_path: Path) -> None:
    file = tmp_path / "deck.txt"
    good = "\n".join(block(SECOND)).encode()
    file.write_bytes(good.replace(b"2", b"\xe9") + b"\n" + good)
    bad = BadRecords(skip=True)
    assert list(build_reader("hsk").read([file], bad)) == [SECOND]
    assert bad.reasons == {"is not UTF-8": 1}


def test_a_wrong_file_is_one_bad_record(tmp_path: Path) -> None:
    bad = BadRecords(skip=True)
    assert read(tmp_path / "novel.txt", ["It was a dark night."] * 1000, bad) == []
    assert bad.count == 1


def test_as_pairs(tmp_path: Path) -> None:
    file = tmp_path / "deck.txt"
    file.write_text("\n".join(block(SECOND)), encoding="utf-8")
    assert list(build_reader("hsk-pairs").read([file], BadRecords())) == [Pair("Go.", "去。")]
    turned = build_reader("hsk-pairs", {"source": "mandarin", "target": "pinyin"})
    assert list(turned.read([file], BadRecords())) == [Pair("去。", "qù。")]
    with refuses("flashcard", "'chinese'"):
        build_reader("hsk-pairs", {"target": "chinese"})


def test_the_whole_deck(corpora: Path) -> None:  # R78
    file = corpora / "hsk-en-zh" / "hsk-en-zh.txt"
    cards = list(build_reader("hsk").read([file], BadRecords()))
    assert len(cards) == 22_131
    assert sum(": " in card.english for card in cards) > 10
