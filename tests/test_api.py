"""Models trained from Python, beside those of the command line."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.keywords import keywords
from tests.refusals import refuses

import throughtime as tt
from throughtime.api import train
from throughtime.cells import CELLS
from throughtime.tasks import TASKS, list_methods

LINES = ["the cat sees the dog .", "the dog hears a man .", "a man sees the moon ."] * 20
TASKS_OF = list_methods()
SMALL = {"embedding_size": 8, "hidden_size": 8, "batch_size": 4, "epochs": 2, "device": "cpu"}
SETTINGS = {
    "language": {**SMALL, "num_steps": 8, "cell": "gru", "seed": 3, "lr": 0.01, "tokens": "word"},
    "classify": {**SMALL, "pooling": "mean", "seed": 5, "word_dropout": 0.2},
    "ngram": {"order": 4, "smoothing": "laplace", "strengths": [1, 20, 7.5], "backward": True},
}


@pytest.fixture
def data(tmp_path):
    """A file for each task."""
    text, table = tmp_path / "animals.txt", tmp_path / "animals.csv"
    text.write_text("\n".join(LINES) + "\n")
    rows = [f"{line} {number},{line.split()[1]}\n" for number, line in enumerate(LINES)]
    table.write_text("text,label\n" + "".join(rows))
    return {"language": text, "ngram": text, "classify": table}


def as_words(settings):
    """Settings as --set takes them."""
    shown = {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in settings.items()
    }
    return [word for name, value in shown.items() for word in ("--set", f"{name}={value}")]


@pytest.mark.parametrize("task", SETTINGS)
def test_python_and_the_command_line_train_the_same_weights(task, data, tmp_path, throughtime):
    typed, called = tmp_path / "typed", tmp_path / "called"
    ran = throughtime("train", task, "--data", data[task], *as_words(SETTINGS[task]), "--out", typed)
    assert ran.code == 0, ran.err
    model = train(task, data[task], out=called, progress="none", **SETTINGS[task])
    for name in ("config.json", "model.safetensors"):
        assert (called / name).read_bytes() == (typed / name).read_bytes(), name
    assert model.config == tt.load(typed).config
    assert repr(model).startswith(f"<{type(model).__name__} from {called}: {data[task]}: ")


def test_a_language_model_of_a_file_scores_evaluates_and_is_copied(data, tmp_path, capsys):
    model = train("language", data["language"], progress="none", **SETTINGS["language"])
    assert len(model.score("the cat sees")[0].tokens) == 4
    found = model.evaluate(split="test")
    assert found["perplexity"] == pytest.approx(2 ** found["bits_per_token"])
    assert found.signature.startswith(f"data:{data['language']}|split:test|layout:lines|tokens:word|")
    assert f"{data['language']}, test: perplexity " in repr(found)
    cached = model.evaluate(data["language"], split="test", cache=20, cache_share=0.3)
    assert "|reader:cache-20-0.3-0.3|" in cached.signature
    for wrong in ({"cache_share": 0.1}, {"cache": 5, "cache_share": 1}, {"dynamic": -1}, {"num_beams": 3}):
        with refuses(list(wrong)[-1]):
            model.evaluate(split="test", **wrong)
    model.save(tmp_path / "copy")
    assert tt.load(tmp_path / "copy").score(LINES) == model.score(LINES)
    assert f"perplexity {model.training_values()['best']['perplexity']:.4g}" in (
        tmp_path / "copy" / "README.md"
    ).read_text(encoding="utf-8")
    assert capsys.readouterr() == ("", "")


def test_a_counted_model_is_trained_evaluated_and_copied_without_torch(data, tmp_path):
    code = f"""
import sys
from throughtime.api import train
from throughtime.tasks.base import load
model = train("ngram", {str(data["ngram"])!r}, progress="none", out={str(tmp_path / "run")!r})
values = model.evaluate(split="valid").values
assert values["perplexity"] > 1
model.score("the cat")
model.save({str(tmp_path / "copy")!r})
assert load({str(tmp_path / "copy")!r}).score(["the cat"]) == model.score("the cat")
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in ("metrics.jsonl", "README.md", "model.safetensors"):
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_what_counting_does_not_take_is_refused_by_name(data, tmp_path):
    for wrong in ({"strengths": [1]}, {"normaliser": "lower", "tokens": "word"}, {"init_from": tmp_path}):
        with refuses(next(iter(wrong))):
            train("ngram", data["ngram"], out=tmp_path / "run", progress="none", **wrong)
    assert not (tmp_path / "run").exists()
    model = train("ngram", data["ngram"], progress="none")
    with refuses("cache"):
        model.evaluate(split="test", cache=5)


@pytest.mark.parametrize(
    ("task", "part", "method"),
    [
        (task, part, method)
        for method, tasks in TASKS_OF.items()
        for task in tasks
        for part in ("predictor", "runner")
        if getattr(TASKS[task], part) is not None and hasattr(TASKS[task].part(part), method)
    ],
)
def test_methods_have_the_same_keywords_and_defaults_everywhere(task, part, method):  # R108
    expected = keywords(getattr(TASKS[TASKS_OF[method][0]].part("predictor"), method))
    if (task, method) == ("translate", "score"):
        del expected["prompt"]  # a translation has its source before it
    assert keywords(getattr(TASKS[task].part(part), method)) == expected


def test_a_run_without_a_folder_lives_as_long_as_its_model(data):
    model = train("ngram", data["ngram"], progress="none")
    folder = model.folder.path
    assert folder.is_dir()
    del model
    gc.collect()
    assert not folder.exists()


def small_classifier(config, assets):
    from throughtime.tasks.classify.network import build_classifier

    config = config.model_copy(update={"hidden_size": 4, "embedding_size": 4})
    return build_classifier(config, len(assets.codec.vocabulary), len(assets.labels))


def test_a_classifier_with_an_own_network_is_trained_loaded_continued_and_saved(data, tmp_path):
    settings = {**SETTINGS["classify"], "progress": "none", "network": small_classifier}
    model = train("classify", data["classify"], out=tmp_path / "run", **settings)
    assert "SequenceClassifier (custom network)" in repr(model)
    assert model.evaluate(split="test")["accuracy"] >= 0
    train("classify", data["classify"], out=tmp_path / "run", resume=True, **{**settings, "epochs": 3})
    model = tt.load(tmp_path / "run", network=small_classifier)
    model.save(tmp_path / "copy")
    again = tt.load(tmp_path / "copy", network=model.model)
    assert again.classify(LINES[:2]) == model.classify(LINES[:2])
    for wrong in (None, "small", lambda config, assets: 3, torch.nn.Linear(2, 2)):
        with refuses("network"):
            tt.load(tmp_path / "run", network=wrong)
    with refuses("network", "'small'"):
        train("classify", data["classify"], **{**settings, "network": "small"})


def test_a_language_network_that_does_not_fit_is_refused_by_its_parts(data):
    with refuses("network", "log_probs", "head"):
        train("language", data["language"], network=torch.nn.Linear(2, 2), **SETTINGS["language"])


def test_a_forecaster_of_objects_forecasts_after_them():  # R107
    rows = {"y": [float(row % 7) for row in range(90)]}
    settings = {"model": "linear", "head": "point", "horizon": 7, "lookback": 14, "epochs": 1}
    model = train("forecast", rows, progress="none", device="cpu", **settings)
    assert len(model.forecast(h=7)[0].mean) == 7


def test_a_copy_of_a_forecaster_keeps_its_intervals(tmp_path):
    rows = {"unique_id": ["y"] * 120, "y": [float(row % 7) + 0.1 * (row % 3) for row in range(120)]}
    settings = {"model": "linear", "head": "point", "horizon": 3, "lookback": 7, "epochs": 1}
    dataset = tt.open_dataset({**rows, "ds": range(120)}, kind="series")
    train("forecast", dataset, out=tmp_path / "run", progress="none", device="cpu", **settings)
    model = tt.load(tmp_path / "run", task="forecast")
    model.save_intervals(dataset, level=[50])
    model.save(tmp_path / "copy")
    models = [model, tt.load(tmp_path / "copy", task="forecast")]
    ours, theirs = (one.forecast(dataset, level=[50])[0].quantiles for one in models)
    assert ours.keys() == theirs.keys() == {0.25, 0.75}
    assert all(np.array_equal(ours[p], theirs[p]) for p in ours)


def test_a_method_of_another_task_names_those_of_the_model(data):
    model = train("ngram", data["ngram"], progress="none")
    with pytest.raises(AttributeError, match=r"'ngram' .* 'translate'.* generate, stream, score"):
        model.translate("a")
    assert not hasattr(model, "anything")


def test_pairs_are_refused_where_texts_are_learned():
    with refuses("data"):
        train("ngram", [("a fine day", "good")] * 30, progress="none")


def test_a_cell_names_the_class_that_has_an_option_of_torch():
    with pytest.raises(TypeError, match=r"Stack\(GRU, .*bidirectional=True\)"):
        tt.GRU(3, 4, bidirectional=True)


class Leaky(tt.Cell):
    """A cell of a user: h = (h + tanh(W_ih x + W_hh h)) / 2, written without any option."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.weight_ih = torch.nn.Parameter(torch.empty(hidden_size, input_size))
        self.weight_hh = torch.nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.bias = torch.nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def step(self, projected, state):
        (h,) = state
        return ((h + torch.tanh(projected + h @ self.weights()["weight_hh"].T)) / 2,)


@pytest.mark.parametrize("task", ["language", "classify"])
def test_an_own_cell_is_trained_and_loaded_by_the_name_that_was_added(task, data, tmp_path, monkeypatch):
    monkeypatch.setattr(CELLS, "_added", {})
    settings = {**SETTINGS[task], "progress": "none"}
    with refuses("cell", 'CELLS.add("leaky", Leaky)'):
        train(task, data[task], **{**settings, "cell": Leaky})
    CELLS.add("leaky", Leaky)
    model = train(task, data[task], out=tmp_path / "run", **{**settings, "cell": "leaky"})
    assert any(isinstance(part, Leaky) for part in model.model.modules())
    again = tt.load(tmp_path / "run")
    assert again.evaluate(split="all").values == model.evaluate(split="all").values
    assert "leaky" in CELLS
    monkeypatch.setattr(CELLS, "_added", {})
    with refuses("cell", "'leaky'"):
        tt.load(tmp_path / "run")


def test_names_of_other_libraries_and_splits_in_the_wrong_place_are_answered_with_ours(data):
    for name, ours in {"learning_rate": "lr", "random_state": "seed", "patience": "early_stopping"}.items():
        with refuses("settings", repr(name), repr(ours)):
            train("language", data["language"], **{name: 1})
    with refuses("data['train']", "animals.csv"):
        train("classify", {"train": str(data["classify"]), "valid": [("a", "b")]})
    for task in ("language", "ngram"):
        model = train(task, data[task], progress="none", **SETTINGS[task])
        with refuses("data", "'valid'"):
            model.evaluate("valid")
