"""What readers yield: one record is one example, as text; and running text in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Kind = Literal["text", "pairs", "tags", "series", "cards", "labelled", "described"]
"""What a reader may yield."""


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


class Tagged(NamedTuple):
    """Words with one tag each, and the whole sentence's label where there is one."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    label: str = ""


class Observation(NamedTuple):
    """One value of one series at one time; `ds` is the time as the file spells it."""

    unique_id: str
    ds: str
    y: float


class Labelled(NamedTuple):
    """A text and the one label of all of it."""

    text: str
    label: str


class Described(NamedTuple):
    """A text and the numbers that it goes with."""

    text: str
    vector: tuple[float, ...]


class Specials(NamedTuple):
    """The ids that the vocabulary of one side of a pair reserves."""

    pad_id: int = 0
    bos_id: int | None = None
    eos_id: int | None = None


BLOCK = 1 << 20
# Past this a text offers no good place (Chinese lines never begin with a Latin letter): cut at the next line.
FACTOR = 8


def blocks(lines: Iterable[str], size: int = BLOCK) -> Iterator[str]:
    r"""Join lines with line breaks into blocks of about `size` characters, which joined are the whole text.

    A cut lies after a line that ends in a visible character and before one that begins with a letter a-z:
    there no tokenizer joins what the line break parts, and no run of other characters that some rule replaces
    by one space is cut in two.

    >>> list(blocks(["one", "two", "", "(three)", "four"], size=1))
    ['one\n', 'two\n\n(three)\n', 'four']
    """
    held: list[str] = []
    length = 0
    for line in lines:
        if length >= size and (_good_cut(held[-1], line) or length >= FACTOR * size):
            yield "\n".join(held) + "\n"
            held, length = [], 0
        held.append(line)
        length += len(line) + 1
    if held:
        yield "\n".join(held)


def _good_cut(before: str, after: str) -> bool:
    return after[:1].isascii() and after[:1].isalpha() and before == before.rstrip() != ""
