"""Columns on the command line: options of each task, commands that errors write, and `data preview`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.refusals import lacks

SMALL = ["--epochs", "1", "--hidden-size", "4", "--device", "cpu"]
SENTENCES = "".join(f"{n}\tDer Hund {n} schläft.\tThe dog {n} sleeps.\tann\n" for n in range(40))
FILES = {
    "pairs.tsv": "id\tDeutsch\tEnglish\tby\n" + SENTENCES,
    "rated.csv": "id,prose,verdict\n" + "".join(f"{n},the soup {n},{'ab'[n % 2]}\n" for n in range(40)),
    "shops.csv": "region,store,date,revenue\n"
    + "".join(f"W{s},{s},2024-01-{d:02},{d % 7}\n" for s in ("North", "South") for d in range(1, 31)),
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_text(content, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("task", "file", "wrong", "said"),
    [
        ("translate", "pairs.tsv", [], "pairs.tsv: 40 pairs, column Deutsch -> column English"),
        (
            "translate",
            "pairs.tsv",
            ["--source=Deutsh", "--target", "English"],
            "column Deutsch -> column English",
        ),
        ("classify", "rated.csv", [], "rated.csv: 40 labelled texts, column prose -> column verdict"),
        ("compose", "rated.csv", ["--text=prose"], "40 labelled texts, column verdict -> column prose"),
        ("ngram", "rated.csv", [], "rated.csv: 40 lines, column prose"),
        ("forecast", "shops.csv", [], "60 rows of 2 series, series in column region, times in column date"),
    ],
)
def test_the_command_that_an_error_writes_works(files, throughtime, task, file, wrong, said) -> None:
    more = [] if task == "ngram" else SMALL
    more = [*more, "--set", "embedding_size=4"] if task in ("translate", "classify", "compose") else more
    ran = throughtime("train", task, "--data", file, *wrong, *more, "--out", "run")
    assert ran.code == 2
    assert not Path("run").exists()
    [command] = re.findall(r"write `(.*)`", ran.err)
    words = shlex.split(command)
    again = throughtime(*words[words.index("train") :])
    assert again.code == 0, again.err
    assert said in again.err


def test_preview_reads_a_file_as_each_task_would(files, throughtime) -> None:
    ran = throughtime("data", "preview", "pairs.tsv", "--json")
    assert ran.code == 0, ran.err
    readings = {task: reading for reading in ran.json["readings"] for task in reading["tasks"]}
    assert {"translate", "language", "classify", "compose", "tag", "fill", "ngram", "forecast"} <= {*readings}
    assert len(readings["translate"]["records"]) == 5
    assert readings["translate"]["records"][0]["source"] == "Der Hund 0 schläft."
    assert not lacks(readings["translate"]["read"], "--source Deutsch", "--target English", 40)
    assert readings["forecast"]["records"] == []
    shown = throughtime("data", "preview", "shops.csv")
    assert not lacks(shown.out, "--id region", "--target revenue", "2024-01-01")


def test_preview_shows_fields_in_the_order_of_its_heading(files, throughtime) -> None:
    Path("soups.csv").write_text("text,label\n" + "the soup,good\n" * 3)
    Path("words.conll").write_text("a DET\nday NOUN\n\n" * 3)
    shown = [throughtime("data", "preview", name).out for name in ("soups.csv", "words.conll")]
    lines = {line.rstrip() for text in shown for line in text.splitlines()}
    assert {"  the soup | good", "  good | the soup", "  a day | DET NOUN"} <= lines


def test_what_is_not_a_table_takes_no_columns(files, throughtime) -> None:
    Path("poem.txt").write_text("a rose\n" * 9)
    for words in (["language", "--text", "x"], ["tag", "--words", "x"], ["translate", "--source", "en"]):
        ran = throughtime("train", words[0], "--data", "poem.txt", *words[1:], "--out", "run")
        assert (ran.code, lacks(ran.err, words[1], words[2], "poem.txt")) == (2, [])


def test_stats_reads_series_by_the_columns_that_are_chosen(files, throughtime) -> None:
    ran = throughtime("stats", "shops.csv")
    assert (ran.code, lacks(ran.err, "--id region --target revenue")) == (2, [])
    [command] = re.findall(r"write `(.*)`", ran.err)
    words = shlex.split(command.replace("--id region", "--id store"))
    again = throughtime(*words[words.index("stats") :], "--json")
    assert {row["series"] for row in again.json["series"]} == {"North", "South"}, again.err


def test_a_command_without_options_for_columns_names_one_that_shows_the_file(files, throughtime) -> None:
    ran = throughtime("data", "show", "pairs.tsv")
    assert (ran.code, lacks(ran.err, "data preview pairs.tsv")) == (2, [])
