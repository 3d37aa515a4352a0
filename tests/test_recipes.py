"""Recipes: read, run, kept, taken in from elsewhere, and shown beside the published figures."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from recipes import page as pages
from recipes import recall
from recipes.__main__ import main
from recipes.measure import ROW_KEYS, command
from recipes.page import page
from recipes.recipe import HERE, Recipe, read_recipes
from tests.refusals import lacks, refuses

from throughtime.config import build_config
from throughtime.tasks import TASKS

LANGUAGE = """
title: A toy
group: Time Machine
published: [{figure: 2.0, source: nobody}]
config: {data: DATA, tokens: char, hidden_size: 8, embedding_size: 8, batch_size: 2, num_steps: 5, epochs: 2}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of recipes whose first losses need no process; `test_recipe_rows.py` measures them."""
    monkeypatch.setattr("recipes.measure.first_losses", lambda recipe: [1.0])
    text = tmp_path / "toy.txt"
    text.write_text("".join(f"the cat sat on mat {number}\n" for number in range(40)))
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    toy = LANGUAGE.replace("DATA", str(text))
    (recipes / "trained.yaml").write_text(f"{toy}from: train\nmeasure: train.perplexity\n")
    (recipes / "seeds.yaml").write_text(
        f"{toy}seeds: [0, 1]\nevaluate: [--split, valid]\nalso: {{test: [--split, test]}}\n"
    )
    counted = f'task: ngram\ntrain: [--data, {text}, --order, "2"]\nevaluate: [--split, test]\n'
    (recipes / "counted.yaml").write_text(f"title: Counted\ngroup: Counted language models\n{counted}")
    (recipes / "big.yaml").write_text(f"{toy.replace('A toy', 'A giant')}machine: gpu\n")
    return recipes


def measured(folder: Path) -> dict[str, dict[str, object]]:
    rows: dict[str, dict[str, object]] = json.loads((folder / "measured.json").read_text())
    return rows


def test_runs_what_is_named_and_writes_the_page(folder: Path, tmp_path: Path) -> None:
    assert main(["trained", "counted", "--keep", str(tmp_path / "kept")], folder) == 0
    rows = measured(folder)
    assert set(rows) == {"trained", "counted"}
    assert all(key in row for row in rows.values() for key in ROW_KEYS)
    training = json.loads((tmp_path / "kept" / "trained" / "training.json").read_text())
    assert rows["trained"]["value"] == training["train"]["perplexity"]
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| A toy | " in text
    assert "| 2.0 (nobody): worse |" in text
    assert " | - | `counted` |" in text, "what was measured just now is not stale"
    assert "Not measured yet: `big`, `seeds`." in text


def test_goes_on_with_what_was_kept(folder: Path, tmp_path: Path) -> None:
    words = ["trained", "--keep", str(tmp_path / "kept")]
    assert main(words, folder) == 0
    rows, weights = measured(folder), (tmp_path / "kept" / "trained" / "model.safetensors").stat()
    assert main(words, folder) == 0
    assert measured(folder) == rows
    assert (tmp_path / "kept" / "trained" / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns


TOY_TRANSLATOR = """
title: A translator
group: Translation of Multi30k
task: translate
config: {data: DATA, tokens: space, hidden_size: 8, batch_size: 8, epochs: 2, precision: float32}
"""
TOY_SEARCHES = """
title: Searches
group: Search
task: searches
needs: {run: translator}
config: {data: DATA, split: valid, budget: 500}
"""


def put(folder: Path, tmp_path: Path, recipes: dict[str, str]) -> None:
    """Recipes on pairs of sentences that are made here."""
    words = {"one": "un", "two": "deux", "three": "trois", "four": "quatre"}
    lines = [f"{a} {b} {c}\t{words[a]} {words[b]} {words[c]}" for a in words for b in words for c in words]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines) + "\n")
    for name, text in recipes.items():
        (folder / f"{name}.yaml").write_text(text.replace("DATA", str(tmp_path / "pairs.tsv")))


def test_a_run_that_is_needed_is_trained_first(folder: Path, tmp_path: Path) -> None:
    put(folder, tmp_path, {"translator": TOY_TRANSLATOR, "searched": TOY_SEARCHES})
    assert main(["searched", "--keep", str(tmp_path / "kept")], folder) == 0
    assert (tmp_path / "kept" / "translator" / "model.safetensors").exists()
    row: Any = measured(folder)["searched"]
    found = {line[0]: line for line in row["table"]["rows"]}
    greedy, exact = found["greedy"], found["exact"]
    assert row["value"] == found["beam of 5, alpha 0"][3]
    assert exact[3] == 0  # nothing is likelier than what exact search finds
    assert exact[2] >= max(line[2] for line in found.values())
    assert greedy[2] <= found["beam of 5, alpha 0"][2] + 1e-3


def test_a_translator_tells_chrf_its_training_loss_and_what_it_makes_of_sentences(
    folder: Path, tmp_path: Path
) -> None:  # R104
    longer = TOY_TRANSLATOR.replace("hidden_size: 8", "hidden_size: 16, lr: 0.03").replace("s: 2", "s: 4")
    asked = longer + "seeds: [3, 4]\nmeasure: bleu\nasks: [one two four, two]\n"
    put(folder, tmp_path, {"asked": asked})
    assert main(["asked", "--keep", str(tmp_path / "kept")], folder) == 0
    row: Any = measured(folder)["asked"]
    runs = [tmp_path / "kept" / f"asked-{seed}" for seed in (3, 4)]
    judged = [command("evaluate", str(run), "--split", "train") for run in runs]
    assert row["also"]["training loss"] == pytest.approx(mean(one["loss"] for one in judged), rel=1e-5)
    judged = [command("evaluate", str(run), "--split", "test") for run in runs]
    assert row["also"]["chrF"] == pytest.approx(mean(one["chrf"] for one in judged))
    told = [command("translate", str(run), *row["said"])["translations"] for run in runs]
    assert list(row["said"].values()) == [[own[place]["text"] for own in told] for place in (0, 1)]
    assert any(told[0][place]["text"] != told[1][place]["text"] for place in (0, 1)), "seeds are told apart"
    text = (tmp_path / "RESULTS.md").read_text()
    chrf, loss = (pages._figure(row["also"][label]) for label in ("chrF", "training loss"))
    assert f"; chrF {chrf}; training loss {loss}" in text
    assert f"becomes “{told[0][0]['text']}”, “{told[1][0]['text']}”" in text
    known = {line.split("\t")[0] for line in (tmp_path / "pairs.tsv").read_text().splitlines()}
    assert set(row["trained_on"]) <= known & set(row["said"])


TOY_TOGETHER = """
title: Translators as one
group: Translation of Multi30k
task: together
needs: {runs: translators}
config: {data: DATA, length_penalty: 1.0}
"""


def test_a_recipe_of_several_seeds_stands_for_all_its_runs(folder: Path, tmp_path: Path) -> None:
    put(folder, tmp_path, {"translators": TOY_TRANSLATOR + "seeds: [3, 4]\n", "joined": TOY_TOGETHER})
    assert main(["joined", "--keep", str(tmp_path / "kept")], folder) == 0
    assert {run.name for run in (tmp_path / "kept").iterdir()} >= {"translators-3", "translators-4"}
    row: Any = measured(folder)["joined"]
    assert list(row["also"]) == ["chrF", "valid", "valid chrF"]
    assert "|alpha:1|" in row["signature"]
    assert "|models:2|" in row["signature"]


def test_what_cannot_run_here_is_skipped_and_its_figure_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    rows = {"big": {**dict.fromkeys(ROW_KEYS, "x"), "value": 1.5, "seconds": 1.0}}
    elsewhere = folder.parent / "elsewhere.json"
    elsewhere.write_text(json.dumps(rows))
    assert main(["--import", str(elsewhere)], folder) == 0
    assert main(["big"], folder) == 0
    assert not lacks(capsys.readouterr().err, "big", "GPU")
    assert measured(folder) == rows
    assert " | settings | `big` |" in (folder.parent / "RESULTS.md").read_text()


def test_failure_is_told_and_the_others_still_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = (folder / "trained.yaml").read_text().replace("train.perplexity", "train.accuracy")
    (folder / "abad.yaml").write_text(bad)
    assert main(["abad", "counted"], folder) == 1
    assert not lacks(capsys.readouterr().err, "abad", "measure", "'train.accuracy'")
    assert set(measured(folder)) == {"counted"}


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["traned"], ("'traned'", "'trained'")),
        (["--import", "FILE"], ("'seconds'",)),
        (["--import", "missing.json"], ("missing.json:", "JSON")),
    ],
)
def test_refuses_with_a_sentence(
    folder: Path, words: list[str], facts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder.parent / "rows.json"
    file.write_text(json.dumps({"trained": {"value": 1.0}}))
    assert main([str(file) if word == "FILE" else word for word in words], folder) == 2
    assert not lacks(capsys.readouterr().err, *facts)
    assert not (folder / "measured.json").exists()


def test_recipe_with_a_wrong_key_is_refused(folder: Path) -> None:
    (folder / "trained.yaml").write_text(LANGUAGE.replace("hidden_size", "hiden_size"))
    with refuses("trained.yaml", "'hiden_size'", "'hidden_size'"):
        read_recipes(folder)


def test_the_recipes_themselves_are_whole() -> None:
    # R32: batch size and steps as in the notes. R53: the three truncations.
    recipes = read_recipes()
    settings = {(r.config.get("batch_size"), r.config.get("num_steps")) for r in recipes.values()}
    assert {(32, 35), (1024, 32)} <= settings
    assert {f"truncation-{name}" for name in ("full", "truncated", "randomised")} <= set(recipes)


def test_results_are_what_was_measured() -> None:
    recipes = read_recipes()
    rows = json.loads((HERE / "measured.json").read_text())
    assert set(rows) <= set(recipes), "recipes that are gone leave no figures"
    told = (HERE.parent / "RESULTS.md").read_text()
    assert told == page(recipes, rows), "`python -m recipes --check` writes the page"
    changed = [name for name, row in rows.items() if row["fingerprint"] != recipes[name].fingerprint]
    assert not changed, "the commands of the page are not theirs: measure them anew"


def settled(recipe: Recipe) -> Any:
    """The settings with all that the recipe leaves to the defaults."""
    return build_config(TASKS[recipe.task].part("config"), recipe.config, recipe.title)


def test_attention_beats_no_attention_on_multi30k() -> None:  # R90
    recipes, rows = read_recipes(), json.loads((HERE / "measured.json").read_text())
    attentive = settled(recipes["multi30k-de-en"])
    assert (attentive.structure, attentive.attention) == ("attention", "additive")
    assert attentive.data == "multi30k/tok"
    for structure in ("state-only", "context-only", "context-and-input"):
        name = f"multi30k-de-en-{structure}"
        own = settled(recipes[name])
        assert own.structure == structure
        # Nothing else differs but whether the output shares its weights with the embedding.
        others = {"structure", "tied"}
        assert own.model_dump(exclude=others) == attentive.model_dump(exclude=others)
        assert recipes[name].evaluate == recipes["multi30k-de-en"].evaluate
        for one in ("multi30k-de-en", name):
            assert rows[one]["fingerprint"] == recipes[one].fingerprint
        assert rows["multi30k-de-en"]["signature"] == rows[name]["signature"]
        assert rows["multi30k-de-en"]["value"] > rows[name]["value"] + 5
        assert rows["multi30k-de-en"]["also"]["valid"] > rows[name]["also"]["valid"] + 5


def test_fingerprint_changes_with_what_is_measured() -> None:
    toy = {"title": "A toy", "group": "Time Machine", "config": {"data": "x", "lr": 1}}
    one = Recipe(**toy)
    assert one.fingerprint == Recipe(**{**toy, "title": "Another title"}).fingerprint
    assert one.fingerprint != Recipe(**{**toy, "config": {"data": "x", "lr": 2}}).fingerprint
    assert one.fingerprint != Recipe(**{**toy, "measure": "bits_per_token"}).fingerprint


def test_gru_learns_to_recall() -> None:  # R61
    easy = {"cells": ["gru"], "lags": [1, 3], "symbols": 2, "remembered": 1, "hidden_size": 16}
    found = recall.measured({**easy, "updates": 60, "epochs": 1, "lr": 0.02})
    assert found["table"]["columns"][:4] == ["cell", "weights of the cell", "lag 1", "lag 3"]
    ((cell, weights, near, far, _),) = found["table"]["rows"]
    assert (cell, weights) == ("gru", 3 * 16 * (16 + 16 + 1) + 16)
    assert near > 0.9
    assert found["value"] == far > 0.9
    recipe = Recipe(title="Recall", group="Long memory", task="recall")
    row = {**found, "seconds": 1.0, "machine": "m", "date": "d", "fingerprint": recipe.fingerprint}
    assert "| gru | 1,600 | " in page({"recall": recipe}, {"recall": row})


def read_row(name: str) -> Any:
    """The measured row of a recipe, measured with its present settings."""
    row = json.loads((HERE / "measured.json").read_text())[name]
    assert row["fingerprint"] == read_recipes()[name].fingerprint
    return row


@pytest.mark.parametrize("name", ["timemachine-notes-gru", "timemachine-notes-lstm"])
def test_the_notes_models_learn_the_text_by_heart(name: str) -> None:  # R59
    config = read_recipes()[name].config
    assert (config["embedding"], config["optimizer"], config["lr"]) == ("one-hot", "sgd", 1)
    assert (config["batch_size"], config["num_steps"], config["hidden_size"]) == (32, 35, 256)
    assert (config["epochs"], config["max_tokens"]) == (500, 10_000)
    assert read_row(name)["value"] <= 1.1


def test_the_notes_model_of_windows() -> None:  # R60
    config = read_recipes()["timemachine-notes-windows-gru"].config
    assert (config["embedding"], config["cell"], config["init"]) == ("one-hot", "gru-before", "scratch")
    assert (config["batch_size"], config["num_steps"], config["hidden_size"]) == (1024, 32, 32)
    assert (config["lr"], config["epochs"], config["clip"]) == (4, 50, 1)
    assert read_row("timemachine-notes-windows-gru")["value"] <= 6.8


def test_a_plain_network_beats_the_bigram() -> None:  # R40
    assert read_recipes()["timemachine-rnn"].config["cell"] == "rnn"
    assert read_row("timemachine-rnn")["value"] < read_row("timemachine-bigram")["value"]


def test_the_notes_application_learns_its_sentences() -> None:  # R104
    config, row = read_recipes()["hsk-en-zh-notes"].config, read_row("hsk-en-zh-notes")
    assert (config["lowercase"], config["tokens"], config["max_size"]) == (True, "wordpiece", 1000)
    assert row["also"]["training loss"] <= 1.28
    assert "嘿，蓝迪，你吃午饭了吗？" in row["said"]["hey, randy, have you had your lunch yet?"]
    assert row["trained_on"] == ["Hey, Randy, have you had your lunch yet?"]
