"""Settings of a language model that follow from the length of its training text."""

from __future__ import annotations

import pytest

import throughtime as tt
from throughtime.cells import CELLS
from throughtime.folder import ModelFolder
from throughtime.layers.layer import build_cell
from throughtime.models.language import RecurrentLanguageModel
from throughtime.tasks import text_config as module
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.text_config import suggest_settings

TINY = {"epochs": 1, "hidden_size": 4, "num_steps": 5, "progress": "none", "device": "cpu"}
LINES = ["the cat sleeps", "the dog sleeps", "a cat runs"] * 90
LEFT = {"batch_size", "weight_drop", "weight_decay", "forget_bias"}


def chosen(config):
    return {key: getattr(config, key) for key in LEFT}


def test_a_long_text_has_larger_batches_and_less_regularisation():
    short, long = suggest_settings(module.SHORT_TEXT - 1), suggest_settings(module.SHORT_TEXT)
    assert short.keys() == long.keys() == LEFT <= LanguageConfig.SUGGESTED
    assert short["batch_size"] < long["batch_size"]
    assert short["weight_decay"] > long["weight_decay"] == 0
    assert short["weight_drop"] > long["weight_drop"] == 0
    assert LanguageConfig(data="x", optimizer="sgd").suit(10).weight_decay == 0
    assert LanguageConfig(data="x", init="scratch").suit(10).forget_bias == 0
    assert LanguageConfig(data="x", cell="gru").suit(10).forget_bias is None


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_can_be_trained_on_a_short_text(cell):
    config = LanguageConfig(data="x", cell=cell, embedding_size=8, hidden_size=8).suit(10)
    RecurrentLanguageModel(9, **config.arguments_for(RecurrentLanguageModel))
    assert bool(config.weight_drop) == ("weight_hh" in build_cell(cell, 8, 8).weights())


@pytest.mark.parametrize(("limits", "tokens"), [({}, 900), ({"max_tokens": 50}, 50)])
def test_the_text_that_is_trained_on_decides(monkeypatch, limits, tokens):
    config = LanguageConfig(data="x", **limits)
    assert set(chosen(config).values()) == {None}
    for bound in (tokens, tokens + 1):
        monkeypatch.setattr(module, "SHORT_TEXT", bound)
        assert chosen(config.suit(900)) == suggest_settings(tokens)
    windows = LanguageConfig(data="x", sampling="overlapping", train_windows=30, num_steps=10)
    monkeypatch.setattr(module, "SHORT_TEXT", 41)
    assert windows.suit(900).batch_size == suggest_settings(40)["batch_size"]
    assert windows.suit(900).batch_size != suggest_settings(41)["batch_size"]


@pytest.mark.parametrize("cell", ["lstm", "gru", "mingru"])
def test_a_model_is_larger_on_a_gpu(cell):
    chosen = LanguageConfig(data="x", cell=cell).settings_on("cuda")
    assert chosen["hidden_size"] == chosen["embedding_size"] == 512
    assert ("weight_drop" in chosen) == ("weight_hh" in build_cell(cell, 8, 8).weights())
    config = LanguageConfig(data="x", cell=cell).model_copy(update=chosen).suit(10)
    RecurrentLanguageModel(9, **config.arguments_for(RecurrentLanguageModel))


@pytest.mark.parametrize("given", [{"hidden_size": 8}, {"tied": False}, {"last_size": 9}, {"experts": 2}])
def test_on_a_gpu_sizes_that_are_given_stay(given):
    assert LanguageConfig(data="x", **given).settings_on("cuda") == {}
    assert LanguageConfig(data="x").settings_on("cpu") == {}
    assert "output_dropout" not in LanguageConfig(data="x", output_dropout=0.1).settings_on("cuda")


def test_the_folder_has_the_values_and_they_are_not_chosen_again(tmp_path, monkeypatch):
    first = tt.train("language", LINES, out=tmp_path / "first", **TINY)
    expected = suggest_settings(len(LINES))
    assert chosen(first.config) == expected
    _, saved = ModelFolder.at(tmp_path / "first").read_config()
    assert {key: saved[key] for key in LEFT} == expected
    monkeypatch.setattr(module, "SHORT_TEXT", 0)  # another version may choose others
    again = {**TINY, "epochs": 2, "batch_size": None}
    resumed = tt.train("language", LINES, out=tmp_path / "first", resume=True, **again)
    assert chosen(resumed.config) == expected
    assert chosen(tt.train("language", LINES, **TINY).config) != expected
    started = tt.train("language", LINES, init_from=tmp_path / "first", **{**TINY, "weight_decay": 0.5})
    assert chosen(started.config) == {**expected, "weight_decay": 0.5}
