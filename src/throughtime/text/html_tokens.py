"""HTML cut into tags and texts, so that the tokens put together are the source again, byte for byte.

The rules are those of the HTML standard's tokenizer. The standard library's `html.parser` does not serve: it
needs quadratic time for tags that never end, and what it does with broken HTML changes between releases.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q s samp script "
    "small span strike strong style sub sup time tt u var".split()
)
"""Elements that stand inside a sentence, or cannot be seen there; all others separate sentences."""
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
INLINE_VOID = frozenset({"embed", "img", "input", "wbr"})
RAW = frozenset("iframe noembed noframes script style textarea title xmp".split())
"""Elements in which nothing is a tag but their own end tag."""
UNTOUCHED = RAW - {"title"} | {"code", "pre"}
"""Elements of which nothing is translated."""
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

# Possessive, so that nothing is ever read twice. A quote that is never closed is a letter like any other.
_ATTRIBUTE = (
    r"[^\t\n\f\r />][^\t\n\f\r />=]*+"
    r"""(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]*+))?+"""
)
_TAG = re.compile(rf"<(/?)([a-zA-Z][^\t\n\f\r />]*+)((?:[\t\n\f\r /]++|{_ATTRIBUTE})*+)>")
_ONE_ATTRIBUTE = re.compile(_ATTRIBUTE)
_VALUE = re.compile(r"""[\t\n\f\r ]*=[\t\n\f\r ]*["']?([^"']*)""")
_TAG_BEGINS = re.compile(r"</?[a-zA-Z]")
_COMMENT_END = re.compile(r"--!?>")


class Kind(Enum):
    """What a token is to the sentence that it stands in."""

    TEXT = "text"
    START = "start"  # of an inline element
    END = "end"
    ATOM = "atom"  # stays as it is, inside a sentence: an image, a comment, code
    BREAK = "break"  # stays as it is, and separates sentences


class Token(NamedTuple):
    """A piece of the source; `name` is the tag's in small letters."""

    kind: Kind
    source: str
    name: str = ""


class _Piece(NamedTuple):
    """A token before it is known which elements are left untouched."""

    kind: Kind  # START and END also for elements that separate sentences
    source: str
    name: str = ""
    untouched: bool = False  # by its attribute translate="no"


def tokens_of(source: str) -> list[Token]:
    """The tokens of a page. Elements that are not translated are one token each, with all they enclose.

    >>> [(token.kind.value, token.source) for token in tokens_of('<p>a <b title="x > y">c</b><br>')]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('break', '<p>'), ('text', 'a '), ('start', '<b title="x > y">'), ('text', 'c'), ('end', '</b>'),
     ('break', '<br>')]
    """
    pieces = list(_Scanner(source).pieces())
    ends = _ends(pieces)
    tokens: list[Token] = []
    place = 0
    while place < len(pieces):
        piece = pieces[place]
        end = ends[place]
        if end > place and (piece.untouched or piece.name in UNTOUCHED):
            whole = "".join(one.source for one in pieces[place:end])
            tokens.append(Token(Kind.ATOM if piece.name in INLINE else Kind.BREAK, whole, piece.name))
            place = end
            continue
        kind = piece.kind
        if kind in (Kind.START, Kind.END) and piece.name not in INLINE:
            kind = Kind.BREAK
        tokens.append(Token(kind, piece.source, piece.name))
        place += 1
    return tokens


class _Scanner:
    """Cuts a source into pieces, in one pass.

    What never ends is looked for once: `>` and `]]>` are known to be absent after their last places.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.last_end, self.last_section_end = source.rfind(">"), source.rfind("]]>")

    def pieces(self) -> Iterator[_Piece]:
        """Tags, texts between them, and elements of raw text as a whole."""
        source = self.source
        begun = place = 0
        title_ends = True
        while (at := source.find("<", place)) >= 0:
            found = self._markup(at)
            if found is None:
                if at < self.last_end and _TAG_BEGINS.match(source, at):
                    break  # a tag that reaches the end of the page without a `>`: all of it is text
                place = at + 1
                continue
            if begun < at:
                yield _Piece(Kind.TEXT, source[begun:at])
            if found.kind is Kind.START and found.name in RAW - {"title"}:
                found = self._raw(found, at)
            yield found
            begun = place = at + len(found.source)
            if found.name == "title" and found.kind is Kind.START and title_ends:
                closing = _closing("title").search(source, place)
                title_ends = closing is not None
                place = place if closing is None else closing.start()
        if begun < len(source):
            yield _Piece(Kind.TEXT, source[begun:])

    def _markup(self, at: int) -> _Piece | None:
        """The tag, comment or declaration that begins here; None where this is text."""
        source = self.source
        if source.startswith("<!--", at):
            return self._comment(at)
        if at > self.last_end:
            return None
        following = source[at + 1]
        if following == "!" and source.startswith("<![CDATA[", at) and at < self.last_section_end:
            return self._until("]]>", at)
        if following in "!?" or (following == "/" and not _TAG_BEGINS.match(source, at)):
            return self._until(">", at)
        found = _TAG.match(source, at)
        return None if found is None else _tag(found[0], found[1], found[2].lower(), found[3])

    def _comment(self, at: int) -> _Piece:
        for short in ("<!-->", "<!--->"):
            if self.source.startswith(short, at):
                return _Piece(Kind.ATOM, short)
        end = _COMMENT_END.search(self.source, at + 4)
        return _Piece(Kind.ATOM, self.source[at : None if end is None else end.end()])

    def _until(self, mark: str, at: int) -> _Piece:
        return _Piece(Kind.ATOM, self.source[at : self.source.index(mark, at) + len(mark)])

    def _raw(self, start: _Piece, at: int) -> _Piece:
        """An element of raw text with its end tag; one that has none reaches the end of the page."""
        closing = _closing(start.name).search(self.source, at + len(start.source))
        tag = None if closing is None else _TAG.match(self.source, closing.start())
        kind = Kind.ATOM if start.name in INLINE else Kind.BREAK
        return _Piece(kind, self.source[at : None if tag is None else tag.end()], start.name)


def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE | re.ASCII)


def _tag(source: str, slash: str, name: str, attributes: str) -> _Piece:
    if name in VOID:
        return _Piece(Kind.ATOM if name in INLINE_VOID else Kind.BREAK, source, name)
    if slash:
        return _Piece(Kind.END, source, name)
    if attributes.endswith("/") and not _ends_in_value(attributes):
        return _Piece(Kind.ATOM if name in INLINE else Kind.BREAK, source, name)
    return _Piece(Kind.START, source, name, "translate" in attributes.lower() and _is_untouched(attributes))


def _is_untouched(attributes: str) -> bool:
    """Whether the first attribute of the name says translate="no"."""
    for found in _ONE_ATTRIBUTE.finditer(attributes):
        name, _, _ = found[0].partition("=")
        if name.strip().lower() == "translate":
            value = _VALUE.match(found[0], len(name.rstrip()))
            return value is not None and value[1].strip().lower() == "no"
    return False


def _ends_in_value(attributes: str) -> bool:
    """Whether a slash at the end belongs to the value of an attribute, as in <a href=x/>."""
    last = 0
    for found in _ONE_ATTRIBUTE.finditer(attributes):
        last = found.end()
    return last == len(attributes)


def _ends(pieces: list[_Piece]) -> list[int]:
    """For each start tag the place after its element; the place itself for all else and for what never ends.

    An element that the end of one around it ends, or a start tag after it, ends there where it says
    translate="no"; else only its own end tag ends it.
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
