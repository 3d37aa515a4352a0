"""Languages: their codes, names and scripts, and which of them a text is in.

Languages of one script are told apart by how often each letter follows two others, counted in samples of a
few languages, or in texts that the caller provides.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from throughtime.text.texts import count_scripts, find_script


class Language(NamedTuple):
    """A language. `code` has two letters; `other_codes` are outdated ones and those of three letters."""

    code: str
    name: str
    scripts: frozenset[str]
    other_codes: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()


def _read(line: str) -> Language:
    fields = [field.strip() for field in line.split("|")]
    code, name, scripts, codes, names = fields + [""] * (5 - len(fields))
    return Language(
        code, name, frozenset((scripts or "LATIN").split()), tuple(codes.split()), tuple(names.split())
    )


_LINES = files(__package__).joinpath("languages.txt").read_text("utf-8").splitlines()
LANGUAGES = {language.code: language for language in map(_read, _LINES[1:])}
BY_CODE = {code: one for one in LANGUAGES.values() for code in (one.code, *one.other_codes)}
BY_NAME = {name: one for one in LANGUAGES.values() for name in (one.name.lower(), *one.other_names)}


def plain_code(code: str) -> str:
    """Return a code in lower case without its country or script.

    >>> plain_code("pt-BR"), plain_code("zh_Hans")
    ('pt', 'zh')
    """
    return code.lower().partition("-")[0].partition("_")[0]


def find_language(name: str) -> Language | None:
    """Find a language by its name or its code of two or three letters; None if it is not in the table.

    >>> found = (find_language(name) for name in ("fr-CA", "deu", "English", "source"))
    >>> [one and one.code for one in found]
    ['fr', 'de', 'en', None]
    """
    word = plain_code(name.strip())
    return BY_CODE.get(word) or BY_NAME.get(word)


def language_name(code: str) -> str:
    """Return the English name of a language; for an unknown one, its code.

    >>> language_name("fr"), language_name("eng"), language_name("tlh")
    ('French', 'English', 'tlh')
    """
    language = find_language(code)
    return language.name if language else code


STRENGTHS = (1.0, 5.0, 5.0)
"""Number of times that the probabilities after a shorter context count, for n-grams of 1, 2 and 3 signs."""
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


class SignCounts:
    """How often each sign follows the one or two before it in the texts of a language."""

    def __init__(self, texts: Sequence[str]) -> None:
        ngrams = [
            ngram for text in map(signs, texts) for end in range(len(text)) for ngram in _end(text, end)
        ]
        self.followed = Counter(ngram[:-1] for ngram in ngrams)
        self.ngrams = Counter(ngrams)

    def knows(self, sign: str) -> bool:
        """Return whether a sign is in the texts."""
        return (sign,) in self.ngrams

    def log_prob(self, text: Sequence[str], num_signs: int) -> float:
        """Return ln P of a text by the counts, mixed with the probabilities after shorter contexts."""
        total = 0.0
        for end in range(len(text)):
            probability = 1 / num_signs
            for ngram, strength in zip(_end(text, end), STRENGTHS, strict=False):
                if followed := self.followed[ngram[:-1]]:
                    probability = (self.ngrams[ngram] + strength * probability) / (followed + strength)
            total += math.log(probability)
        return total


class Detector:
    """Tells languages apart by texts of each, by its code.

    >>> english, french = ["where is the cat"], ["où est le chat"]
    >>> Detector({"en": english, "fr": french}).guesses("the cat")[0].language
    'en'
    """

    def __init__(self, texts: Mapping[str, Sequence[str]]) -> None:
        self.counts = {code: SignCounts(known) for code, known in texts.items()}
        self.num_signs = 1 + len({sign for known in texts.values() for text in known for sign in signs(text)})

    def guesses(self, text: str) -> list[Guess]:
        """Rank all languages, the likeliest first; unknown letters lower the confidence in a language."""
        read = signs(text[:READ])
        letters = [sign for sign in read if sign != " "]
        if not letters:
            return [Guess(code, 0.0) for code in self.counts]
        totals = {code: counts.log_prob(read, self.num_signs) for code, counts in self.counts.items()}
        shares = {code: math.exp(total - max(totals.values())) for code, total in totals.items()}
        known = {code: sum(map(counts.knows, letters)) for code, counts in self.counts.items()}
        scale = 100 / (sum(shares.values()) * len(letters)) if shares else 0.0
        guesses = [Guess(code, round(scale * share * known[code], 1)) for code, share in shares.items()]
        return sorted(guesses, key=lambda guess: -guess.confidence)


def _end(text: Sequence[str], end: int) -> Iterator[tuple[str, ...]]:
    """Yield the n-grams that end with the sign at a position, the shortest first."""
    for start in range(end, max(-1, end - len(STRENGTHS)), -1):
        yield tuple(text[start : end + 1])


def signs(text: str) -> list[str]:
    """Split a text into letters in lower case and spaces between words; ideographs become their script.

    >>> "".join(signs("Oui, c'est ça!")), signs("你 あ")
    (" oui c'est ça ", [' ', 'CJK', ' ', 'HIRAGANA', ' '])
    """
    split = [" "]
    for character in unicodedata.normalize("NFC", text.lower()).replace("’", "'"):
        if character.isalpha() or character == "'":
            script = find_script(character)
            split.append(script if script in ONE_SIGN else character)
        elif split[-1] != " ":
            split.append(" ")
    return split if split[-1] == " " else [*split, " "]


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
    return _are_mostly(sources, target, source) and _are_mostly(targets, source, target)


def are_translated(texts: Sequence[str], source: str, target: str) -> bool:
    """Whether most texts, which should be in the language `source`, are surely in the language `target`.

    A few short texts are enough, since only those count whose language is certain.

    >>> are_translated(["Où est le chien du garçon ?"], "en", "fr"), are_translated(["a table"], "en", "fr")
    (True, False)
    """
    return _are_mostly(texts, target, source, fewest=1, min_confidence=CERTAIN)


def _are_mostly(
    texts: Sequence[str],
    name: str,
    other_name: str,
    *,
    fewest: int = MIN_SENTENCES,
    min_confidence: float = 0.0,
) -> bool:
    """Return whether most texts are in one language and not in another, as their scripts or words tell.

    The result is False for unknown languages, equal ones, and those of one script without samples.
    """
    texts = [text for text in texts if any(map(str.isalpha, text))]
    language, other = find_language(name), find_language(other_name)
    if language is None or other is None or language == other or len(texts) < fewest:
        return False
    if not language.scripts & other.scripts:
        sure = [_count_letters(text, language) > _count_letters(text, other) for text in texts]
    elif {language.code, other.code} <= SAMPLES.keys():
        guesses = [_detector().guesses(text)[0] for text in texts]
        sure = [guess.language == language.code and guess.confidence >= min_confidence for guess in guesses]
    else:
        return False
    return sum(sure) > MAJORITY * len(texts)


def _count_letters(text: str, language: Language) -> int:
    """Count the letters of a text that are of the scripts of a language."""
    counts = count_scripts(text)
    return sum(counts[script] for script in language.scripts)


@cache
def _detector() -> Detector:
    return Detector({code: [sample] for code, sample in SAMPLES.items()})
