"""`throughtime stats`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import lacks, refuses

import throughtime as tt
from throughtime.cli.stats import stats

LINES = "".join(f"the owl number {word} sings\n" for word in "one two three four five six seven".split())
PAIRS = "".join(f"{line}\t{line.upper()} HERE\n" for line in LINES.splitlines())
LABELS = "text,label\n" + "".join(
    f"{line},{'ab'[place % 2]}\n" for place, line in enumerate(LINES.splitlines())
)


@pytest.fixture
def counted(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Run the command's function and read the JSON that it prints."""

    def run(data: object, **options: Any) -> dict[str, Any]:
        capsys.readouterr()
        stats(data=str(data), json=True, **options)
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    return run


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_text("The owl, the owl!\nNo owl is the mouse.\n", encoding="utf-8")
    return path


def test_a_file_is_counted(poem: Path, counted: Callable[..., dict[str, Any]]) -> None:
    found = counted(poem, tokens="word", min_freq=2, ngrams=2, top=1)
    assert (found["tokens"], found["types"], found["vocabulary"]) == (9, 5, 4)
    assert found["reserved"] == ["<unk>", "<eos>"]
    assert found["tokenizer"] == "word"
    assert found["ngrams"][0] == {
        "n": 1, "total": 9, "distinct": 5, "possible": 5, "zipf_exponent": None, "top": [[["the"], 3]]
    }  # fmt: skip
    assert found["entropy_bits"] == pytest.approx(found["entropy_nats"] / math.log(2))  # R21


def test_ngrams_stay_within_a_line(poem: Path, counted: Callable[..., dict[str, Any]]) -> None:
    pairs = counted(poem, tokens="word", ngrams=2)["ngrams"][1]
    # R20
    assert (pairs["total"], pairs["distinct"], pairs["possible"]) == (7, 6, 25)
    assert [["owl", "no"], 1] not in pairs["top"]


def test_subwords_and_normalisers(poem: Path, counted: Callable[..., dict[str, Any]]) -> None:
    assert counted(poem, tokens="char", normaliser="letters")["types"] < counted(poem, tokens="char")["types"]
    assert counted(poem, tokens="bpe")["tokenizer"] == "bpe"
    with refuses("tokenizer", "'wrod'", "'word'"):
        counted(poem, tokens="wrod")
    with refuses("normaliser", "'lowr'", "'lower'"):
        counted(poem, tokens="char", normaliser="lowr")


def test_what_a_tokenizer_drops_is_told_or_refused(tmp_path, throughtime) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Привет, мир\nhello\n", encoding="utf-8")
    ran = throughtime("stats", path, "--tokens", "word")
    assert ran.code == 0
    assert not lacks(ran.err, f"{path}:", "'word'", "64%", "unicode")
    assert ran.err.count("\n") == 1
    path.write_text("Привет, мир\n", encoding="utf-8")
    ran = throughtime("stats", path, "--tokens", "word")
    assert (ran.code, ran.out) == (2, "")
    assert not lacks(ran.err, "error:", "'word'", "unicode")
    path.write_text("\n \n", encoding="utf-8")
    assert "blank" in throughtime("stats", path).err


@pytest.mark.parametrize("tokens", ["word", "bpe", "unicode"])
def test_a_normaliser_goes_with_characters(poem, throughtime, tokens) -> None:
    ran = throughtime("stats", poem, "--tokens", tokens, "--normaliser", "lower")
    assert ran.code == 2
    assert not lacks(ran.err, "--normaliser:", "'lower'", "char", tokens)


@pytest.mark.parametrize(
    ("task", "text", "options"),
    [
        ("language", LINES, {"tokens": "unicode"}),
        ("language", LINES, {"tokens": "word", "min_freq": 2}),
        ("language", LINES, {"tokens": "bpe"}),
        ("language", LINES, {"tokens": "char", "normaliser": "letters"}),
        ("translate", PAIRS, {"tokens": "word"}),
        ("translate", PAIRS, {"tokens": "bpe"}),
        ("classify", LABELS, {}),
    ],
)
def test_stats_and_train_agree_on_every_vocabulary(task, text, options, tmp_path, counted, capsys) -> None:
    """A model's vocabulary is that of train alone, and smaller than that of the whole file."""  # R132
    path = tmp_path / ("mine.tsv" if text is PAIRS else "mine.csv" if text is LABELS else "mine.txt")
    path.write_text(text)
    model = tt.train(task, path, epochs=1, progress="none", hidden_size=4, **options)
    codecs = model.codecs.distinct if task == "translate" else [model.codec]
    found = counted(path, **options)
    assert list(found["vocabularies"].values()) == [len(codec.vocabulary) for codec in codecs]
    assert found["reserved"] == [
        each for each in codecs[0].vocabulary if each in codecs[0].vocabulary.reserved
    ]
    stats(data=str(path), **options)
    assert capsys.readouterr().out.count("in train with" if len(codecs) == 2 else "of train with") == len(
        codecs
    )


def test_the_plot_is_drawn_and_a_bad_suffix_found_before_the_work(poem: Path, tmp_path: Path) -> None:
    # R18
    stats(data=str(poem), tokens="word", plot=tmp_path / "zipf.svg")
    assert (tmp_path / "zipf.svg").read_text().startswith("<?xml")
    with refuses("zipf.gif"):
        stats(data="no such data", plot=tmp_path / "zipf.gif")
    (tmp_path / "there.png").mkdir()
    with refuses("there.png"):
        stats(data="no such data", plot=tmp_path / "there.png")


def test_the_time_machine(corpora: Path, counted: Callable[..., dict[str, Any]]) -> None:
    # R24
    found = counted("timemachine", tokens="word", top=1, min_freq=2)
    assert (found["tokens"], found["types"], found["vocabulary"]) == (32_775, 4_579, 2_032)
    # R13
    assert [row["top"][0][1] for row in found["ngrams"]] == [2_261, 309, 59]
    assert counted("timemachine")["tokens"] == 173_428
    # R32
    for split in ("all", "train"):
        assert counted("timemachine", tokens="word", split=split)["vocabulary"] == 4_346
