"""A recipe: what is trained, how it is judged, and the published figure that it stands beside."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from throughtime.config import Config, build_config
from throughtime.errors import InputError
from throughtime.settings import read_settings
from throughtime.tasks import TASKS

HERE = Path(__file__).parent
HIGHER_IS_BETTER = ("bleu", "f1", "accuracy", "intent_accuracy")


class Published(Config):
    """A figure of others."""

    figure: float | str = Field(description="a text, such as 1.0 to 1.1, is shown and not compared")
    source: str = Field(description="whose it is, where it stands, and what was done to get it")
    of: str | None = Field(
        None, description="the further evaluation that it stands beside; null: the row's own"
    )


class Recipe(Config):
    """One file recipes/NAME.yaml."""

    title: str = Field(description="what is measured, in the words of the table")
    group: Literal[
        "Counted language models",
        "Time Machine",
        "Truncated back-propagation",
        "Long memory",
        "Penn Treebank",
        "WikiText-2",
        "Translation of Multi30k",
        "Search",
        "English to Chinese",
        "English to French",
        "Fill-in",
        "Tagging and classification",
        "ETTh1",
        "Forecasting",
    ] = Field(description="the section of RESULTS.md")
    published: tuple[Published, ...] = Field((), description="the figures of others")
    note: str | None = Field(None, description="what a reader must know, under the table")
    task: Literal[
        "language",
        "translate",
        "fill",
        "tag",
        "classify",
        "forecast",
        "ngram",
        "windows",
        "recall",
        "searches",
        "retrieval",
        "together",
        "sine",
        "backtests",
    ] = Field("language", description="a command of `train`, or a module of this folder")
    machine: Literal["cpu", "gpu"] = Field("cpu", description="gpu: skipped where torch sees none")
    train: tuple[str, ...] = Field((), description="ngram: the words after `throughtime train ngram`")
    config: dict[str, Any] = Field({}, description="all but ngram: the settings")
    needs: dict[str, str | tuple[str, ...]] = Field(
        {}, description="settings that are run folders: the recipes that train them"
    )
    seeds: tuple[int, ...] = Field((), description="the mean of these; empty: config's seed alone")
    first: dict[str, Any] = Field(
        {}, description="settings of a module of this folder with which the first figures are measured"
    )
    evaluate: tuple[str, ...] = Field((), description="the words after `throughtime evaluate RUN`")
    also: dict[str, tuple[str, ...]] = Field({}, description="further evaluations, by what they are called")
    asks: tuple[str, ...] = Field(
        (), description="translate, fill: sentences that are shown with what becomes of them"
    )
    measure: str = Field("perplexity", description="its place in the JSON of `from`, as in best.perplexity")
    source: Literal["train", "evaluate"] = Field(
        "evaluate", alias="from", description="the command whose JSON holds the measure"
    )

    @property
    def fingerprint(self) -> str:
        """Twelve digits that change with anything that a measured figure depends on."""
        what = {"task", "train", "config", "seeds", "evaluate", "also", "measure", "source", "needs"}
        known = self.model_dump(mode="json", include=what)
        if not self.needs:
            del known["needs"]
        text = json.dumps(known, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def data(self) -> str | None:
        """The name of the data; None where they are made up on the spot."""
        return self.train[self.train.index("--data") + 1] if self.train else self.config.get("data")

    @property
    def commanded(self) -> bool:
        """Whether `throughtime train TASK --config` trains it."""
        return self.task in TASKS and self.task != "ngram"

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger figure is the better one."""
        return self.measure in HIGHER_IS_BETTER

    @property
    def needed(self) -> list[str]:
        """The recipes whose runs it needs."""
        return [
            name for names in self.needs.values() for name in ([names] if isinstance(names, str) else names)
        ]

    def runs(self) -> list[dict[str, Any]]:
        """The settings of each run."""
        return [{**self.config, "seed": seed} for seed in self.seeds] or [self.config]


def read_recipes(folder: Path = HERE) -> dict[str, Recipe]:
    """All recipes of a folder by name."""
    return {path.stem: read_recipe(path) for path in sorted(folder.glob("*.yaml"))}


def read_recipe(path: Path) -> Recipe:
    """One recipe, or a sentence about what is wrong with it."""
    recipe = build_config(Recipe, read_settings(path), path.name)
    if (recipe.task == "ngram") != bool(recipe.train):
        raise InputError(path.name, "`train` goes with the task ngram, and only with it")
    if recipe.asks and recipe.task not in ("translate", "fill"):
        raise InputError(path.name, "`asks` goes with the tasks translate and fill")
    if recipe.commanded:
        build_config(TASKS[recipe.task].part("config"), recipe.config, path.name)
    return recipe


def written(config: dict[str, Any]) -> str:
    """Settings as a YAML file."""
    from ruamel.yaml import YAML

    yaml, text = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style = yaml.sort_base_mapping_type_on_output = False
    yaml.dump(config, text)
    return text.getvalue()
