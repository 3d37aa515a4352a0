"""Checks of texts, splitting of long texts, formatting of lines and numbers, and the scripts of letters."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from throughtime.errors import InputError

MAX_NUMBER = 1e18
"""The largest number that data may hold: its square is still a float32, as are sums of many of them."""
SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")
CUTS = (
    re.compile(r"(?<=[,;:])\s+|(?<=[，；：、])\s*"),  # after a clause
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)", re.DOTALL),  # anywhere
)
_NO_SPACE_AFTER = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]$")

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def check_texts(texts: str | Iterable[str], where: str = "texts") -> list[str]:
    """Return texts as a list, a single text as a list of one; raise for anything that is not text.

    >>> check_texts("the cat")
    ['the cat']
    """
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Iterable):
        raise InputError(where, f"is of type {type(texts).__name__}; give a text or a list of texts")
    return [check_text(text, f"{where}[{number}]") for number, text in enumerate(texts)]


def check_sentences(sentences: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Check that sentences are lists of words; the letters of a text would be taken for its words.

    >>> check_sentences([["the", "cat"], "the dog"])
    Traceback (most recent call last):
    throughtime.errors.InputError: sentences[1]: is one text; give a list of its words
    """
    if isinstance(sentences, str):
        raise InputError("sentences", "is one text; give a list of sentences, each a list of its words")
    for number, words in enumerate(sentences):
        if isinstance(words, str):
            raise InputError(f"sentences[{number}]", "is one text; give a list of its words")
    return sentences


def check_text(text: str, where: str) -> str:
    r"""Return the text; raise if it is not a valid one.

    >>> check_text("\ud83d", "prompt")
    Traceback (most recent call last):
    throughtime.errors.InputError: prompt: is not valid text: it has half a surrogate pair
    """
    if not isinstance(text, str):
        raise InputError(where, f"is of type {type(text).__name__}, expected a text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(where, "is not valid text: it has half a surrogate pair") from None
    return text


def split_text(text: str, limit: int, count: Callable[[str], int]) -> list[str]:
    """Split a text of more than `limit` tokens into sentences, and very long sentences into parts.

    A sentence of more than twice the limit is split into parts of at most `limit` tokens: after clauses if
    they fit, else after words.

    >>> def words(text): return len(text.split())
    >>> split_text("He ran. She sat, slept, woke. I saw it.", 4, words)
    ['He ran.', 'She sat, slept, woke.', 'I saw it.']
    >>> split_text("one two three four five", 2, words)
    ['one two', 'three four', 'five']
    """
    if count(text) <= limit:
        return [text]
    parts: list[str] = []
    for sentence in _pieces(text, SENTENCE):
        fits = count(sentence) <= 2 * limit
        parts += [sentence.strip()] if fits else _cut(sentence, limit, count, 0)
    return parts


def join_texts(texts: Sequence[str]) -> str:
    """Join translated parts to one text; Chinese and Japanese have no spaces between sentences.

    >>> join_texts(["Il court.", "Elle dort."]), join_texts(["他跑。", "她睡。"])
    ('Il court. Elle dort.', '他跑。她睡。')
    """
    whole = ""
    for text in filter(None, texts):
        whole += text if not whole or _NO_SPACE_AFTER.search(whole) else f" {text}"
    return whole


def _cut(text: str, limit: int, count: Callable[[str], int], kind: int) -> Iterator[str]:
    """Split a text by one kind of cut, and join neighbouring pieces as long as they fit."""
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
    for end in [*(match.end() for match in cut.finditer(text)), len(text)]:
        if text[start:end].strip():
            yield text[start:end]
            start = end


def escape_controls(text: str) -> str:
    r"""Replace what controls a terminal or the direction of text by escapes; line ends and tabs stay.

    >>> escape_controls("a\x1b[31m\tb\u202ec\n")
    'a\\u001b[31m\tb\\u202ec\n'
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    r"""Return a text as one line without control characters that would affect a terminal.

    A line break becomes a space; other control characters are removed, except for tabs. Characters that join
    letters or change their direction stay, since scripts and emoji need them.

    >>> one_line("one\ntwo\x1b[31m\x07")
    'one two[31m'
    """
    return "".join(
        character
        for character in " ".join(text.splitlines())
        if character == "\t" or unicodedata.category(character) != "Cc"
    )


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun.

    >>> format_count(1, "text"), format_count(2000, "text")
    ('1 text', '2,000 texts')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_signed(value: float) -> str:
    """Format a number with two decimals and a real minus sign, at which no line breaks.

    >>> format_signed(-7.314), format_signed(0.5)
    ('−7.31', '0.50')
    """
    return f"{value:.2f}".replace("-", "−")


def align_columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Format a table as lines: the first `left` columns are aligned to the left, the others to the right.

    >>> align_columns([["", "MAE"], ["naive", "2"], ["own", "10"]])
    ['       MAE', 'naive    2', 'own     10']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# Scripts have the names that Unicode gives them.
_WIDTHS = ("FULLWIDTH ", "HALFWIDTH ")
_ALIASES = {
    "IDEOGRAPHIC": "CJK",
    "KATAKANA-HIRAGANA": "KATAKANA",
    "FEMININE": "LATIN",
    "MASCULINE": "LATIN",
    "MICRO": "GREEK",
}
_CALLED = {"CJK": "Chinese characters", "HIRAGANA": "Japanese kana", "KATAKANA": "Japanese kana"}


@lru_cache(maxsize=1 << 16)
def find_script(character: str) -> str:
    """Return the script of a letter, the first word of its Unicode name; "" for other characters.

    >>> find_script("é"), find_script("я"), find_script("你"), find_script("ア"), find_script("7")
    ('LATIN', 'CYRILLIC', 'CJK', 'KATAKANA', '')
    """
    if not character.isalpha():
        return ""
    name = unicodedata.name(character, "")
    for width in _WIDTHS:
        name = name.removeprefix(width)
    first = name.partition(" ")[0]
    return _ALIASES.get(first, first)


def count_scripts(text: str) -> Counter[str]:
    """Count the letters of each script in a text.

    >>> dict(count_scripts("это: 7 cats"))
    {'CYRILLIC': 3, 'LATIN': 4}
    """
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if script := find_script(character):
            counts[script] += count
    return counts


def script_name(script: str) -> str:
    """Return the name of a script for messages.

    >>> script_name("CJK"), script_name("CYRILLIC")
    ('Chinese characters', 'Cyrillic letters')
    """
    return _CALLED.get(script, f"{script.title()} letters")


def common_scripts(words: Iterable[str], share: float) -> frozenset[str]:
    """Find the scripts of at least this share of the words that have letters.

    >>> sorted(common_scripts(["cat", "dog", "bird", "кот"], 0.3))
    ['LATIN']
    """
    total, counts = 0, Counter[str]()
    for word in words:
        scripts = {find_script(character) for character in word} - {""}
        total += bool(scripts)
        counts.update(scripts)
    return frozenset(script for script, count in counts.items() if count >= share * total)


def finite(value: Any) -> Any:
    """Replace infinity and NaN, which JSON does not have, by None.

    >>> finite({"loss": float("inf"), "scores": (0.5, float("nan"))})
    {'loss': None, 'scores': [0.5, None]}
    """
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
