"""Language models as one: the laws of a weighted mean, whatever the models and their vocabularies."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import torch
from tests.refusals import lacks, refuses

import throughtime as tt
from throughtime.metrics.measures import choose_weights, maximise_likelihood
from throughtime.tasks.interpolation import VALIDATION_TOKENS
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.tasks.ngram.model import NgramLanguageModel

WORDS = "the cat dog man sat bites sees a red old .".split()
TEXTS = ["the cat sat .", "a man sees the old dog .", "red", "the zebra sat ."]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    dice = random.Random(3)
    lines = [" ".join(dice.choices(WORDS, k=dice.randint(2, 7))) for _ in range(240)]
    path = tmp_path_factory.mktemp("text") / "animals.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def build(corpus):
    """Build a model: an untrained recurrent one, or a counted one of some order."""
    found = {}

    def make(kind, layout="lines", backward=False, seed=0, **settings):
        key = (kind, layout, backward, seed, *sorted(settings.items()))
        if key in found:
            return found[key]
        dataset = tt.open_dataset(corpus, layout=layout)
        common = {"data": corpus, "tokens": "space", "layout": layout, **settings}
        if kind == "recurrent":
            size = {"embedding_size": 8, "hidden_size": 8, "device": "cpu", "seed": seed}
            config = LanguageConfig(**common, **size, reversed=backward, init="uniform", init_range=1.0)
            model = RecurrentLanguage.create(config, dataset)
            model.model.eval()
        else:
            config = NgramConfig(**common, order=int(kind), backward=backward)
            model = NgramLanguageModel.create(config, dataset).count(dataset)
        return found.setdefault(key, model)

    return make


READINGS = [*itertools.product(["lines", "stream"], [False, True])]
PAIRS = [("recurrent", "3"), ("3", "recurrent"), ("2", "3"), ("recurrent", "recurrent")]


@pytest.fixture(params=PAIRS, ids="+".join)
def pair(request):
    return request.param


def pick(build, pair, **reading):
    return [build(kind, seed=seed, **reading) for seed, kind in enumerate(pair)]


def step_by_step(model, ids):
    """The probabilities of every next token [T, V], from one token at a time."""
    with torch.inference_mode():
        given = ids[: model.framing.num_given]
        last, state, memory = model.model.start([given])
        rows = []
        for one in ids[len(given) :]:
            step = model.model.step(last, state, memory)
            rows.append(step.log_probs[0].double())
            last, state = torch.tensor([one]), step.state
    return torch.stack(rows).exp().numpy()


@pytest.mark.parametrize(("layout", "backward"), READINGS)
def test_log_probabilities_are_those_of_the_mean(build, pair, layout, backward):
    one, two = pick(build, pair, layout=layout, backward=backward)
    both = tt.interpolate(one, two, weights=[0.3, 0.7])
    for mean, p, q in zip(*(model.score(TEXTS) for model in (both, one, two)), strict=True):
        assert mean.tokens == p.tokens == q.tokens
        expected = np.logaddexp(np.log(0.3) + p.log_probs, np.log(0.7) + q.log_probs)
        np.testing.assert_allclose(mean.log_probs, expected, rtol=1e-12)


@pytest.mark.parametrize("layout", ["lines", "stream"])
def test_step_by_step_it_is_a_distribution_and_equals_the_whole_sequence(build, pair, layout):
    both = tt.interpolate(*pick(build, pair, layout=layout), weights=[0.3, 0.7])
    ids = both.framing.ids(TEXTS[1])
    rows = step_by_step(both, ids)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-6)
    scored = ids[both.framing.num_given :]
    found = np.log(rows[np.arange(len(scored)), scored])
    np.testing.assert_allclose(found, both.score(TEXTS[1])[0].log_probs, rtol=1e-5)


@pytest.mark.parametrize(("layout", "backward"), READINGS)
@pytest.mark.parametrize("place", [0, 1])
def test_a_model_of_weight_1_is_that_model_alone(build, pair, layout, backward, place):
    models = pick(build, pair, layout=layout, backward=backward)
    alone, weights = models[place], [1.0 - place, float(place)]
    both = tt.interpolate(*models, weights=weights)
    assert both.score(TEXTS) == alone.score(TEXTS)
    for options in ({"seed": 5}, {"seed": 6, "top_k": 4}, {"num_beams": 3}, {"greedy": True}):
        found, expected = (
            model.generate(["the", "a red"], max_new_tokens=8, **options) for model in (both, alone)
        )
        assert [one.text for one in found] == [one.text for one in expected]
    found, expected = (model.evaluate(split="test").values for model in (both, alone))
    for name, value in expected.items():
        if name in ("trained_on", "shares", "parts"):  # of both models, whatever their weights
            continue
        assert found[name] == (value if value is None else pytest.approx(value, rel=1e-9)), name


@pytest.mark.parametrize(("layout", "backward"), READINGS)
def test_evaluation_mixes_what_each_model_reads_alone(build, pair, layout, backward):
    models = pick(build, pair, layout=layout, backward=backward)
    both = tt.interpolate(*models, weights=[0.6, 0.4])
    data = both.open_data()
    p, q = (model.score_split(data, "valid") for model in models)
    words = [model.codec.vocabulary.tokens(one.ids) for model, one in zip(models, (p, q), strict=True)]
    assert words[0] == words[1]
    expected = np.logaddexp(np.log(0.6) + p.log_probs, np.log(0.4) + q.log_probs)
    found = both.evaluate(split="valid")
    assert found.values["nats"] == pytest.approx(-expected.sum(), rel=1e-12)
    assert found.values["tokens"] == len(expected)
    for name in ("characters", "unknown"):
        assert found.values[name] == models[0].evaluate(split="valid").values[name]
    assert "weights:0.6,0.4" in found.signature.split("|")
    for model, one in zip(models, (p, q), strict=True):  # `score_split` scores what `evaluate` measures
        assert model.likelihood(data, "valid").nats == pytest.approx(-one.log_probs.sum(), rel=1e-6)


def test_weights_are_chosen_on_validation(build, pair):
    models = pick(build, pair)
    both = tt.interpolate(*models)
    assert sum(both.weights) == pytest.approx(1, abs=1e-12)
    data = both.open_data()
    alone = [model.likelihood(data, "valid").perplexity for model in models]
    mixed = both.likelihood(data, "valid")
    assert mixed.perplexity <= min(alone) * (1 + 1e-7)  # likelihoods of one model in float32
    assert mixed.tokens < VALIDATION_TOKENS  # so that all of them had a say
    assert not lacks(both.chosen_on, f"{mixed.tokens:,}", "valid")
    again = tt.interpolate(*models, weights=both.weights)
    assert again.likelihood(data, "valid") == mixed


def test_weights_of_three_models_have_no_better_neighbour():
    log_probs = np.log(np.random.default_rng(5).beta(0.6, 1.0, size=(300, 3)))

    def mean(weights):
        return np.log(np.exp(log_probs) @ weights).mean()

    found = maximise_likelihood(log_probs)
    for i, j in itertools.permutations(range(3), 2):
        step = np.zeros(3)
        step[i], step[j] = 1e-3, -1e-3
        if (found + step).min() >= 0:
            assert mean(found + step) <= mean(found) + 1e-6


def test_impossible_tokens_do_not_decide():
    log_probs = np.array([[-1.0, -math.inf], [-math.inf, -1.0], [-math.inf, -math.inf], [-1.0, -2.0]])
    found = maximise_likelihood(log_probs)
    assert np.isfinite(found).all()
    assert found[0] > found[1] > 0
    np.testing.assert_array_equal(maximise_likelihood(log_probs[2:3]), [0.5, 0.5])
    assert choose_weights(log_probs[:1]) == (1.0, 0.0)


def test_three_models_and_nested_ones_are_a_mean_too(build):
    models = [build("recurrent"), build("2"), build("3")]
    three = tt.interpolate(*models, weights=[0.5, 0.2, 0.3])
    inner = tt.interpolate(models[1], models[2], weights=[0.4, 0.6])
    nested = tt.interpolate(models[0], inner, weights=[0.5, 0.5])
    for one, other in zip(three.score(TEXTS), nested.score(TEXTS), strict=True):
        np.testing.assert_allclose(one.log_probs, other.log_probs, rtol=1e-12)
    assert three.generate("the", seed=2)[0].text == nested.generate("the", seed=2)[0].text


def test_models_that_read_otherwise_are_refused(build, corpus):
    first = build("recurrent")
    for other, facts in (
        (build("3", layout="stream"), ("layout", "stream", "lines")),
        (build("3", backward=True), ("direction", "right to left")),
        (build("3", tokens="word"), ("tokens", "word", "space")),
        (build("3", max_size=8), ("vocabulary", "6")),
    ):
        with refuses("others", *facts):
            tt.interpolate(first, other)
    with refuses("others", type(first.model).__name__):
        tt.interpolate(first, first.model)
    with refuses("others"):
        tt.interpolate(first)


@pytest.mark.parametrize(
    ("weights", "facts"),
    [([1.0], (1, 2)), ([0.5, 0.6], (1.1,)), ([1.5, -0.5], (-0.5,)), ([math.nan, 1.0], ("nan",))],
)
def test_weights_that_are_no_shares_are_refused(build, weights, facts):
    with refuses("weights", *facts):
        tt.interpolate(build("recurrent"), build("3"), weights=weights)


def test_without_validation_data_weights_must_be_given(build, tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train.txt").write_text("the cat\na dog\n")
    with refuses("weights", "corpus"):
        tt.interpolate(build("recurrent"), build("3"), data=str(folder))


def test_the_model_of_an_arpa_file_takes_the_data_of_the_others(build, tmp_path):
    counted = build(2)
    counted.export(tmp_path / "model.arpa")
    imported = tt.import_arpa(tmp_path / "model.arpa")
    both = tt.interpolate(imported, build(3))
    assert both.weights == pytest.approx(tt.interpolate(counted, build(3)).weights, abs=2e-3)
    assert "ARPA" in both.names[0]
    with refuses("weights"):
        tt.interpolate(imported, imported)
    with refuses("weights"):
        tt.interpolate(tt.interpolate(imported, imported, weights=[0.5, 0.5]), imported)
    assert tt.interpolate(imported, imported, data=counted.open_data()).chosen_on is not None


def test_it_is_neither_saved_nor_exported_and_reads_with_no_cache(build, tmp_path):
    both = tt.interpolate(build("recurrent"), build("3"), weights=[0.5, 0.5])
    with refuses("path"):
        both.save(tmp_path / "both")
    with refuses("out"):
        both.export(tmp_path / "both")
    with refuses("cache"):
        both.evaluate(cache=100)
    assert not list(tmp_path.iterdir())
    assert not lacks(repr(both), "0.5", "lstm of 8", "3-grams")


@pytest.fixture
def runs(build, tmp_path):
    for kind in ("recurrent", "3"):
        build(kind).save(tmp_path / kind)
    return tmp_path / "recurrent", tmp_path / "3"


def test_commands_interpolate(throughtime, runs):
    one, two = runs
    python = tt.interpolate(*map(tt.load, runs))
    measured = throughtime("evaluate", one, "--with", two, "--json").json
    assert measured["weights"] == list(python.weights)
    assert measured["perplexity"] == python.evaluate(split="test").values["perplexity"]
    assert f"weights:{','.join(map(str, python.weights))}" in measured["signature"].split("|")
    shown = throughtime("evaluate", one, "--with", two).out
    assert not lacks(shown, *python.weights)
    fixed = tt.interpolate(*map(tt.load, runs), weights=[0.25, 0.75])
    words = ("--with", two, "--weights", "0.25,0.75", "--json")
    written = throughtime("generate", one, "the", "--seed", "3", *words).json
    assert written["text"] == fixed.generate("the", seed=3)[0].text
    assert written["weights"] == [0.25, 0.75]
    scored = throughtime("score", one, TEXTS[0], *words).json
    assert scored["sentences"][0]["log_prob"] == fixed.score(TEXTS[0])[0].total
    said = throughtime("score", one, TEXTS[0], "--with", two)  # choosing weights would open the data
    assert said.code == 2
    assert not lacks(said.err, "--weights:", "evaluate")


def test_commands_refuse_what_cannot_be_interpolated(throughtime, runs, build, tmp_path):
    one, two = runs
    build("3", layout="stream").save(tmp_path / "stream")
    for words, facts in (
        (("--weights", "1"), ("--weights:", "--with")),
        (("--with", two, "--weights", "much"), ("--weights:", "much")),
        (("--with", two, "--weights", "0.5,0.6"), ("--weights:", 1.1)),
        (("--with", tmp_path / "stream"), ("--with:", "stream", "lines")),
        (("--with", two, "--cache", "50"), ("--cache:",)),
    ):
        ran = throughtime("evaluate", one, *words)
        assert ran.code == 2
        assert not lacks(ran.err, *facts)
    ran = throughtime("evaluate", two, "--with", two, "--device", "cuda")
    assert ran.code == 2
    assert not lacks(ran.err, "--device:")
