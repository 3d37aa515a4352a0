"""A tokenizer for any script, with rules for the spaces between tokens.

Each character has a class, written as one letter, so that one pattern over the string of classes splits any
text. Tokens contain no spaces; `_gap` restores them by rule. A text and its round trip differ in spaces only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, ClassVar

from throughtime.text.tokenizer import Tokenizer

# The classes: w letter, d digit, m mark, i ideograph, kana or full-width mark, e emoji, k skin tone,
# r half of a flag, z joiner, a apostrophe, h hyphen, n dot, g comma or colon, o opening mark,
# c closing mark, b mark between words without spaces, p all other marks, s space.
_BY_CHARACTER = {
    **dict.fromkeys("'’", "a"),
    **dict.fromkeys("-\u2010\u2011", "h"),
    ".": "n",
    **dict.fromkeys(",:", "g"),
    **dict.fromkeys(";!?…%‰", "c"),
    **dict.fromkeys("¿¡", "o"),
    **dict.fromkeys("/@", "b"),
    "_": "w",
    "\u200d": "z",
}
_BY_RANGE: tuple[tuple[str, str, str], ...] = tuple(
    (chr(int(first, 16)), chr(int(last, 16)), found)
    for first, last, found in re.findall(
        r"(\w+)-(\w+) (\w)",
        "2600-27bf e, 2b00-2bff e, 2e80-2fff i, 3001-30ff i, 3100-312f i, 31a0-4dbf i, 4e00-9fff i, "
        "f900-faff i, fe30-fe4f i, ff01-ff0f i, ff1a-ff20 i, ff3b-ff40 i, ff5b-ff9f i, 1f1e6-1f1ff r, "
        "1f3fb-1f3ff k, 1f000-1faff e, 1b000-1b16f i, 20000-323af i",
    )
)
_BY_CATEGORY = {"L": "w", "M": "m", "N": "d", "Cf": "m", "Ps": "o", "Pi": "o", "Pe": "c", "Pf": "c"}


class _Classes(dict[int, str]):
    """The class of each code point, computed on first use."""

    def __missing__(self, code: int) -> str:
        self[code] = kind = find_class(chr(code))
        return kind


def find_class(character: str) -> str:
    """Return the letter of a character's class."""
    if character.isspace():
        return "s"
    if character in _BY_CHARACTER:
        return _BY_CHARACTER[character]
    category = unicodedata.category(character)
    if category[0] == "M":
        return "m"
    for first, last, kind in _BY_RANGE:
        if first <= character <= last:
            return kind
    return _BY_CATEGORY.get(category, _BY_CATEGORY.get(category[0], "p"))


_CLASSES = _Classes()

_TOKEN = re.compile(
    # A word or number, with a sign if no word precedes it, and with hyphens, apostrophes and dots between
    # letters or a comma or colon between digits.
    r"(?:(?<![^so])h(?=d))?[wd][wdmz]*(?:(?:[ahn]|(?<=d)g(?=d))[wd][wdmz]*)*"
    # An emoji with its skin tones, variation selectors and joined emoji; a flag.
    r"|[ek][mkz]*(?:(?<=z)[ek][mkz]*)*|rr?[mz]*"
    # Combining marks without a letter; any other character with its combining marks.
    r"|[mz]+|[^s][mz]*"
)

# French words that lose their last vowel before another word: l'homme is l' and homme.
_ELIDED = re.compile(r"(?:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)['’](?=[^\W\d_])", re.IGNORECASE)

_TAKES_NUMBER = frozenset("$£¥")
_NARROW = "\u202f"  # the narrow no-break space of French typography


class UnicodeTokenizer(Tokenizer):
    """Splits text of any script into words, single ideographs and kana, marks and emoji.

    Hyphens, apostrophes and dots inside a word belong to it; French elisions are tokens (l' homme). With
    `french=True`, detokenizing writes narrow spaces before ! ? ; : » and after «, as French does.

    >>> tokenizer = UnicodeTokenizer()
    >>> tokenizer.tokenize("I don't know. 我不知道。")
    ['I', "don't", 'know', '.', '我', '不', '知', '道', '。']
    >>> tokenizer.detokenize(["“", "Stop", ",", "”", "he", "said", "(", "twice", ")", "."])
    '“Stop,” he said (twice).'
    """

    name: ClassVar[str] = "unicode"

    def __init__(self, lower: bool = False, french: bool = False) -> None:
        self.lower, self.french = lower, french

    def tokenize(self, text: str) -> list[str]:
        """Split the text, in composed form, into words, ideographs, marks and emoji."""
        text = unicodedata.normalize("NFC", text.lower() if self.lower else text)
        tokens: list[str] = []
        for match in _TOKEN.finditer(text.translate(_CLASSES)):
            token = text[match.start() : match.end()]
            if len(token) > 2 and ("'" in token or "’" in token):
                while elided := _ELIDED.match(token):
                    tokens.append(elided[0])
                    token = token[elided.end() :]
            tokens.append(token)
        return tokens

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Join the tokens with the spaces that a reader expects."""
        parts: list[str] = []
        quotes = _Quotes(tokens)
        previous: _Piece | None = None
        for token in tokens:
            if not token:
                continue
            piece = _Piece(token, quotes)
            if previous is not None:
                parts.append(_gap(previous, piece, self.french))
            parts.append(token)
            previous = piece
        return "".join(parts)

    def options(self) -> dict[str, Any]:
        """Return whether letters become lower case and whether spaces follow French rules."""
        return {"lower": self.lower, "french": self.french}


class _Quotes:
    """Remembers which quotation marks are open, since the same mark may open and close."""

    def __init__(self, tokens: Sequence[str]) -> None:
        # A single ' after an s is the genitive of "my parents' house", not a quotation mark.
        alone = tokens.index("'") if tokens.count("'") == 1 else 0
        self._open = {"'"} if alone and tokens[alone - 1].endswith("s") else set()

    def closes(self, token: str) -> bool | None:
        """Whether this mark closes a quotation; None for other tokens."""
        if token == "„":
            self._open.add("“")
            return False
        if token == "“":
            closes = token in self._open
            self._open.discard(token)
            return closes
        if token in {'"', "'"}:
            self._open ^= {token}
            return token not in self._open
        return None


class _Piece:
    """A token as `_gap` sees it."""

    __slots__ = ("closes", "first", "last", "opens", "token")

    def __init__(self, token: str, quotes: _Quotes) -> None:
        classes = token.translate(_CLASSES)
        self.token, self.first, self.last = token, classes[0], classes[-1]
        closing = quotes.closes(token)
        is_mark = "w" not in classes and "d" not in classes
        self.closes = closing is True or (closing is None and is_mark and self.first in "acgn")
        elided = self.first == "w" and self.last == "a"
        self.opens = closing is False or (closing is None and self.first == "o") or elided


def _gap(left: _Piece, right: _Piece, french: bool) -> str:
    """Return what to write between two tokens; "" only if splitting the text gives the same tokens again."""
    if right.first in "mzk" or (left.first == right.first == "r"):
        return " "
    if right.first == "h" and len(right.token) > 1:  # a number with its sign
        return "" if left.last == "o" else " "
    if left.first == "i" or right.first == "i":
        return ""
    if french and (right.token in {"!", "?", ";", ":", "»", "%"} or left.token == "«"):
        return "" if {left.token, right.token} <= {"!", "?"} else _NARROW
    if right.closes or left.opens or left.first == "b" or right.first == "b":
        return ""
    if left.token == right.token and len(left.token) == 1 and left.first in "ehp" and not left.closes:
        return ""
    if (left.token in _TAKES_NUMBER and right.first == "d") or (left.token == "#" and right.first in "wd"):
        return ""
    return " "
