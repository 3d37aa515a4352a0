"""Settings that count only beside others: refused where somebody gave one that changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recipes.recipe import read_recipes
from tests.refusals import refuses

from throughtime.config import Config, build_config, refuse_idle
from throughtime.errors import InputError
from throughtime.settings import format_settings, read_assignments, read_settings
from throughtime.tasks import TASKS

TRAINED = sorted(set(TASKS) - {"ngram"})


def config_of(task: str, given: dict[str, Any]) -> Config:
    kind: type[Config] = TASKS[task].part("config")
    return build_config(kind, {"data": "x", **given}, task)


def check(task: str, given: dict[str, Any]) -> None:
    refuse_idle(config_of(task, given), given)


WINDOWS = {"sampling": "overlapping", "train_windows": 9, "valid_windows": 3}
LATENT = {"model": "recurrent", "strategy": "recursive"}


@pytest.mark.parametrize(
    ("task", "key", "idle", "counting"),
    [
        ("language", "momentum", {}, {"optimizer": "sgd"}),
        ("language", "betas", {"optimizer": "sgd"}, {"optimizer": "adam"}),
        ("language", "nonmono", {"optimizer": "sgd"}, {"optimizer": "nt-asgd"}),
        ("language", "decay", {"schedule": "cosine"}, {"schedule": "plateau"}),
        ("language", "decay_after", {"schedule": "plateau"}, {"schedule": "step"}),
        ("language", "decay_every", {}, {"schedule": "step"}),
        ("language", "plateau_patience", {"schedule": "step"}, {"schedule": "plateau"}),
        ("language", "final_lr", {"schedule": "constant"}, {}),
        ("language", "rise", {}, {"schedule": "one-cycle"}),
        ("language", "warmup_steps", {"schedule": "one-cycle"}, {}),
        ("language", "ema_decay", {}, {"average": "ema"}),
        ("language", "hidden_size", {"tied": True, "embedding_size": 9}, {}),
        ("language", "hidden_size", {"tied": True, "embedding_size": 9}, {"tied": False}),
        ("language", "hidden_size", {"tied": True, "embedding_size": 9}, {"num_layers": 2}),
        ("language", "hidden_size", {"tied": True, "embedding_size": 9}, {"experts": 2}),
        ("language", "hidden_size", {"tied": False, "last_size": 5}, {"num_layers": 2, "last_size": 5}),
        ("language", "init_range", {"init": "xavier"}, {"init": "uniform"}),
        ("language", "forget_bias", {"cell": "gru"}, {}),
        ("language", "hidden_dropout", {}, {"num_layers": 2}),
        ("language", "residual", {"tied": False, "embedding_size": 9}, {}),
        (
            "language",
            "residual",
            {"num_layers": 2, "embedding_size": 9},
            {"num_layers": 3, "embedding_size": 9},
        ),
        ("classify", "residual", {"embedding_size": 9}, {"embedding_size": 9, "num_layers": 2}),
        (
            "classify",
            "residual",
            {"hidden_size": 9, "embedding_size": 9},
            {"hidden_size": 9, "embedding_size": 18},
        ),
        ("language", "train_windows", {}, {"sampling": "overlapping"}),
        ("language", "valid_rows", WINDOWS, {}),
        ("language", "tau", {"truncation": "randomised"}, {"truncation": "truncated"}),
        ("language", "pi", {"truncation": "truncated"}, {"truncation": "randomised"}),
        ("language", "min_freq", {"tokens": "bpe"}, {"tokens": "word"}),
        ("translate", "hidden_dropout", {}, {"num_layers": 2}),
        ("tag", "hidden_dropout", {"num_layers": 1}, {}),
        ("tag", "max_characters", {"characters": False}, {}),
        ("tag", "language_size", {}, {"language_models": ["runs/left"]}),
        ("tag", "intent_weight", {"intents": False}, {}),
        ("fill", "min_freq", {"tokens": "unigram"}, {}),
        ("classify", "hidden_dropout", {}, {"num_layers": 3}),
        ("compose", "embedding_size", {"tied": True, "hidden_size": 9}, {}),
        ("compose", "embedding_size", {"tied": True, "hidden_size": 9}, {"tied": False}),
        ("forecast", "hidden_size", {"model": "linear"}, {"model": "mlp"}),
        ("forecast", "num_layers", {"model": "segment"}, {}),
        ("forecast", "segment", {"model": "mlp"}, {"model": "segment"}),
        ("forecast", "hidden_dropout", {"model": "segment"}, {"model": "mlp"}),
        ("forecast", "hidden_dropout", {}, {"num_layers": 2}),
        ("forecast", "output_dropout", {"model": "mlp"}, {}),
        ("forecast", "probabilities", {"head": "point"}, {}),
        ("forecast", "paths", {}, LATENT),
        ("forecast", "paths", {**LATENT, "head": "point"}, {**LATENT, "head": "student"}),
    ],
)
def test_what_changes_nothing_is_refused(
    task: str, key: str, idle: dict[str, Any], counting: dict[str, Any]
) -> None:
    other = {"betas": [0.8, 0.9], "probabilities": [0.1, 0.9]}.get(key, 0.45)
    whole = type(getattr(config_of(task, {}), key)) is int or key in ("train_windows", "segment")
    given = {key: key == "residual" or (7 if whole else other)}
    with refuses(key):
        check(task, {**idle, **given})
    check(task, {**counting, **given})
    refuse_idle(config_of(task, {**idle, **given}), idle)  # a saved value or a default, which nobody gave


@pytest.mark.parametrize(
    ("task", "words", "named"),
    [
        ("language", ["tau=5"], ["truncation=full", "truncation=truncated", "sliding"]),
        (
            "language",
            ["hidden_size=512", "embedding_size=64", "tied=true"],
            ["embedding_size", "tied", "num_layers"],
        ),
        ("language", ["average=ema", "optimizer=nt-asgd"], ["optimizer=nt-asgd"]),
        (
            "language",
            ["variational=true", "input_dropout=0", "hidden_dropout=0", "output_dropout=0"],
            ["input_dropout", "hidden_dropout", "output_dropout", "expert_dropout"],
        ),
        (
            "translate",
            ["scaled=true", "structure=main"],
            ["structure=main", "structure=attention", "attention-no-feeding", "conditional"],
        ),
        (
            "translate",
            ["context=mean"],
            ["structure=attention", "structure=main", "context-only", "context-and-input"],
        ),
        ("forecast", ["cell=lstm", "model=linear"], ["model=linear", "model=recurrent", "segment"]),
        ("forecast", ["loss=mae"], ["head=quantiles", "head=point"]),
        ("language", ["warm_up_gradient=true"], ["warm_up=0"]),
    ],
)
def test_it_is_said_in_one_sentence(task: str, words: list[str], named: list[str]) -> None:
    with pytest.raises(InputError) as refusal:
        check(task, read_assignments(words))
    sentence = str(refusal.value)
    assert sentence.startswith(f"{words[0].partition('=')[0]}: ")
    assert [name for name in named if name not in sentence] == []


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("language", ["hidden_size=64", "embedding_size=64"]),  # it is as wide as was asked
        ("language", ["hidden_dropout=0"]),  # nothing is dropped between layers
        ("language", ["warm_up=3", "warm_up_gradient=true"]),
        ("language", ["variational=true"]),
        ("forecast", ["warm_up_gradient=true", "strategy=recursive"]),
        ("forecast", ["model=linear", "highway=none"]),
        ("translate", ["structure=conditional", "attention=general"]),
    ],
)
def test_what_holds_as_it_was_asked_passes(task: str, words: list[str]) -> None:
    check(task, read_assignments(words))


@pytest.mark.parametrize(
    ("task", "words", "followed"),
    [
        ("language", ["hidden_size=64"], {"embedding_size": 64}),
        ("language", ["hidden_size=64", "num_layers=2"], {"embedding_size": 64}),
        ("language", ["hidden_size=64", "last_size=32", "num_layers=2"], {"embedding_size": 32}),
        ("language", ["hidden_size=64", "tied=false"], {}),
        ("language", ["hidden_size=64", "experts=3"], {}),
        ("language", ["embedding_size=64"], {"hidden_size": 64}),
        ("language", ["embedding_size=64", "num_layers=2"], {}),
        ("language", ["embedding_size=64", "hidden_size=32"], {"tied": False}),
        ("language", ["embedding_size=64", "hidden_size=32", "num_layers=2"], {}),
        ("compose", ["hidden_size=64"], {"embedding_size": 64}),
        ("compose", ["embedding_size=64"], {"hidden_size": 64}),
        ("compose", ["embedding_size=64", "hidden_size=32"], {"tied": False}),
        ("translate", ["hidden_size=64"], {}),
    ],
)
def test_what_follows_from_the_widths(task: str, words: list[str], followed: dict[str, Any]) -> None:
    given = read_assignments(words)
    config = config_of(task, given)
    assert config.derive_settings(given) == followed
    assert {key: getattr(config, key) for key in followed} == followed
    check(task, given)
    shown = format_settings(type(config), {"data": "x", **given})
    assert all(f"{key}: {str(value).lower()} " in shown for key, value in followed.items())
    saved = config.model_dump(mode="json")
    assert build_config(type(config), saved, "saved") == config


@pytest.mark.parametrize("task", TRAINED)
def test_all_defaults_may_be_spelt_out(task: str, tmp_path: Path) -> None:
    """What `--show-config` prints can be read back."""
    file = tmp_path / "all.yaml"
    file.write_text(format_settings(TASKS[task].part("config"), {"data": "x"}))
    check(task, read_settings(file))


def test_recipes_hold_no_setting_without_effect() -> None:
    recipes = {name: recipe for name, recipe in read_recipes().items() if recipe.commanded}
    assert len(recipes) > 20
    for recipe in recipes.values():
        check(recipe.task, {**recipe.config, **dict.fromkeys(recipe.needs, ("run",))})
