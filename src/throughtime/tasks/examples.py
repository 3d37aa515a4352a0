"""A few texts of the validation data to try a model with; pages offer them as buttons.

They are chosen when a model is created or trained, and saved in its folder, so that loading it opens no data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError, ThroughtimeError
from throughtime.folder import ModelFolder
from throughtime.text.blanks import draw_blank

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
    if model.task not in _FORMS:
        return ()
    try:
        split = next(name for name in ("valid", "test", "all") if name in (*dataset.splits, "all"))
        if sum(path.stat().st_size for path in dataset.files(split)) > CHEAP:
            return ()
        texts = islice(_read_texts(model, dataset, split), READ)
        forms = (_FORMS[model.task](model, text) for text in choose_texts(texts, EXAMPLES))
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


def _read_texts(model: Any, dataset: Dataset, split: str) -> Iterator[str]:
    if model.task == "translate":
        return dataset.texts(split, "source")
    if model.task == "classify":
        return (one.text for one in dataset.labelled_texts(split))
    if model.task == "fill":
        return dataset.texts(split, model.config.find_side(dataset))
    return (line for text in dataset.texts(split) for line in text.splitlines())


def _begin(model: Any, text: str) -> str:
    """The first half of a text, for a model that goes on with it."""
    words = text.split(" ")
    return " ".join(words[: max(1, len(words) // 2)]) if len(words) > 1 else text[: len(text) // 2]


def _blank(model: Any, text: str) -> str:
    """The text with a blank for its longest known word; nothing if it has no word."""
    codec = model.codec
    ids = codec.encode(text)
    never = {*model._never, codec.vocabulary.unk_id}
    sizes = [0 if one in never else sum(map(str.isalpha, codec.vocabulary.token(one))) for one in ids]
    place = max(range(len(ids)), key=sizes.__getitem__, default=0)
    return draw_blank(ids, place, codec) if sizes and sizes[place] else ""


def _whole(model: Any, text: str) -> str:
    return text


_FORMS = {
    "translate": _whole,
    "language": _begin,
    "ngram": _begin,
    "tag": _whole,
    "classify": _whole,
    "fill": _blank,
}
