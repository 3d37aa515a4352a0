"""Split HTML into tags and texts; the tokens joined together are the source again, byte for byte."""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum
from html.parser import HTMLParser
from typing import Any, NamedTuple

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
ENDED_BY = {
    "p": frozenset(_BLOCKS.split()),
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "td": frozenset({"td", "th", "tr"}),
    "th": frozenset({"td", "th", "tr"}),
    "tr": frozenset({"tr"}),
    "option": frozenset({"option", "optgroup"}),
}
"""Elements whose end tag may be left out, with the start tags that end them."""

UNFINISHED = 20
"""How often parsing continues after unterminated markup before the rest is taken as text; bounds the time."""
_TITLE_END = re.compile(r"</title[\t\n\f\r ]*>", re.IGNORECASE | re.ASCII)


class Kind(Enum):
    """The role of a token in its sentence."""

    TEXT = "text"
    START = "start"  # of an inline element
    END = "end"
    ATOM = "atom"  # stays as it is, inside a sentence: an image, a comment, code
    BREAK = "break"  # stays as it is, and separates sentences


class Token(NamedTuple):
    """A piece of the source; `name` is the name of a tag in lower case."""

    kind: Kind
    source: str
    name: str = ""


class _Piece(NamedTuple):
    """A token before untouched elements are joined; it ends where the next one starts."""

    start: int
    kind: Kind  # START and END also for elements that separate sentences
    name: str = ""
    untouched: bool = False  # raw text, or by its attribute translate="no"


def tokens_of(source: str) -> list[Token]:
    """The tokens of a page. An element that is not translated is one token, including its content.

    >>> [(token.kind.value, token.source) for token in tokens_of('<p>a <b title="x > y">c</b><br>')]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('break', '<p>'), ('text', 'a '), ('start', '<b title="x > y">'), ('text', 'c'), ('end', '</b>'),
     ('break', '<br>')]
    """
    pieces = _pieces_of(source)
    ends = _ends(pieces)
    starts = [piece.start for piece in pieces] + [len(source)]
    tokens: list[Token] = []
    place = 0
    while place < len(pieces):
        _, kind, name, untouched = pieces[place]
        end = ends[place]
        if end > place and (untouched or name in UNTOUCHED):
            kind = Kind.ATOM if name in INLINE else Kind.BREAK
        else:
            end = place + 1
            if kind in (Kind.START, Kind.END) and name not in INLINE:
                kind = Kind.BREAK
        tokens.append(Token(kind, source[starts[place] : starts[end]], name))
        place = end
    return tokens


class _Parser(HTMLParser):
    """Parses a page from `start` on, and appends its pieces to `pieces`."""

    def __init__(self, pieces: list[_Piece], start: int, titles_end: int) -> None:
        super().__init__(convert_charrefs=False)
        self.pieces, self.start, self.titles_end = pieces, start, titles_end

    @property
    def place(self) -> int:
        """The position of the parser in the page, which is given to it as one line."""
        return self.start + self.getpos()[1]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A start tag; of several attributes with the same name the first counts."""
        if tag in VOID:
            self.handle_startendtag(tag, attrs)
            return
        translate = next((value or "" for name, value in attrs if name == "translate"), "")
        self._add(Kind.START, tag, translate.strip().lower() == "no" or tag in RAW - {"title"})
        if tag in RAW:
            self.set_cdata_mode(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag without an end tag."""
        self._add(Kind.ATOM if tag in INLINE or tag in INLINE_VOID else Kind.BREAK, tag)

    def handle_endtag(self, tag: str) -> None:
        """An end tag; a void element has none."""
        if tag in VOID:
            self.handle_startendtag(tag, [])
        else:
            self._add(Kind.END, tag)

    def handle_data(self, data: str) -> None:
        """A text."""
        if not self.pieces or self.pieces[-1].kind is not Kind.TEXT:
            self._add(Kind.TEXT)

    def handle_comment(self, data: str) -> None:
        """A comment or an instruction."""
        self._add(Kind.ATOM)

    handle_pi = handle_comment

    def handle_decl(self, decl: str) -> None:
        """A declaration."""
        self._add(Kind.ATOM)

    def set_cdata_mode(self, elem: str, **options: Any) -> None:
        """Read raw text: in the same elements by all releases of Python, and no title that never ends."""
        if elem in RAW and (elem != "title" or self.place < self.titles_end):
            super().set_cdata_mode(elem)

    def _add(self, kind: Kind, name: str = "", untouched: bool = False) -> None:
        self.pieces.append(_Piece(self.place, kind, name, untouched))


def _pieces_of(source: str) -> list[_Piece]:
    """Parse a copy of the page in which every character keeps its position.

    The copy has no entities and only one line. It has neither markup that releases of Python treat in
    different ways (<![x) nor markup that the parser drops (</>). The parser stops at unterminated markup.
    """
    copy = source.translate({ord("&"): "_", ord("\n"): " "}).replace("<![", "<!_").replace("</>", "<!>")
    titles_end = max((found.start() for found in _TITLE_END.finditer(source)), default=0)
    pieces: list[_Piece] = []
    start = 0
    for _ in range(UNFINISHED):
        parser = _Parser(pieces, start, titles_end)
        parser.feed(copy[start:])
        if parser.place == len(source):
            break
        if parser.cdata_elem or copy.startswith("<!--", parser.place):
            parser.handle_comment("")  # raw text or a comment: it extends to the end of the page
            break
        parser.handle_data("<")
        start = parser.place + 1
    return pieces


def _ends(pieces: list[_Piece]) -> list[int]:
    """For each start tag the index after its element; its own index for other pieces and unclosed elements.

    An element without an end tag that has translate="no" ends where the element around it ends, or at a start
    tag that implies its end.
    """
    ends = list(range(len(pieces)))
    stack: list[int] = []
    names: Counter[str] = Counter()

    def close(end: int) -> None:
        last = stack.pop()
        names[pieces[last].name] -= 1
        if pieces[last].untouched:
            ends[last] = end

    for place, piece in enumerate(pieces):
        opens = piece.name and piece.kind is not Kind.END
        if opens and stack and piece.name in ENDED_BY.get(pieces[stack[-1]].name, ()):
            close(place)
        if piece.kind is Kind.START:
            stack.append(place)
            names[piece.name] += 1
        elif piece.kind is Kind.END and names[piece.name]:
            while pieces[stack[-1]].name != piece.name:
                close(place)
            ends[stack[-1]] = place + 1
            names[piece.name] -= 1
            stack.pop()
    while stack:
        close(len(pieces))
    return ends
