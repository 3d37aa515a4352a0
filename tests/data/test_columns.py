"""Which columns of a table are read, in files of every format and in Python objects."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.refusals import refuses

from throughtime.data.dataset import find_file_language
from throughtime.data.datasets import describe_data, open_dataset
from throughtime.data.readers import READERS, by_suffix, names_format
from throughtime.data.readers.panel import Roles, read_series_panel
from throughtime.data.records import Pair
from throughtime.errors import MissingPackageError
from throughtime.registry import Registry

SENTENCES = [("Der Hund schläft.", "The dog sleeps."), ("Die Katze trinkt Milch.", "The cat drinks milk.")]
NUMBERED = "".join(f"{n}\t{one}\t{other}\tann\n" for n, (one, other) in enumerate(SENTENCES * 3))
PLAIN = "".join(f"{one}\t{other}\n" for one, other in SENTENCES * 3)
GERMAN, ENGLISH = (SENTENCES[0][0], SENTENCES[0][1]), (SENTENCES[0][1], SENTENCES[0][0])
CHOSEN = {"source": "Deutsch", "target": "English"}
TURNED = {"source": "English", "target": "Deutsch"}
CSV = PLAIN.replace("\t", ",")
WORD_LINES = "Der\tD\nHund\tN\nbellt\tV\n\nDie\tD\nKatze\tN\n"
SWAPPED = "D\tDer\nN\tHund\nV\tbellt\n\nD\tDie\nN\tKatze\n"
DOGS = (("Der", "Hund", "bellt"), ("D", "N", "V"), "")
NAMES = "Rossi,Rome\nBianchi,Rome\nSmith,Leeds\nJones,Leeds\n"
WORDS = "Hund\tdog\nKatze\tcat\nHaus\thouse\n"
REVIEWS = "1,fine food,good\n2,cold soup,bad\n3,warm soup,good\n"
MOODS = "u1,ann,fine food,good\nu2,ann,cold soup,bad\nu3,ann,warm soup,good\nu4,ann,old soup,bad\n"
PROSE = "fine food now,good,ann\ncold soup now,bad,ann\nwarm soup now,good,ann\nold soup now,bad,ann\n"
STORES = "".join(f"{s},2024-01-0{d},{d}.5,{d % 2}\n" for s in ("North", "South") for d in range(1, 5))
JSON = [{"id": n, "Deutsch": one, "English": other} for n, (one, other) in enumerate(SENTENCES)]
TAGGED = '{"tokens": ["Go", "."], "ner_tags": ["O", "O"]}\n'

READINGS: list[tuple[str, str, str | None, dict[str, str], Any]] = [
    # file, content, kind, chosen columns, the first record and the number of records, or facts of the refusal
    ("a.tsv", "id\tDeutsch\tEnglish\tby\n" + NUMBERED, "pairs", CHOSEN, (GERMAN, 6)),
    ("a.tsv", "id\tDeutsch\tEnglish\tby\n" + NUMBERED, "pairs", TURNED, (ENGLISH, 6)),
    ("a.tsv", "id\tDeutsch\tEnglish\tby\n" + NUMBERED, "pairs", {"source": "1", "target": "2"}, (GERMAN, 6)),
    ("a.tsv", "id\tDeutsch\tEnglish\tby\n" + NUMBERED, "pairs", {}, ["'Deutsch'", "source=Deutsch"]),
    ("a.tsv", NUMBERED, "pairs", {}, ["source=1", "target=2"]),
    ("a.tsv", NUMBERED, "pairs", {"source": "1", "target": "2"}, (GERMAN, 6)),
    ("a.tsv", "Deutsch\tEnglish\n" + PLAIN, "pairs", CHOSEN, (GERMAN, 6)),
    ("a.tsv", "Deutsch\tEnglish\n" + PLAIN, "pairs", TURNED, (ENGLISH, 6)),
    ("a.tsv", "Deutsch\tEnglish\n" + PLAIN, "pairs", {"source": "English"}, (ENGLISH, 6)),
    ("a.tsv", "Deutsch\tEnglish\n" + PLAIN, "pairs", {"source": "Deutsh"}, ["'Deutsh'", "'Deutsch'"]),
    ("a.tsv", "Deutsch\tEnglish\n" + PLAIN, "pairs", {}, ["'Deutsch'", "source=Deutsch", "source=0"]),
    ("a.tsv", "German\tEnglish\n" + PLAIN, "pairs", {}, (GERMAN, 6)),
    ("a.tsv", "src\ttgt\n" + PLAIN, "pairs", {}, (GERMAN, 6)),
    ("a.tsv", PLAIN, "pairs", {}, (GERMAN, 6)),
    ("a.tsv", PLAIN, "pairs", {"source": "de", "target": "en"}, (GERMAN, 6)),
    ("a.tsv", PLAIN, "pairs", {"source": "Deutsh"}, ["'Deutsh'", "source=0"]),
    ("a.tsv", PLAIN.replace("\n", "\tCC-BY 2.0\n"), "pairs", {}, (GERMAN, 6)),
    ("a.tsv", WORDS, "pairs", {}, ["'Hund'", "source=0", "source=Hund"]),
    ("a.tsv", WORDS, "pairs", {"source": "0", "target": "1"}, (("Hund", "dog"), 3)),
    ("a.tsv", WORDS + "kleiner Hund\tpuppy\n", "pairs", {}, (("Hund", "dog"), 4)),
    ("b.csv", "term,gloss\n" + WORDS.replace("\t", ","), "pairs", {}, ["'term'", "source=term"]),
    ("b.csv", '"Satz, neu",Gegenstück\n' + CSV, "pairs", {}, ["'Satz, neu'", "source='Satz, neu'"]),
    ("a.csv", "id,de,en\n1,Go,Los\n2,Run,Lauf\n", "pairs", {}, (("Go", "Los"), 2)),
    ("a.csv", CSV, "pairs", {}, (GERMAN, 6)),
    ("a.csv", "nr,ja,nein,x\n1,a,b,c\n2,d,e,f\n", "pairs", {}, ["'ja'", "source=ja", "target=nein"]),
    ("a.jsonl", "".join(json.dumps(row) + "\n" for row in JSON), "pairs", TURNED, (ENGLISH, 2)),
    (
        "a.jsonl",
        "".join(json.dumps(row) + "\n" for row in JSON),
        "pairs",
        {},
        ["'English'", "source=Deutsch"],
    ),
    ("a.csv", "id,review,stars\n" + REVIEWS, "labelled", {}, (("fine food", "good"), 3)),
    ("a.csv", "nr,by,satz,laune\n" + MOODS, "labelled", {"text": "satz"}, ["label=laune"]),
    ("a.csv", "satz,laune,by\n" + PROSE, "described", {}, ["condition=laune", "text=satz"]),
    ("a.tsv", "source\ttarget\n", "pairs", {}, ["header", "rows"]),
    ("b.csv", "text\n", None, {}, ["header", "rows"]),
    ("a.csv", "x,x,stars\n" + REVIEWS, "labelled", {"text": "x"}, ["'x'", "twice"]),
    ("a.csv", "id,prose,verdict\n" + REVIEWS, "labelled", {}, ["text=prose", "label=verdict"]),
    (
        "a.csv",
        "id,prose,verdict\n" + REVIEWS,
        "labelled",
        {"label": "verdict", "text": "Prose"},
        (("fine food", "good"), 3),
    ),
    (
        "a.tsv",
        "fine food\tgood\ncold soup\tbad\nwarm soup\tgood\n",
        "labelled",
        {},
        (("fine food", "good"), 3),
    ),
    ("b.csv", "who,where\n" + NAMES, "labelled", {}, ["'who'", "text=who", "label=where"]),
    ("b.csv", NAMES, "labelled", {}, (("Rossi", "Rome"), 4)),
    (
        "a.csv",
        "id,mood,poem\n" + REVIEWS,
        "described",
        {"condition": "poem", "text": "mood"},
        (("fine food", "good"), 3),
    ),
    ("a.jsonl", '{"v": [1, 2], "poem": "a b"}\n', "described", {"condition": "v"}, (("a b", (1.0, 2.0)), 1)),
    ("a.csv", "words,tags\nGo now,V A\n", "tags", {}, ((("Go", "now"), ("V", "A"), ""), 1)),
    (
        "a.csv",
        "x,satz,pos\n1,Go now,V A\n",
        "tags",
        {"words": "satz", "tags": "pos"},
        ((("Go", "now"), ("V", "A"), ""), 1),
    ),
    ("a.tsv", "Go\tV\nnow\tA\n\nHi\tI\n", "tags", {}, ((("Go", "now"), ("V", "A"), ""), 2)),
    ("a.tsv", "Wort\tArt\n" + WORD_LINES, "tags", {}, ["'Wort'", "words=0", "words=Wort"]),
    ("a.tsv", "Wort\tArt\n" + WORD_LINES, "tags", {"words": "Wort", "tags": "Art"}, (DOGS, 2)),
    ("a.tsv", "Art\tWort\n" + SWAPPED, "tags", {"words": "Wort"}, (DOGS, 2)),
    ("a.tsv", "Wort\tArt\n" + WORD_LINES, "tags", {"words": "Wrt", "tags": "Art"}, ["'Wrt'", "words=Wort"]),
    ("a.tsv", "token\tpos\n" + WORD_LINES, "tags", {}, (DOGS, 2)),
    ("a.tsv", WORD_LINES, "tags", {}, (DOGS, 2)),
    (
        "a.tsv",
        WORD_LINES.replace("\t", "\tx\t"),
        "tags",
        {"words": "0", "tags": "1"},
        ((DOGS[0], ("x",) * 3, ""), 2),
    ),
    ("a.tsv", "id\tde\tx\n1\tDer Hund bellt\tD N V\n2\tEin Tag\tD N\n", "tags", {}, ["words=de", "tags=x"]),
    ("a.jsonl", TAGGED, "tags", {}, ((("Go", "."), ("O", "O"), ""), 1)),
    ("a.csv", "text\nGo now.\nRun.\n", None, {}, (("Go now.",), 2)),
    ("a.tsv", "text\nGo now.\nRun.\n", None, {}, (("Go now.",), 2)),
    ("b.csv", "Satz\nGeh jetzt.\nLauf.\n", None, {}, ["'Satz'", "text=Satz"]),
    ("a.csv", "who,body,when,mood\nbob,Go now.,2024-01-01,pos\n", None, {}, (("Go now.",), 1)),
    ("a.csv", "id,title,body\n" + REVIEWS, "text", {"text": "title"}, (("fine food",), 3)),
    (
        "a.csv",
        "store,date,revenue,promo\n" + STORES,
        "series",
        {},
        (("North/revenue", "2024-01-01", 1.5), 16),
    ),
    (
        "a.csv",
        "a,store,date,x,z\n" + "k," + STORES.replace("\n", "\nk,").removesuffix("k,"),
        "series",
        {},
        ["'store'", "target"],
    ),
    (
        "a.csv",
        "sent,due,units\n2024-01-01,2024-02-01,3\n2024-01-02,2024-02-02,4\n",
        "series",
        {},
        ["time=sent"],
    ),
    ("a.csv", "shop,sold\nN,1\nN,2\nS,3\n", "series", {}, ["'shop'", "id=shop", "target=sold"]),
    (
        "a.jsonl",
        '{"day": "2024-01-01", "y": 2}\n{"day": "2024-01-02", "y": 3}\n',
        "series",
        {},
        (("a", "2024-01-01", 2.0), 2),
    ),
]


@pytest.mark.parametrize(
    ("name", "content", "kind", "columns", "expected"), READINGS, ids=range(len(READINGS))
)
def test_small_files_and_their_right_reading(
    tmp_path: Path, name: str, content: str, kind: str | None, columns: dict[str, str], expected: Any
) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    if isinstance(expected, list):
        with refuses(f"{name}:1", *expected):
            list(open_dataset(str(path), kind=kind, **columns).records())
    else:
        records = list(open_dataset(str(path), kind=kind, **columns).records())
        assert (tuple(records[0]), len(records)) == expected


class Column(list[Any]):
    def to_list(self) -> list[Any]:
        return list(self)


class Frame:
    def __init__(self, rows: list[list[Any]]) -> None:
        self.columns, cells = rows[0], zip(*rows[1:], strict=True)
        self.cells = dict(zip(self.columns, map(Column, cells), strict=True))

    def __getitem__(self, name: str) -> Column:
        return self.cells[name]


@pytest.mark.parametrize(
    ("name", "content", "kind", "columns", "expected"),
    [
        one
        for one in READINGS
        if one[0] == "a.csv" and "x,x" not in one[1] and one[1] is not CSV and one[2] != "series"
    ],
)
def test_frames_are_read_as_files_are(
    name: str, content: str, kind: str | None, columns: dict[str, str], expected: Any, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    frame = Frame(list(csv.reader(content.splitlines())))
    if isinstance(expected, list):
        with refuses("data", *expected):
            open_dataset(frame, kind=kind, **columns)
        return
    stored, given = open_dataset(str(path), kind=kind, **columns), open_dataset(frame, kind=kind, **columns)
    assert list(stored.records()) == list(given.records())
    assert (stored.columns, stored.languages) == (given.columns, given.languages)


def test_times_that_recur_ask_for_the_column_of_numbers_that_may_name_the_series(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{n},2024-01-0{day},{day}.5\n" for n in (11, 12) for day in range(1, 5)]
    path.write_text("sensor,date,heat\n" + "".join(rows))
    with refuses("a.csv:6", "id=sensor", "target=heat"):
        read_series_panel(open_dataset(str(path), kind="series"))
    chosen = open_dataset(str(path), kind="series", id="sensor")
    assert [one.unique_id for one in read_series_panel(chosen).series] == ["11", "12"]
    path.write_text("date,heat\n2024-01-01,1\n2024-01-01,2\n")
    with refuses("a.csv:3", "2024-01-01") as told:
        read_series_panel(open_dataset(str(path), kind="series"))
    assert told.value.skippable


def test_frames_of_stores_are_read_as_files_are(tmp_path: Path) -> None:
    path = tmp_path / "stores.csv"
    path.write_text("store,date,revenue,promo\n" + STORES)
    rows = list(csv.reader(path.read_text().splitlines()))
    roles = Roles(target=("revenue",), known=("promo",))
    for data in (str(path), Frame(rows)):
        for columns in ({}, {"id": "store", "time": "date"}):
            panel = read_series_panel(open_dataset(data, kind="series", **columns), roles)
            assert [one.unique_id for one in panel.series] == ["North", "South"]
            assert panel.series[1].y.tolist() == [1.5, 2.5, 3.5, 4.5]
            assert panel.series[0].known.ravel().tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("file", "content", "columns", "facts"),
    [
        ("a.txt", "one\n", {"text": "x"}, ("text", "'x'")),
        ("a.txt", "one\n", {"source": "en"}, ("source", "'en'")),
        ("a.conll", "Go\tV\n", {"words": "x"}, ("words", "'x'")),
        ("a.tsv", PLAIN, {"text": "x", "source": "y"}, ("source and text",)),
        ("a.jsonl", TAGGED, {"sorce": "x"}, ("'sorce'", "'source'")),
        ("embedded/en-fr", "", {"text": "x"}, ("text", "embedded/en-fr")),
    ],
)
def test_choices_without_effect_are_refused(
    tmp_path: Path, file: str, content: str, columns: dict[str, str], facts: tuple[str, ...]
) -> None:
    path = tmp_path / file
    if content:
        path.write_text(content)
    with refuses(*facts):
        open_dataset(str(path) if content else file, **columns)
    if len(columns) == 1 and "sorce" not in columns:
        open_dataset(str(path) if content else file, strict=False, **columns)


def test_languages_that_two_files_do_not_have_are_refused(tmp_path: Path) -> None:
    for name in ("m.en", "m.fr"):
        (tmp_path / name).write_text("a\n")
    with refuses(f"{tmp_path}/m.en,{tmp_path}/m.fr", "'de'", "en", "fr"):
        open_dataset(f"{tmp_path}/m.en,{tmp_path}/m.fr", source="de")


def test_source_and_target_reach_readers_of_other_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [EntryPoint("pipes", f"{__name__}:Memory", "throughtime.readers")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: places * (group == READERS.group))
    other = Registry("reader", READERS.group, READERS._own)
    for module in ("readers", "datasets"):
        monkeypatch.setattr(f"throughtime.data.{module}.READERS", other)
    by_suffix.cache_clear()
    path = tmp_path / "a.pipes"
    path.write_text("en=Go. fr=Va!\n")
    try:
        dataset = open_dataset(str(path), source="fr", target="en")
        assert (list(dataset.records()), dataset.languages) == ([Pair("Va!", "Go.")], ("fr", "en"))
        assert (by_suffix()[".pipes"], find_file_language("a.pipes"), names_format("pip")) == (
            "pipes",
            None,
            True,
        )
        with refuses("label", "'x'", "pipes"):
            open_dataset(str(path), label="x", text="y")
    finally:
        by_suffix.cache_clear()


class Memory:
    name: ClassVar[str] = "pipes"
    kind: ClassVar[str] = "pairs"
    suffixes: ClassVar[tuple[str, ...]] = (".pipes", ".pip")

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target

    def read(self, paths: Any, bad: Any) -> Any:
        for path in paths:
            sides = dict(word.split("=") for word in path.read_text().split())
            yield Pair(sides[self.source], sides[self.target])


@pytest.mark.parametrize(
    ("name", "content", "kind", "columns", "line"),
    [
        ("a.tsv", "Deutsch\tEnglish\n" + PLAIN, "pairs", CHOSEN, "6 pairs, column Deutsch -> column English"),
        (
            "a.tsv",
            PLAIN,
            "pairs",
            {"source": "de", "target": "en"},
            "6 pairs, column 0 -> column 1 (de -> en)",
        ),
        (
            "a.csv",
            "id,review,stars\n" + REVIEWS,
            "labelled",
            {},
            "3 labelled texts, column review -> column stars",
        ),
        ("a.txt", "one\ntwo\n", None, {}, "2 lines"),
        (
            "a.csv",
            "store,date,revenue\n" + STORES.replace(",0\n", "\n").replace(",1\n", "\n"),
            "series",
            {},
            "8 rows of 2 series, series in column store, times in column date, values in column revenue",
        ),
    ],
)
def test_one_line_says_what_was_read(
    tmp_path: Path, name: str, content: str, kind: str | None, columns: dict[str, str], line: str
) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    assert describe_data(open_dataset(str(path), kind=kind, **columns)) == f"{path}: {line}"


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingPackageError, match="parquet"):
        open_dataset(str(tmp_path / "a.parquet"), kind="pairs")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow, the extra parquet")
def test_parquet_is_read_as_other_tables_are(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(JSON), path)
    assert next(open_dataset(str(path), kind="pairs", **TURNED).records()) == Pair(*ENGLISH)
    with refuses("a.parquet:1", "source=Deutsch"):
        open_dataset(str(path), kind="pairs")
    stores = [dict(zip(("store", "date", "x"), row.split(",")[:3], strict=True)) for row in STORES.split()]
    parquet.write_table(pyarrow.Table.from_pylist(stores), path)
    assert len(read_series_panel(open_dataset(str(path), kind="series")).series) == 2


def test_a_pipe_is_not_read_as_parquet(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.parquet")
    with refuses("a.parquet", "pipe"):
        open_dataset(str(tmp_path / "a.parquet"), kind="pairs")


@pytest.mark.parametrize("kind", [None, "series"])
def test_a_header_of_values_without_rows_is_refused(tmp_path: Path, kind: str | None) -> None:
    path = tmp_path / "y.csv"
    path.write_text("y\n")
    with refuses("y.csv:1", "header", "rows"):
        list(open_dataset(str(path), kind=kind).records())
