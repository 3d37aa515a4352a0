"""`train compose`, `compose` and `evaluate` as a person types them."""

from __future__ import annotations

import json
import random
import shlex

import pytest
from tests.refusals import lacks

from throughtime.cli.main import main

SMALL = ["hidden_size=20", "condition_size=8", "lr=0.02", "batch_size=16", "device=cpu", "output_dropout=0"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    dice = random.Random(4)
    rows = set()
    while len(rows) < 150:
        label = dice.choice("ab")
        pool = ["cat", "dog", "cow"] if label == "a" else ["red", "blue", "green"]
        rows.add(f"{' '.join(dice.choices(pool, k=dice.randint(1, 5)))},{label}\n")
    folder = tmp_path_factory.mktemp("compose")
    (folder / "words.csv").write_text("text,label\n" + "".join(sorted(rows)))
    chosen = [word for setting in (*SMALL, "epochs=4") for word in ("--set", setting)]
    data, out = str(folder / "words.csv"), folder / "run"
    assert main(["train", "compose", "--data", data, "--out", str(out), *chosen]) == 0
    return out


def test_evaluate_compares_with_a_wrong_label(run, throughtime):
    values = throughtime("evaluate", run, "--json").json
    assert values["perplexity_shuffled"] > values["perplexity"]
    assert "given a wrong one" in throughtime("evaluate", run).out


@pytest.mark.parametrize(
    ("asked", "facts"),
    [
        (["--label", "c"], ("'c'",)),
        (["--vector", "1,2"], ("--label",)),
        (["--vector", "one"], ("--vector:", "'one'")),
        (["--label", "a", "--require", "hippo"], ("--require:", "'hippo'")),
        (["--label", "a", "--prefix", "cat hippo"], ("--prefix:", "'cat hippo'")),
        (["--label", "a", "--greedy", "--num-beams", 2], ("--greedy:", "num_beams")),
        (["--label", "a", "--greedy", "--temperature", 2], ("--temperature:", "greedy")),
        (["--label", "a", "--num-beams", 2, "--top-k", 2], ("--top-k:", "beam")),
        (["--label", "a", "--greedy", "--seed", 2], ("--seed:", "greedy")),
        (["--label", "a", "--num-beams", 2, "--seed", 2], ("--seed:", "beam")),
        (["--label", "a", "--seed", -1], ("--seed:",)),
        (["--label", "a", "--length-penalty", 1], ("--length-penalty:", "sampling")),
    ],
)
def test_what_is_wrong_is_one_sentence(run, throughtime, asked, facts):
    ran = throughtime("compose", run, *asked)
    assert ran.code == 2
    assert not lacks(ran.err, *facts)


def hinted(shown):
    """The words of the command that the summary of a training tells to go on with."""
    [line] = [line for line in shown.splitlines() if line.startswith("  throughtime compose ")]
    return shlex.split(line)[1:]


@pytest.mark.parametrize(
    "records",
    [
        [{"text": "cat dog", "label": "it's [b] {x}"}, {"text": "red blue", "label": "z"}],
        [{"text": "cat dog", "vector": [0.5, 1, 2]}, {"text": "red blue", "vector": [1, 0, 3]}],
    ],
)
def test_the_hint_can_be_pasted(records, tmp_path, throughtime):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "valid"):
        (data / f"{split}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records * 10))
    chosen = [word for setting in (*SMALL, "epochs=1") for word in ("--set", setting)]
    ran = throughtime("train", "compose", "--data", data, "--out", tmp_path / "a run", *chosen)
    assert ran.code == 0, ran.err
    assert "--split valid" in ran.out
    assert "--split test" not in ran.out
    pasted = throughtime(*hinted(ran.out))
    assert pasted.code == 0, pasted.err
