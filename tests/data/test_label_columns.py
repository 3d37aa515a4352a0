"""Which columns of a table hold texts and labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.refusals import refuses

from throughtime.data.datasets import open_dataset
from throughtime.data.readers.columns import choose_columns
from throughtime.data.readers.tables import DataTable


def find_label_columns(path: Path, text: str | None, label: str | None) -> tuple[str, ...]:
    return tuple(choose_columns(DataTable(path), "labelled", {"text": text, "label": label}).names.values())


def table(folder: Path, name: str, names: list[str]) -> Path:
    path = folder / name
    row = [f"a fine {number}" for number in range(len(names))]
    if path.suffix == ".jsonl":
        path.write_text(json.dumps(dict(zip(names, row, strict=True))) + "\n")
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        path.write_text(f"{mark.join(names)}\n{mark.join(row)}\n")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["text", "label"], ("text", "label")),
        (["review", "stars"], ("review", "stars")),
        (["date", "id", "Sentiment", "Comment"], ("Comment", "Sentiment")),
        (["text", "review", "label", "score"], ("text", "label")),  # the plain names come first
        (["prose", "category"], ("prose", "category")),  # the one that is left
        (["sentence", "verdict"], ("sentence", "verdict")),
    ],
)
def test_usual_names(name: str, names: list[str], found: tuple[str, str], tmp_path: Path) -> None:
    assert find_label_columns(table(tmp_path, name, names), None, None) == found


def test_names_that_were_given(tmp_path: Path) -> None:
    path = table(tmp_path, "a.csv", ["id", "prose", "review", "Verdict"])
    assert find_label_columns(path, "prose", "verdict") == ("prose", "Verdict")
    assert find_label_columns(path, None, "Verdict") == ("review", "Verdict")
    with refuses("a.csv:1", "'verdikt'", "id", "prose"):
        find_label_columns(path, "prose", "verdikt")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize(
    "names", [["id", "prose", "verdict"], ["review", "comment", "stars"], ["review", "x", "y"]]
)
def test_what_is_not_clear_is_asked_for(name: str, names: list[str], tmp_path: Path) -> None:
    path = table(tmp_path, name, names)
    with refuses(f"{path}:1", *map(repr, names), "text", "label") as told:
        open_dataset(str(path), kind="labelled")
    assert "source" not in str(told.value)


def test_columns_without_names_and_pairs_are_read_as_before(tmp_path: Path) -> None:
    bare = tmp_path / "bare.tsv"
    bare.write_text("a fine day\tgood\nrain again\tbad\n")
    for path in (bare, table(tmp_path, "a.csv", ["source", "target"])):
        dataset = open_dataset(str(path), kind="labelled")
        assert dataset.kind == "labelled"
    assert [tuple(one) for one in open_dataset(str(bare), kind="labelled").labelled_texts("all")] == [
        ("a fine day", "good"),
        ("rain again", "bad"),
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_texts_of_a_table_serve_whoever_has_no_use_for_labels(name: str, tmp_path: Path) -> None:
    dataset = open_dataset(str(table(tmp_path, name, ["id", "review", "stars"])))
    assert list(dataset.texts("all")) == ["a fine 1"]
    pairs = open_dataset(str(table(tmp_path, name, ["source", "target"])))
    assert pairs.kind == "pairs"
