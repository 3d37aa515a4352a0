"""How a model reads text: as marked lines or as one stream, in either direction, or with blanks to fill."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError
from throughtime.results import Scored
from throughtime.text.codec import WINDOW, Codec, cut_common
from throughtime.text.subword import SubwordTokenizer, tokenizer_label
from throughtime.text.texts import check_text, check_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOTHING = -1
"""The id before the first token of a text without a beginning mark; it does not change the state."""
TORN = "\N{REPLACEMENT CHARACTER}"  # how an incomplete character is decoded


@dataclass(frozen=True)
class Framing:
    """How texts become sequences of ids.

    `marked` texts have a beginning and an end mark; others are parts of one stream. `backward` reverses the
    ids, for models that read from right to left. If `running`, the end mark of one line is the beginning mark
    of the next one, and there is no other beginning mark.
    """

    codec: Codec
    marked: bool
    backward: bool = False
    running: bool = False

    def save(self, folder: Any) -> None:
        """Write vocabulary and tokenizer to a `ModelFolder`; the configuration holds the rest."""
        self.codec.save(folder.path)

    @property
    def num_given(self) -> int:
        """The number of ids at the start of a sequence that are given, not predicted."""
        return int(self.marked)

    @property
    def begin_id(self) -> int | None:
        """The id before the first token; None if texts are not marked."""
        if not self.marked:
            return None
        return self.end_id if self.running else self._mark("bos", self.codec.vocabulary.bos_id)

    @property
    def end_id(self) -> int | None:
        """The id that ends a sequence; None if texts are not marked."""
        return self._mark("eos", self.codec.vocabulary.eos_id) if self.marked else None

    @property
    def never_predicted(self) -> list[int]:
        """The ids of special tokens that never occur in a text: all but the end of a line."""
        words = self.codec.vocabulary
        marks = [words.bos_id, words.pad_id, words.mask_id, None if self.marked else words.eos_id]
        return [mark for mark in marks if mark is not None]

    def ids(self, text: str, end: bool = True) -> list[int]:
        """The ids of one text, with its marks."""
        return self._frame([text], end)[0]

    def _frame(self, texts: Iterable[str], end: bool = True) -> list[list[int]]:
        before = [] if self.begin_id is None else [self.begin_id]
        after = [] if not end or self.end_id is None else [self.end_id]
        encode, step = self.codec.encode, -1 if self.backward else 1
        return [[*before, *encode(text)[::step], *after] for text in texts]

    def sequences(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of many texts: one sequence each if they are marked, else one sequence of all."""
        sequences = self._frame(texts)
        if self.marked:
            return sequences
        ordered = reversed(sequences) if self.backward else sequences
        return [[number for ids in ordered for number in ids]]

    def text(self, ids: list[int]) -> str:
        """The text of some ids, from left to right, without marks."""
        return self.codec.decode(ids[::-1] if self.backward else ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text that each id adds; a mark adds nothing."""
        window: deque[int] = deque(maxlen=WINDOW)
        pieces = []
        for number in reversed(ids) if self.backward else ids:
            pieces.append(self.addition(list(window), number))
            window.append(number)
        return pieces[::-1] if self.backward else pieces

    def addition(self, before: list[int], number: int) -> str:
        """The text that one id adds to the ids before it; nothing while a character is incomplete."""
        text, longer = (self.codec.decode(ids).rstrip(TORN) for ids in (before, [*before, number]))
        return cut_common(text, longer)

    def score(
        self,
        texts: str | Sequence[str],
        prompt: str,
        log_probs: Callable[[list[list[int]]], Iterable[NDArray[Any]]],
    ) -> list[Scored]:
        """Score each text after a prompt; `log_probs` gives ln P of every id of some sequences."""
        texts = check_texts(texts)
        if prompt and self.backward:
            raise InputError("prompt", "needs a model that reads from left to right; leave it out")
        before, words = self.ids(check_text(prompt, "prompt"), end=False), self.codec.vocabulary
        given, skip = self.num_given, len(before)
        sequences = [[*before, *ids[given:]] for ids in self._frame(texts)]
        results = iter(log_probs([ids for ids in sequences if ids]))
        tokens = words.tokens(chain.from_iterable(ids[skip:] for ids in sequences))  # all at once is faster
        ends = accumulate(len(ids) - skip for ids in sequences)
        return [
            Scored(text, tuple(tokens[first:end]), tuple(next(results)[skip:].tolist() if ids else ()))
            for text, ids, (first, end) in zip(texts, sequences, pairwise([0, *ends]), strict=True)
        ]

    def characters(self, texts: Iterable[str]) -> int:
        """The number of characters of some texts; the end of a line counts as one."""
        return sum(len(self.codec.tokenizer.normalise(text)) + self.marked for text in texts)

    def _mark(self, role: str, mark: int | None) -> int:
        if mark is None:
            raise InputError(f"the vocabulary has no <{role}> token, which a model of marked lines needs")
        return mark


BLANK = re.compile(r"_{2,}|\[MASK\]")
NO_BLANK = "has no blank; write ___ where a word is missing"
_NEIGHBOUR = "1"  # a separate token before any letter, mark or space


@dataclass(frozen=True)
class Blanks:
    """A text with blanks: its `ids` as a model reads them, and the `places` of the blanks among them."""

    text: str
    ids: tuple[int, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, text: str, codec: Codec) -> Blanks:
        """Read a text. A blank is `[MASK]` or two or more underscores, and stands for one token."""
        mask_id = find_mask_id(codec)
        first, *others = BLANK.split(text)
        if not others:
            raise InputError("text", NO_BLANK)
        parts = isinstance(codec.tokenizer, SubwordTokenizer)
        # A subword holds the space before it, so the space before a blank is part of what is missing.
        ids = codec.encode(first.rstrip(" ") if parts else first)
        places: list[int] = []
        for number, behind in enumerate(others, 1):
            places.append(len(ids))
            ids.append(mask_id)
            if parts and number < len(others):
                behind = behind.rstrip(" ")
            ids += _encode_after(behind, codec) if parts else codec.encode(behind)
        return cls(text, tuple(ids), tuple(places))

    def fill(self, words: Sequence[int], codec: Codec) -> str:
        """Return the text with these tokens in its blanks and the rest unchanged."""
        first, *others = BLANK.split(self.text)
        whole = first
        for word, behind in zip(words, others, strict=True):
            token = token_text(word, codec)
            if isinstance(codec.tokenizer, SubwordTokenizer):
                # A subword that does not begin a word is joined to the text before it.
                whole = whole if token.startswith(" ") else whole.rstrip(" ")
                token = token.strip(" ")
            whole += token + behind
        return whole


def draw_blank(ids: Sequence[int], position: int, codec: Codec) -> str:
    """Return the text of these ids with a blank at one place.

    >>> codec = Codec.build(["I am tired."], "unicode")
    >>> draw_blank(codec.encode("I am tired."), 2, codec)
    'I am ___.'
    """
    if isinstance(codec.tokenizer, SubwordTokenizer):
        return (
            f"{_decode_after(ids[:position], codec)} ___{_decode_after(ids[position + 1 :], codec)}".lstrip(
                " "
            )
        )
    tokens = codec.vocabulary.tokens(ids)
    return codec.tokenizer.detokenize([*tokens[:position], "___", *tokens[position + 1 :]])


def find_mask_id(codec: Codec) -> int:
    """Return the id of the token that stands for a blank."""
    if codec.vocabulary.mask_id is None:
        raise InputError(tokenizer_label(codec.tokenizer), "has no [MASK] token; choose another tokenizer")
    return codec.vocabulary.mask_id


def token_text(word: int, codec: Codec) -> str:
    """Return the text of a token inside a sentence, with the space before it if that is part of it."""
    if not isinstance(codec.tokenizer, SubwordTokenizer):
        return codec.vocabulary.token(word)
    return _decode_after([word], codec)


def _decode_after(ids: Sequence[int], codec: Codec) -> str:
    """Decode ids that follow other text."""
    before = codec.encode(_NEIGHBOUR)
    return codec.decode([*before, *ids])[len(codec.decode(before)) :]


def _encode_after(text: str, codec: Codec) -> list[int]:
    """Encode a text that follows other text."""
    before, both = codec.encode(_NEIGHBOUR), codec.encode(_NEIGHBOUR + text)
    return both[len(before) :] if both[: len(before)] == before else codec.encode(text)
