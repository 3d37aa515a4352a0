"""`train tag`, `tag` and `evaluate` as a person types them."""

from __future__ import annotations

import io
import random

import pytest
from rich.console import Console

from throughtime.cli.main import main
from throughtime.cli.predict import print_tags
from throughtime.results import Tagged, TaggedWord

SMALL = [
    "word_size=12",
    "character_hidden_size=8",
    "hidden_size=12",
    "num_layers=1",
    "batch_size=16",
    "lr=0.03",
    "input_dropout=0.1",
    "output_dropout=0.1",
    "device=cpu",
    "precision=float32",
]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Sentences of a few words, some of them places."""
    dice = random.Random(1)
    path = tmp_path_factory.mktemp("data") / "places.conll"
    with path.open("w") as file:
        for _ in range(200):
            for word in ("we", dice.choice(["like", "see"])):
                file.write(f"{word}\tO\n")
            name = dice.choice([["Paris"], ["New", "York"], ["dogs"], ["[brackets]"]])
            tags = ["O"] if name[0] in ("dogs", "[brackets]") else ["B-LOC", "I-LOC"]
            file.write("".join(f"{word}\t{tag}\n" for word, tag in zip(name, tags, strict=False)) + "\n")
    return path


def words(data, out, *settings):
    chosen = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    return ["train", "tag", "--data", str(data), "--out", str(out), *chosen]


@pytest.fixture(scope="module")
def run(places, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "places"
    assert main(words(places, out, "epochs=5")) == 0
    return out


def test_evaluate(run, tmp_path, throughtime):
    judged = throughtime("evaluate", run, "--split", "test", "--json").json
    assert judged["f1"] > 0.9
    assert judged["accuracy"] > 0.9
    assert {"precision", "recall", "unknown_word_accuracy", "words", "types"} <= judged.keys()
    assert "intent_accuracy" not in judged
    assert sum(sum(row.values()) for row in judged["confusion"].values()) == judged["words"]
    assert "|tags:crf|" in judged["signature"]
    shown = throughtime("evaluate", run).out
    assert "F1 " in shown
    assert "LOC" in shown
    other = tmp_path / "other.conll"
    other.write_text("we\tX\nsee\tX\n\n")
    confused = throughtime("evaluate", run, "--data", other, "--split", "all").out
    assert "Most frequent errors" in confused
    assert confused.splitlines()[-3].split() == ["X", "O", "2"]
    assert throughtime("evaluate", run, "--num-beams", 3).code == 2


def test_a_terminal_shows_colours():
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    sentence = Tagged((TaggedWord("[b]Rome", "B-LOC", 0.9), TaggedWord(".", "O", 0.9)), "Travel")
    print_tags(console, sentence)
    shown = console.file.getvalue()
    assert "[b]Rome" in shown
    assert "\x1b[" in shown
    assert "Travel" in shown
