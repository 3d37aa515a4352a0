"""What an export says without torch is what the model says with it."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from tests.graphs import untrained
from tests.refusals import refuses

import throughtime as tt
from throughtime.api import export
from throughtime.runtime.forecast import History


def both(run, out):
    """The model in torch, and the same exported."""
    export(run, out)
    return tt.load(run, device="cpu"), tt.runtime.load(out, threads=1)


MAKERS = {
    "translate": untrained.translator,
    "language": untrained.language,
    "tag": untrained.tagger,
    "classify": untrained.classifier,
    "fill": untrained.filler,
    "compose": untrained.composer,
    "forecast": untrained.forecaster,
}


@pytest.mark.parametrize(
    ("task", "method"),
    [("translate", "translate"), ("language", "generate"), ("tag", "tag"), ("classify", "classify")],
)
def test_a_runner_tells_how_far_it_is(task, method, tmp_path):
    _, runner = both(MAKERS[task](tmp_path), tmp_path / "exported")
    told = []
    texts = untrained.sentences(70, 3)
    found = getattr(runner, method)(texts, progress=lambda *one: told.append(one))
    assert (told == sorted(told), told[-1]) == (True, (70, 70))
    assert found == getattr(runner, method)(texts) or method == "generate"


def test_a_strategy_needs_the_trained_model(languages):
    model, runner = languages
    with refuses("strategy"):
        runner.generate("the", strategy=model.strategy(greedy=True))


@pytest.fixture(scope="module")
def translators(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translators")
    return both(untrained.translator(folder), folder / "exported")


@pytest.fixture(scope="module")
def languages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("languages")
    return both(untrained.language(folder), folder / "exported")


def every(found):
    return list(chain.from_iterable((one, *one.alternatives) for one in found))


@pytest.mark.parametrize("beams", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0.0, 0.75])
def test_a_beam_finds_the_same_translations(translators, beams, alpha):
    texts = [*untrained.sentences(9, 7), "", "unheard words", "the " * 300]
    told, ours = (
        one.translate(texts, num_beams=beams, length_penalty=alpha, num_return_sequences=beams, max_length=12)
        for one in translators
    )
    assert [one.text for one in every(ours)] == [one.text for one in every(told)]
    for mine, theirs in zip(every(ours), every(told), strict=True):
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)
        assert mine.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
        assert mine.ended == theirs.ended


@pytest.mark.parametrize(
    "settings",
    [
        {"tokens": "bpe", "max_size": 300, "structure": "conditional", "cell": "lstm"},
        {"structure": "main", "context": "mean", "cell": "mingru", "num_layers": 2, "tied": False},
        {"structure": "state-only", "bidirectional": False, "cell": "rnn", "tied": False},
        *({"structure": one} for one in ("main", "state-only", "context-only", "context-and-input")),
    ],
    ids=lambda settings: f"{settings['structure']}-{len(settings)}",
)
def test_other_structures_translate_the_same(tmp_path, settings):
    model, runner = both(untrained.translator(tmp_path, **settings), tmp_path / "exported")
    texts = untrained.sentences(5, 4)
    told, ours = (one.translate(texts, num_beams=3, max_length=8) for one in (model, runner))
    assert [own.text for own in ours] == [own.text for own in told]


@pytest.mark.parametrize(
    "settings",
    [{"layout": "lines"}, {"layout": "stream"}, {"reversed": True}, {"experts": 3, "last_size": 9}],
)
def test_a_language_model_scores_and_writes_the_same(tmp_path, settings):
    given = {"cell": "gru", "initial": "learned", "num_layers": 2, **settings}
    model, runner = both(untrained.language(tmp_path, **given), tmp_path / "exported")
    texts = [*untrained.sentences(4, 5), "the " * 150, "cat"]
    for mine, theirs in zip(runner.score(texts), model.score(texts), strict=True):
        assert mine.tokens == theirs.tokens
        assert mine.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
    for prompt in ("", "the old", "the " * 140):
        told = model.generate(prompt, max_new_tokens=9, greedy=True)
        ours = runner.generate(prompt, max_new_tokens=9, greedy=True)
        assert [(one.text, one.ended) for one in ours] == [(one.text, one.ended) for one in told]
        assert ours[0].log_prob == pytest.approx(told[0].log_prob, abs=1e-4)


@pytest.mark.parametrize("settings", [{"layout": "lines"}, {"layout": "stream"}, {"reversed": True}])
def test_a_seed_draws_the_same_texts_from_a_model_and_its_export(tmp_path, settings):  # law 9
    model, runner = both(untrained.language(tmp_path, **settings), tmp_path / "exported")
    ways = ({}, {"temperature": 0.7, "top_p": 0.9}, {"temperature": 1.3, "top_k": 5})
    for seed in range(20):
        how = {"max_new_tokens": 8, "num_return_sequences": 3, "seed": seed, **ways[seed % 3]}
        told, ours = (one.generate(["the old", "", "cat"], **how) for one in (model, runner))
        assert [texts(one) for one in ours] == [texts(one) for one in told]
        alone = model.generate("the old", **{**how, "num_return_sequences": 1})[0]
        assert alone.text in texts(told[0])  # neither other prompts nor other texts change a draw


@pytest.mark.parametrize(
    "settings", [{"num_layers": 2}, {"vectors": True, "fed": False, "cell": "gru"}, {"vectors": True}]
)
def test_a_composer_writes_the_same(tmp_path, settings):
    model, runner = both(untrained.composer(tmp_path, **settings), tmp_path / "exported")
    given = [[-3.5, 0.0], [40_000.0, 0.1]] if settings.get("vectors") else ["sea", "city"]
    ways = ({"greedy": True}, {"seed": 4, "num_return_sequences": 3}, {"seed": 1, "top_k": 4, "top_p": 0.9})
    for how in ways:
        told, ours = (one.compose(given, max_new_tokens=8, **how) for one in (model, runner))
        assert [texts(one) for one in ours] == [texts(one) for one in told]
        assert [one.log_prob for one in ours] == pytest.approx([one.log_prob for one in told], abs=1e-4)
    with refuses("label" if isinstance(given[0], str) else "conditions"):
        runner.compose("mountain")
    with refuses("prefix"):
        runner.compose(given, prefix="the")


def texts(answer):
    return [one.text for one in (answer, *answer.alternatives)]


def test_an_exported_model_refuses_what_needs_the_trained_one(languages):
    model, runner = languages
    assert len(model.generate("the", num_beams=3, num_return_sequences=2)[0].alternatives) == 1
    with refuses("num_beams"):
        runner.generate("the", num_beams=3)
    with refuses("search"):
        runner.generate("the", search="stochastic")
    for one in (model, runner):
        assert one.generate("the", search="greedy") == one.generate("the", greedy=True)
        with refuses("length_penalty", "top_k", "top_p"):
            one.generate("the", length_penalty=0.5)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"num_beans": 3}, ("num_beans", "'num_beams'")),
        ({"groups": 0}, ("groups",)),
        ({"num_beams": 0}, ("num_beams", "0")),
        ({"num_beams": 100_000}, ("num_beams", "100000", "1,000")),
        ({"max_length": 0}, ("max_length", "0")),
    ],
)
def test_an_exported_translator_ignores_no_option(translators, options, facts):
    with refuses(*facts):
        translators[1].translate("one two", **options)


def test_the_keywords_of_a_model_are_those_of_its_strategy(tmp_path):
    model = tt.load(untrained.language(tmp_path), device="cpu")
    how = {"temperature": 0.7, "top_k": 5, "num_return_sequences": 2, "seed": 4}
    expected = model.generate("the", max_new_tokens=6, strategy=model.strategy(**how))
    assert model.generate("the", max_new_tokens=6, **how) == expected
    for name, value in {**how, "greedy": True, "top_p": 0.5}.items():
        with refuses(name, "strategy"):
            model.generate("the", strategy=model.strategy(), **{name: value})


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"num_return_sequences": 0}, ("num_return_sequences", "0")),
        ({"num_return_sequences": 2, "greedy": True}, ("num_return_sequences", "2", "greedy", "1")),
        ({"max_new_tokens": 0}, ("max_new_tokens", "0")),
        ({"temperature": float("inf")}, ("temperature", "0")),
        ({"num_beans": 3}, ("num_beans",)),
        ({"search": "greedy", "top_p": 0.5}, ("top_p",)),
        ({"top_k": True}, ("top_k",)),
    ],
)
def test_both_refuse_what_writes_nothing_or_would_be_ignored(languages, options, facts):
    for one in languages:
        with refuses(*facts):
            one.generate("the", **options)


@pytest.mark.parametrize("temperature", [1e-310, 1e-40, 1e-9])
def test_the_coldest_draw_is_the_likeliest_token(languages, temperature):
    model, runner = languages
    cold = model.strategy(temperature=temperature, seed=1)
    expected = runner.generate("the", max_new_tokens=6, greedy=True)
    assert runner.generate("the", max_new_tokens=6, temperature=temperature) == expected
    assert model.generate("the", max_new_tokens=6, strategy=cold)[0].text == expected[0].text


def test_no_temperature_at_all_is_greedy_only_where_it_is_said(languages):
    model, runner = languages
    for one in (model.strategy, runner.generate):
        with refuses("temperature", "0"):
            one(temperature=0)
    likely = runner.generate("the", max_new_tokens=6, greedy=True, temperature=0)
    assert likely == runner.generate("the", max_new_tokens=6, greedy=True)
    told = model.generate("the", max_new_tokens=6, strategy=model.strategy(greedy=True, temperature=0))
    assert [one.text for one in likely] == [one.text for one in told]


@pytest.mark.parametrize(
    "settings",
    [
        {"crf": True},
        {"crf": False, "cell": "gru"},
        {"crf": True, "language": True},
        *({"crf": crf, "chunked": True, "valid_chunks": True} for crf in (True, False)),
    ],
)
def test_a_tagger_gives_the_same_tags(tmp_path, settings):
    if settings.pop("language", False):
        kept = tmp_path / "kept"
        kept.mkdir()
        runs = [untrained.language(kept, tokens="char", reversed=backward) for backward in (False, True)]
        settings["language_models"] = [str(run) for run in runs]
    model, runner = both(untrained.tagger(tmp_path, **settings), tmp_path / "exported")
    texts = [*untrained.sentences(5, 6), "", "unheard " + "x" * 90]
    for mine, theirs in zip(runner.tag(texts), model.tag(texts), strict=True):
        assert mine.tags == theirs.tags
        assert mine.label == theirs.label
        for word, other in zip(mine.words, theirs.words, strict=True):
            assert word.probability == pytest.approx(other.probability, abs=1e-4)
            assert dict(word.likely) == pytest.approx(dict(other.likely), abs=1e-4)


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "attention"])
def test_a_classifier_gives_the_same_labels(tmp_path, pooling):
    model, runner = both(untrained.classifier(tmp_path, pooling=pooling), tmp_path / "exported")
    texts = [*untrained.sentences(5, 6), "", "unheard"]
    for mine, theirs in zip(runner.classify(texts), model.classify(texts), strict=True):
        assert dict(mine.ranked) == pytest.approx(dict(theirs.ranked), abs=1e-5)
        assert mine.label == theirs.label


@pytest.mark.parametrize("tokens", ["unicode", "bpe"])
def test_blanks_are_filled_the_same(tmp_path, tokens):
    model, runner = both(untrained.filler(tmp_path, tokens=tokens), tmp_path / "exported")
    for text in ("the ___ sees.", "___ old ___ likes the ___"):
        ours, told = ([best, *best.alternatives] for one in (runner, model) for best in one.fill(text, k=4))
        assert [one.text for one in ours] == [one.text for one in told]
        assert [one.probability for one in ours] == pytest.approx([one.probability for one in told], rel=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "recurrent", "head": "gaussian", "normalise": "standard", "cell": "lstm"},
        {"model": "segment", "segment": 5, "head": "quantiles", "normalise": "last", "highway": "ridge"},
        {"model": "mlp", "head": "student", "normalise": "mean", "channels": "own"},
        {"model": "linear", "strategy": "recursive", "head": "point"},
        {"model": "recurrent", "strategy": "recursive", "head": "point", "warm_up": 4, "normalise": "mean"},
    ],
    ids=lambda settings: f"{settings['model']}-{settings['head']}",
)
def test_forecasts_are_the_same(tmp_path, settings):
    run = untrained.forecaster(tmp_path, **settings)
    model, runner = both(run, tmp_path / "exported")
    level = [] if settings["head"] == "point" else [80]
    told = model.forecast(level=level)
    times = np.arange(120)
    values = {name: np.sin(times / 3) * size + times / 50 for name, size in (("north", 1.0), ("south", 7.0))}
    ours = runner.forecast(values, level=level)
    for mine, theirs in zip(ours, told, strict=True):
        assert mine.mean == pytest.approx(theirs.mean, rel=1e-3, abs=1e-3)
        assert mine.quantiles.keys() == theirs.quantiles.keys()
        for probability, quantile in theirs.quantiles.items():
            assert mine.quantiles[probability] == pytest.approx(quantile, rel=1e-3, abs=1e-3)
    for level, facts in ((0.95, ("level", "0.95", "95")), (100, ("level", "100"))):
        with refuses(*facts):
            model.forecast(level=[level])
        with refuses(*facts):
            runner.forecast(values, level=[level])


@pytest.mark.parametrize("transform", ["log", "box-cox"])
def test_transformed_values_are_forecast_the_same(tmp_path, transform):
    run = untrained.forecaster(tmp_path, lift=9.0, model="linear", head="gaussian", transform=transform)
    values = {name: np.exp(np.sin(np.arange(40) / 3)) for name in ("north", "new")}
    model, runner = both(run, tmp_path / "exported")
    told, ours = (one.forecast(values, level=[80]) for one in (model, runner))
    for mine, theirs in zip(ours, told, strict=True):
        assert mine.mean == pytest.approx(theirs.mean, rel=1e-3)
        assert mine.quantiles[0.9] == pytest.approx(theirs.quantiles[0.9], rel=1e-3)
    with refuses("series 'new'", "positive"):
        runner.forecast({"new": -values["new"]})


def test_columns_of_plain_values_are_read_the_same(tmp_path):
    run = untrained.forecaster(tmp_path, model="recurrent", known=["sale"], past=["heat"], helped=True)
    model, runner = both(run, tmp_path / "exported")
    times = np.arange(46.0)
    history = History("north", np.sin(times[:40] / 3), np.cos(times)[:, None], (times[:40, None] % 7))
    mine, theirs = (one.forecast([history])[0].mean for one in (runner, model))
    assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-3)
    other = history.__class__("north", history.y, -np.cos(times)[:, None], history.past)
    assert model.forecast([other])[0].mean != pytest.approx(theirs, rel=1e-3, abs=1e-3)
    with refuses("series 'north'", "[0]"):
        model.forecast({"north": history.y})
    with refuses("data[0]", "float"):
        model.forecast([1.0, 2.0])
    with refuses("data", "'north'"):
        model.forecast([history, history])


def test_values_without_dates_are_for_models_that_read_none(tmp_path):
    dated = tmp_path / "days.csv"
    days = np.arange(np.datetime64("2020-01-01"), np.datetime64("2020-05-01"))
    dated.write_text("ds,y\n" + "".join(f"{day},{np.sin(place)}\n" for place, day in enumerate(days)))
    sizes = {"lookback": 24, "horizon": 6, "hidden_size": 12, "device": "cpu"}
    values = np.sin(np.arange(len(days)))
    for calendar in (False, True):
        model = tt.load(
            untrained.saved(tmp_path, "forecast", dated, calendar=calendar, **sizes), device="cpu"
        )
        if calendar:
            with refuses("data"):
                model.forecast({"days": values})
        else:
            own = model.forecast()[0]
            plain = model.forecast({own.unique_id: values})[0]
            assert plain.mean == pytest.approx(own.mean, rel=1e-5)


@pytest.mark.parametrize(("asked", "most"), [({"level": [80]}, 20), ({"paths": 5}, 40), ({}, 30)])
def test_memory_does_not_grow_with_series_and_paths(tmp_path, asked, most, monkeypatch):
    run = untrained.forecaster(tmp_path, model="recurrent", strategy="recursive", head="gaussian", paths=10)
    _, runner = both(run, tmp_path / "exported")
    monkeypatch.setattr("throughtime.tasks.forecast.pipeline.ROWS_AT_ONCE", most)
    together, compute = [], runner.compute
    monkeypatch.setattr(runner, "compute", lambda window: together.append(window) or compute(window))
    found = runner.forecast({f"{n}": np.sin(np.arange(40) + n) for n in range(33)}, h=2, **asked)
    assert [one.unique_id for one in found] == [f"{n}" for n in range(33)]
    assert max(window.values.shape[1] for window in together) == most


def test_a_series_too_short_is_refused(tmp_path):
    _, runner = both(untrained.forecaster(tmp_path), tmp_path / "exported")
    with refuses("series 'new'", "3", "24"):
        runner.forecast({"new": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("translator", "translate"),
        ("language", "score"),
        ("tagger", "tag"),
        ("classifier", "classify"),
        ("filler", "fill"),
    ],
)
def test_one_text_is_a_list_of_one(kind, method, tmp_path):
    for model in both(getattr(untrained, kind)(tmp_path), tmp_path / "exported"):
        read = getattr(model, method)
        assert read("the ___") == read(["the ___"])
        with refuses("texts[1]", "NoneType"):
            read(["the ___", None])
        with refuses("texts[0]"):
            read(["\ud800"])
        with refuses("texts", "int"):
            read(3)
        if kind == "tagger":
            with refuses("sentences[1]"):
                model.tag_words([["the", "cat"], "the dog"])
            with refuses("sentences"):
                model.tag_words("the dog")
        if kind == "language":
            with refuses("prompts[0]"):
                model.generate("\ud800")


@pytest.mark.parametrize("task", ["translator", "language", "filler", "classifier", "tagger"])
def test_both_warn_of_the_same_texts(tmp_path, task):
    model, runner = both(getattr(untrained, task)(tmp_path), tmp_path / "exported")
    texts = [*untrained.sentences(3, 5), "", "猫在睡觉"]
    found = runner.input_warnings(texts)
    assert found == model.input_warnings(texts)
    assert list(found) == ["empty", "script"]
    assert runner.input_warnings(texts[:3]) == {}
