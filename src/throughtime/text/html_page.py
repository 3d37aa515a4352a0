"""Extract the sentences of an HTML page, and put their translations back between the same tags."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence

from throughtime.text.html_links import Link, even_links
from throughtime.text.html_tokens import Kind, Token, tokens_of
from throughtime.text.html_tree import tree_of, with_tags

_DECIMAL = re.compile(r"&#0*+([0-9]*+);?")
_LONGEST_ENTITY = 34


class Segment:
    """A text between two tags that separate sentences, with the inline tags in it."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        decoded = [decoded_text(token.source) for token in tokens if token.kind is Kind.TEXT]
        self._root, self.text = tree_of(tokens, decoded)

    @property
    def has_tags(self) -> bool:
        """Whether it has inline tags, which are placed by links."""
        return bool(self._root.children)

    def translated(self, translation: str, links: Sequence[Link] = ()) -> str:
        """The translation as HTML, with the segment's tags.

        Without links, each tag goes around the words at the same relative position.
        """
        if not self.has_tags:
            return html.escape(translation, quote=False)
        return with_tags(self._root, self.text, translation, links or even_links(self.text, translation))


class HtmlPage:
    """A piece of HTML, split into segments to translate and parts that stay byte for byte the same.

    >>> page = HtmlPage('<p class="x">Hello, <b>world</b>!</p> <code>a</code>')
    >>> [segment.text for segment in page.segments]
    ['Hello, world!']
    >>> page.with_segments([page.segments[0].translated("Bonjour, monde !")])
    '<p class="x">Bonjour, <b>monde</b> !</p> <code>a</code>'
    """

    def __init__(self, source: str) -> None:
        self.segments: list[Segment] = []
        self._parts: list[str | None] = []  # None where the next segment stands
        run: list[Token] = []
        for token in tokens_of(source):
            if token.kind is Kind.BREAK:
                self._add(run)
                run = []
                self._parts.append(token.source)
            else:
                run.append(token)
        self._add(run)

    def with_segments(self, segments: Sequence[str]) -> str:
        """The same page with other segments, given as HTML."""
        if len(segments) != len(self.segments):
            raise ValueError(f"{len(segments)} segments for a page of {len(self.segments)}")
        rest = iter(segments)
        return "".join(next(rest) if part is None else part for part in self._parts)

    def _add(self, run: list[Token]) -> None:
        """Add the tokens between two breaks; space and tags around their words stay outside the segment."""
        texts = [number for number, token in enumerate(run) if _has_text(token)]
        if not any(map(str.isalnum, "".join(decoded_text(run[number].source) for number in texts))):
            self._parts += [token.source for token in run]
            return
        first, last = texts[0], texts[-1]
        start, end = _inner(run, first, last)
        before, after = "", ""
        inner = []
        for number, token in enumerate(run[start:end], start):
            source = token.source
            if token.kind is Kind.TEXT and number <= first:
                space = _space_before(source)
                before, source = before + source[:space], source[space:]
            if token.kind is Kind.TEXT and number >= last:
                space = _space_after(source)
                after, source = source[space:] + after, source[:space]
            inner.append(token._replace(source=source))
        segment = Segment(inner)
        self.segments.append(segment)
        self._parts += [token.source for token in run[:start]]
        self._parts += [before, None, after]
        self._parts += [token.source for token in run[end:]]


def decoded_text(source: str) -> str:
    """Text with its entities decoded, also those with very long numbers.

    >>> decoded_text("a &lt;&#0065;&nbsp;b"), decoded_text("&#" + "1" * 9000)
    ('a <A\\xa0b', '\ufffd')
    """

    def short(found: re.Match[str]) -> str:
        digits = found[1]
        if len(found[0]) <= _LONGEST_ENTITY:
            return found[0]
        return f"&#{digits};" if 0 < len(digits) < 8 else "\N{REPLACEMENT CHARACTER}"

    return html.unescape(_DECIMAL.sub(short, source))


def _has_text(token: Token) -> bool:
    return token.kind is Kind.TEXT and not decoded_text(token.source).isspace()


def _inner(run: Sequence[Token], first: int, last: int) -> tuple[int, int]:
    """Start and end of the tokens that hold words and the tags among them, without tags around all words."""
    partners = _partners(run)
    start = 0
    while start < first and not first < partners[start] < last:
        start += 1
    end = len(run)
    while end - 1 > last and not start <= partners[end - 1] < last:
        end -= 1
    return start, end


def _partners(run: Sequence[Token]) -> list[int]:
    """For each tag the index of its matching end or start tag; its own index if there is none."""
    partners = list(range(len(run)))
    stack: list[int] = []
    open_names = Counter[str]()
    for number, token in enumerate(run):
        if token.kind is Kind.START:
            stack.append(number)
            open_names[token.name] += 1
        elif token.kind is Kind.END and open_names[token.name]:
            while True:
                begun = stack.pop()
                open_names[run[begun].name] -= 1
                if run[begun].name == token.name:
                    break
            partners[begun], partners[number] = number, begun
    return partners


def _space_before(source: str) -> int:
    """The length of the space before the first word, including entities for spaces."""
    place = 0
    while place < len(source):
        end = place + 1
        if source[place] == "&":
            end = source.find(";", place, place + _LONGEST_ENTITY) + 1
        if end == 0 or not html.unescape(source[place:end]).isspace():
            break
        place = end
    return place


def _space_after(source: str) -> int:
    """Where the space after the last word begins."""
    place = len(source)
    while place > 0:
        start = place - 1
        if source[start] == ";":
            start = source.rfind("&", max(0, place - _LONGEST_ENTITY), place)
        if start < 0 or not html.unescape(source[start:place]).isspace():
            break
        place = start
    return place
