"""`train classify`, `classify` and `evaluate` as a person types them."""

from __future__ import annotations

import random

import pytest

from throughtime.cli.main import main

TOPICS = {"weather": ["rain", "snow"], "music": ["play", "jazz"], "odd [x]": ["zig", "zag"]}
SMALL = ["embedding_size=12", "hidden_size=12", "lr=0.02", "batch_size=16", "device=cpu"]


def words(data, out, *settings):
    chosen = [word for setting in (*SMALL, *settings) for word in ("--set", setting)]
    return ["train", "classify", "--data", str(data), "--out", str(out), *chosen]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    dice = random.Random(2)
    rows = set()
    while len(rows) < 150:
        topic = dice.choice(list(TOPICS))
        filling = dice.choices(["the", "now", "a", "please", "in", "me"], k=dice.randint(1, 5))
        rows.add(f"{' '.join(filling)} {dice.choice(TOPICS[topic])}\t{topic}\n")
    path = tmp_path_factory.mktemp("data") / "topics.tsv"
    path.write_text("text\tlabel\n" + "".join(sorted(rows)))
    return path


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "topics"
    assert main(words(data, out, "epochs=6")) == 0
    return out


def test_texts_are_shown_with_bars(run, throughtime):
    ran = throughtime("classify", run, "play the jazz", "zig zag", "")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].strip() == "play the jazz"
    assert lines[1].startswith("music")
    assert "%" in lines[1]
    assert "odd [x]" in ran.out
    assert ran.out.count("weather") == 3


def test_evaluate_gives_all_measures(run, throughtime):
    values = throughtime("evaluate", run, "--json").json
    assert values["accuracy"] > 0.8
    assert 0 < values["macro_f1"] <= 1
    assert values["classes"]["music"].keys() == {"precision", "recall", "f1", "support", "predicted"}
    assert len(values["confusion"]["counts"]) == len(values["confusion"]["labels"])
    assert "|tokens:unicode|" in values["signature"]
    shown = throughtime("evaluate", run, "--split", "all").out
    assert "precision" in shown
    assert "odd [x]" in shown


def test_usual_columns_are_found_and_remembered(tmp_path, throughtime):
    """Not of source and target, which are for pairs; the model looks for the same columns later on."""
    rows = [
        (f"the {thing} was {word}", stars)
        for thing in "abcdefgh"
        for word, stars in (("good", 5), ("bad", 1))
    ]
    file = tmp_path / "reviews.csv"
    file.write_text("id,day,review,stars\n" + "".join(f"1,2020-01-01,{text},{n}\n" for text, n in rows))
    small = [
        "--set",
        "epochs=1",
        "--set",
        "hidden_size=4",
        "--set",
        "embedding_size=4",
        "--set",
        "device=cpu",
    ]
    run = tmp_path / "run"
    trained = throughtime("train", "classify", "--data", file, *small, "--out", run)
    assert trained.code == 0, trained.err
    assert "column review -> column stars" in trained.err
    similar = tmp_path / "similar.csv"  # here a column has the plain name, which training did not know
    similar.write_text("text,Review,stars\nx,the a was good,5\nx,the b was bad,1\n")
    judged = throughtime("evaluate", run, "--data", similar, "--split", "all", "--json")
    assert judged.code == 0, judged.err
    assert judged.json["texts"] == 2
    again = throughtime(
        "train", "classify", "--data", file, *small, "--set", "epochs=2", "--out", run, "--resume"
    )
    assert again.code == 0, again.err
    file.write_text("id,prose,verdict\n1,fine,good\n")
    refused = throughtime("train", "classify", "--data", file, *small, "--out", tmp_path / "other")
    assert refused.code == 2
    for word in (str(file), "'prose'", "'verdict'", "text and label"):
        assert word in refused.err
    assert "source" not in refused.err
    corpus = throughtime(
        "train", "compose", "--data", "embedded/en-fr", "--set", "label=x", "--out", run / "x"
    )
    assert corpus.code == 2
    assert "condition" in corpus.err
