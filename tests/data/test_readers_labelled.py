"""Texts with a label or a vector each, in every format they come in."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.datasets import open_dataset
from throughtime.data.readers import READERS, reader_for
from throughtime.data.records import DescribedText, LabelledText
from throughtime.data.source import BadRecords

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=12)
LABEL = WORDS.map(str.strip).filter(bool)


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def read(path: Path, name: str = "labelled", **options):
    return list(READERS[name](**options).read([path], BadRecords()))


@settings(deadline=None, max_examples=40)
@given(records=st.lists(st.tuples(WORDS, LABEL), min_size=1, max_size=5))
def test_round_trips(tmp_path_factory, records):
    folder = tmp_path_factory.getbasetemp()
    out = io.StringIO()
    csv.writer(out).writerows([("text", "label"), *records])
    assert read(put(folder / "a.csv", out.getvalue())) == records
    lines = [json.dumps({"text": text, "label": label}) for text, label in records]
    assert read(put(folder / "a.jsonl", "\n".join(lines))) == records
    table = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in records)
    assert read(put(folder / "a.tsv", table)) == records


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.csv", "id,label,text\n1,good,fine food\n", "labelled"),
        ("b.tsv", "label\ttext\ngood\tfine food\n", "labelled"),
        ("c.jsonl", '{"text": "fine food", "label": "good"}\n', "labelled"),
        ("d.jsonl", '{"text": "fine food", "vector": [1, 2.5]}\n', "described"),
        ("e.jsonl", '{"src": "fine food", "tgt": "good"}\n', "pairs"),
        ("f.tsv", "fine food\tgood\n", "pairs"),
        ("g.csv", "ds,y\n2020-01,1\n", "series"),
    ],
)
def test_the_columns_tell_the_kind(tmp_path, name, content, kind):
    file = put(tmp_path / name, content)
    assert reader_for([file]).kind == kind
    if kind in ("labelled", "pairs"):
        [one] = open_dataset(str(file)).labelled_texts()
        assert one == LabelledText("fine food", "good")


def test_numbers_are_labels_and_vectors_are_numbers(tmp_path):
    file = put(tmp_path / "a.jsonl", '{"text": "a", "label": 1}\n\n{"text": "", "label": "2"}\n')
    assert read(file) == [LabelledText("a", "1"), LabelledText("", "2")]
    vectors = put(tmp_path / "b.jsonl", '{"vector": [1, -2.5], "text": "a"}\n')
    assert read(vectors, "described") == [DescribedText("a", (1.0, -2.5))]
    assert list(open_dataset(str(vectors)).texts()) == ["a"]


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("a.csv", "text,label\na\n", ("a.csv:2", "1", "2")),
        ("a.csv", "text,label\na,\n", ("a.csv:2",)),
        ("a.csv", "words,label,name\na,b,c\n", ("a.csv:1", "'words'", "text")),
        ("a.csv", '"te\nxt",label,x\na,b,c\n', ("a.csv:1", "text", "'te\\nxt'")),
        ("a.jsonl", '{"text": "a"}', ("a.jsonl:1", "'text'", "label")),
        ("a.jsonl", '{"text": 3, "label": "b"}', ("a.jsonl:1", "'text'", "3")),
        ("a.jsonl", "[1]", ("a.jsonl:1", "JSON")),
        ("a.jsonl", '{"text": "a\\u0000", "label": "b"}', ("a.jsonl:1", "'text'", "U+0000")),
    ],
)
def test_bad_records_are_named(tmp_path, name, content, facts):
    with refuses(*facts):
        read(put(tmp_path / name, content))


@pytest.mark.parametrize("vector", ['"a"', "[]", "[NaN]", "[true]", '["1"]', "[1e400]", "3"])
def test_bad_vectors_are_named(tmp_path, vector):
    file = put(tmp_path / "a.jsonl", f'{{"text": "a", "vector": {vector}}}')
    with refuses("a.jsonl:1", "'vector'"):
        read(file, "described")


def test_vectors_have_one_length_and_bad_lines_can_be_skipped(tmp_path):
    lines = '{"text": "a", "vector": [1]}\n{"text": "b", "vector": [1, 2]}\n{"text": "c", "vector": [3]}\n'
    file = put(tmp_path / "a.jsonl", lines)
    with refuses("a.jsonl:2", "2", "'vector'", "1"):
        read(file, "described")
    bad = BadRecords(skip=True)
    assert [one.text for one in READERS["described"]().read([file], bad)] == ["a", "c"]
    assert bad.count == 1
