"""Classification as a task, on requests of three kinds: what is learned, what comes out, what is kept."""

from __future__ import annotations

import json
import random
import shutil

import numpy as np
import pytest
import torch
from sklearn import metrics
from tests.refusals import refuses
from torch.nn import functional

import throughtime as tt
from throughtime.data.catalogue import find
from throughtime.data.datasets import open_dataset
from throughtime.metrics.measures import MEASURES
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.tasks.classify.model import Classifier
from throughtime.tasks.classify.training import MIXTURES
from throughtime.tasks.labels import Labels

TOPICS = {
    "weather": "rain sun snow forecast wind".split(),
    "music": "play song jazz album band".split(),
    "food": "table eat pizza dinner cook".split(),
}
FILLING = "the a please me in now for".split()
SMALL = {"embedding_size": 16, "hidden_size": 16, "lr": 0.01, "batch_size": 16, "device": "cpu"}
PLAIN = {"word_dropout": 0.0, "embedding_dropout": 0.0, "output_dropout": 0.0}


def request(dice, topic):
    words = [
        dice.choice(TOPICS[topic] if dice.random() < 0.4 else FILLING) for _ in range(dice.randint(2, 7))
    ]
    return " ".join([*words, dice.choice(TOPICS[topic])])


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    dice = random.Random(1)
    lines = []
    for _ in range(360):
        topic = dice.choices(list(TOPICS), [3, 2, 1])[0]
        lines.append(f"{request(dice, topic)},{topic}\n")
    path = tmp_path_factory.mktemp("data") / "requests.csv"
    path.write_text("text,label\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def opened(requests):
    return open_dataset(str(requests))


@pytest.fixture
def new(requests, opened):
    def build(**settings):
        return Classifier.create(ClassifyConfig(data=str(requests), **{**SMALL, **settings}), opened)

    return build


@pytest.fixture(scope="module")
def trained(requests, opened, tmp_path_factory):
    model = Classifier.create(ClassifyConfig(data=str(requests), epochs=5, **SMALL), opened)
    out = tmp_path_factory.mktemp("runs") / "requests"
    return out, model.fit(opened, out)


@pytest.fixture(scope="module")
def classifier(trained):
    return tt.load(trained[0], device="cpu")


def test_it_learns_to_label(trained, classifier, opened):  # R8, a whole sequence to one label
    assert trained[1]["best"]["accuracy"] > 0.9
    report = classifier.evaluate(opened, split="test")
    assert report.values["accuracy"] > 0.9
    assert [one.label for one in classifier.classify(["play jazz", "snow, please!"])] == ["music", "weather"]


def test_scikit_learn_judges_the_report(classifier, opened):
    records = list(opened.labelled_texts("train"))
    right = [one.label for one in records]
    found = classifier.classify([one.text for one in records])
    given = [one.label for one in found]
    values = classifier.evaluate(opened, split="train").values
    assert values["accuracy"] == pytest.approx(metrics.accuracy_score(right, given))
    assert values["macro_f1"] == pytest.approx(metrics.f1_score(right, given, average="macro"))
    names = list(classifier.labels.names)
    shares = [[dict(one.ranked)[name] for name in names] for one in found]
    assert values["log_loss"] == pytest.approx(metrics.log_loss(right, shares, labels=names), rel=1e-5)
    table = metrics.confusion_matrix(right, given, labels=values["confusion"]["labels"])
    assert values["confusion"]["counts"] == table.tolist()
    each = metrics.classification_report(right, given, output_dict=True)
    for name in names:
        assert values["classes"][name]["precision"] == pytest.approx(each[name]["precision"])


def test_probabilities_are_ranked_and_sum_to_one(classifier):
    texts = ["dinner", "", "zzz qqq", "rain " * 900, "eat pizza now"]
    found = classifier.classify(texts)
    for text, own in zip(texts, found, strict=True):
        shares = [share for _, share in own.ranked]
        assert own.text == text
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1)
        [alone] = classifier.classify([text], k=1)
        assert alone.ranked == (pytest.approx(own.ranked[0]),)
    assert classifier.classify([]) == []
    with refuses("k", "0", "1"):
        classifier.classify(["a"], k=0)


def test_of_nothing_an_untrained_model_expects_the_shares_of_training(new):
    model = new()
    [own] = model.classify([""])
    assert dict(own.ranked) == pytest.approx(
        dict(zip(model.labels.names, model.labels.frequencies, strict=True)), rel=1e-5
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_a_sum_over_texts(new, opened, smoothing):
    task = new(label_smoothing=smoothing, **PLAIN).build_objective(opened)
    batch = next(iter(task.batches(0, 1)))
    loss, carried = task.loss(batch, ())
    log_probs = task.model.log_probs(batch.ids, batch.lengths).detach()
    minimised = loss.total if loss.penalty is None else loss.penalty
    expected = functional.cross_entropy(log_probs, batch.labels, reduction="sum", label_smoothing=smoothing)
    assert carried == ()
    assert task.count(batch) == len(batch.labels)
    assert loss.total.item() == pytest.approx(
        float(functional.nll_loss(log_probs, batch.labels, reduction="sum")), rel=1e-5
    )
    assert minimised.item() == pytest.approx(float(expected), rel=1e-5)
    assert minimised.requires_grad


@pytest.mark.parametrize(("measure", "better"), [("accuracy", "more"), ("log_loss", "less")])
def test_the_measure_that_decides(new, opened, measure, better):
    task = new(choose_by=measure).build_objective(opened)
    assert (task.measure, task.better) == (measure, better)
    assert next(iter(task.summarise(task.validate(0, 1)))) == measure


def test_a_measure_of_another_package_decides_and_is_evaluated(new, opened, monkeypatch):
    monkeypatch.setitem(MEASURES._own, "equal", "tests.metrics.test_measures:EQUAL")
    classifier = new(choose_by="equal")
    task = classifier.build_objective(opened)
    shares = [task.validate(rank, 2) for rank in range(2)]
    measures = task.summarise({name: sum(share[name] for share in shares) for name in shares[0]})
    assert (task.better, next(iter(measures))) == ("more", "equal")
    assert measures["equal"] == pytest.approx(measures["accuracy"])
    values = classifier.evaluate(opened, split="valid", measures=["equal"]).values
    assert values["equal"] == pytest.approx(values["accuracy"])


def test_own_texts_are_cut_as_any_script_wants_and_the_catalogue_s_as_before(requests):
    config, own = ClassifyConfig(data=str(requests)), open_dataset(str(requests))
    assert (config.complete(own).tokens, config.complete(own).max_size) == ("unicode", None)
    assert ClassifyConfig(data=str(requests), tokens="space").complete(own).tokens == "space"
    own.tokens = find("snips-slots").part.tokens
    assert config.complete(own).tokens == "basic-english"


def test_a_script_without_spaces_is_learned_by_default(tmp_path):
    dice = random.Random(4)
    said = {"good": "好吃喜欢", "bad": "难坏冷慢"}
    rows = [
        "".join(dice.choices("我今天在这家店的菜", k=6)) + dice.choice(said[label]) + f",{label}\n"
        for label in dice.choices(list(said), k=240)
    ]
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n" + "".join(rows), encoding="utf-8")
    dataset = open_dataset(str(path))
    model = Classifier.create(ClassifyConfig(data=str(path), epochs=4, **SMALL), dataset)
    model.fit(dataset, tmp_path / "run")
    report = tt.load(tmp_path / "run", device="cpu").evaluate(dataset, split="all")
    assert report.values["accuracy"] > 0.95


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Names that are seen once; how they end tells their language, now and then wrongly."""
    dice = random.Random(6)
    ends = {"x": ["ski", "wicz"], "y": ["son", "sen"], "z": ["ini", "elli"]}
    rows = []
    for label in dice.choices(list(ends), k=600):
        shown = label if dice.random() < 0.9 else dice.choice(list(ends))
        rows.append("".join(dice.choices("abdegiklmnorstu", k=4)) + dice.choice(ends[shown]) + f",{label}\n")
    path = tmp_path_factory.mktemp("data") / "names.csv"
    path.write_text("text,label\n" + "".join(rows))
    return path


def test_letters_decide_where_words_are_new(names, tmp_path):
    out, dataset = tmp_path / "run", open_dataset(str(names))
    model = Classifier.create(ClassifyConfig(data=str(names), epochs=1, **SMALL | {"lr": 1e-5}), dataset)
    values = model.fit(dataset, out)
    assert model.config.tokens == "char"
    assert values["best"]["network_share"] == 0
    assert values["best"]["accuracy"] > 0.8
    assert "0% network, 100% n-grams" in (out / "README.md").read_text()
    assert "alone" in model.summary(values)
    loaded = tt.load(out, device="cpu")
    texts = ["Urabelli", "Domson", ""]
    assert loaded.mixture[0] == 0
    powers = np.exp(loaded.partner_log_probs(texts)) ** loaded.mixture[1]
    assert np.exp(loaded.log_probs(texts)) == pytest.approx(powers / powers.sum(1, keepdims=True), rel=1e-5)
    plain = Classifier.create(ClassifyConfig(data=str(names), grams=0, **SMALL), dataset)
    assert plain.mixture == ()
    assert plain.model.partner is None


def test_a_mixture_is_the_normalised_product_of_powers(trained):
    classifier, texts = tt.load(trained[0], device="cpu"), ["play jazz", "snow and dinner", ""]
    classifier.model.partner.mixture.copy_(torch.tensor([0.9, 0.6]))
    parts = classifier.network_log_probs(texts), classifier.partner_log_probs(texts)
    powers = np.exp(parts[0]) ** 0.9 * np.exp(parts[1]) ** 0.6
    expected = powers / powers.sum(1, keepdims=True)
    assert np.exp(classifier.log_probs(texts)) == pytest.approx(expected, rel=1e-5)


def test_a_mixture_is_taken_only_if_it_is_better_by_more_than_its_error(new, opened):
    task = new().build_objective(opened)
    sums = task.validate(0, 1)
    place = MIXTURES.index((0.4, 0.6))
    least = min(value for name, value in sums.items() if name.startswith("nats")) - 10
    better = {f"nats of {place}": least, f"gain of {place}": 10.0, f"square of {place}": 2.0}
    assert task.summarise({**sums, **better})["network_share"] == 0.4
    assert task.partner.mixture.tolist() == pytest.approx([0.4, 0.6])
    noisy = {**better, f"square of {place}": 1e6}
    assert task.summarise({**sums, **noisy})["network_share"] == 0
    assert task.partner.mixture[0] == 0


def test_all_of_a_long_text_is_read(new, opened):
    model = new(max_length=5, grams=0)
    text = "the a " * 6 + "play jazz"
    assert sorted(map(len, model.split(text))) == [4, 5, 5]
    assert [token for ids in model.split(text) for token in ids] == model.codec.encode(text)
    alone = [model.network_log_probs([model.codec.decode(ids)])[0] for ids in model.split(text)]
    assert model.network_log_probs([text])[0] == pytest.approx(np.mean(alone, axis=0), rel=1e-5)
    task = model.build_objective(opened)
    assert any("in parts" in note for note in task.notes)
    assert len(task.train[0]) > len(list(opened.labelled_texts("train")))


def test_a_run_of_an_older_release_keeps_its_words(trained, opened, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(trained[0], path)
    config = json.loads((path / "config.json").read_text())
    config["config"]["tokens"] = "basic-english"
    (path / "config.json").write_text(json.dumps(config))
    older = tt.load(path, device="cpu", trust_changed=True)
    assert older.config.tokens == "basic-english"
    asked = ClassifyConfig(data=older.config.data, **SMALL)
    again = Classifier.initialise_from(path, asked, {"tokens": None}, trust_changed=True)
    assert again.config.tokens == "basic-english"
    assert "tokens:basic-english" in older.evaluate(opened, split="valid").signature


def test_a_model_goes_on_with_its_own_labels_only(classifier, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("text,label\n" + "a,sport\nb,music\n" * 5)
    with refuses("other.csv", "'sport'"):
        classifier.build_objective(open_dataset(str(other)))


def test_labels_that_training_did_not_know_are_counted_wrong(classifier, tmp_path):
    for split, rows in {"train": "play,music\n", "valid": "play jazz,music\nrun,sport\n"}.items():
        (tmp_path / f"{split}.csv").write_text("text,label\n" + rows)
    data = open_dataset(str(tmp_path))
    report = classifier.evaluate(data, split="valid")
    values = report.values
    assert "of the 1 with known labels\nover 2 texts, 1 of them with labels that" in report.text
    assert values["unknown_labels"] == 1
    assert values["accuracy"] == 0.5
    assert values["log_loss"] < 1
    task = classifier.build_objective(data)
    assert task.summarise(task.validate(0, 1))["accuracy"] == 0.5


def test_tagged_sentences_with_labels(tmp_path):
    (tmp_path / "seq.in").write_text("play jazz\nrain in rome\n" * 20)
    (tmp_path / "seq.out").write_text("O B-genre\nO O B-city\n" * 20)
    (tmp_path / "label").write_text("PlayMusic\nGetWeather\n" * 20)
    assert Labels.of(open_dataset(str(tmp_path))).names == ("GetWeather", "PlayMusic")
    plain = tmp_path / "a.conll"
    plain.write_text("play\tVERB\n\n" * 20)
    with refuses("a.conll", "'play'"):
        Labels.of(open_dataset(str(plain)))


def test_translations_are_not_taken_for_labels(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"word {number}\tmot {number}\n" for number in range(200)))
    with refuses("pairs.tsv", "180"):
        Labels.of(open_dataset(str(file)))


def test_texts_with_vectors_are_refused_for_what_they_are(classifier, tmp_path):
    file = tmp_path / "weather.jsonl"
    file.write_text('{"vector": [0.1, -2], "text": "a cold wet day"}\n' * 9)
    dataset = open_dataset(str(file))
    for refused in (
        lambda: classifier.evaluate(dataset, split="all"),
        lambda: Classifier.create(classifier.config, dataset),
    ):
        with refuses("weather.jsonl", "vector"):
            refused()


def test_the_intents_of_snips(corpora):
    labels = Labels.of(open_dataset("snips-slots"))
    assert len(labels) == 7
    assert sum(labels.counts.values()) == 13_084
