"""Detect the language of a text, and whether the two sides of parallel texts are swapped.

Each language has a small n-gram model of its characters. They are counted in samples of a few languages, or
in texts that the caller provides.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Dirichlet
from throughtime.text.languages import Language, find_language
from throughtime.text.texts import count_scripts, find_script

ORDER = 3
STRENGTHS = (1.0, 5.0, 5.0)
UNKNOWN = 0
READ = 1_000
"""Maximum number of characters of a text that are read."""
ONE_SIGN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL"})
"""Scripts whose letters all count as the same sign, since the script alone identifies the language."""


def _read_samples() -> dict[str, str]:
    """Read common words and sentences of each language, by its code."""
    text = files(__package__).joinpath("samples.txt").read_text("utf-8")
    return {block[:2]: " ".join(block[3:].split()) for block in text.removeprefix("[").split("\n[")}


SAMPLES = _read_samples()
"""A few words and sentences of each language, by its code."""


@dataclass(frozen=True)
class Guess:
    """A language, and the confidence in it from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Character models of several languages over one alphabet."""

    def __init__(self, texts: dict[str, Sequence[str]]) -> None:
        self._signs: dict[str, int] = {}
        numbered = {
            code: [
                [self._signs.setdefault(sign, len(self._signs) + 1) for sign in signs(text)] for text in own
            ]
            for code, own in texts.items()
        }
        size = len(self._signs) + 1
        self.models = {
            code: NgramModel(NgramCounts.of(own, ORDER, size), Dirichlet(STRENGTHS))
            for code, own in numbered.items()
        }
        self._known = {code: frozenset(one for line in own for one in line) for code, own in numbered.items()}

    def guesses(self, text: str) -> list[Guess]:
        """Rank all languages, the likeliest first; unknown letters lower the confidence in a language.

        >>> english, french = ["where is the cat"], ["où est le chat"]
        >>> Detector({"en": english, "fr": french}).guesses("the cat")[0].language
        'en'
        """
        ids = [self._signs.get(sign, UNKNOWN) for sign in signs(text[:READ])]
        letters = [one for one in ids if one != self._signs.get(" ")]
        if not letters or not self.models:
            return [Guess(code, 0.0) for code in self.models]
        totals = np.array([model.log_probs([ids])[0].sum() for model in self.models.values()])
        shares = np.exp(totals - totals.max())
        shares /= shares.sum()
        known = [sum(one in self._known[code] for one in letters) / len(letters) for code in self.models]
        guesses = [
            Guess(code, round(100 * float(share) * part, 1))
            for code, share, part in zip(self.models, shares, known, strict=True)
        ]
        return sorted(guesses, key=lambda guess: -guess.confidence)


def signs(text: str) -> list[str]:
    """Split a text into letters in lower case and spaces between words; ideographs become their script.

    >>> "".join(signs("Oui, c'est ça!")), signs("你 あ")
    (" oui c'est ça ", [' ', 'CJK', ' ', 'HIRAGANA', ' '])
    """
    found = [" "]
    for character in unicodedata.normalize("NFC", text.lower()).replace("’", "'"):
        if character.isalpha() or character == "'":
            script = find_script(character)
            found.append(script if script in ONE_SIGN else character)
        elif found[-1] != " ":
            found.append(" ")
    return found if found[-1] == " " else [*found, " "]


MAJORITY = 0.6
"""Minimum share of sentences on a side that must look like the other language; short ones are unreliable."""
MIN_SENTENCES = 20
"""Minimum number of sentences with letters on each side; below it nothing is reported."""

CERTAIN = 99.9
"""Confidence from which a single text counts; at 99, 1 of 400 English sentences is taken for French."""


def are_swapped(sources: Sequence[str], targets: Sequence[str], source: str, target: str) -> bool:
    """Whether the sources are in the language `target` and the targets in the language `source`.

    If the two languages have different scripts, the scripts decide; otherwise both need a sample of words in
    `SAMPLES`. For other languages the result is False.

    >>> english, french = ["where is the dog of the boy"] * 20, ["où est le chien du garçon"] * 20
    >>> are_swapped(french, english, "en", "fr"), are_swapped(english, french, "en", "fr")
    (True, False)
    """
    first, second = find_language(source), find_language(target)
    if first is None or second is None or first == second:
        return False
    looks_like = _build_script_detector(first, second) or _build_word_detector(first, second)
    if looks_like is None:
        return False
    return _are_mostly(sources, second.code, looks_like) and _are_mostly(targets, first.code, looks_like)


def are_translated(texts: Sequence[str], source: str, target: str) -> bool:
    """Whether most texts, which should be in the language `source`, are surely in the language `target`.

    A few short texts are enough, since only those count whose language is certain.

    >>> are_translated(["Où est le chien du garçon ?"], "en", "fr"), are_translated(["a table"], "en", "fr")
    (True, False)
    """
    first, second = find_language(source), find_language(target)
    if first is None or second is None or first == second:
        return False
    looks_like = _build_script_detector(first, second) or _build_word_detector(first, second, CERTAIN)
    return looks_like is not None and _are_mostly(texts, second.code, looks_like, fewest=1)


def _are_mostly(
    texts: Sequence[str], code: str, looks_like: Callable[[str], str], fewest: int = MIN_SENTENCES
) -> bool:
    texts = [text for text in texts if any(map(str.isalpha, text))]
    return len(texts) >= fewest and sum(looks_like(text) == code for text in texts) > MAJORITY * len(texts)


def _build_script_detector(first: Language, second: Language) -> Callable[[str], str] | None:
    """A function that tells two languages apart by their scripts; None if they share one."""
    one, other = first.scripts, second.scripts
    if one & other:
        return None

    def looks_like(text: str) -> str:
        counts = count_scripts(text)
        of_one, of_other = (sum(counts[script] for script in own) for own in (one, other))
        return first.code if of_one > of_other else second.code if of_other > of_one else ""

    return looks_like


def _build_word_detector(
    first: Language, second: Language, least: float = 0.0
) -> Callable[[str], str] | None:
    """A function that detects a language by its words, "" if its confidence is below `least`.

    It may find a third language. None without samples.
    """
    if first.code not in SAMPLES or second.code not in SAMPLES:
        return None

    def looks_like(text: str) -> str:
        best = _detector().guesses(text)[0]
        return best.language if best.confidence >= least else ""

    return looks_like


@cache
def _detector() -> Detector:
    return Detector({code: [sample] for code, sample in SAMPLES.items()})
