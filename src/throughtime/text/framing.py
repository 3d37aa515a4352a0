"""How a language model reads text: as marked lines or as one stream, from left to right or the reverse."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any

from throughtime.errors import InputError
from throughtime.results import Scored
from throughtime.text.codec import WINDOW
from throughtime.text.texts import check_text, check_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from throughtime.text.codec import Codec

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
        return longer[len(text) :] if longer.startswith(text) else longer

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
