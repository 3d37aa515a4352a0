"""Filling blanks as a task, on a small made-up language: what is learned, what comes out, what is kept."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from tests.refusals import refuses

import throughtime as tt
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.datasets import open_dataset
from throughtime.tasks.fill.config import FillConfig
from throughtime.tasks.fill.model import Filler
from throughtime.text.framing import Blanks

SMALL = {
    "cell": "gru",
    "embedding_size": 24,
    "hidden_size": 24,
    "num_layers": 1,
    "batch_size": 32,
    "lr": 0.02,
    "mask_share": 0.5,
    "embedding_dropout": 0.0,
    "output_dropout": 0.0,
    "precision": "float32",
    "device": "cpu",
}
# A colour alone is likeliest red, a way alone likeliest back, but red never goes back.
TRAVELS = {
    ("red", "left"): 2,
    ("red", "right"): 2,
    ("red", "up"): 2,
    ("blue", "back"): 4,
    ("green", "back"): 4,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    dice = random.Random(1)
    rows = [f"{colour} goes {way}." for (colour, way), share in TRAVELS.items() for _ in range(40 * share)]
    dice.shuffle(rows)
    path = tmp_path_factory.mktemp("text") / "travels.txt"
    path.write_text("\n".join([*rows, "", "rare zebra."]) + "\n")
    return path


@pytest.fixture(scope="module")
def opened(text):
    return open_dataset(str(text), layout="lines")


@pytest.fixture(scope="module")
def trained(text, opened, tmp_path_factory):
    """The folder of a model that has learned to travel, and what training measured."""
    out = tmp_path_factory.mktemp("runs") / "travels"
    filler = Filler.create(FillConfig(data=str(text), epochs=6, seed=1, **SMALL), opened)
    return out, filler.fit(opened, out)


@pytest.fixture(scope="module")
def filler(trained):
    return tt.load(trained[0], device="cpu")


def ranked(filler, text, k):
    [best] = filler.fill(text, k=k)
    return [best, *best.alternatives]


def test_it_learns_what_stands_in_a_blank(trained, filler, opened):  # R67
    _, values = trained
    assert values["best"]["perplexity"] < 3
    assert values["best"]["top5"] > values["best"]["accuracy"] > 0.5
    [found] = filler.fill("blue goes ___.")
    assert found.text == "blue goes back."
    assert found.tokens == ("back",)
    assert found.probability > 0.8
    ways = {one.tokens[0]: one.probability for one in ranked(filler, "red goes ___.", 3)}
    assert ways == pytest.approx({"left": 1 / 3, "right": 1 / 3, "up": 1 / 3}, abs=0.15)
    colours = [one.tokens[0] for one in ranked(filler, "[MASK] goes back.", 2)]
    assert sorted(colours) == ["blue", "green"]


def test_two_blanks_are_filled_together(filler):
    blanks = Blanks.of("___ goes ___.", filler.codec)
    places = torch.tensor(blanks.places)
    alone = filler.model.log_probs(torch.tensor(blanks.ids)[:, None], places).argmax(1)
    assert filler.codec.vocabulary.tokens(alone.tolist()) == ["red", "back"]
    best = ranked(filler, "___ goes ___.", 3)
    assert best[0].tokens in (("blue", "back"), ("green", "back"))
    assert ("red", "back") not in [one.tokens for one in best]
    assert best[0].probability == pytest.approx(4 / 14, abs=0.15)


def test_only_words_are_filled_in_and_their_probabilities_sum_to_one(filler):
    with torch.no_grad():
        filler.model.head.bias[:2] += 20.0  # <unk> and [MASK]
    try:
        found = ranked(filler, "___ goes back.", 600)
        assert not {"<unk>", "[MASK]"} & {one.tokens[0] for one in found}
        assert len(found) == len(filler.codec.vocabulary) - 2
        assert sum(one.probability for one in found) == pytest.approx(1, abs=1e-5)
    finally:
        with torch.no_grad():
            filler.model.head.bias[:2] -= 20.0


def test_what_stands_around_a_blank_stays(filler):
    found, blank = filler.fill(["Nobody goes ____ , never!", "___"])
    assert found.text.startswith("Nobody goes ")
    assert found.text.endswith(" , never!")
    assert blank.probability == pytest.approx(filler.fill("___")[0].probability, rel=1e-4)
    assert filler.fill([" ", "___"])[0].text == " "  # nothing to fill
    with refuses("text"):
        filler.fill(["the ___ goes", "the ball goes"])
    with refuses("k", "0", "1"):
        filler.fill("___", k=0)


def test_the_measures_are_those_of_the_fixed_masks(filler, opened):
    report = filler.evaluate(opened, split="test")
    rows = filler.ids(opened, "test")
    again = filler.count_guesses(rows)
    assert report.values["perplexity"] == pytest.approx(math.exp(again.nats / again.tokens))
    assert report.values["masked"] == again.tokens
    assert "|mask-seed:0|" in report.signature
    assert 0 <= report.values["accuracy"] <= report.values["top5"] <= 1
    with refuses("cache"):
        filler.evaluate(opened, split="test", cache=5)


def test_an_unknown_word_is_never_guessed_right(filler):
    unknown = filler.codec.encode("zebra zebra zebra")
    assert set(unknown) == {filler.codec.vocabulary.unk_id}
    found = filler.count_guesses(RaggedIds.of([unknown] * 20))
    assert (found.right, found.top5) == (0, 0)
    assert found.tokens >= 20


def test_the_loss_is_a_sum_over_masks(filler, opened):
    task = filler.build_objective(opened)
    batch = next(iter(task.batches(0, 1)))
    loss, carried = task.loss(batch, ())
    log_probs = task.model.log_probs(batch.ids, batch.places, batch.lengths)
    assert carried == ()
    assert loss.total.item() == pytest.approx(
        -log_probs.gather(1, batch.labels[:, None]).sum().item(), rel=1e-4
    )
    assert task.count(batch) == len(batch.places)


def test_it_refuses_to_write_from_left_to_right(filler):  # R66
    assert "bidirectional" in filler.refuses_generation


def test_pairs_give_one_side(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"one w{n}\tun w{n}\n" for n in range(40)))
    data = open_dataset(str(path))
    for side, word in ((None, "one"), ("source", "one"), ("target", "un")):
        filler = Filler.create(
            FillConfig(data=str(path), side=side, tokens="space", min_freq=2, **SMALL), data
        )
        assert list(filler.codec.vocabulary) == ["<unk>", "[MASK]", word]  # all others are rare
        assert filler.config.side == (side or "source")


def test_data_suggest_how_they_are_read(text, opened, tmp_path):
    settled = FillConfig(data=str(text)).complete(opened)
    assert (settled.tokens, settled.side, settled.max_size) == ("unicode", None, None)
    assert FillConfig(data=str(text), tokens="bpe").complete(opened).max_size == 1000
    assert settled.data_options["layout"] == "lines"
    with refuses("side", "travels.txt"):
        FillConfig(data=str(text), side="target").complete(opened)
    series = tmp_path / "series.csv"
    series.write_text("ds,y\n" + "".join(f"2020-01-{day:02},{day}\n" for day in range(1, 20)))
    with refuses("series.csv"):
        FillConfig(data=str(series)).complete(open_dataset(str(series)))


def test_lines_that_are_too_long_are_cut_not_lost(text, opened):
    filler = Filler.create(FillConfig(data=str(text), max_length=2, **SMALL), opened)
    rows = filler.ids(opened, "train")
    assert rows.lengths.max() == 2
    assert rows.lengths.min() > 0
    whole = Filler.create(FillConfig(data=str(text), **SMALL), opened).ids(opened, "train")
    assert len(rows.flat) == len(whole.flat)


def test_the_structure_without_masks_learns_exports_and_goes_on(text, opened, tmp_path):
    settings = {**SMALL, "structure": "beside", "mask_share": 0.15, "seed": 0, "sampled_words": 4}
    model = tt.train("fill", str(text), **settings, epochs=6, out=tmp_path / "run", progress="none")
    assert model.evaluate(split="valid").values["accuracy"] > 0.5
    assert model.fill("blue goes ___.")[0].tokens == ("back",)
    assert model.fill("___ goes ___.")[0].tokens[1] in ("left", "right", "up", "back")
    model.export(tmp_path / "export")
    runner = tt.runtime.load(tmp_path / "export")
    for blanks in ("blue goes ___.", "___", "___ goes ___."):
        mine, exported = model.fill(blanks, k=3)[0], runner.fill(blanks, k=3)[0]
        assert exported.text == mine.text
        assert exported.probability == pytest.approx(mine.probability, rel=1e-4)
    again = tt.load(tmp_path / "run")
    [loaded], [kept] = again.fill("blue goes ___."), model.fill("blue goes ___.")
    assert loaded.text == kept.text
    assert loaded.probability == pytest.approx(kept.probability, rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "frequent"),
    [
        ({"sampled_words": 3}, 2),
        ({"sampled_words": 6}, None),  # of 11 words, too few are left out
        ({"sampled_words": 0, "structure": "beside"}, None),
        ({"structure": "beside"}, None),
        ({}, None),
    ],
)
def test_the_softmax_of_a_training_has_few_words_if_there_are_many(text, opened, settings, frequent):
    filler = Filler.create(FillConfig(data=str(text), **SMALL, **settings), opened)
    objective = filler.build_objective(opened)
    assert objective.fixed_shapes is (frequent is None)
    if frequent is None:
        assert objective.frequent is None
    else:
        assert sorted(filler.codec.vocabulary.tokens(objective.frequent.tolist())) == [".", "goes"]


def test_on_a_cpu_a_large_vocabulary_is_sampled(opened, text, monkeypatch):
    monkeypatch.setattr("throughtime.tasks.fill.training.SAMPLED_WORDS", 4)
    filler = Filler.create(FillConfig(data=str(text), structure="beside", **SMALL), opened)
    assert len(filler.build_objective(opened).frequent) == 2
    monkeypatch.setattr("throughtime.tasks.fill.training.choose_device", lambda _: torch.device("cuda"))
    assert filler.device.type == "cpu"  # the weights are moved later
    assert filler.build_objective(opened).frequent is None


def test_an_untrained_model_guesses_by_frequency(opened, text):
    flat, even = (
        Filler.create(FillConfig(data=str(text), output_bias=bias, **SMALL), opened).model.head.bias
        for bias in ("frequencies", "zeros")
    )
    counts = np.bincount(Filler.create(FillConfig(data=str(text), **SMALL), opened).ids(opened, "train").flat)
    assert flat.argmax() == counts.argmax()
    assert not even.any()


def test_the_structure_without_masks_has_one_layer(opened):
    assert FillConfig.derive_settings({"structure": "beside"}) == {"num_layers": 1}
    assert FillConfig.derive_settings({"structure": "masked"}) == {}
    with refuses("num_layers", 2):
        FillConfig(data="x", structure="beside", num_layers=2).complete(opened)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, {"batch_size": 128, "lr": 5e-3, "structure": "beside", "num_layers": 1}),
        ({"num_layers": 2, "lr": 0.1}, {"batch_size": 128}),
        ({"structure": "masked", "batch_size": 8}, {"lr": 5e-3}),
    ],
)
def test_with_little_time_one_layer_predicts_many_tokens(given, chosen):
    assert FillConfig(data="x", **given).settings_for(3.0) == chosen
    assert FillConfig(data="x", **given).settings_for(30.0) == {}
    small = {"embedding_size": 128, "hidden_size": 128}
    assert FillConfig(data="x", **given).settings_for(0.5) == chosen | small
