"""Texts that are longer than a model can read, cut where it hurts least."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")
CUTS = (
    re.compile(r"(?<=[,;:])\s+|(?<=[，；：、])\s*"),  # after a clause
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)", re.DOTALL),  # anywhere
)
_NO_SPACE_AFTER = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]$")


def parts(text: str, limit: int, count: Callable[[str], int]) -> list[str]:
    """A text of more than `limit` tokens as its sentences; one of more than twice as many is cut further.

    A sentence is cut into parts of at most `limit` tokens: after clauses where they fit, else after words.

    >>> def words(text): return len(text.split())
    >>> parts("He ran. She sat, slept, woke. I saw it.", 4, words)
    ['He ran.', 'She sat, slept, woke.', 'I saw it.']
    >>> parts("one two three four five", 2, words)
    ['one two', 'three four', 'five']
    """
    if count(text) <= limit:
        return [text]
    found: list[str] = []
    for sentence in _pieces(text, SENTENCE):
        fits = count(sentence) <= 2 * limit
        found += [sentence.strip()] if fits else _cut(sentence, limit, count, 0)
    return found


def join(texts: Sequence[str]) -> str:
    """Translated parts as one text; Chinese and Japanese have no space between sentences.

    >>> join(["Il court.", "Elle dort."]), join(["他跑。", "她睡。"])
    ('Il court. Elle dort.', '他跑。她睡。')
    """
    whole = ""
    for text in filter(None, texts):
        whole += text if not whole or _NO_SPACE_AFTER.search(whole) else f" {text}"
    return whole


def _cut(text: str, limit: int, count: Callable[[str], int], kind: int) -> Iterator[str]:
    """Pieces of this kind of cut, put together again as long as they fit."""
    held: list[str] = []
    size = 0
    for piece in _pieces(text, CUTS[kind]):
        length = count(piece)
        if size + length > limit and held:
            yield "".join(held).strip()
            held, size = [], 0
        if length > limit and kind + 1 < len(CUTS):
            yield from _cut(piece, limit, count, kind + 1)
        else:
            held.append(piece)
            size += length
    if held:
        yield "".join(held).strip()


def _pieces(text: str, cut: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for end in [*(found.end() for found in cut.finditer(text)), len(text)]:
        if text[start:end].strip():
            yield text[start:end]
            start = end
