"""Sentence pairs made by the grammar, and their division into train, valid and test."""

from __future__ import annotations

import functools

from throughtime.data.embedded.chinese import unspaced
from throughtime.data.embedded.dice import Dice
from throughtime.data.embedded.frames import FRAMES
from throughtime.data.embedded.sentences import Sentence
from throughtime.data.embedded.split import SPLITS, divide, english_words, french_words
from throughtime.data.records import Pair
from throughtime.errors import unknown

LANGUAGE_PAIRS = ("en-fr", "en-zh")
_LONGEST = 14


def pairs(name: str, split: str = "train") -> list[Pair]:
    """The sentence pairs of one part of `en-fr` or `en-zh`; the parts share no sentence on either side.

    >>> pairs("en-fr", "test")[0].target != pairs("en-zh", "test")[0].target
    True
    """
    _check(name)
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    return [_pair(name, sentence) for sentence in _parts()[split]]


def all_pairs(name: str) -> list[Pair]:
    """The pairs of train, then valid, then test."""
    return [pair for split in SPLITS for pair in pairs(name, split)]


def words(name: str) -> tuple[set[str], set[str]]:
    """The words of either side; Chinese ones as the grammar knows them, since no spaces show them.

    >>> "bread" in words("en-zh")[0], "面包" in words("en-zh")[1]
    (True, True)
    """
    _check(name)
    every = [sentence for part in _parts().values() for sentence in part]
    source = {word for sentence in every for word in english_words(sentence.english)}
    if name == "en-fr":
        return source, {word for sentence in every for word in french_words(sentence.french)}
    return source, {word for sentence in every for word in sentence.chinese.split() if word not in "，。？！"}


def _check(name: str) -> None:
    if name not in LANGUAGE_PAIRS:
        raise unknown("embedded pairs", name, LANGUAGE_PAIRS)


def _pair(name: str, sentence: Sentence) -> Pair:
    return Pair(sentence.english, sentence.french if name == "en-fr" else unspaced(sentence.chinese))


@functools.cache
def _parts() -> dict[str, list[Sentence]]:
    return divide(sentences())


@functools.cache
def sentences() -> tuple[Sentence, ...]:
    """Every sentence of the corpus; an English sentence keeps the first translation it gets."""
    found: dict[str, Sentence] = {}
    for name, (make, wanted) in FRAMES.items():
        dice, before = Dice(name), len(found)
        for _ in range(4 * wanted):
            if len(found) - before == wanted:
                break
            made = make(dice)
            if len(made.english.split()) <= _LONGEST:
                found.setdefault(made.english, made)
    return tuple(found.values())
