"""The records that readers yield, one per example; and running text in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Kind = Literal["text", "pairs", "tags", "series", "cards", "labelled", "described"]
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
