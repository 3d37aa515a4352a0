"""A model that fills blanks: sentences in, words and probabilities out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from throughtime.errors import InputError
from throughtime.results import Filling
from throughtime.runtime.runner import TextRunner, normalise, pad
from throughtime.tasks.fill.filling import Partial, best_first
from throughtime.text.blanks import BLANK, Blanks, token_text
from throughtime.text.texts import check_text, check_texts

TOP, BEAM = 5, 10


class Filler(TextRunner):
    """One graph of hidden tokens."""

    def fill(self, text: str, *, k: int = TOP, beam: int = BEAM) -> list[Filling]:
        """The k best ways to fill the blanks of a text, written `___` or `[MASK]`."""
        return self.fill_all([check_text(text, "text")], k=k, beam=beam)[0]

    def fill_all(self, texts: Sequence[str], *, k: int = TOP, beam: int = BEAM) -> list[list[Filling]]:
        """The same for each of several texts; an empty one has nothing to fill.

        The blanks of a text are filled together, the most certain one first (see `best_first`); `beam`
        partial fillings are kept, or k where that is more.
        """
        if k < 1 or beam < 1:
            raise InputError("k" if k < 1 else "beam", "is less than 1, so nothing would be found")
        return [
            self._fill(Blanks.of(text, self.codec), k, max(k, beam)) if text.strip() else []
            for text in check_texts(texts)
        ]

    def _read_part(self, text: str) -> str:
        return BLANK.sub(" ", text)

    def _guess(self, partials: Sequence[Partial], width: int) -> tuple[list[list[float]], list[list[int]]]:
        """ln P of the likeliest words at the blanks, among all that may be filled in, and these words."""
        ids, lengths = pad([partial.ids for partial in partials])
        places = [step * len(partials) + row for row, one in enumerate(partials) for step in one.blanks]
        given = {"ids": ids, "lengths": lengths, "places": np.array(places)}
        (log_probs,) = self.session.run(["log_probs"], given)
        log_probs[:, self.settings["never"]] = -math.inf
        log_probs = normalise(log_probs)
        best = np.argsort(-log_probs, axis=1, kind="stable")[:, :width]
        return np.take_along_axis(log_probs, best, axis=1).tolist(), best.tolist()

    def _fill(self, blanks: Blanks, k: int, width: int) -> list[Filling]:
        [found] = best_first([Partial(blanks.ids, blanks.places)], self._guess, width)
        return [self._filling(blanks, partial) for partial in found[:k]]

    def _filling(self, blanks: Blanks, partial: Partial) -> Filling:
        words = [partial.ids[place] for place in blanks.places]
        tokens = tuple(token_text(word, self.codec).strip(" ") for word in words)
        return Filling(blanks.filled(words, self.codec), tokens, math.exp(partial.log_prob))
