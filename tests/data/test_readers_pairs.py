"""Readers of sentence pairs and of plain text."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.readers import READERS, build_reader, reader_for
from throughtime.data.records import Line, Pair
from throughtime.data.source import BadRecords

TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20)
MANY_LINES = st.text(st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from('\n\t",'), max_size=20)


def read(name: str, *paths: Path, **options: object) -> list[Pair]:
    return list(build_reader(name, options).read(paths, BadRecords()))


def put(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round-trips")


def test_text_keeps_blank_lines(tmp_path: Path) -> None:
    file = put(tmp_path / "a.txt", "\n = Title = \n\nend")
    assert read("text", file, file) == [Line(""), Line(" = Title = "), Line(""), Line("end")] * 2


def test_tsv_columns(tmp_path: Path) -> None:  # R77
    file = put(tmp_path / "a.tsv", 'Go.\tVa !\tCC-BY #1\r\n"Hi," he said.\t«\xa0Salut\xa0»\r\n')
    pairs = read("tsv", file)
    assert pairs == [Pair("Go.", "Va !"), Pair('"Hi," he said.', "«\xa0Salut\xa0»")]
    assert read("tsv", file, source=1, target=0) == [Pair(target, source) for source, target in pairs]


def test_tsv_errors(tmp_path: Path) -> None:  # R77
    file = put(tmp_path / "a.tsv", "Go.\tVa !\nRun!\n\nHi.\tSalut !\n")
    with refuses("a.tsv:2", "1", "2"):
        read("tsv", file)
    bad = BadRecords(skip=True)
    assert list(READERS["tsv"]().read([file], bad)) == [Pair("Go.", "Va !"), Pair("Hi.", "Salut !")]
    assert sorted(bad.reasons.values()) == [1, 1]
    with refuses("a.tsv:1", "2", "6"):
        read("tsv", file, source=0, target=5)
    with refuses("tsv", "0"):
        read("tsv", file, target=-1)


def test_a_line_that_is_not_utf8_is_a_bad_record(tmp_path: Path) -> None:
    for name in ("text", "tsv", "jsonl"):
        good = {"jsonl": b'{"src": "a", "tgt": "b"}'}.get(name, b"a\tb")
        file = put(tmp_path / name, good + b"\nd\xe9j\xe0\t\n" + good)
        bad = BadRecords(skip=True)
        assert len(list(READERS[name]().read([file], bad))) == 2
        assert bad.reasons == {"is not UTF-8": 1}


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1))
def test_tsv_round_trip(folder: Path, pairs: list[tuple[str, str]]) -> None:
    file = put(folder / "a.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs))
    if not pairs[0][0].startswith("\ufeff"):
        assert read("tsv", file, header=False) == pairs


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(MANY_LINES, MANY_LINES), min_size=1))
def test_csv_round_trip(folder: Path, pairs: list[tuple[str, str]]) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([("source", "target"), *pairs])
    assert read("csv", put(folder / "a.csv", out.getvalue())) == pairs


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(MANY_LINES, MANY_LINES), min_size=1), escape=st.booleans())
def test_jsonl_round_trip(folder: Path, pairs: list[tuple[str, str]], escape: bool) -> None:
    lines = [json.dumps({"src": source, "tgt": target}, ensure_ascii=escape) for source, target in pairs]
    assert read("jsonl", put(folder / "a.jsonl", "\n".join(lines))) == pairs


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1))
def test_moses_round_trip(folder: Path, pairs: list[tuple[str, str]]) -> None:
    sides = [
        put(folder / f"a.{side}", "\ufeff" + "".join(f"{pair[side]}\n" for pair in pairs)) for side in (0, 1)
    ]
    assert read("moses", *sides) == pairs


def test_csv_columns(tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", "id,english,french\n1,Go.,Va !\n\n2,Hi.,Salut !\n")
    pairs = [Pair("Go.", "Va !"), Pair("Hi.", "Salut !")]
    assert read("csv", file, source="english", target="french") == pairs
    assert read("csv", file, source=1, target=2, header=True) == pairs
    assert read("csv", file, source="1", target="2") == pairs
    assert read("csv", file, source="1", target="2", header=False) == [Pair("english", "french"), *pairs]
    with refuses("a.csv:1", "'fench'", "'french'"):
        read("csv", file, source="english", target="fench")
    with refuses("a.csv:1", "3", "7"):
        read("csv", file, source=0, target=7)
    assert read("csv", file) == pairs  # the only names of languages
    with refuses("b.csv:1", "source", "target", "'id'"):
        read("csv", put(tmp_path / "b.csv", "id,simple,hard\n1,Go.,Depart.\n2,Hi.,Hello.\n"))
    with refuses("a.csv:1", "'english'", "target"):
        read("csv", file, source="english")


CSV_FAULTS = {
    b"Hi, you,Salut\n": ("3", "2"),
    b"Hi\n": ("1", "2"),
    b'"Hi" you,Salut\n': (),
    b"d\xe9j\xe0,deja\n": ("UTF-8", "0xE9"),
}


@pytest.mark.parametrize(("row", "facts"), CSV_FAULTS.items())
def test_csv_errors_name_the_line_after_cells_of_many_lines(
    tmp_path: Path, row: bytes, facts: tuple[str, ...]
) -> None:
    file = put(tmp_path / "a.csv", b'src,tgt\n"Go\nnow","Va\n!"\n' + row + b"Yes.,Oui.\n")
    with refuses("a.csv:5", *facts):
        read("csv", file)
    bad = BadRecords(skip=True)
    assert list(READERS["csv"]().read([file], bad)) == [Pair("Go\nnow", "Va\n!"), Pair("Yes.", "Oui.")]
    assert bad.count == 1


def test_csv_quote_never_closed(tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", 'src,tgt\nGo.,Va !\n"Hi.,Salut !\n' + "a,b\n" * 3)
    with refuses("a.csv:3"):
        read("csv", file)
    file = put(tmp_path / "b.csv", 'src,tgt\n"' + "a,b\n" * 300_000)
    with refuses("b.csv:2", "1,048,576"):
        read("csv", file)
    chapter = "a b " * 50_000
    assert read("csv", put(tmp_path / "c.csv", f'src,tgt\n"{chapter}",b\n'))[0].source == chapter


def test_jsonl_forms(tmp_path: Path) -> None:  # R77
    file = put(tmp_path / "a.jsonl", '{"translation": {"en": "Go.", "fr": "Va !"}}\n\n')
    assert read("jsonl", file) == [Pair("Go.", "Va !")]
    assert read("jsonl", file, source="fr", target="en") == [Pair("Va !", "Go.")]
    for fields in ('{"source": "Go.", "target": "Va !"}', '{"tgt": "Va !", "id": 1, "src": "Go."}'):
        assert read("jsonl", put(file, fields)) == [Pair("Go.", "Va !")]
    cards = put(file, '{"english": "Go.", "hsk": "1", "mandarin": "去。"}')
    assert read("jsonl", cards, source="english", target="mandarin") == [Pair("Go.", "去。")]


JSONL_FAULTS = {
    '{"src": "Go."': ("JSON",),
    '["Go.", "Va !"]': ("JSON",),
    '{"src": "Go."}': ("'tgt'", "'src'"),
    '{"src": "Go.", "tgt": 5}': ("'tgt'", "5"),
    '{"src": "Go.", "tgt": "\\u0000"}': ("'tgt'", "U+0000"),
    '{"src": "\\ud800", "tgt": "Va !"}': ("'src'", "U+D800"),
    "[" * 100_000: (),
}


@pytest.mark.parametrize(("line", "facts"), JSONL_FAULTS.items(), ids=range(len(JSONL_FAULTS)))
def test_jsonl_errors(tmp_path: Path, line: str, facts: tuple[str, ...]) -> None:
    good = '{"src": "Hi.", "tgt": "Salut !"}\n'
    file = put(tmp_path / "a.jsonl", good + line + "\n" + good)
    with refuses("a.jsonl:2", *facts):
        read("jsonl", file)
    bad = BadRecords(skip=True)
    assert list(READERS["jsonl"]().read([file], bad)) == [Pair("Hi.", "Salut !")] * 2
    assert bad.count == 1


def test_moses_of_unequal_length(tmp_path: Path) -> None:  # R77
    english, french = (
        put(tmp_path / "a.en", "Go.\nHi.\nRun!\nYes.\n"),
        put(tmp_path / "a.fr", "Va !\nSalut !\n"),
    )
    for skip in (False, True):
        with refuses("a.en:3", "a.en", "4", "a.fr", "2"):
            list(READERS["moses"]().read([english, french], BadRecords(skip)))
    with refuses("a.en:3", "a.fr", "2", "a.en", "4"):
        read("moses", french, english)
    with refuses("moses", "source", "target", "a.en"):
        read("moses", english)


def test_moses_skips_both_sides_of_a_bad_line(tmp_path: Path) -> None:
    english, french = (
        put(tmp_path / "a.en", b"Go.\nHi\xe9.\nRun!"),
        put(tmp_path / "a.fr", "Va !\nSalut !\nCours !"),
    )
    bad = BadRecords(skip=True)
    assert list(READERS["moses"]().read([english, french], bad)) == [
        Pair("Go.", "Va !"),
        Pair("Run!", "Cours !"),
    ]
    assert bad.count == 1


def test_guesses(tmp_path: Path) -> None:
    def guess(name: str, text: str) -> str:
        return reader_for([put(tmp_path / name, text)]).name

    assert [guess("a.tsv", text) for text in ("x\ty", "x")] == ["tsv", "texts"]
    assert guess("a.jsonl", "x") == "jsonl"
    assert guess("a.txt", "Once upon a time\nthere\twas\n") == "text"
    assert guess("fra.txt", "Go.\tVa !\nHi.\tSalut !\n") == "tsv"
    assert guess("deck.txt", "english: Go.\n") == "hsk"
    assert guess("a.conll", "x\tX\n") == "columns"
    assert guess("pairs.csv", "source,target\nGo.,Va !\n") == "csv"
    assert guess("dated.csv", "day,rain\n2020-01-01,1\n") == "series"
    assert guess("numbers.csv", "rain\n1\n") == "series"
    assert guess("bare.csv", "1\n2\n") == "series"
    assert reader_for(["a.en", "a.fr"]).name == "moses"
    with refuses("file"):
        reader_for([])


def test_options_are_checked() -> None:
    with refuses("reader", "'tvs'", "'tsv'"):
        build_reader("tvs")
    with refuses("tsv", "'sorce'", "'source'"):
        build_reader("tsv", {"sorce": 1})
    with refuses("columns", "comments", "'maybe'"):
        build_reader("columns", {"comments": "maybe"})
    with refuses("moses", "'source'"):
        build_reader("moses", {"source": "en"})
    columns = build_reader("columns", {"tag": "-2", "separator": "\\t", "comments": "yes"})
    assert vars(columns) == {"word": None, "tag": -2, "separator": "\t", "comments": True}
    assert build_reader("series", {"values": "a, b"}).values == ("a", "b")  # type: ignore[attr-defined]


COUNTS = {
    "wikitext-2/wiki.train.tokens": 36_718,
    "ptb/ptb.train.txt": 42_068,
    "timemachine/timemachine.txt": 3_221,
    "tatoeba-fra-eng/fra.txt": 167_130,
    "tatoeba-cmn-eng/cmn.txt": 32_028,
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_corpora(corpora: Path, name: str) -> None:  # R68, R77
    records = list(reader_for([corpora / name]).read([corpora / name], BadRecords()))
    assert len(records) == COUNTS[name]
    if name == "tatoeba-fra-eng/fra.txt":
        assert records[0] == Pair("Go.", "Va !")


def test_multi30k(corpora: Path) -> None:  # R77
    files = [corpora / "multi30k" / "raw" / f"train.{language}" for language in ("en", "de")]
    assert sum(1 for _ in reader_for(files).read(files, BadRecords())) == 29_000
