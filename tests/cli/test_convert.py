"""`throughtime data convert`, as a person runs it."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import lacks

from throughtime.data.datasets import open_dataset

Run = Callable[..., Any]
DECK = "english: Don't rush: take it easy.\nhsk: 1\nmandarin: 别急。\npinyin: bié jí。\n--\n"


@pytest.fixture
def convert(throughtime: Run) -> Run:
    return lambda *words: throughtime("data", "convert", *words)


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_hsk_to_csv(tmp_path: Path, convert: Run) -> None:  # R78
    deck, out = put(tmp_path / "deck.txt", DECK * 3), tmp_path / "deck.csv"
    ran = convert(deck, "--out", out)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"wrote 3 records (english, hsk, mandarin, pinyin) to {out}\n"
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["english", "hsk", "mandarin", "pinyin"]
    assert rows[1:] == [["Don't rush: take it easy.", "1", "别急。", "bié jí。"]] * 3


def test_the_whole_deck_by_name(
    corpora: Path, tmp_path: Path, convert: Run, monkeypatch: pytest.MonkeyPatch
) -> None:  # R78
    monkeypatch.chdir(tmp_path)
    ran = convert("hsk-en-zh", "--out", "hsk.csv", "--json")
    assert ran.code == 0
    assert ran.json["written"] == 22_131
    assert ran.json["columns"] == ["english", "hsk", "mandarin", "pinyin"]
    ran = convert("snips-slots", "--split", "valid", "--out", "snips.jsonl", "--json")
    assert ran.json["written"] == 700


def test_two_files_with_filters(tmp_path: Path, convert: Run) -> None:
    english = put(tmp_path / "a.en", "Go.\nGo.\nOK\n\none two three\n")
    french = put(tmp_path / "a.fr", "Va !\nVa !\nOK\nvide\nun\n")
    out = tmp_path / "a.jsonl"
    words = ["--drop-duplicates", "--drop-identical", "--drop-empty", "--max-ratio", "2", "--max-length", "5"]
    ran = convert(english, french, "--out", out, *words, "--json")
    assert ran.json == {
        "out": str(out),
        "kind": "pairs",
        "columns": ["source", "target"],
        "written": 1,
        "skipped": 0,
        "skipped_reasons": {},
        "dropped": 4,
        "dropped_reasons": {"duplicate": 1, "identical sides": 1, "empty side": 1, "length ratio": 1},
    }
    assert not lacks(ran.err, "1", "5")
    assert out.read_text(encoding="utf-8") == '{"source": "Go.", "target": "Va !"}\n'


def test_bad_records_refused_then_skipped(tmp_path: Path, convert: Run) -> None:
    file, out = put(tmp_path / "a.tsv", "Go.\tVa !\nRun!\nHi.\tSalut !\n"), tmp_path / "a.csv"
    ran = convert(file, "--out", out)
    assert (ran.code, ran.out, out.exists()) == (2, "", False)
    assert not lacks(ran.err, "error:", f"{file}:2:", "1", "2", "--skip-bad")
    ran = convert(file, "--out", out, "--skip-bad")
    assert (ran.code, ran.out) == (0, f"wrote 2 records (source, target) to {out}\n")
    assert not lacks(ran.err, f"{file}:", "1", "2")
    assert "--skip-bad" not in ran.err


def test_where_every_record_is_bad_or_dropped_nothing_is_written(tmp_path: Path, convert: Run) -> None:
    file, out = put(tmp_path / "a.tsv", "Go.\nRun!\n"), tmp_path / "a.csv"
    ran = convert(file, "--reader", "tsv", "--out", out, "--skip-bad")
    assert (ran.code, ran.out, out.exists()) == (2, "", False)
    assert not lacks(ran.err, "error:", f"{out}:", "2")
    ran = convert(put(tmp_path / "b.tsv", "a b c\td\n"), "--out", out, "--max-ratio", "2")
    assert (ran.code, out.exists()) == (2, False)
    assert not lacks(ran.err, "0", "1", "length ratio")


def test_refusals(tmp_path: Path, convert: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "a.txt", "Once upon a time\n")
    put(tmp_path / "old.csv", "precious")

    def error(*words: str) -> str:
        ran = convert(*words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.count("\n") == 1
        return str(ran.err)

    assert not lacks(error("a.txt", "--out", "old.csv"), "old.csv:")
    assert not lacks(error("a.txt", "--out", "a.doc"), "a.doc:", "'.doc'")
    assert not lacks(error("b.txt", "--out", "a.csv"), "b.txt:", "'a.txt'")
    assert not lacks(error("a.txt", "--out", "a.csv", "--reader", "txt"), "reader", "'txt'")
    assert not lacks(error("a.txt", "-o", "a.csv", "--max-length", "3"), "a.txt:", "text", "pairs")
    assert not lacks(error("a.txt", "-o", "a.csv", "--option", "x"), "--option:", "'x'", "NAME=VALUE")
    assert not lacks(error("embedded/en-fr", "-o", "a.csv", "--option", "x=1"), "--option:")
    assert not lacks(error("a.txt", "-o", "a.csv", "--split", "train"), "--split:")
    assert not lacks(error("a.txt", "-o", "a.csv", "--length", "letters"), "length", "'letters'")
    assert not lacks(error("ptbb", "-o", "a.csv"), "'ptbb'", "'ptb'")
    assert (tmp_path / "old.csv").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "old.csv"]


OPUS = {
    "Tatoeba.en-fr.en": "Go.\nRun!\n",
    "Tatoeba.en-fr.fr": "Va !\nCours !\n",
    "README": "x",
    "Tatoeba.en-fr.xml": "<x/>",
}


@pytest.mark.parametrize("name", ["opus/Tatoeba.en-fr.en,opus/Tatoeba.en-fr.fr", "opus", "en-fr.txt.zip"])
def test_two_files_and_downloads_of_opus_are_read_as_train_reads_them(
    tmp_path, throughtime, monkeypatch, name
) -> None:
    """Not only by `train`, which is also asked for the reverse direction."""  # R129
    monkeypatch.chdir(tmp_path)
    (tmp_path / "opus").mkdir()
    with zipfile.ZipFile("en-fr.txt.zip", "w") as archive:
        for file, text in OPUS.items():
            put(tmp_path / "opus" / file, text)
            archive.writestr(f"folder/{file}", text)
    ran = throughtime("data", "convert", name, "--out", "a.tsv")
    assert (ran.code, Path("a.tsv").read_text()) == (0, "Go.\tVa !\nRun!\tCours !\n")
    shown = throughtime("data", "show", name)
    assert not lacks(shown.out, "pairs", "en fr", "Go. | Va !")
    dataset = open_dataset(name, source="fr", target="en")
    assert (dataset.languages, list(dataset.pairs())) == (
        ("fr", "en"),
        [("Va !", "Go."), ("Cours !", "Run!")],
    )
    put(tmp_path / "opus" / "QED.en-fr.en", "Go.\n")
    put(tmp_path / "opus" / "QED.en-fr.fr", "Va !\n")
    if name == "opus":  # which of the two is not clear
        assert not lacks(throughtime("data", "show", name).err, "opus:", "name a file")
