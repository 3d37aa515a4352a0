"""The scripts that letters belong to, by the names that Unicode gives them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

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
def script_of(character: str) -> str:
    """The script of a letter, which is the first word of its Unicode name; "" for other characters.

    >>> script_of("é"), script_of("я"), script_of("你"), script_of("ア"), script_of("7")
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
    """How many letters of each script a text has.

    >>> dict(count_scripts("это: 7 cats"))
    {'CYRILLIC': 3, 'LATIN': 4}
    """
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if script := script_of(character):
            counts[script] += count
    return counts


def script_name(script: str) -> str:
    """The name of the letters of a script in messages.

    >>> script_name("CJK"), script_name("CYRILLIC")
    ('Chinese characters', 'Cyrillic letters')
    """
    return _CALLED.get(script, f"{script.title()} letters")


def common_scripts(words: Iterable[str], share: float) -> frozenset[str]:
    """The scripts that at least this share of the words with letters are written in.

    >>> sorted(common_scripts(["cat", "dog", "bird", "кот"], 0.3))
    ['LATIN']
    """
    total, counts = 0, Counter[str]()
    for word in words:
        scripts = {script_of(character) for character in word} - {""}
        total += bool(scripts)
        counts.update(scripts)
    return frozenset(script for script, count in counts.items() if count >= share * total)
