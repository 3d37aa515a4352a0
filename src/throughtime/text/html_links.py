"""Links between the words of a translation and the words of its source, as positions in both texts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from throughtime.text.unicode import UnicodeTokenizer

_FARTHEST = 64
"""Maximum number of characters between two words; it bounds the search for a word that is missing."""


class Link(NamedTuple):
    """Start and end of a word in the translation, and of its source word."""

    start: int
    end: int
    source_start: int
    source_end: int


def word_links(
    source: str,
    translation: str,
    source_words: Sequence[str],
    target_words: Sequence[str],
    origins: Sequence[int | None],
) -> list[Link]:
    """Build links; `origins` holds the index of the source word of each target word, or None.

    >>> word_links("a white cat", "chat", ["a", "white", "cat"], ["chat"], [2])
    [Link(start=0, end=4, source_start=8, source_end=11)]
    """
    places = _places(source_words, source)
    return [
        Link(start, end, *places[origin])
        for (start, end), origin in zip(_places(target_words, translation), origins, strict=True)
        if origin is not None and start < end
    ]


def even_links(source: str, translation: str) -> list[Link]:
    """Links without attention: each word is linked to the word at the same relative position.

    >>> [(link.start, link.source_start) for link in even_links("one two", "un deux")]
    [(0, 0), (3, 4)]
    """
    tokenizer = UnicodeTokenizer()
    places = _places(tokenizer.tokenize(source), source)
    starts = [start for start, _ in places]
    size = max(1, len(translation))
    links = []
    for start, end in _places(tokenizer.tokenize(translation), translation):
        at = bisect_right(starts, (start + end) * len(source) // (2 * size)) - 1
        if start < end and at >= 0:
            links.append(Link(start, end, *places[at]))
    return links


def _places(words: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Start and end of each word, in order; an empty range for a word that is not found."""
    lowered = _lowered(text)
    places, reached = [], 0
    for word in words:
        start = lowered.find(_lowered(word), reached, reached + len(word) + _FARTHEST) if word else -1
        if start < 0:
            while reached < len(text) and text[reached].isspace():
                reached += 1
            places.append((reached, reached))
        else:
            reached = start + len(word)
            places.append((start, reached))
    return places


def _lowered(text: str) -> str:
    """Lower case with unchanged length: letters whose lower case is longer stay as they are."""
    return "".join(lower if len(lower := letter.lower()) == 1 else letter for letter in text)
