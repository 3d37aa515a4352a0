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


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize(
    "names", [["id", "prose", "verdict"], ["review", "comment", "stars"], ["review", "x", "y"]]
)
def test_what_is_not_clear_is_asked_for(name: str, names: list[str], tmp_path: Path) -> None:
    path = table(tmp_path, name, names)
    with refuses(f"{path}:1", *map(repr, names), "text", "label") as told:
        open_dataset(str(path), kind="labelled")
    assert "source" not in str(told.value)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_texts_of_a_table_serve_whoever_has_no_use_for_labels(name: str, tmp_path: Path) -> None:
    dataset = open_dataset(str(table(tmp_path, name, ["id", "review", "stars"])))
    assert list(dataset.texts("all")) == ["a fine 1"]
    pairs = open_dataset(str(table(tmp_path, name, ["source", "target"])))
    assert pairs.kind == "pairs"
