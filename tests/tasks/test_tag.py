"""Tagging as a task, on orders for drinks: what is learned, what comes out, what is kept."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from tests.refusals import refuses

import throughtime as tt
from throughtime.data.batching.sequences import TaggedBatches
from throughtime.data.datasets import open_dataset
from throughtime.data.records import TaggedSentence
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.tag.codec import load_languages
from throughtime.tasks.tag.config import TagConfig
from throughtime.tasks.tag.model import Tagger

SMALL = {
    "word_size": 16,
    "character_size": 8,
    "character_hidden_size": 8,
    "hidden_size": 16,
    "num_layers": 1,
    "batch_size": 16,
    "lr": 0.02,
    "input_dropout": 0.1,
    "output_dropout": 0.1,
    "device": "cpu",
    "precision": "float32",
}
DRINKS = ("green tea", "tea", "milk", "black coffee")


def order(dice):
    """An order or a question, with its drinks marked."""
    label = dice.choice(["order", "ask"])
    words = dice.choice([["bring"], ["please", "bring"]] if label == "order" else [["is", "there"]])
    tags = ["O"] * len(words)
    for number in range(dice.randint(1, 2)):
        drink = dice.choice(DRINKS).split()
        words, tags = words + ["and"] * number, tags + ["O"] * number
        words, tags = words + drink, tags + ["B-drink", "I-drink"][: len(drink)]
    return TaggedSentence(tuple(words), tuple(tags), label)


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """A folder of slots; its last twentieths are for validation and test."""
    dice = random.Random(5)
    records = [order(dice) for _ in range(300)]
    folder = tmp_path_factory.mktemp("orders")
    for name, line in [("seq.in", "words"), ("seq.out", "tags")]:
        (folder / name).write_text("".join(" ".join(getattr(one, line)) + "\n" for one in records))
    (folder / "label").write_text("".join(f"{one.label}\n" for one in records))
    return folder


@pytest.fixture(scope="module")
def opened_orders(orders):
    return open_dataset(str(orders))


@pytest.fixture
def new(orders, opened_orders):
    def build(**settings):
        return Tagger.create(TagConfig(data=str(orders), **{**SMALL, **settings}), opened_orders)

    return build


@pytest.fixture(scope="module")
def trained(orders, opened_orders, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "orders"
    model = Tagger.create(TagConfig(data=str(orders), epochs=6, **SMALL), opened_orders)
    return out, model.fit(opened_orders, out)


@pytest.fixture(scope="module")
def tagger(trained):
    return tt.load(trained[0], device="cpu")


@pytest.fixture(scope="module")
def languages(tmp_path_factory):
    """Two character models of the same lines, one for each direction."""
    folder = tmp_path_factory.mktemp("languages")
    (folder / "lines.txt").write_text("bring green tea\nis there milk\n" * 40)
    dataset = open_dataset(str(folder / "lines.txt"))
    runs = []
    for backward in (False, True):
        config = LanguageConfig(
            data=dataset.name,
            tokens="char",
            reversed=backward,
            embedding_size=8,
            hidden_size=8,
            num_steps=20,
            batch_size=4,
            epochs=1,
            device="cpu",
        )
        runs.append(folder / ("right" if backward else "left"))
        RecurrentLanguage.create(config, dataset).fit(dataset, runs[-1])
    return dataset, runs


def test_it_learns_tags_and_labels(trained, tagger, opened_orders):  # R8, of aligned sequences
    _, values = trained
    assert values["best"]["f1"] > 0.95
    report = tagger.evaluate(opened_orders, split="test")
    assert report.values["f1"] > 0.95
    assert report.values["intent_accuracy"] > 0.9
    assert report.values["types"]["drink"]["given"] == report.values["confusion"]["B-drink"]["B-drink"]
    [one] = tagger.tag(["please bring green tea and milk"])
    assert one.tags == ("O", "O", "B-drink", "I-drink", "O", "B-drink")
    assert one.chunks == (("drink", "green tea"), ("drink", "milk"))
    assert one.label == "order"
    assert "|tags:crf|chunks:valid|f1:conlleval|" in report.signature


def test_probabilities_are_marginals(tagger):
    [one] = tagger.tag(["bring black coffee"])
    for word in one.words:
        assert sum(p for _, p in word.likely) == pytest.approx(1, abs=1e-5)  # there are three tags
        assert dict(word.likely)[word.tag] == pytest.approx(word.probability)
    assert 0.5 < one.label_probability <= 1


@pytest.mark.parametrize("crf", [True, False])
@pytest.mark.parametrize("characters", [True, False])
def test_the_loss_is_a_sum_over_words_and_labels(new, opened_orders, crf, characters):
    tagger = new(crf=crf, characters=characters, word_dropout=0, input_dropout=0, output_dropout=0)
    task = tagger.build_objective(opened_orders)
    tagger.model.eval()
    whole = next(iter(task.batches(0, 1)))
    loss, carried = task.loss(whole, ())
    shares = [task.loss(next(iter(task.batches(rank, 3))), ())[0] for rank in range(3)]
    assert carried == ()
    assert task.count(whole) == int(whole.lengths.sum())
    assert sum(one.total.item() for one in shares) == pytest.approx(loss.total.item(), rel=1e-5)
    assert sum(one.penalty.item() for one in shares) == pytest.approx(loss.penalty.item(), rel=1e-5)


def test_sentences_without_a_label_add_nothing_to_its_loss(new, opened_orders):
    task = new().build_objective(opened_orders)
    batch = next(iter(task.batches(0, 1)))
    loss, _ = task.loss(replace(batch, labels=torch.full_like(batch.labels, -1)), ())
    assert loss.penalty.item() == 0


def test_words_not_seen_in_training_are_counted(tagger):
    records = [TaggedSentence(("bring", "TEA", "zzz"), ("O", "B-drink", "nonsense"))]
    counts = tagger.count_tags(records)
    assert (counts.unknown, counts.unknown_right, counts.words, counts.labelled) == (1, 0, 3, 0)


@pytest.mark.parametrize("name", ["nope", "wordpiece"])
def test_what_cannot_split_words_is_refused(tagger, name):
    with refuses("tokenize", f"'{name}'") as caught:
        tagger.tag(["a b"], tokenize=name)
    known = str(caught.value).rpartition("nown: ")[2].split(", ")
    assert {"space", "unicode", "word"} <= set(known)
    assert all(tagger.tag(["a b"], tokenize=one) for one in known)


def test_what_does_not_fit_the_data_is_refused(tmp_path, languages):
    plain = tmp_path / "plain.conll"
    plain.write_text("a\tX\nb\tY\n\na\tX\n\n" * 9)
    dataset = open_dataset(str(plain))
    assert Tagger.create(TagConfig(data=str(plain), **SMALL), dataset).config.intents is False
    with refuses("intents", "plain.conll"):
        Tagger.create(TagConfig(data=str(plain), intents=True, **SMALL), dataset)
    with refuses("lines.txt"):
        Tagger.create(TagConfig(data="lines", **SMALL), languages[0])


@pytest.mark.parametrize("crf", [True, False])
def test_no_chunk_goes_on_that_was_not_begun(new, crf):
    def tag(**settings):
        model = new(crf=crf, indicators=False, **settings)
        inside, beginning = (model.codec.tags[name] for name in ("I-drink", "B-drink"))
        with torch.no_grad():  # I- is likely everywhere, B- nowhere
            model.model.scores.bias[inside] += 4
            model.model.scores.bias[beginning] -= 4
        return model, model.tag(["bring green tea", "tea"])

    model, answers = tag()
    assert model.config.valid_chunks is True  # null, and no chunk of the data breaks it
    for one in answers:
        assert set(one.tags) <= {"O", "B-drink", "I-drink"}
        assert one.tags[0] != "I-drink"
        assert all(pair != ("O", "I-drink") for pair in pairwise(one.tags))
        sums = [sum(p for _, p in word.likely) for word in one.words]
        assert sums == pytest.approx([1.0] * len(sums), abs=1e-5)
        assert dict(one.words[0].likely)["I-drink"] == 0.0
    model, answers = tag(valid_chunks=False)
    assert [one.tags for one in answers] == [("I-drink",) * 3, ("I-drink",)]
    assert "chunks:valid" not in model.signature()


@pytest.mark.parametrize(
    ("begins", "broken", "valid"),
    [("B-LOC", 0, True), ("B-LOC", 1, True), ("B-LOC", 9, False), ("I-LOC", 0, True)],
)
def test_the_data_decide_whether_chunks_must_be_valid(tmp_path, begins, broken, valid):
    """IOB1, in which I- begins most chunks and B- only those right after another, is left alone."""
    lines = ["in\tO\nOslo\tI-LOC\nCity\tI-LOC\n\n"] * broken
    lines += [f"in\tO\nOslo\t{begins}\nCity\tI-LOC\n\n"] * 190
    (tmp_path / "places.conll").write_text("".join(lines))
    dataset = open_dataset(str(tmp_path / "places.conll"))
    model = Tagger.create(TagConfig(data=dataset.name, **SMALL), dataset)
    assert model.config.valid_chunks is valid
    if begins == "I-LOC":  # all that the rules of a type without a B- allow
        assert model.model.head.forbidden is None
    plain = tmp_path / "classes.conll"
    plain.write_text("in\tADP\nOslo\tPROPN\n\n" * 20)
    with refuses("valid_chunks", "true"):
        Tagger.create(TagConfig(data=str(plain), valid_chunks=True, **SMALL), open_dataset(str(plain)))


def test_word_classes_are_judged_by_accuracy(tmp_path):
    path = tmp_path / "plain.conll"
    path.write_text("a\tX\nb\tY\n\n" * 40)
    dataset = open_dataset(str(path))
    tagger = Tagger.create(TagConfig(data=str(path), **SMALL), dataset)
    task = tagger.build_objective(dataset)
    assert task.measure == "accuracy"
    assert task.summarise(task.validate(0, 1)).keys() == {"accuracy"}
    assert "f1" not in tagger.evaluate(dataset, split="test").values


def test_a_reversed_language_model_reads_from_the_right(languages):  # R6, learned from right to left
    dataset, runs = languages
    left, right = (tt.load(run, device="cpu") for run in runs)
    forward, backward = ([*one.ids(dataset, "train")] for one in (left, right))
    end = left.framing.end_id

    def lines(ids):
        text, found = [], []
        for one in ids:
            if one == end:
                found.append(text)
                text = []
            else:
                text.append(one)
        assert not text  # every line is ended
        return found

    assert lines(backward) == [line[::-1] for line in lines(forward)][::-1]
    assert right.framing.text(right.framing.ids("milk")) == "milk"
    assert right.likelihood(dataset, "test").tokens == len(left.ids(dataset, "test"))
    stream = open_dataset(str(dataset.name), layout="stream")
    config = LanguageConfig(data=dataset.name, tokens="char", embedding_size=4, hidden_size=4)
    one, other = (
        RecurrentLanguage.create(config.model_copy(update={"reversed": turned}), stream).ids(stream, "train")
        for turned in (False, True)
    )
    assert other.tolist() == one[::-1].tolist()


def test_words_are_found_in_what_language_models_read(languages):
    left, right = load_languages(languages[1])
    encode = left.language.framing.codec.encode
    end = left.language.framing.end_id
    assert left.reading.read(["is", "there"]) == ([end, *encode("is there")], [2, 8])
    assert right.reading.read(["is", "there"]) == ([end, *encode("is there")[::-1]], [8, 5])


def test_a_tagger_keeps_its_language_models(languages, orders, opened_orders, tmp_path):
    runs = [shutil.copytree(run, tmp_path / run.name) for run in languages[1]]
    given = {**SMALL, "language_models": [str(run) for run in runs], "language_size": 8, "epochs": 2}
    model = Tagger.create(TagConfig(data=str(orders), **given), opened_orders)
    out = tmp_path / "run"
    model.fit(opened_orders, out)
    for run in runs:
        shutil.rmtree(run)
    moved = out.rename(tmp_path / "elsewhere")
    loaded = tt.load(moved, device="cpu")
    assert len(loaded.languages) == 2
    blind = tt.load(moved, device="cpu")
    with torch.no_grad():
        for reader in blind.model.readers:
            reader.model.embedding.weight.zero_()
    text = ["bring green tea"]
    probabilities = [[word.probability for word in one.tag(text)[0].words] for one in (loaded, blind)]
    assert probabilities[0] != pytest.approx(probabilities[1], abs=1e-6)
    assert tt.load(moved, device="cpu").tag(text) == loaded.tag(text)
    names = loaded.model.state_dict()
    assert not any(name.startswith("readers") for name in names)


def test_only_language_models_are_asked(trained):
    with refuses("language_models", "'tag'"):
        load_languages([trained[0]])


def test_a_batch_with_language_models_is_each_row_alone(languages, new):
    model = new(language_models=tuple(map(str, languages[1])), language_size=8)
    model.model.eval()
    sentences = [["bring", "milk"], ["tea"], ["is", "there", "green", "tea"]]
    batch = next(iter(TaggedBatches(model.codec.rows(sentences, model.languages), shuffle=False)))
    scores = model.model(batch).tags
    for column, index in enumerate(batch.indices.tolist()):
        rows = model.codec.rows([sentences[index]], model.languages)
        alone = model.model(next(iter(TaggedBatches(rows)))).tags
        torch.testing.assert_close(scores[: len(alone), column], alone[:, 0], rtol=1e-4, atol=1e-5)


def test_validation_chooses_the_share_of_the_indicators(trained, tagger, opened_orders):
    counts = tagger.count_mixtures(list(opened_orders.records("valid")))
    best = max(counts.values(), key=lambda tagging: tagging.chunks.f1)
    assert counts[tagger.share].chunks.f1 == best.chunks.f1
    assert f"{tagger.share:.0%} a chain over" in (trained[0] / "README.md").read_text()
    text = ["please bring green tea"]
    for share, other in ((0.0, tagger.chain.table), (1.0, tagger.model.scores.weight)):
        before, kept = tagger.chain.share.clone(), other.clone()
        tagger.chain.share.fill_(share)
        answers = tagger.tag(text)
        with torch.no_grad():
            other.normal_()  # of what has no share in the answers
            assert tagger.tag(text) == answers
            other.copy_(kept)
        tagger.chain.share.copy_(before)


def test_with_little_time_a_small_layer_is_read_more_often():
    small = {"num_layers": 1, "hidden_size": 100}
    assert TagConfig(data="x").settings_for(2.0) == small
    assert TagConfig(data="x", hidden_size=300).settings_for(2.0) == {"num_layers": 1}
    assert TagConfig(data="x").settings_for(20.0) == {}
