"""Translate HTML pages: the sentences of each page, with their tags and alternatives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from throughtime.text.codec import END
from throughtime.text.html_page import HtmlPage
from throughtime.text.html_tags import Link, word_links

if TYPE_CHECKING:
    from throughtime.tasks.translate.predictor import Translation


class Written(NamedTuple):
    """A translation, with links to its source words if the model has attention."""

    text: str
    links: Sequence[Link] = ()


Write = Callable[[Sequence[str], bool], Awaitable[list[list[Written]]]]
"""Returns the translations of each text, best first; with links if the second argument is true."""


async def translated_pages(pages: Sequence[str], write: Write) -> list[list[str]]:
    """The translation of each page and its alternatives: as many as the sentence with the most has."""
    opened = [HtmlPage(page) for page in pages]
    segments = [segment for page in opened for segment in page.segments]
    found: dict[int, list[Written]] = {}
    for linked in (False, True):
        numbers = [number for number, segment in enumerate(segments) if segment.has_tags == linked]
        told = await write([segments[number].text for number in numbers], linked)
        found.update(zip(numbers, told, strict=True))
    rest = iter(range(len(segments)))
    whole = []
    for page in opened:
        own = [found[next(rest)] for _ in page.segments]
        ranks = max(map(len, own), default=1)
        whole.append([_with_rank(page, own, rank) for rank in range(ranks)])
    return whole


def links_of(source: str, translation: Translation) -> list[Link]:
    """Link each target word to the source word with the most attention; empty without attention."""
    alignment = translation.alignment
    if alignment is None:
        return []
    words = [number for number, word in enumerate(alignment.source) if word != END]
    origins: list[int | None] = []
    for target, row in zip(alignment.target, alignment.weights, strict=True):
        if target == END or not words:
            origins.append(None)
            continue
        best = row.index(max(row))
        origins.append(best if alignment.source[best] != END else max(words, key=row.__getitem__))
    return word_links(source, translation.text, alignment.source, alignment.target, origins)


def _with_rank(page: HtmlPage, found: Sequence[Sequence[Written]], rank: int) -> str:
    """The page with the translations of this rank; a sentence with fewer translations uses its last."""
    chosen = [own[min(rank, len(own) - 1)] for own in found]
    return page.with_segments(
        [segment.translated(one.text, one.links) for segment, one in zip(page.segments, chosen, strict=True)]
    )
