"""Which language a text is in, by counted characters: one small n-gram model for each language.

A model folder holds no text to learn a language from, so the counts come from what is at hand: the commonest
words of a few languages, and else the vocabulary of a translator's own side, where its two sides do not share
one. A language of which there is neither is not detected.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Dirichlet
from throughtime.serve.languages import SAMPLES, plain
from throughtime.serve.models import Served

ORDER = 3
STRENGTHS = (1.0, 5.0, 5.0)
UNKNOWN = 0
READ = 1_000
"""Characters of a text that are looked at."""
WORDS = 3_000


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

    @classmethod
    def of(cls, translators: Iterable[Served]) -> Detector:
        """For the languages of these translators, as far as anything is known of them."""
        texts: dict[str, list[str]] = {}
        for served in translators:
            codecs = served.model.codecs
            for code, codec in ((served.source, codecs.source), (served.target, codecs.target)):
                found = texts.setdefault(code, [])
                if not found and plain(code) in SAMPLES:
                    found.append(SAMPLES[plain(code)])
                if not found and not codecs.shared:
                    found += list(islice(filter(str.isalpha, codec.vocabulary), WORDS))
        return cls({code: own for code, own in texts.items() if own})

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
            script = unicodedata.name(character, "").partition(" ")[0]
            found.append(script if script in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL") else character)
        elif found[-1] != " ":
            found.append(" ")
    return found if found[-1] == " " else [*found, " "]
