"""A model that fills blanks: sentences in, words and probabilities out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.results import Filling
from throughtime.runtime.folder import ExportFolder
from throughtime.runtime.ragged import padded
from throughtime.runtime.session import Session
from throughtime.text.blanks import BLANK, Blanks, token_text
from throughtime.text.codec import Codec
from throughtime.text.texts import check_text, check_texts

ROWS_AT_ONCE = 64
TOP, BEAM = 5, 10


class Partial(NamedTuple):
    """A sentence with some blanks filled: its ids, the places still blank, ln P of what was filled in."""

    ids: tuple[int, ...]
    blanks: tuple[int, ...]
    log_prob: float = 0.0


class Filler:
    """One graph of hidden tokens."""

    def __init__(self, session: Session, codec: Codec, settings: dict[str, Any]) -> None:
        self.session, self.codec, self.never = session, codec, settings["never"]

    def fill(self, text: str, *, k: int = TOP, beam: int = BEAM) -> list[Filling]:
        """The k best ways to fill the blanks of a text, written `___` or `[MASK]`.

        The blanks are filled together, the most certain one first; `beam` partial fillings are kept, or k
        where that is more.
        """
        if k < 1 or beam < 1:
            raise InputError("k" if k < 1 else "beam", "is less than 1, so nothing would be found")
        if not check_text(text, "text").strip():
            return []
        blanks = Blanks.of(text, self.codec)
        partials, width = [Partial(blanks.ids, blanks.places)], max(k, beam)
        while partials[0].blanks:
            grown = [one for own in self._grown(partials, width) for one in own]
            partials = sorted(grown, key=lambda one: -one.log_prob)[:width]
        return [self._filling(blanks, partial) for partial in partials[:k]]

    def fill_all(self, texts: Sequence[str], *, k: int = TOP, beam: int = BEAM) -> list[list[Filling]]:
        """The same for each of several texts; an empty one has nothing to fill."""
        return [self.fill(text, k=k, beam=beam) for text in check_texts(texts)]

    def input_warnings(self, texts: Sequence[str], **how: Any) -> dict[str, str]:
        """Warnings about texts that the model knows little about, by kind (see `InputWarnings.of`)."""
        return self.codec.warnings.of([BLANK.sub(" ", text) for text in check_texts(texts)], **how)

    def _grown(self, partials: Sequence[Partial], width: int) -> list[list[Partial]]:
        """Each partial filling with its most certain blank filled in several ways."""
        found = []
        for first in range(0, len(partials), ROWS_AT_ONCE):
            some = partials[first : first + ROWS_AT_ONCE]
            rows = iter(self._guess(some))
            for partial in some:
                own = np.stack([next(rows) for _ in partial.blanks])  # [blanks, V]
                surest = int(own.max(axis=1).argmax())
                best = np.argsort(-own[surest], kind="stable")[:width].tolist()
                found.append(
                    [
                        _with(partial, partial.blanks[surest], word, float(own[surest, word]))
                        for word in best
                        if own[surest, word] > -math.inf
                    ]
                )
        return found

    def _guess(self, partials: Sequence[Partial]) -> NDArray[np.float64]:
        """ln P at the blanks over all words that may be filled in."""
        ids, lengths = padded([partial.ids for partial in partials])
        places = [step * len(partials) + row for row, one in enumerate(partials) for step in one.blanks]
        given = {"ids": ids, "lengths": lengths, "places": np.array(places)}
        (log_probs,) = self.session.run(["log_probs"], given)
        wide: NDArray[np.float64] = log_probs.astype(np.float64)
        wide[:, self.never] = -math.inf
        wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
        return wide

    def _filling(self, blanks: Blanks, partial: Partial) -> Filling:
        words = [partial.ids[place] for place in blanks.places]
        tokens = tuple(token_text(word, self.codec).strip(" ") for word in words)
        return Filling(blanks.filled(words, self.codec), tokens, math.exp(partial.log_prob))


def _with(partial: Partial, place: int, word: int, log_prob: float) -> Partial:
    return Partial(
        (*partial.ids[:place], word, *partial.ids[place + 1 :]),
        tuple(blank for blank in partial.blanks if blank != place),
        partial.log_prob + log_prob,
    )


def opened(folder: ExportFolder) -> Filler:
    """The model of an export that fills blanks."""
    return Filler(folder.session("model"), Codec.load(folder.path), folder.settings)
