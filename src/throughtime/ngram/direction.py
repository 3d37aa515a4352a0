"""Detect parallel texts whose source and target languages are swapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from throughtime.ngram.detection import Detector
from throughtime.ngram.languages import SAMPLES, language_code, scripts_of
from throughtime.text.unicode import count_scripts

MAJORITY = 0.6
"""The share of sentences on a side that must look like the other language; short ones are often misjudged."""
FEWEST = 20
"""Minimum number of sentences with letters on each side; below it nothing is reported."""


def are_swapped(sources: Sequence[str], targets: Sequence[str], source: str, target: str) -> bool:
    """Whether the sources are in the language `target` and the targets in the language `source`.

    If the two languages have different scripts, the scripts decide; otherwise both need a sample of words in
    `SAMPLES`. For other languages the result is False.

    >>> english, french = ["where is the dog of the boy"] * 20, ["où est le chien du garçon"] * 20
    >>> are_swapped(french, english, "en", "fr"), are_swapped(english, french, "en", "fr")
    (True, False)
    """
    first, second = language_code(source), language_code(target)
    if first is None or second is None or first == second:
        return False
    looks_like = _by_script(first, second) or _by_words(first, second)
    if looks_like is None:
        return False
    return _mostly(sources, second, looks_like) and _mostly(targets, first, looks_like)


def _mostly(texts: Sequence[str], code: str, looks_like: Callable[[str], str]) -> bool:
    texts = [text for text in texts if any(map(str.isalpha, text))]
    return len(texts) >= FEWEST and sum(looks_like(text) == code for text in texts) > MAJORITY * len(texts)


def _by_script(first: str, second: str) -> Callable[[str], str] | None:
    """A function that tells two languages apart by their scripts; None if they share one."""
    one, other = scripts_of(first), scripts_of(second)
    if not one or not other or one & other:
        return None

    def looks_like(text: str) -> str:
        counts = count_scripts(text)
        of_one, of_other = (sum(counts[script] for script in own) for own in (one, other))
        return first if of_one > of_other else second if of_other > of_one else ""

    return looks_like


def _by_words(first: str, second: str) -> Callable[[str], str] | None:
    """A function that detects a language by its words; it may find a third one. None without samples."""
    if first not in SAMPLES or second not in SAMPLES:
        return None
    return lambda text: _detector().guesses(text)[0].language


@cache
def _detector() -> Detector:
    return Detector({code: [sample] for code, sample in SAMPLES.items()})
