"""Translations of HTML pages: the tags of a sentence go around the words that attended to theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from throughtime.interrupt import check_interrupt
from throughtime.text.codec import END
from throughtime.text.html_page import HtmlPage
from throughtime.text.html_tags import Link, word_links
from throughtime.text.parallel import join_ranks
from throughtime.text.texts import join_texts

if TYPE_CHECKING:
    from throughtime.results import Translation
    from throughtime.tasks.translate.translation import SentenceTranslator

LINKED_AT_ONCE = 8
"""Number of sentences whose attention is kept at the same time."""


class LinkedText(NamedTuple):
    """A translation, with links to its source words if the model has attention."""

    text: str
    links: Sequence[Link] = ()


Translate = Callable[[Sequence[str], bool], Awaitable[list[list[LinkedText]]]]
"""Returns the translations of each text, best first; with links if the second argument is true."""
RunAside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread; see `Service.run_aside`."""


async def translate_pages(
    pages: Sequence[str], translate: Translate, run_aside: RunAside = asyncio.to_thread
) -> list[list[str]]:
    """Return the translations of each page: as many as its sentence with the most alternatives has."""
    parsed = await run_aside(lambda: [HtmlPage(page) for page in pages])
    segments = [segment for page in parsed for segment in page.segments]
    translations: dict[int, list[LinkedText]] = {}
    for linked in (False, True):
        numbers = [number for number, segment in enumerate(segments) if segment.has_tags == linked]
        translated = await translate([segments[number].text for number in numbers], linked)
        translations.update(zip(numbers, translated, strict=True))
    whole: list[list[str]] = await run_aside(partial(_whole_pages, parsed, translations))
    return whole


def _whole_pages(parsed: Sequence[HtmlPage], translations: Mapping[int, list[LinkedText]]) -> list[list[str]]:
    rest = iter(range(len(translations)))
    whole = []
    for page in parsed:
        pairs = [(segment, translations[next(rest)]) for segment in page.segments]
        ranks = max((len(own) for _, own in pairs), default=1)
        # A sentence with fewer alternatives uses its last.
        versions = [[(one, own[min(rank, len(own) - 1)]) for one, own in pairs] for rank in range(ranks)]
        check_interrupt()
        rendered = ([one.render_translation(*best) for one, best in version] for version in versions)
        whole.append([page.replace_segments(segments) for segments in rendered])
    return whole


class Aligned(NamedTuple):
    """A translation of a part of a text, with the index of the source word of each of its words."""

    text: str
    source: Sequence[str] = ()
    target: Sequence[str] = ()
    origins: Sequence[int | None] = ()

    @classmethod
    def by_attention(cls, translation: Translation) -> Aligned:
        """Choose the source word with the most attention; there are no words without attention."""
        alignment = translation.alignment
        if alignment is None:
            return cls(translation.text)
        words = [number for number, word in enumerate(alignment.source) if word != END]
        origins: list[int | None] = []
        for target, row in zip(alignment.target, alignment.weights, strict=True):
            if target == END or not words:
                origins.append(None)
                continue
            best = row.index(max(row))
            origins.append(best if alignment.source[best] != END else max(words, key=row.__getitem__))
        return cls(translation.text, alignment.source, alignment.target, origins)


def translate_linked(
    translator: SentenceTranslator, texts: Sequence[str], search: Callable[[list[str]], list[Translation]]
) -> list[list[LinkedText]]:
    """Return the translations of each text with their links, best first.

    A few parts of the texts are translated at once, as attention takes memory for each pair of their words.
    """
    split = [translator.codecs.split(text, translator.generation.max_source_tokens) for text in texts]
    parts = [part for own in split for part in own]
    found: list[list[Aligned]] = []
    for start in range(0, len(parts), LINKED_AT_ONCE):
        results = search(parts[start : start + LINKED_AT_ONCE])
        found += [[Aligned.by_attention(one) for one in (best, *best.alternatives)] for best in results]
    rest = iter(found)
    return [
        [link_parts(text, aligned) for aligned in join_ranks([next(rest) for _ in own])]
        for text, own in zip(texts, split, strict=True)
    ]


def link_parts(source: str, parts: Sequence[Aligned]) -> LinkedText:
    """Join the translations of the parts of a text, and link their words to those of the text."""
    words: list[str] = []
    origins: list[int | None] = []
    for part in parts:
        origins += [None if number is None else len(words) + number for number in part.origins]
        words += part.source
    text = join_texts([part.text for part in parts])
    return LinkedText(
        text, word_links(source, text, words, [word for part in parts for word in part.target], origins)
    )
