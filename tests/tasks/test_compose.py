"""A label or a vector to text, on data where the condition decides the words."""

from __future__ import annotations

import json
import random

import pytest
import torch
from tests.refusals import refuses
from torch.nn import functional

import throughtime as tt
from throughtime.data.datasets import open_dataset
from throughtime.tasks.compose.config import ComposeConfig
from throughtime.tasks.compose.model import Composer

WORDS = {"animals": "cat dog horse cow".split(), "colours": "red blue green black".split()}
SMALL = {
    "embedding_size": 24,
    "hidden_size": 24,
    "condition_size": 8,
    "lr": 0.02,
    "batch_size": 16,
    "device": "cpu",
    "embedding_dropout": 0.0,
    "output_dropout": 0.0,
}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Rows of one to five animals, or of as many colours."""
    dice = random.Random(5)
    rows = {}
    while len(rows) < 240:
        label = dice.choice(list(WORDS))
        rows[" ".join(dice.choices(WORDS[label], k=dice.randint(1, 5))) + "."] = label
    path = tmp_path_factory.mktemp("data") / "words.jsonl"
    path.write_text("".join(json.dumps({"text": text, "label": rows[text]}) + "\n" for text in rows))
    return path


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """A sentence that tells the sign of the first number and the size of the second, both badly scaled."""
    dice = random.Random(6)
    path = tmp_path_factory.mktemp("data") / "days.jsonl"
    with path.open("w") as file:
        for number in range(240):
            warm, rain = dice.choice([-1, 1]), dice.choice([0, 1])
            text = f"day {number}: {'warm' if warm > 0 else 'cold'} and {'wet' if rain else 'dry'}"
            vector = [5000 * warm + dice.gauss(0, 500), 0.001 * rain, 7]
            file.write(json.dumps({"vector": vector, "text": text}) + "\n")
    return path


@pytest.fixture(scope="module")
def opened(labelled):
    return open_dataset(str(labelled))


@pytest.fixture
def new(labelled, opened):
    def build(**settings):
        return Composer.create(ComposeConfig(data=str(labelled), **{**SMALL, **settings}), opened)

    return build


@pytest.fixture(scope="module")
def trained(labelled, opened, tmp_path_factory):
    model = Composer.create(ComposeConfig(data=str(labelled), epochs=4, **SMALL), opened)
    out = tmp_path_factory.mktemp("runs") / "words"
    return out, model.fit(opened, out)


@pytest.fixture(scope="module")
def composer(trained):
    return tt.load(trained[0], device="cpu")


def words(text):
    return set(text.rstrip(".").split())


def test_a_label_decides_the_words(composer):  # R8, a fixed-size input to a sequence
    found = composer.compose([*WORDS], num_return_sequences=20, seed=1)
    for label, own in zip(WORDS, found, strict=True):
        texts = [one.text for one in (own, *own.alternatives)]
        assert len(texts) == 20
        assert sum(words(text) <= set(WORDS[label]) for text in texts) >= 18
        assert len(set(texts)) > 3


def test_evaluate_tells_what_the_label_is_worth(composer, opened):
    report = composer.evaluate(opened, split="test")
    values = report.values
    assert values["perplexity"] < 6
    assert values["perplexity_shuffled"] > 3 * values["perplexity"]
    assert values["worth_bits_per_token"] > 1
    assert "given a wrong one" in report.text


def test_every_search_serves_it(composer):
    [likeliest] = composer.compose(["colours"], greedy=True)
    assert words(likeliest.text) <= set(WORDS["colours"])
    [beam] = composer.compose(["colours"], num_beams=4, num_return_sequences=3)
    assert len(beam.alternatives) == 2
    assert beam.score >= beam.alternatives[0].score >= beam.alternatives[1].score
    once, again = (composer.compose(["animals"], seed=7, temperature=2.0) for _ in range(2))
    assert once == again
    rules = {"prefix": "cow", "require": ["horse"], "forbid": ["dog"]}
    [asked] = composer.compose(["animals"], num_return_sequences=5, seed=0, **rules)
    for one in (asked, *asked.alternatives):
        assert one.text.startswith("cow")
        assert "horse" in words(one.text)
        assert "dog" not in words(one.text)
    [short] = composer.compose(["animals"], max_new_tokens=1, greedy=True)
    assert not short.ended
    assert composer.compose([]) == []
    assert composer.compose("colours", greedy=True) == [likeliest]


def test_no_text_says_a_mark(new):
    found = new().compose(["animals"] * 4, num_return_sequences=20, temperature=5.0, seed=0)
    assert not any("<" in one.text for own in found for one in (own, *own.alternatives))


def test_the_loss_is_a_sum_over_real_tokens_only(new, opened):
    task = new().build_objective(opened)
    batch = next(batch for batch in task.batches(0, 1) if len(set(batch.target_lengths.tolist())) > 1)
    loss, carried = task.loss(batch, ())
    log_probs = task.model.log_probs(batch.source, batch.source_lengths, batch.inputs).detach()
    nats = sum(
        float(functional.nll_loss(log_probs[:length, row], batch.labels[:length, row], reduction="sum"))
        for row, length in enumerate(batch.target_lengths.tolist())
    )
    assert carried == ()
    assert loss.total.item() == pytest.approx(nats, rel=1e-5)
    assert task.count(batch) == int(batch.target_lengths.sum())


def test_wrong_conditions_are_wrong(composer, opened):
    texts = composer.texts(opened, "train")
    other = texts.swap_conditions(len(WORDS))
    assert not (texts.conditions == other.conditions).any()
    assert (texts.swap_conditions(1).conditions == 0).all()
    vectors = type(texts)(texts.texts, torch.arange(len(texts))[:, None].float(), texts.specials)
    shuffled = vectors.swap_conditions(None).conditions
    assert not (shuffled == vectors.conditions).any()
    assert torch.equal(shuffled.flatten().sort().values, vectors.conditions.flatten())


def test_vectors_decide_the_words(described, tmp_path):  # R8, likewise
    data = open_dataset(str(described))
    config = ComposeConfig(data=str(described), epochs=4, **SMALL)
    model = Composer.create(config, data)
    model.fit(data, tmp_path / "days")
    loaded = tt.load(tmp_path / "days", device="cpu")
    told = loaded.compose([[5000, 0.001, 7], [-5000, 0, 7]], greedy=True)
    assert loaded.compose([5000, 0.001, 7], greedy=True)[0].text == told[0].text
    assert [" ".join(own.text.split()[-3:]) for own in told] == ["warm and wet", "cold and dry"]
    values = loaded.evaluate(data, split="test").values
    assert values["perplexity_shuffled"] > values["perplexity"]
    with refuses("conditions", "3"):
        loaded.compose([[1.0]])
    with refuses("conditions"):
        loaded.compose(["animals"])
    assert "3 numbers" in (tmp_path / "days" / "README.md").read_text()
    on = Composer.resume(tmp_path / "days", loaded.config)
    assert on.width == 3


def test_what_it_cannot_do_is_said(composer, opened, described, labelled):
    with refuses("label", "'animal'", "'animals'"):
        composer.compose(["animal"])
    with refuses("conditions", "vector"):
        composer.compose([[1.0, 2.0]])
    with refuses("num_return_sequences", "2", "1"):
        composer.compose(["animals"], greedy=True, num_return_sequences=2)
    with refuses("num_return_sequences", "3", "1", "2"):
        composer.compose(["animals"], num_beams=2, num_return_sequences=3)
    with refuses("days.jsonl"):
        composer.evaluate(open_dataset(str(described)), split="test")
    with refuses("cache"):
        composer.evaluate(opened, split="test", cache=5)
    with refuses("vector_size", "4", "0"):
        Composer.create(ComposeConfig(data=str(labelled), vector_size=4), opened)
