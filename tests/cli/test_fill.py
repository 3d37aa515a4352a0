"""`train fill`, `fill` and `evaluate` as a person types them."""

from __future__ import annotations

import random

import pytest
from tests.refusals import lacks

from throughtime.cli.main import main

SIZES = "cell=gru embedding_size=24 hidden_size=24 num_layers=1".split()
SMALL = [*SIZES, *"batch_size=32 lr=0.02 mask_share=0.3 device=cpu".split()]
WAYS = {"red": "left", "blue": "right", "green": "up", "black": "down"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    dice = random.Random(3)
    path = tmp_path_factory.mktemp("text") / "ways.txt"
    colours = dice.choices(list(WAYS), k=500)
    path.write_text("".join(f"{colour} goes {WAYS[colour]}.\n" for colour in colours))
    return path


def words(text, out, *settings):
    chosen = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    return ["train", "fill", "--data", str(text), "--out", str(out), *chosen]


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "ways"
    assert main(words(text, out, "epochs=6", "embedding_dropout=0", "output_dropout=0")) == 0
    return out


def test_a_single_line_leaves_none_to_validate_on(tmp_path, throughtime):
    line = tmp_path / "line.csv"
    line.write_text("text,label\nred goes left.,way\n")
    assert "every word of" in throughtime(*words(line, tmp_path / "run", "epochs=1", "min_freq=2")).err
    ran = throughtime(*words(line, tmp_path / "run", "epochs=1", "min_freq=1"), "--json")
    assert ran.code == 0, ran.err
    assert ran.json["best"].keys() == {"perplexity"}
    assert throughtime("fill", tmp_path / "run", "red ___", "--k", 9).out.count("\n") == 4  # red goes left .


def test_the_notes_three_sentences(tmp_path, throughtime):  # R67
    """The same left side three times: what stands in the blank is told by what comes after it."""
    lines = ["I am happy.", "I am not hungry.", "I am very hungry and I can eat half a cow."]
    text = tmp_path / "hungry.txt"
    text.write_text("".join(f"{line}\n{line.replace('I am', 'You are')}\n" for line in lines * 40))
    assert throughtime(*words(text, tmp_path / "run", "epochs=8")).code == 0
    blanks = ["I am ___.", "I am ___ hungry.", "I am ___ hungry and I can eat half a cow."]
    found = throughtime("fill", tmp_path / "run", *blanks, "--k", 3, "--json").json["sentences"]
    assert [own["text"] for own in found] == lines
    for own in found:
        chances = [one["probability"] for one in (own, *own["alternatives"])]
        assert len(chances) == 3
        assert chances == sorted(chances, reverse=True)
        assert 0.5 < chances[0] < sum(chances) <= 1


def test_evaluate_names_its_masks(run, throughtime):
    ran = throughtime("evaluate", run, "--split", "test", "--json").json
    assert 1 <= ran["perplexity"] < 3
    assert ran["top5"] >= ran["accuracy"] > 0.6
    assert "|masks:0.3|mask-seed:0|" in ran["signature"]
    assert ran == throughtime("evaluate", run, "--split", "test", "--json").json
    assert "among the best five" in throughtime("evaluate", run).out


def test_what_cannot_be_is_refused_in_a_sentence(run, text, tmp_path, throughtime, typed):
    lines = tmp_path / "lines.txt"
    lines.write_text("a ___\n\nno blank\n")
    cases = {
        ("fill", run, "red goes left."): ("SENTENCE:", "___"),
        ("fill", run, "--file", lines): (f"{lines}:3:",),
        ("fill", run, "a ___", "--file", lines): ("--file",),
        ("generate", run, "--prompt", "the"): ("bidirectional",),  # R66
        ("evaluate", run, "--num-beams", 2): ("--num-beams:",),
        ("train", "fill", "--data", text, "--out", tmp_path / "new", "--set", "maskshare=1"): (
            "'mask_share'",
        ),
        ("train", "fill", "--data", text, "--out", tmp_path / "new", "--set", "side=target"): ("side:", text),
    }
    for case, facts in cases.items():
        ran = throughtime(*case)
        assert ran.code == 2, case
        assert not lacks(ran.err, *facts)
        assert ran.err.startswith("error: "), case
        assert ran.err.count("\n") == 1, ran.err
    typed(b"no blank\n")
    assert not lacks(throughtime("fill", run).err, "stdin:1:")
    assert not (tmp_path / "new").exists()
