"""Readers of sentence pairs and of plain text."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from throughtime.data.readers import READERS, build_reader, reader_for
from throughtime.data.records import Line, Pair
from throughtime.data.source import BadRecords
from throughtime.errors import InputError

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
    with pytest.raises(InputError, match=r"a\.tsv:2: has 1 column, expected at least 2 separated by tabs"):
        read("tsv", file)
    bad = BadRecords(skip=True)
    assert list(READERS["tsv"]().read([file], bad)) == [Pair("Go.", "Va !"), Pair("Hi.", "Salut !")]
    assert bad.reasons == {"has 1 column": 1, "is blank": 1}
    with pytest.raises(InputError, match=r"a\.tsv:1: has 2 columns, expected at least 6"):
        read("tsv", file, target=5)
    with pytest.raises(InputError, match="count columns from 0"):
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
        assert read("tsv", file) == pairs


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
    assert read("csv", file, source="1", target="2") == [Pair("english", "french"), *pairs]
    with pytest.raises(InputError, match=r"a\.csv:1: unknown column 'fench'; did you mean 'french'\?"):
        read("csv", file, source="english", target="fench")
    with pytest.raises(InputError, match=r"a\.csv:1: has 3 columns, so no column 7"):
        read("csv", file, source=0, target=7)
    with pytest.raises(InputError, match=r"a\.csv:1: .*source and target, .*'id'"):
        read("csv", file)
    with pytest.raises(InputError, match="source and target go together"):
        read("csv", file, source="english")


CSV_FAULTS = {
    "has 3 cells, the first row has 2; quote a text": "Hi, you,Salut\n",
    "has 1 cell, the first row has 2": "Hi\n",
    "has text after a closing quote": '"Hi" you,Salut\n',
    "is not UTF-8, byte 0xE9": b"d\xe9j\xe0,deja\n",
}


@pytest.mark.parametrize("problem", CSV_FAULTS)
def test_csv_errors_name_the_line_after_cells_of_many_lines(tmp_path: Path, problem: str) -> None:
    fault = CSV_FAULTS[problem]
    row = fault if isinstance(fault, bytes) else fault.encode()
    file = put(tmp_path / "a.csv", b'src,tgt\n"Go\nnow","Va\n!"\n' + row + b"Yes.,Oui.\n")
    with pytest.raises(InputError, match=rf"a\.csv:5: {problem}"):
        read("csv", file)
    bad = BadRecords(skip=True)
    assert list(READERS["csv"]().read([file], bad)) == [Pair("Go\nnow", "Va\n!"), Pair("Yes.", "Oui.")]
    assert bad.count == 1


def test_csv_quote_never_closed(tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", 'src,tgt\nGo.,Va !\n"Hi.,Salut !\n' + "a,b\n" * 3)
    with pytest.raises(InputError, match=r"a\.csv:3: opens a quote that is never closed"):
        read("csv", file)
    file = put(tmp_path / "b.csv", 'src,tgt\n"' + "a,b\n" * 50_000)
    with pytest.raises(InputError, match=r"b\.csv:2: holds a cell of more than 131,072 characters"):
        read("csv", file)


def test_csv_with_a_bad_header_is_refused_even_when_skipping(tmp_path: Path) -> None:
    file = put(tmp_path / "a.csv", b"src\xe9,tgt\nGo.,Va !\n")
    with pytest.raises(InputError, match=r"a\.csv:1: is not UTF-8"):
        list(READERS["csv"]().read([file], BadRecords(skip=True)))


def test_a_bad_line_inside_a_quoted_cell_spoils_its_row_only(tmp_path: Path) -> None:
    for ending in (b'",Va', b'" now,Va'):
        file = put(tmp_path / "a.csv", b'src,tgt\n"Go\nd\xe9j\xe0\n' + ending + b"\nHi.,Salut !\n")
        bad = BadRecords(skip=True)
        assert list(READERS["csv"]().read([file], bad)) == [Pair("Hi.", "Salut !")]
        assert [error.line for error in bad.examples] == [3]


def test_jsonl_forms(tmp_path: Path) -> None:  # R77
    file = put(tmp_path / "a.jsonl", '{"translation": {"en": "Go.", "fr": "Va !"}}\n\n')
    assert read("jsonl", file) == [Pair("Go.", "Va !")]
    assert read("jsonl", file, source="fr", target="en") == [Pair("Va !", "Go.")]
    for fields in ('{"source": "Go.", "target": "Va !"}', '{"tgt": "Va !", "id": 1, "src": "Go."}'):
        assert read("jsonl", put(file, fields)) == [Pair("Go.", "Va !")]
    cards = put(file, '{"english": "Go.", "hsk": "1", "mandarin": "去。"}')
    assert read("jsonl", cards, source="english", target="mandarin") == [Pair("Go.", "去。")]


JSONL_FAULTS = {
    "is not JSON: ": '{"src": "Go."',
    "is not a JSON object": '["Go.", "Va !"]',
    "has no field 'tgt', its fields are 'src'": '{"src": "Go."}',
    "has a field 'tgt' that is not text: 5": '{"src": "Go.", "tgt": 5}',
    "has a control character in 'tgt', U\\+0000": '{"src": "Go.", "tgt": "\\u0000"}',
    "has a control character in 'src', U\\+D800": '{"src": "\\ud800", "tgt": "Va !"}',
    "is nested too deeply": "[" * 100_000,
}


@pytest.mark.parametrize("problem", JSONL_FAULTS)
def test_jsonl_errors(tmp_path: Path, problem: str) -> None:
    good = '{"src": "Hi.", "tgt": "Salut !"}\n'
    file = put(tmp_path / "a.jsonl", good + JSONL_FAULTS[problem] + "\n" + good)
    with pytest.raises(InputError, match=rf"a\.jsonl:2: {problem}"):
        read("jsonl", file)
    bad = BadRecords(skip=True)
    assert list(READERS["jsonl"]().read([file], bad)) == [Pair("Hi.", "Salut !")] * 2
    assert bad.count == 1


def test_jsonl_without_known_fields(tmp_path: Path) -> None:
    file = put(tmp_path / "a.jsonl", '{"a": "x", "b": "y", "c": "z"}')
    with pytest.raises(
        InputError, match=r"a\.jsonl:1: has no fields src and tgt, its fields are 'a', 'b', 'c'"
    ):
        read("jsonl", file)
    with pytest.raises(InputError, match="go together"):
        read("jsonl", file, source="a")


def test_moses_of_unequal_length(tmp_path: Path) -> None:  # R77
    english, french = (
        put(tmp_path / "a.en", "Go.\nHi.\nRun!\nYes.\n"),
        put(tmp_path / "a.fr", "Va !\nSalut !\n"),
    )
    message = r"a\.en:3: has no partner: .*a\.en has 4 and .*a\.fr has 2 lines"
    for skip in (False, True):
        with pytest.raises(InputError, match=message):
            list(READERS["moses"]().read([english, french], BadRecords(skip)))
    with pytest.raises(InputError, match=r"a\.en:3: has no partner: .*a\.fr has 2 and .*a\.en has 4 lines"):
        read("moses", french, english)
    with pytest.raises(InputError, match=r"takes two files, source and target; given: .*a\.en$"):
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

    assert guess("a.tsv", "x") == "tsv"
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
    with pytest.raises(InputError, match="no file given"):
        reader_for([])


def test_options_are_checked() -> None:
    with pytest.raises(InputError, match=r"unknown reader 'tvs'; did you mean 'tsv'\?"):
        build_reader("tvs")
    with pytest.raises(
        InputError, match=r"unknown option of the reader tsv 'sorce'; did you mean 'source'\?"
    ):
        build_reader("tsv", {"sorce": 1})
    with pytest.raises(InputError, match="the reader tsv: option source is 'one', expected a whole number"):
        build_reader("tsv", {"source": "one"})
    with pytest.raises(InputError, match="option comments is 'maybe', expected true or false"):
        build_reader("columns", {"comments": "maybe"})
    with pytest.raises(InputError, match="the reader moses: has no options, so not 'source'"):
        build_reader("moses", {"source": "en"})
    columns = build_reader("columns", {"tag": "-2", "separator": "\\t", "comments": "yes"})
    assert vars(columns) == {"word": 0, "tag": -2, "separator": "\t", "comments": True}
    assert build_reader("series", {"values": "a, b"}).values == ("a", "b")  # type: ignore[attr-defined]


def test_the_table_names_each_reader_by_its_name() -> None:
    assert all(name == reader.name for name, reader in READERS.items())


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
