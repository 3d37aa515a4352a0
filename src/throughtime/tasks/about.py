"""What others see of a model: its description for clients, and texts of the validation data to try it with.

The texts are chosen when a model is created or trained, and saved in its folder, so that loading it opens no
data; pages offer them as buttons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError, ThroughtimeError
from throughtime.folder import ModelFolder
from throughtime.tasks import TASKS

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset

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
    name: str,
    task: str,
    model: Any,
    abilities: tuple[str, ...] | None = None,
    examples: Sequence[str] = (),
) -> dict[str, Any]:
    """Its description for clients; `examples` are texts to try it with."""
    found = find_abilities(task, model) if abilities is None else abilities
    values: dict[str, Any] = {"name": name, "task": task, "abilities": list(found), **model.facts}
    if (method := TASKS[task].methods[0]) != TASKS[task].command:
        values["method"] = method
    if examples:
        values["examples"] = list(examples)
    return values
