"""What is said about a trained model: its card, the summary of its training, what to try next, and with what.

Texts of the validation data to try it with are chosen when a model is created or trained, and saved in its
folder, so that loading it opens no data; pages offer them as buttons.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError, ThroughtimeError
from throughtime.folder import ModelFolder
from throughtime.tasks import TASKS
from throughtime.text.texts import escape_controls, format_count

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset


FILE = "examples.json"
EXAMPLES = 4
READ = 400
"""Texts from which the examples are chosen."""
MIN_CHARACTERS, MAX_CHARACTERS = 12, 120
"""Characters of a good example; a longer text is cut after a word."""
MAX_LENGTH = 240
"""Characters that an example of a model folder may have, with its blank."""
CHEAP = 8_000_000
"""Bytes of data that may be read to find examples: less than a second."""


@dataclass(frozen=True)
class Description:
    """A model in words, for its title and its card."""

    heading: str
    """The first line of the card."""
    network: str
    """The layers, such as "2 x lstm of 256"."""
    details: str
    """Other parts of the title, such as the size of the vocabulary."""
    facts: Mapping[str, str]
    """Rows of the card's table, after the row of the data."""
    commands: Sequence[str]
    """Commands that use the model, after `throughtime`."""
    python: str
    """The expression that uses the model in Python, after `throughtime.load("FOLDER").`."""
    remark: str = ""
    """A sentence that users of the model should read."""


def write_card(
    words: Description, config: Any, values: Mapping[str, Any], examples: Sequence[str] = ()
) -> str:
    """Return the text of README.md in a model folder; `values` are the measurements of the training."""
    rows = {"data": f"{config.data}, split train", **words.facts}
    if "parameters" in values:
        rows["weights"] = f"{values['parameters']:,}"
    if "epochs" in values and values["steps"]:
        rows["training"] = f"{training_length(values)}, seed {config.seed}, {values['device']}"
    rows["validation"] = _best(values) or "not measured"
    table = "\n".join(f"| {name} | {fact} |" for name, fact in rows.items())
    commands = "\n".join(
        f"    throughtime {one}" for one in [*words.commands, "evaluate FOLDER --split test"]
    )
    # Code blocks, so that no text is read as Markdown or HTML.
    tries = "".join(f"\n    {text}" for text in examples)
    tries = f"\nTexts of its validation data to try it with:\n{tries}\n" if tries else ""
    remark = f" {words.remark}" if words.remark else ""
    text = f"""# {words.heading}

Network: {words.network}. Trained with throughtime.{remark}

| | |
|---|---|
{table}

{commands}

In Python: `throughtime.load("FOLDER").{words.python}`. All settings are in config.json.
{tries}"""
    return escape_controls(text)


def summarise_training(values: Mapping[str, Any]) -> str:
    """Return how long a training took, why it ended, and its best validation.

    >>> values = {"epochs": 2, "steps": 60, "seconds": 3.2, "device": "cpu", "why": "it has done all epochs"}
    >>> values |= {"best": {"loss": 1.25}, "best_epoch": 2, "best_step": 45}
    >>> print(summarise_training({**values, "best_inside": True}))
    Trained 2 epochs, 60 updates, in 3 s on cpu: it has done all epochs.
    Best in epoch 2, after update 45: loss 1.25.
    >>> print(summarise_training(values).splitlines()[1])
    Best after epoch 2: loss 1.25.
    """
    place = f"after epoch {values['best_epoch']}"
    if values.get("best_inside"):
        place = f"in epoch {values['best_epoch']}, after update {values['best_step']:,}"
    return (
        f"Trained {training_length(values)}, in {values['seconds']:.0f} s on {values['device']}: "
        f"{values['why']}.\nBest {place}: {_best(values)}.{_skips(values)}"
    )


def _skips(values: Mapping[str, Any]) -> str:
    if not values.get("skipped"):
        return ""
    updates = format_count(values["skipped"], "update")
    return f"\nSkipped {updates} whose loss or gradient was NaN or infinite; a lower lr may train better."


def _best(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())


def suggest_evaluation(dataset: Dataset, trained: str = "train") -> list[str]:
    """Return the command that evaluates a model on data that it was not `trained` on, if there are any."""
    for split in () if trained == "all" else ("test", "valid"):
        if split == trained:
            continue
        try:
            usable = dataset.has_records(split)
        except InputError:
            usable = True  # evaluating it says what cannot be read
        if usable:
            return [f"evaluate {{run}} --split {split}"]
    return []


def training_length(values: Mapping[str, Any]) -> str:
    """Return the length of a training in epochs and updates.

    >>> training_length({"epochs": 1, "steps": 1200})
    '1 epoch, 1,200 updates'
    >>> training_length({"epochs": 0, "steps": 595, "planned": 4000})
    '595 updates of about 4,000 planned, less than an epoch'
    """
    planned = f" of about {values['planned']:,} planned" if values.get("planned") else ""
    updates = format_count(values["steps"], "update") + planned
    return (
        f"{format_count(values['epochs'], 'epoch')}, {updates}"
        if values["epochs"]
        else f"{updates}, less than an epoch"
    )


def refuse_options(options: Mapping[str, Any], known: Collection[str], reason: str) -> None:
    """Refuse options of `evaluate` that this kind of model does not have; None counts as not given.

    >>> refuse_options({"cache_share": 0.1}, {"num_beams"}, "is for recurrent language models")
    Traceback (most recent call last):
    throughtime.errors.InputError: cache_share: is for recurrent language models; leave it out
    """
    for name, value in options.items():
        if name not in known and value is not None:
            raise InputError(name, f"{reason}; leave it out")


def find_examples(model: Any, dataset: Dataset) -> tuple[str, ...]:
    """Return different texts of the validation data, as a user would type them.

    There are none for a model that reads no text, and for data larger than `CHEAP`.
    """
    try:
        split = next(name for name in ("valid", "test", "all") if name in (*dataset.splits, "all"))
        if sum(path.stat().st_size for path in dataset.files(split)) > CHEAP:
            return ()
        texts = islice(model.read_examples(dataset, split), READ)
        forms = map(model.shape_example, choose_texts(texts, EXAMPLES))
        return tuple(form for form in forms if 0 < len(form) <= MAX_LENGTH)
    except (ThroughtimeError, OSError, ValueError):
        return ()


def save_examples(examples: tuple[str, ...], folder: ModelFolder) -> None:
    """Write the examples of a model into its folder, if it has any."""
    if examples:
        folder.write_json(FILE, {"examples": examples})


def load_examples(folder: ModelFolder) -> tuple[str, ...]:
    """Read what `save_examples` wrote; folders of older versions have no examples."""
    if not (folder.path / FILE).is_file():
        return ()
    texts = folder.read_json(FILE).get("examples")
    if (
        not isinstance(texts, list)
        or len(texts) > EXAMPLES
        or not all(isinstance(text, str) and len(text) <= MAX_LENGTH for text in texts)
    ):
        problem = f"holds no list of at most {EXAMPLES} texts of at most {MAX_LENGTH} characters; remove it"
        raise InputError(str(folder.path / FILE), problem)
    return tuple(" ".join(text.split()) for text in texts)


def choose_texts(texts: Iterable[str], count: int) -> list[str]:
    """Choose texts of a readable length, short and long ones, in the order in which they come.

    >>> choose_texts(["Yes.", "It is raining again.", "It is raining again.", "Where is the station?"], 2)
    ['It is raining again.', 'Where is the station?']
    """
    lines = dict.fromkeys(" ".join(text.split()) for text in texts)
    known = [_cut(line) for line in lines if len(line) >= MIN_CHARACTERS] or [line for line in lines if line]
    apart = max(1, len(known) // count)
    return known[::apart][:count]


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return text[:MAX_CHARACTERS].rpartition(" ")[0] or text[:MAX_CHARACTERS]


def find_abilities(task: str, model: Any) -> tuple[str, ...]:
    """What it can do: the command of its task, such as "translate", and "gates" if it has any to show."""
    from throughtime.inspection.gates import check_gates

    try:
        check_gates(model)
    except InputError:
        return (TASKS[task].command,)
    return (TASKS[task].command, "gates")


def describe_model(
    name: str, task: str, model: Any, abilities: tuple[str, ...] | None = None, examples: Sequence[str] = ()
) -> dict[str, Any]:
    """Its description for clients; `examples` are texts to try it with."""
    found = find_abilities(task, model) if abilities is None else abilities
    values: dict[str, Any] = {"name": name, "task": task, "abilities": list(found), **model.facts}
    if (method := TASKS[task].methods[0]) != TASKS[task].command:
        values["method"] = method
    if examples:
        values["examples"] = list(examples)
    return values
