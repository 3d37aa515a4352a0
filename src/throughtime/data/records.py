"""The records that readers yield, one per example; cells and Python objects as records; text in blocks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from throughtime.data.vectors import VectorSequence
from throughtime.text.texts import MAX_NUMBER

Kind = Literal["text", "pairs", "tags", "series", "cards", "labelled", "described", "vectors"]
"""The kinds of records that a reader may yield."""


class Line(NamedTuple):
    """One line of running text, without its line break."""

    text: str


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Flashcard(NamedTuple):
    """One record of the five-line HSK format."""

    english: str
    hsk: str
    mandarin: str
    pinyin: str


class TaggedSentence(NamedTuple):
    """Words with one tag each, and the label of the sentence if it has one."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    label: str = ""


class Observation(NamedTuple):
    """One value of one series at one time; `ds` is the time as the file spells it."""

    unique_id: str
    ds: str
    y: float


class LabelledText(NamedTuple):
    """A text and its label."""

    text: str
    label: str


class DescribedText(NamedTuple):
    """A text and the vector of numbers that describes it."""

    text: str
    vector: tuple[float, ...]


class Specials(NamedTuple):
    """The ids that the vocabulary of one side of a pair reserves."""

    pad_id: int = 0
    bos_id: int | None = None
    eos_id: int | None = None


BLOCK = 1 << 20
# Past this many blocks without a good place (Chinese lines rarely start with a-z), cut at the next line.
FACTOR = 8


def blocks(lines: Iterable[str], size: int = BLOCK) -> Iterator[str]:
    r"""Join lines into blocks of about `size` characters; the blocks together are the whole text.

    A block ends after a line that ends in a visible character and before one that starts with a letter a-z:
    tokenizers never join tokens across such a line break, and no run of characters that a normaliser replaces
    with one space is divided.

    >>> list(blocks(["one", "two", "", "(three)", "four"], size=1))
    ['one\n', 'two\n\n(three)\n', 'four']
    """
    block: list[str] = []
    length = 0
    for line in lines:
        if length >= size and (_good_cut(block[-1], line) or length >= FACTOR * size):
            yield "\n".join(block) + "\n"
            block, length = [], 0
        block.append(line)
        length += len(line) + 1
    if block:
        yield "\n".join(block)


def _good_cut(before: str, after: str) -> bool:
    return after[:1].isascii() and after[:1].isalpha() and before == before.rstrip() != ""


# An escape can hold what the file itself may not; half a surrogate pair cannot be written again.
UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
FORMS = {
    "text": "a text",
    "pairs": "a pair (source, target) of texts",
    "labelled": "(text, label)",
    "described": "(condition, text), where the condition is a label or a list of numbers",
    "tags": "(words, tags), two lists of the same length",
    "vectors": "(vectors, label), an array [steps, features] and a label or a label for each step",
}


RECORDS: dict[type, Kind] = {
    Line: "text",
    Pair: "pairs",
    LabelledText: "labelled",
    DescribedText: "described",
    TaggedSentence: "tags",
    Flashcard: "cards",
    VectorSequence: "vectors",
}


class CellError(ValueError):
    """What is wrong with one cell of a row."""

    def __init__(self, cell: Any, problem: str) -> None:
        super().__init__(problem)
        self.cell = cell


class Records:
    """Converts items of one kind to records; all must have the form of the first."""

    def __init__(self, kind: str) -> None:
        self.kind, self.first, self.width = kind, type(None), 0

    def convert(self, item: Any) -> Any:
        """Return the record of an item; raise a ValueError that says what is wrong with it."""
        record = item if type(item) in RECORDS else READ[self.kind](item)
        if self.first is type(None):
            self.first = type(record)
        if type(record) is not self.first:
            raise ValueError(f"has a different form than the items before it: {shorten_repr(item)}")
        if isinstance(record, DescribedText | VectorSequence):
            size = len(record.vector if isinstance(record, DescribedText) else record.features)
            self.width = self.width or size
            if size != self.width:
                raise CellError(item[0], f"has {size} numbers, the items before it have {self.width}")
        return record


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number or NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isinf(value)


def list_values(column: Any) -> Any:
    """Return the values of a column as a list."""
    for method in ("to_list", "tolist"):
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column) if isinstance(column, Sequence) and not isinstance(column, str) else column


def shorten_repr(value: Any) -> str:
    """Format a value for a message."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _text(value: Any) -> str:
    if isinstance(value, ValueError):  # the field is missing
        raise value
    if not isinstance(value, str):
        raise CellError(value, f"has {shorten_repr(value)}, expected a text")
    if unfit := UNFIT.search(value):
        raise CellError(value, f"has a control character, U+{ord(unfit[0]):04X}; remove it")
    return value


def _parts(item: Any, kind: str, counts: Sequence[int] = (2,)) -> list[Any]:
    parts = list(item) if isinstance(item, Sequence) and not isinstance(item, str) else []
    if len(parts) not in counts:
        raise ValueError(f"is {shorten_repr(item)}, expected {FORMS[kind]}")
    return parts


def _label(value: Any) -> str:
    if isinstance(value, ValueError):
        raise value
    number = value.item() if hasattr(value, "item") else value
    label = str(number).strip() if isinstance(number, str | int | float) and number == number else ""
    if not label or UNFIT.search(label):
        raise CellError(value, "has no label")
    return label


def _read_labelled(item: Any) -> LabelledText:
    text, label = _parts(item, "labelled")
    return LabelledText(_text(text), _label(label))


def _read_described(item: Any) -> DescribedText | LabelledText:
    condition, text = _parts(item, "described")
    if isinstance(condition, ValueError):
        raise condition
    numbers = condition if isinstance(condition, str) else list_values(condition)
    if not isinstance(numbers, list):
        return LabelledText(_text(text), _label(condition))
    if not numbers or not all(is_number(number) and abs(number) < MAX_NUMBER for number in numbers):
        problem = f"has the condition {shorten_repr(condition)}, expected a label or finite numbers"
        raise CellError(condition, problem)
    return DescribedText(_text(text), tuple(float(number) for number in numbers))


def _read_tagged(item: Any) -> TaggedSentence:
    parts = _parts(item, "tags", (2, 3))
    for part in parts[:2]:
        if not isinstance(part, str | Sequence):
            _text(part)
    words, tags, *label = parts
    sides = [part.split() if isinstance(part, str) else list(part) for part in (words, tags)]
    if not sides[0] or len(sides[0]) != len(sides[1]):
        raise ValueError(f"has {len(sides[0])} words, but {len(sides[1])} tags; give one tag for each word")
    if not all(
        isinstance(part, str) and part.strip() and not UNFIT.search(part) for side in sides for part in side
    ):
        raise ValueError("has a word or a tag that is empty or not a text")
    return TaggedSentence(tuple(sides[0]), tuple(sides[1]), _label(label[0]) if label else "")


def _read_vectors(item: Any) -> VectorSequence:
    values, label = _parts(item, "vectors")
    labels = list_values(label)
    return VectorSequence.of(
        values, [_label(one) for one in (labels if isinstance(labels, list) else [label])]
    )


READ: dict[str, Callable[[Any], Any]] = {
    "text": lambda item: Line(_text(item)),
    "pairs": lambda item: Pair(*map(_text, _parts(item, "pairs"))),
    "labelled": _read_labelled,
    "described": _read_described,
    "tags": _read_tagged,
    "vectors": _read_vectors,
}
