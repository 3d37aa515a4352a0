"""Which language a text is in, by counted characters: one small n-gram model for each language.

The counts come from samples of a few languages (`languages.SAMPLES`), or from whatever text a
caller has. A language with neither is not detected.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Dirichlet
from throughtime.text.unicode import script_of

ORDER = 3
STRENGTHS = (1.0, 5.0, 5.0)
UNKNOWN = 0
READ = 1_000
"""Characters of a text that are looked at."""
ONE_SIGN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL"})
"""Scripts whose letters all count as one sign: the script alone tells the language."""


@dataclass(frozen=True)
class Guess:
    """A language and how sure of it one can be, from 0 to 100."""

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
        """All languages, the likeliest first; the share of characters a language knows lowers its confidence.

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
    """The letters of a text in lower case, words apart by spaces; ideographs are one sign, and so is kana.

    >>> "".join(signs("Oui, c'est ça!")), signs("你 あ")
    (" oui c'est ça ", [' ', 'CJK', ' ', 'HIRAGANA', ' '])
    """
    found = [" "]
    for character in unicodedata.normalize("NFC", text.lower()).replace("’", "'"):
        if character.isalpha() or character == "'":
            script = script_of(character)
            found.append(script if script in ONE_SIGN else character)
        elif found[-1] != " ":
            found.append(" ")
    return found if found[-1] == " " else [*found, " "]
