"""Warnings about texts that a model knows too little about, and about texts that a tokenizer mostly drops.

A model gives an answer for any text. If the text is empty, in a script that is not in the vocabulary, or made
of unknown words, the answer means little, and users are warned.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from throughtime.errors import InputError
from throughtime.text.subword import SubwordTokenizer
from throughtime.text.texts import check_texts, common_scripts, count_scripts, script_name
from throughtime.text.tokenizer import Tokenizer
from throughtime.text.vocabulary import Vocabulary

KNOWN_SCRIPT = 0.0005
"""Minimum share of the tokens of a vocabulary for a script to count as known: corpora have stray letters."""
TOO_MUCH = 0.5
"""A warning is given if more than this share of a text is unknown or dropped; a rare word is normal."""
SHOWN = 8
_LITTLE = "so the answer means little"
EMPTY = f"is empty, {_LITTLE}"
SAMPLED = 1 << 22
"""Number of characters of a text that are checked for letters that a tokenizer drops."""


class InputWarnings:
    """Finds texts that a tokenizer and a vocabulary know little about.

    >>> from throughtime.text.codec import Codec
    >>> codec = Codec.build(["the cat sleeps .", "a dog runs ."], "unicode")
    >>> warnings = InputWarnings(codec.tokenizer, codec.vocabulary)
    >>> warnings.of(["The dog sleeps quietly ."])
    {}
    >>> warnings.of(["the cat", "猫在睡觉"])
    {'script': 'text 2 is in Chinese characters, which the model never saw, so the answer means little'}
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        self.tokenizer, self.vocabulary = tokenizer, vocabulary

    def of(
        self,
        texts: Sequence[str],
        *,
        numbers: Sequence[int] | None = None,
        dropped: bool = False,
        blank_lines: bool = False,
    ) -> dict[str, str]:
        """For each kind of problem, a sentence about the first text that has it.

        Kinds are `empty`, `script`, `unknown`, `letters`, `nothing` and `dropped`. `numbers` are the numbers
        of the texts in messages, by default 1, 2, 3, .... With `dropped`, any character that the tokenizer
        drops is reported: two texts that differ only there are equal to the model. With `blank_lines`, empty
        texts are reported only if all texts are empty.
        """
        problems: dict[str, list[tuple[int, str]]] = {}
        quiet = blank_lines and any(text.strip() for text in texts)
        for number, text in zip(numbers or range(1, len(texts) + 1), texts, strict=True):
            if text.strip() or not quiet:
                for kind, problem in self._problems(text, dropped):
                    problems.setdefault(kind, []).append((number, problem))
        alone = numbers is None and len(texts) == 1
        return {kind: _sentence(found_in, alone) for kind, found_in in problems.items()}

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts of the vocabulary."""
        words = (token for token in self.vocabulary if token not in self.vocabulary.reserved)
        if self._in_bytes:
            words = (_spell(token) for token in words if len(token) > 1)
        return common_scripts(words, KNOWN_SCRIPT)

    def _problems(self, text: str, dropped: bool) -> Iterable[tuple[str, str]]:
        """The kind and description of the problem of a text, if it has one."""
        if not text.strip():
            yield "empty", EMPTY
            return
        tokens = self.tokenizer.tokenize(text)
        lost = [] if isinstance(self.tokenizer, SubwordTokenizer) else _find_dropped(text, tokens)
        if problem := self._strange(text, tokens, lost):
            yield problem
        elif dropped and lost:
            names = [sign if sign.isprintable() else f"U+{ord(sign):04X}" for sign in dict.fromkeys(lost)]
            shown = " ".join(names[:SHOWN]) + (" ..." if len(names) > SHOWN else "")
            what = f"characters that {tokenizer_name(self.tokenizer)} drops"
            yield "dropped", f"has {what}, so the model does not see them: {shown}"

    def _strange(self, text: str, tokens: list[str], lost: list[str]) -> tuple[str, str] | None:
        letters = count_scripts(text)
        strange = Counter({script: n for script, n in letters.items() if script not in self.scripts})
        if strange.total() > TOO_MUCH * letters.total():
            most = script_name(strange.most_common(1)[0][0])
            return "script", f"is in {most}, which the model never saw, {_LITTLE}"
        if lost and not any(token.strip() for token in tokens):
            return "nothing", f"is dropped whole by {tokenizer_name(self.tokenizer)}, {_LITTLE}"
        lost_letters = sum(map(str.isalpha, lost))
        if lost_letters > TOO_MUCH * letters.total():
            share = f"{lost_letters / letters.total():.0%} of its letters"
            return "letters", f"loses {share} to {tokenizer_name(self.tokenizer)}, {_LITTLE}"
        words = self._words(tokens)
        unknown = sum(map(self._is_unknown, words))
        # Bytes that are parts of a known letter stand alone in small vocabularies.
        if unknown > TOO_MUCH * len(words) and not (self._in_bytes and unknown < len(words)):
            if self._in_bytes:
                return "unknown", f"has only characters that are rare in training, {_LITTLE}"
            known = f"{unknown} of {len(words)} tokens" if unknown < len(words) else "only tokens"
            return "unknown", f"has {known} that are not in the vocabulary, {_LITTLE}"
        return None

    def _words(self, tokens: list[str]) -> list[str]:
        """The tokens that count: words and numbers, or punctuation if there is nothing else."""
        if self._in_bytes:
            return [token for token in tokens if _BYTES.get(token, 255) > 32]  # no spaces alone
        visible = [token for token in tokens if token.strip()]
        return [token for token in visible if any(map(str.isalnum, token))] or visible

    def _is_unknown(self, token: str) -> bool:
        if self._in_bytes:
            # Every byte is in the vocabulary; a digit or sign that was hardly seen is in no longer token.
            # Letters are checked by their script instead.
            return len(token) == 1 and (
                _BYTES.get(token, 0) > 127 or not (token.isalpha() or token in self._in_longer_tokens)
            )
        return token not in self.vocabulary or self.vocabulary[token] == self.vocabulary.unk_id

    @cached_property
    def _in_longer_tokens(self) -> frozenset[str]:
        """The characters of byte-level tokens of two bytes or more."""
        words = (token for token in self.vocabulary if token not in self.vocabulary.reserved)
        return frozenset(character for token in words if len(token) > 1 for character in token)

    @cached_property
    def _in_bytes(self) -> bool:
        """Whether tokens are made of bytes: none is unknown, but an unknown script becomes single bytes."""
        return isinstance(self.tokenizer, SubwordTokenizer) and '"ByteLevel"' in self.tokenizer.definition


class ReadsTexts:
    """The base of models that read texts, trained or exported."""

    reports_dropped = False
    """Whether warnings name every character that the tokenizer drops, as for models of the text itself."""

    vectors: Any = None
    """How sequences of vectors are read, if the model reads them in place of texts."""

    @property
    def _warnings(self) -> InputWarnings:
        """Finds texts unlike the training data; by default by the codec of the model."""
        warnings: InputWarnings = self.codec.warnings  # type: ignore[attr-defined]
        return warnings

    def _read_part(self, text: str) -> str:
        """Return the part of a text that the model reads, without what it is to fill in."""
        return text

    def input_warnings(self, texts: str | Sequence[str], **options: Any) -> dict[str, str]:
        """Return warnings about texts unlike the training data, by kind (see `InputWarnings.of`)."""
        if self.vectors is not None:
            return {}
        how = {"dropped": self.reports_dropped} | options
        return self._warnings.of([self._read_part(text) for text in check_texts(texts)], **how)


def _sentence(problems: list[tuple[int, str]], alone: bool) -> str:
    number, problem = problems[0]
    subject = "the text" if alone else f"text {number}"
    return f"{subject} {problem}" + (f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else "")


def _find_dropped(text: str, tokens: Sequence[str]) -> list[str]:
    """The visible characters of a text that are in none of its tokens, not even without accents.

    >>> _find_dropped("Eat, Grandma - café!", ["eat", "grandma", "cafe"])
    [',', '-', '!']
    """
    kept, visible = "".join("".join(tokens).split()), "".join(text.split())
    if len(kept) >= len(visible):
        return []
    left = Counter(kept.lower())
    missing = []
    for character in visible:
        if left[character.lower()]:
            left[character.lower()] -= 1
        else:
            missing.append(character)
    return [character for character in missing if not _without_accents(character, left)]


def _without_accents(character: str, left: Counter[str]) -> bool:
    """Whether a character is left without its accents; it is then removed from `left`."""
    plain = unicodedata.normalize("NFKD", character.lower())
    parts = [letter for letter in plain if not unicodedata.combining(letter)]
    if any(not left[letter] for letter in parts):
        return False
    left.subtract(parts)
    return True


def _byte_alphabet() -> dict[str, int]:
    """The byte for each character of byte-level tokens, in the mapping of GPT-2."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTES = _byte_alphabet()


def _spell(token: str) -> str:
    """The text of a byte-level token; an incomplete last letter is completed to one of the same script.

    >>> _spell("Ġthe"), _spell("ä½"), _spell("½ł")
    (' the', '使', '')
    """
    raw = bytes(_BYTES.get(character, 63) for character in token).lstrip(bytes(range(128, 192)))
    for missing in range(4):
        try:
            return (raw + b"\xbf" * missing).decode("utf-8")
        except UnicodeDecodeError:
            continue
    return raw.decode("utf-8", "ignore")


class TokenizerCoverage:
    """Tokenizes texts and counts how many letters are dropped; `where` names the texts in messages.

    >>> from throughtime.text.tokenizer import tokenizer
    >>> coverage = TokenizerCoverage(tokenizer("word"), "words.txt")
    >>> coverage.tokenize("Привет, world")
    ['world']
    >>> coverage.notes()
    ("words.txt: the tokenizer 'word' drops 55% of the letters; other tokens, such as unicode, keep them",)
    """

    def __init__(self, tokenizer: Tokenizer, where: str) -> None:
        self.tokenizer, self.where = tokenizer, where
        self._read = self._letters = self._kept = 0
        self._blank = self._empty = True

    def tokenize(self, text: str) -> list[str]:
        """Split a text into tokens."""
        tokens = self.tokenizer.tokenize(text)
        if self._blank:
            self._blank = not text.strip()
        if self._empty:
            self._empty = not any(map(str.strip, tokens))
        # Subword tokenizers drop no characters; their pieces may be bytes.
        if self._read < SAMPLED and not isinstance(self.tokenizer, SubwordTokenizer):
            self._read += len(text)
            self._letters += sum(map(str.isalpha, text))
            self._kept += sum(map(str.isalpha, "".join(tokens)))
        return tokens

    def notes(self) -> tuple[str, ...]:
        """Return a warning if most letters are dropped; raise if no text has any token."""
        if self._blank:
            raise blank(self.where)
        if self._empty:
            problem = f"has no tokens for {tokenizer_name(self.tokenizer)}"
            raise InputError(self.where, f"{problem}; choose another tokenizer, such as unicode")
        if 2 * self._kept >= self._letters:
            return ()
        share = 1 - self._kept / self._letters
        return (
            f"{self.where}: {tokenizer_name(self.tokenizer)} drops {share:.0%} of the letters; "
            "other tokens, such as unicode, keep them",
        )


def tokenizer_name(tokenizer: Tokenizer) -> str:
    """The name of a tokenizer in messages, with its normaliser if it has one."""
    normaliser = tokenizer.options().get("normaliser", "none")
    return f"the tokenizer {tokenizer.name!r}" + (f" with {normaliser!r}" if normaliser != "none" else "")


def blank(where: str) -> InputError:
    """Build the error for texts without any visible character."""
    return InputError(where, "has no tokens: all of it is blank; give a text")
