"""What readers yield: one record is one example, as text."""

from __future__ import annotations

from typing import NamedTuple


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
