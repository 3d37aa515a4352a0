"""A finished sentence: one meaning in three languages."""

from __future__ import annotations

from typing import NamedTuple

from tools.embedded import chinese, english, french
from tools.embedded.clauses import Clause, Unit
from tools.embedded.nouns import Noun

_FULL_WIDTH = {".": "。", "?": "？", "!": "！"}


class Sentence(NamedTuple):
    """A sentence in three languages, and its verb-object pairs; Chinese has spaces between words."""

    english: str
    french: str
    chinese: str
    units: frozenset[Unit] = frozenset()


def finished(
    in_english: str, in_french: str, in_chinese: str, mark: str = ".", units: frozenset[Unit] = frozenset()
) -> Sentence:
    """Three wordings with their capitals, elisions and the mark at their end.

    >>> finished("is it a apple", "est-ce que une", "是 苹果 吗", "?")
    Sentence(english='Is it an apple?', french="Est-ce qu'une ?", chinese='是 苹果 吗 ？', units=frozenset())
    """
    return Sentence(
        english.finish(in_english, mark),
        french.finish(in_french, mark),
        chinese.finish(in_chinese, _FULL_WIDTH[mark]),
        units,
    )


def spoken(meaning: Clause) -> Sentence:
    """A clause as a sentence of its own."""
    return finished(
        english.clause(meaning),
        french.clause(meaning),
        chinese.clause(meaning),
        "?" if meaning.question else ".",
        meaning.action.units,
    )


def unit(verb: str, noun: Noun) -> frozenset[Unit]:
    """One verb with one object."""
    return frozenset({(verb, noun.english)})
