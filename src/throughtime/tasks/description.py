"""A trained model in words: the title of a training, the card of a model folder, and what to do next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError
from throughtime.text.texts import several

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset


@dataclass(frozen=True)
class Description:
    """A model in words, for its title while it trains and for its card."""

    heading: str
    """The first line of the card."""
    network: str
    """The layers, such as "2 x lstm of 256"."""
    details: str
    """What else a title names, such as the size of the vocabulary."""
    facts: Mapping[str, str]
    """Rows of the card's table, after the row of the data."""
    commands: Sequence[str]
    """Commands to use the model with, after `throughtime`."""
    python: str
    """The expression that uses it in Python, after `throughtime.load("FOLDER").`."""
    remark: str = ""
    """A sentence that users of the model should know."""


def write_card(words: Description, config: Any, values: Mapping[str, Any]) -> str:
    """The text of README.md in a model folder; `values` are the measurements of the training."""
    rows = {"data": f"{config.data}, split train", **words.facts}
    if "parameters" in values:
        rows["weights"] = f"{values['parameters']:,}"
    if "epochs" in values:
        rows["training"] = f"{training_length(values)}, seed {config.seed}, {values['device']}"
    best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
    rows["validation"] = best or "not measured"
    table = "\n".join(f"| {name} | {fact} |" for name, fact in rows.items())
    commands = "\n".join(
        f"    throughtime {one}" for one in [*words.commands, "evaluate FOLDER --split test"]
    )
    remark = f" {words.remark}" if words.remark else ""
    return f"""# {words.heading}

Network: {words.network}. Trained with throughtime.{remark}

| | |
|---|---|
{table}

{commands}

In Python: `throughtime.load("FOLDER").{words.python}`. All settings are in config.json.
"""


def suggest_evaluation(dataset: Dataset) -> list[str]:
    """The command that measures a model on data that it was not trained on, if there are some."""
    for split in ("test", "valid"):
        if split in dataset.splits and _has_records(dataset, split):
            return [f"evaluate {{run}} --split {split}"]
    return []


def _has_records(dataset: Dataset, split: str) -> bool:
    """Whether a split has a record; one that cannot be read counts, since evaluating it says why."""
    try:
        return next(iter(dataset.records(split)), None) is not None
    except InputError:
        return True


def training_length(values: Mapping[str, Any]) -> str:
    """How long a training was.

    >>> training_length({"epochs": 1, "steps": 1200})
    '1 epoch, 1,200 updates'
    """
    return f"{several(values['epochs'], 'epoch')}, {several(values['steps'], 'update')}"


def refuse_options(options: Mapping[str, Any], known: Collection[str], reason: str) -> None:
    """Refuse options of `evaluate` that this kind of model does not have.

    >>> refuse_options({"cache_share": 0.1}, {"num_beams"}, "is for recurrent language models")
    Traceback (most recent call last):
    throughtime.errors.InputError: cache_share: is for recurrent language models; leave it out
    """
    for name, value in options.items():
        if name not in known and value is not None:
            raise InputError(name, f"{reason}; leave it out")
