"""Extract the sentences of an HTML page, and put their translations back between the same tags.

A page is split into tokens, tags and texts; joined together they are the page again, byte for byte.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from itertools import takewhile
from typing import Any, NamedTuple

from throughtime.text.html_tags import Link, Token, TokenKind, build_tree, even_links, insert_tags

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q s samp script "
    "small span strike strong style sub sup time tt u var".split()
)
"""Elements that can be part of a sentence or are invisible in it; all others separate sentences."""
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
INLINE_VOID = frozenset({"embed", "img", "input", "wbr"})
RAW = frozenset("iframe noembed noframes script style textarea title xmp".split())
"""Elements whose content is raw text, up to their own end tag."""
UNTOUCHED = RAW - {"title"} | {"code", "pre"}
"""Elements that are not translated."""
_BLOCKS = (
    "address article aside blockquote div dl fieldset footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p "
    "pre section table ul"
)
_CELLS, _TERMS = "td th tr", "dt dd"
ENDED_BY = {
    name: frozenset(starts.split())
    for name, starts in {
        "p": _BLOCKS, "li": "li", "dt": _TERMS, "dd": _TERMS, "td": _CELLS, "th": _CELLS, "tr": "tr",
        "option": "option optgroup",
    }.items()
}  # fmt: skip
"""Elements whose end tag may be left out, with the start tags that end them."""

UNFINISHED = 20
"""How often parsing continues after unterminated markup before the rest is taken as text; bounds the time."""
_TITLE_END = re.compile(r"</title[\t\n\f\r ]*>", re.IGNORECASE | re.ASCII)
_DECIMAL = re.compile(r"&#0*+([0-9]*+);?")
_MAX_ENTITY = 34
_CHARACTER = re.compile(r"&#?\w+;?|.", re.DOTALL)


class Segment:
    """A text between two tags that separate sentences, with the inline tags in it."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        decoded = [decode_entities(token.source) for token in tokens if token.kind is TokenKind.TEXT]
        self._root, self.text = build_tree(tokens, decoded)

    @property
    def has_tags(self) -> bool:
        """Whether it has inline tags, which are placed by links."""
        return bool(self._root.children)

    def render_translation(self, translation: str, links: Sequence[Link] = ()) -> str:
        """The translation as HTML, with the segment's tags.

        Without links, each tag goes around the words at the same relative position.
        """
        if not self.has_tags:
            return html.escape(translation, quote=False)
        return insert_tags(self._root, self.text, translation, links or even_links(self.text, translation))


class HtmlPage:
    """A piece of HTML, split into segments to translate and parts that stay byte for byte the same.

    >>> page = HtmlPage('<p class="x">Hello, <b>world</b>!</p> <code>a</code>')
    >>> [segment.text for segment in page.segments]
    ['Hello, world!']
    >>> page.replace_segments([page.segments[0].render_translation("Bonjour, monde !")])
    '<p class="x">Bonjour, <b>monde</b> !</p> <code>a</code>'
    """

    def __init__(self, source: str) -> None:
        self.segments: list[Segment] = []
        self._parts: list[str | None] = []  # None where the next segment stands
        run: list[Token] = []
        for token in split_html(source):
            if token.kind is TokenKind.BREAK:
                self._add(run)
                run = []
                self._parts.append(token.source)
            else:
                run.append(token)
        self._add(run)

    def replace_segments(self, segments: Sequence[str]) -> str:
        """The same page with other segments, given as HTML."""
        if len(segments) != len(self.segments):
            raise ValueError(f"{len(segments)} segments for a page of {len(self.segments)}")
        rest = iter(segments)
        return "".join(next(rest) if part is None else part for part in self._parts)

    def _add(self, run: list[Token]) -> None:
        """Add the tokens between two breaks; space and tags around their words stay outside the segment."""
        decoded = [decode_entities(token.source) if token.kind is TokenKind.TEXT else "" for token in run]
        texts = [number for number, text in enumerate(decoded) if text.strip()]
        if not any(map(str.isalnum, "".join(decoded))):
            self._parts += [token.source for token in run]
            return
        first, last = texts[0], texts[-1]
        start, end = _inner(run, first, last)
        before, after = "", ""
        inner = []
        for number, token in enumerate(run[start:end], start):
            source = token.source
            if token.kind is TokenKind.TEXT and number <= first:
                space = _space(_CHARACTER.findall(source))
                before, source = before + source[:space], source[space:]
            if token.kind is TokenKind.TEXT and number >= last:
                words = len(source) - _space(reversed(_CHARACTER.findall(source)))
                after, source = source[words:] + after, source[:words]
            inner.append(token._replace(source=source))
        self.segments.append(Segment(inner))
        outside = [[token.source for token in tokens] for tokens in (run[:start], run[end:])]
        self._parts += [*outside[0], before, None, after, *outside[1]]


def decode_entities(source: str) -> str:
    """Text with its entities decoded, also those with very long numbers.

    >>> decode_entities("a &lt;&#0065;&nbsp;b"), decode_entities("&#" + "1" * 9000)
    ('a <A\\xa0b', '\ufffd')
    """

    def short(match: re.Match[str]) -> str:
        digits = match[1]
        if len(match[0]) <= _MAX_ENTITY:
            return match[0]
        return f"&#{digits};" if 0 < len(digits) < 8 else "\N{REPLACEMENT CHARACTER}"

    return html.unescape(_DECIMAL.sub(short, source))


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
        if token.kind is TokenKind.START:
            stack.append(number)
            open_names[token.name] += 1
        elif token.kind is TokenKind.END and open_names[token.name]:
            opening = -1
            while opening < 0 or run[opening].name != token.name:
                opening = stack.pop()
                open_names[run[opening].name] -= 1
            partners[opening], partners[number] = number, opening
    return partners


def _space(characters: Iterable[str]) -> int:
    """The length of the space that these characters begin with, including entities for spaces."""
    return sum(map(len, takewhile(lambda one: decode_entities(one).isspace(), characters)))


class _Open(NamedTuple):
    """An element that has not ended yet: its name, and the number of its start tag among the tokens."""

    name: str
    start: int
    untouched: bool  # raw text, or by its attribute translate="no"


class _Parser(HTMLParser):
    """Collects the tokens of a page; each ends where the next one starts.

    An element that is not translated becomes one token when it ends. If it has translate="no" and no end tag,
    it ends where the element around it ends, or at a start tag that implies its end.
    """

    def __init__(self, titles_end: int) -> None:
        super().__init__(convert_charrefs=False)
        self.start, self.titles_end = 0, titles_end
        self.tokens: list[tuple[int, TokenKind, str]] = []  # position, kind and name
        self.stack: list[_Open] = []
        self.names: Counter[str] = Counter()  # of the elements on the stack

    @property
    def place(self) -> int:
        """The position of the parser in the page, which is given to it as one line from `start` on."""
        return self.start + self.getpos()[1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A start tag; of several attributes with the same name the first counts."""
        if tag in VOID:
            self.handle_startendtag(tag, attrs)
            return
        translate = next((value or "" for name, value in attrs if name == "translate"), "")
        self._add(TokenKind.START if tag in INLINE else TokenKind.BREAK, tag)
        untouched = translate.strip().lower() == "no" or tag in RAW - {"title"}
        self.stack.append(_Open(tag, len(self.tokens) - 1, untouched))
        self.names[tag] += 1
        if tag in RAW:
            self.set_cdata_mode(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag without an end tag."""
        self._add(TokenKind.ATOM if tag in INLINE or tag in INLINE_VOID else TokenKind.BREAK, tag)

    def handle_endtag(self, tag: str) -> None:
        """An end tag; a void element has none."""
        if tag in VOID:
            self.handle_startendtag(tag, [])
            return
        if self.names[tag]:
            while self.stack[-1].name != tag:
                self.end_element()
            if self.end_element(own_tag=True):
                return
        self.tokens.append((self.place, TokenKind.END if tag in INLINE else TokenKind.BREAK, tag))

    def end_element(self, own_tag: bool = False) -> bool:
        """End the innermost element; return whether it is not translated, and therefore one token now."""
        name, start, untouched = self.stack.pop()
        self.names[name] -= 1
        joined = untouched or (own_tag and name in UNTOUCHED)
        if joined:
            kind = TokenKind.ATOM if name in INLINE else TokenKind.BREAK
            self.tokens[start:] = [(self.tokens[start][0], kind, name)]
        return joined

    def handle_data(self, data: str) -> None:
        """A text."""
        if not self.tokens or self.tokens[-1][1] is not TokenKind.TEXT:
            self._add(TokenKind.TEXT)

    def handle_comment(self, data: str) -> None:
        """A comment or an instruction."""
        self._add(TokenKind.ATOM)

    handle_pi = handle_comment

    def handle_decl(self, decl: str) -> None:
        """A declaration."""
        self._add(TokenKind.ATOM)

    def set_cdata_mode(self, elem: str, **options: Any) -> None:
        """Read raw text: in the same elements by all releases of Python, and no title that never ends."""
        if elem in RAW and (elem != "title" or self.place < self.titles_end):
            super().set_cdata_mode(elem)

    def _add(self, kind: TokenKind, name: str = "") -> None:
        if name and self.stack and name in ENDED_BY.get(self.stack[-1].name, ()):
            self.end_element()
        self.tokens.append((self.place, kind, name))


def split_html(source: str) -> list[Token]:
    """The tokens of a page. An element that is not translated is one token, including its content.

    The parser reads a copy in which every character keeps its position, without entities and in one line. The
    copy has neither markup that releases of Python treat in different ways (<![x) nor markup that the parser
    drops (</>). The parser stops at unterminated markup.

    >>> [(token.kind.value, token.source) for token in split_html('<p>a <b title="x > y">c</b><br>')]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('break', '<p>'), ('text', 'a '), ('start', '<b title="x > y">'), ('text', 'c'), ('end', '</b>'),
     ('break', '<br>')]
    """
    copy = source.translate({ord("&"): "_", ord("\n"): " "}).replace("<![", "<!_").replace("</>", "<!>")
    parser = _Parser(max((match.start() for match in _TITLE_END.finditer(source)), default=0))
    for _ in range(UNFINISHED):
        parser.feed(copy[parser.start :])
        if parser.place == len(source):
            break
        if parser.cdata_elem or copy.startswith("<!--", parser.place):
            parser.handle_comment("")  # raw text or a comment: it extends to the end of the page
            break
        parser.handle_data("<")
        parser.start = parser.place + 1
        parser.reset()
    while parser.stack:
        parser.end_element()
    ends = [*(start for start, _, _ in parser.tokens[1:]), len(source)]
    return [
        Token(kind, source[start:end], name)
        for (start, kind, name), end in zip(parser.tokens, ends, strict=False)
    ]
