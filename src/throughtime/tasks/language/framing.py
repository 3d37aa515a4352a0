"""How a language model reads text: lines between marks or one stream, from the left or from the right."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.folder import ModelFolder
    from throughtime.text.codec import Codec

WINDOW = 24
"""Tokens that are decoded again to find out what a new one adds; spacing depends on near neighbours only."""
TORN = "\N{REPLACEMENT CHARACTER}"  # what the first bytes of a character read as


@dataclass(frozen=True)
class Framing:
    """`marked` texts stand between a beginning and an end mark; unmarked ones are parts of one stream.

    A `backward` framing turns the words round, so that any model becomes one from right to left. In a
    `running` text each line begins after the end mark of the one before: no mark of a beginning is learned.
    """

    codec: Codec
    marked: bool
    backward: bool = False
    running: bool = False

    def save(self, folder: ModelFolder) -> None:
        """Write the vocabulary and the tokenizer into a model folder; the configuration says the rest."""
        self.codec.save(folder.path)

    @property
    def given(self) -> int:
        """How many ids at the start of a sequence are given, not predicted."""
        return int(self.marked)

    @property
    def begin_id(self) -> int | None:
        """The id before the first token, where sequences are marked."""
        if not self.marked:
            return None
        return self.end_id if self.running else self._mark("bos", self.codec.vocabulary.bos_id)

    @property
    def end_id(self) -> int | None:
        """The id that ends a sequence, where sequences end."""
        return self._mark("eos", self.codec.vocabulary.eos_id) if self.marked else None

    @property
    def never_predicted(self) -> list[int]:
        """Ids that stand for no token of the text: all marks but the end of a line."""
        words = self.codec.vocabulary
        marks = [words.bos_id, words.pad_id, words.mask_id, None if self.marked else words.eos_id]
        return [mark for mark in marks if mark is not None]

    def ids(self, text: str, end: bool = True) -> list[int]:
        """One text as the model reads it."""
        ids = self.codec.encode(text)
        if self.backward:
            ids.reverse()
        if (begin := self.begin_id) is None:
            return ids
        return [begin, *ids, *([over] if end and (over := self.end_id) is not None else [])]

    def sequences(self, texts: Iterable[str]) -> list[list[int]]:
        """Many texts: a sequence each where they are marked, else all of them as one."""
        sequences = [self.ids(text) for text in texts]
        if self.marked:
            return sequences
        ordered = reversed(sequences) if self.backward else sequences
        return [[one for ids in ordered for one in ids]]

    def text(self, ids: list[int]) -> str:
        """Readable text, left to right, without the marks."""
        return self.codec.decode(ids[::-1] if self.backward else ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id adds to the readable text; a mark adds nothing."""
        window: deque[int] = deque(maxlen=WINDOW)
        pieces = []
        for one in reversed(ids) if self.backward else ids:
            pieces.append(self.addition(list(window), one))
            window.append(one)
        return pieces[::-1] if self.backward else pieces

    def addition(self, before: list[int], one: int) -> str:
        """What one id adds to the readable text of those on its left: nothing while a character is torn."""
        text, longer = (self.codec.decode(ids).rstrip(TORN) for ids in (before, [*before, one]))
        return longer[len(text) :] if longer.startswith(text) else longer

    def characters(self, texts: Iterable[str]) -> int:
        """How many characters the texts have; the end of a line counts as one."""
        return sum(len(self.codec.tokenizer.normalise(text)) + self.marked for text in texts)

    def _mark(self, role: str, mark: int | None) -> int:
        if mark is None:
            raise InputError(f"the vocabulary has no <{role}> token, which a model of marked lines needs")
        return mark


def follow_suggestions(
    dataset: Dataset, tokens: str | None, normaliser: str | None, layout: str | None
) -> dict[str, str]:
    """How text is read: the given settings, and where there is none what the data set suggests."""
    chosen = tokens or dataset.tokens
    return {
        "tokens": chosen,
        "normaliser": normaliser or dataset.normaliser_for(chosen),
        "layout": layout or dataset.layout,
    }
