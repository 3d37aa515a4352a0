"""Data given as Python objects: read, split and refused as files are."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.data.datasets import Dataset, open_dataset
from throughtime.data.idcache import token_ids
from throughtime.data.readers.panel import Roles, read_future, read_series_panel
from throughtime.data.records import DescribedText, LabelledText, Pair
from throughtime.text.codec import Codec
from throughtime.text.tokenizer import tokenizer
from throughtime.text.vocabulary import Vocabulary

SPLITS = ("train", "valid", "test")
TEXTS = [f"text number {number}" for number in range(60)]
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(number) for number in range(12)]


class Column:
    """What a column of polars offers, and nothing else."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def to_list(self) -> list[Any]:
        return list(self._values)


class Frame:
    """What pandas and polars have in common."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Column:
        return Column(self._columns[name])


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    """The same frame as each library makes it, where it is installed."""
    found: list[Any] = [Frame(columns)]
    for library in ("pandas", "polars"):
        with contextlib.suppress(ImportError):
            found.append(__import__(library).DataFrame(columns))
    return found


def write(path: Path, names: list[str] | None, rows: list[Any]) -> str:
    with path.open("w", newline="") as file:
        if path.suffix == ".jsonl":
            assert names is not None
            file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        elif path.suffix == ".txt":
            file.writelines(row + "\n" for row in rows)
        elif path.suffix == ".conll":
            for words, tags in rows:
                file.writelines(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True))
                file.write("\n")
        else:
            csv.writer(file).writerows([names, *rows])
    return str(path)


PAIRS = [(text, text.upper()) for text in TEXTS]
LABELLED = [(text, "odd" if number % 2 else "even") for number, text in enumerate(TEXTS)]
TAGGED = [(text.split(), ["A", "B", "C"]) for text in TEXTS]
VECTORS = [([float(number), 1.0], text) for number, text in enumerate(TEXTS)]


@pytest.mark.parametrize(
    ("data", "kind", "file", "names", "rows"),
    [
        (TEXTS, None, "a.txt", None, TEXTS),
        (PAIRS, None, "a.csv", ["source", "target"], PAIRS),
        (PAIRS, "pairs", "a.jsonl", ["src", "tgt"], PAIRS),
        (LABELLED, "labelled", "a.csv", ["text", "label"], LABELLED),
        ([(text, 3) for text in TEXTS], None, "a.csv", ["text", "label"], [(text, 3) for text in TEXTS]),
        ([(b, a) for a, b in LABELLED], "described", "a.csv", ["text", "label"], LABELLED),
        (VECTORS, None, "a.jsonl", ["vector", "text"], VECTORS),
        ([(np.array(v), t) for v, t in VECTORS], "described", "a.jsonl", ["vector", "text"], VECTORS),
        (TAGGED, None, "a.conll", None, TAGGED),
        ([(text, "A B C") for text in TEXTS], "tags", "a.conll", None, TAGGED),
    ],
)
def test_the_same_records_in_a_file_have_the_same_splits(
    data: Any, kind: str | None, file: str, names: list[str] | None, rows: list[Any], tmp_path: Path
) -> None:
    given = open_dataset(data, kind=kind)
    stored = open_dataset(write(tmp_path / file, names, rows), kind=kind)
    assert (given.kind, given.splits) == (stored.kind, stored.splits)
    for split in (*SPLITS, "heldout", "all"):
        assert list(given.records(split)) == list(stored.records(split))
        assert list(given.texts(split)) == list(stored.texts(split))
    assert sum(len(list(given.records(split))) for split in SPLITS) == len(TEXTS)


@pytest.mark.parametrize("kind", [None, "labelled", "described"])
def test_frames_of_texts_and_labels(kind: str | None) -> None:
    texts, labels = zip(*LABELLED, strict=True)
    columns = {"id": list(range(60)), "review": list(texts), "stars": list(labels)}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for frame in [*frames(columns), columns, rows]:
        dataset = open_dataset(frame, kind=kind)
        assert (dataset.kind, {*dataset.columns.values()}) == ("labelled", {"review", "stars"})
        assert list(dataset.records()) == [LabelledText(*one) for one in LABELLED]


def test_splits_of_their_own() -> None:
    dataset = open_dataset({"train": PAIRS[:50], "dev": PAIRS[50:53], "test": iter(PAIRS[53:])})
    assert dataset.splits == SPLITS
    assert [len(list(dataset.pairs(split))) for split in (*SPLITS, "heldout", "all")] == [50, 3, 7, 10, 60]
    assert "train (50), valid (3), test (7)" in repr(dataset)
    assert open_dataset({"train": TEXTS}).splits == ("train",)
    labels = open_dataset({"train": [("good", "a b")], "test": [("bad", "c d")]}, kind="described")
    assert list(labels.labelled_texts()) == [LabelledText("a b", "good"), LabelledText("c d", "bad")]
    with refuses("data['test']"):
        open_dataset({"train": TEXTS, "test": [Pair("a", "b")]})
    with refuses("data['test'], item 2", "'c'"):
        open_dataset({"train": PAIRS, "test": [("a", "b"), ("c",)]})


@pytest.mark.parametrize(
    ("data", "kind", "facts"),
    [
        ([*PAIRS[:6], ("alone",)], None, ("data, item 7", "source", "target")),
        ([*PAIRS[:6], ("a", 3)], None, ("data, item 7", "3")),
        ([*PAIRS[:6], ("a", "b\0")], None, ("data, item 7", "U+0000")),
        ([*TEXTS[:6], None], None, ("data, item 7",)),
        ([*LABELLED[:6], ("a", " ")], "labelled", ("data, item 7",)),
        ([*LABELLED[:6], ("a", float("nan"))], "labelled", ("data, item 7",)),
        ([*TAGGED[:6], (["a", "b"], ["X"])], None, ("data, item 7", "2", "1")),
        ([*TAGGED[:6], (["a", ""], ["X", "Y"])], None, ("data, item 7", "tag")),
        ([*VECTORS[:6], ([1.0], "a")], None, ("data, item 7", "1", "2")),
        ([*VECTORS[:6], ([1.0, float("inf")], "a")], None, ("data, item 7", "[1.0, inf]")),
        ([*VECTORS[:6], ("label", "a")], None, ("data, item 7", "'label'", "'a'")),
        ([object()], None, ("data, item 1",)),
        ([], None, ("data",)),
        (3, None, ("data", "int")),
        ({"a": ["x"], "b": "y"}, None, ("data",)),
        ([{"text": "a", "label": "b"}, {"texts": "a"}], None, ("data, item 2",)),
        (PAIRS, "cards", ("data", "'cards'", "'pairs'")),
    ],
)
def test_what_is_bad_is_named(data: Any, kind: str | None, facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        open_dataset(data, kind=kind)


def test_bad_records_can_be_skipped() -> None:
    dataset = open_dataset([("a", "b"), ("c",), ("d", "e")], kind="pairs", skip_bad=True)
    assert list(dataset.pairs()) == [Pair("a", "b"), Pair("d", "e")]
    assert dataset.bad.count == 1
    assert "item 2" in dataset.bad.report()


def test_records_and_data_sets_are_taken_as_they_are() -> None:
    records = [DescribedText("a", (1.0,)), DescribedText("b", (2.0,))]
    dataset = open_dataset(records)
    assert dataset.kind == "described"
    assert list(dataset.records()) == records
    assert open_dataset(dataset) is dataset
    again = open_dataset(list(open_dataset("embedded/en-fr").records("test")))
    assert again.kind == "pairs"


def test_the_name_tells_one_list_from_another_and_cannot_be_opened() -> None:
    names = [open_dataset(data, kind=kind).name for data, kind in ((PAIRS, "pairs"), (PAIRS[:-1], "pairs"))]
    assert len({*names}) == 2
    assert open_dataset(list(PAIRS), kind="pairs").name == names[0]
    with refuses("data"):
        open_dataset(names[0])
    assert repr(open_dataset(PAIRS)) == f"Dataset({names[0]!r}: 60 pairs; train, valid, test)"
    sizes = "train (13,071), valid (570), test (1,269)"
    assert repr(open_dataset("embedded/en-fr")) == f"Dataset('embedded/en-fr': pairs en-fr; {sizes})"
    with refuses("reader"):
        open_dataset(PAIRS, reader="tsv")


def test_ids_of_texts_in_memory_are_cached_by_their_content(tmp_path: Path) -> None:
    codec = Codec(tokenizer("space"), Vocabulary.build([word for text in TEXTS for word in text.split()]))
    first = token_ids(open_dataset(TEXTS), "train", codec, eos=False, cache=tmp_path)
    assert token_ids(open_dataset(TEXTS[:]), "train", codec, eos=False, cache=tmp_path).folder == first.folder
    other = token_ids(open_dataset(TEXTS[1:]), "train", codec, eos=False, cache=tmp_path)
    assert other.folder != first.folder
    stream = open_dataset(TEXTS, layout="stream")
    assert list(stream.texts()) == ["\n".join(TEXTS)]


def panel_values(dataset: Dataset, roles: Roles = Roles()) -> list[Any]:  # noqa: B008
    panel = read_series_panel(dataset, roles)
    return [
        (one.unique_id, one.ds.astype(str).tolist(), one.y.tolist(), one.known.tolist(), one.past.tolist())
        for one in panel.series
    ] + [str(panel.frequency), panel.known_names]


def test_frames_of_series_are_read_as_files_are(tmp_path: Path) -> None:
    columns = {
        "unique_id": ["a"] * 12 + ["b"] * 12,
        "ds": DAYS * 2,
        "y": [float(number) for number in range(24)],
        "sale": [number % 2 for number in range(24)],
    }
    file = write(tmp_path / "a.csv", list(columns), list(zip(*columns.values(), strict=True)))
    stamped = columns | {"ds": [datetime.datetime(day.year, day.month, day.day) for day in DAYS] * 2}
    for frame in [*frames(columns), *frames(stamped), columns]:
        dataset, stored = open_dataset(frame), open_dataset(file)
        assert dataset.kind == "series"
        for split in (*SPLITS, "all"):
            assert list(dataset.records(split)) == list(stored.records(split))
        for roles in (Roles(), Roles(known=("sale",)), Roles(target=("y",), past=("sale",))):
            assert panel_values(dataset, roles) == panel_values(stored, roles)
        assert (
            read_future(dataset.tables[0], Roles(known=("sale",))).series[1].known[:, 0].tolist()
            == [0, 1] * 6
        )


def test_a_format_of_dates_is_for_texts() -> None:
    written = [day.strftime("%d.%m.%Y") for day in DAYS]
    for days in (DAYS, written):
        for frame in frames({"ds": days, "y": list(range(12))}):
            [series] = read_series_panel(open_dataset(frame, date_format="%d.%m.%Y")).series
            assert str(series.ds[-1])[:10] == "2020-01-12"


def test_numbers_alone_are_series() -> None:
    values = [float(number) for number in range(30)]
    for data in (values, np.array(values), np.array(values, np.float32), iter(values)):
        [series] = read_series_panel(open_dataset(data, kind="series")).series
        assert series.y.tolist() == values
    panel = read_series_panel(open_dataset({"north": values, "south": values[:9]}, kind="series"))
    assert [(one.unique_id, len(one)) for one in panel.series] == [("north", 30), ("south", 9)]


@pytest.mark.parametrize(
    ("columns", "facts"),
    [
        (
            {"ds": ["2020-01-01", "2020-01-02", "soon"], "y": [1, 2, 3]},
            ("data, item 3", "'soon'", "YYYY", "MM"),
        ),
        ({"ds": ["2020-01-01", "2020-01-02"], "y": [1, "much"]}, ("data, item 2", "'y'", "'much'")),
        ({"ds": ["2020-01-01"] * 2, "y": [1, 2]}, ("data, item 2", "2", "2020-01-01")),
    ],
)
def test_bad_rows_of_series_are_named(columns: dict[str, list[Any]], facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        read_series_panel(open_dataset(Frame(columns)))
    with refuses(*facts):
        list(open_dataset(Frame(columns)).records())
