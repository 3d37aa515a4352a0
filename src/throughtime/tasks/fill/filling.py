"""Several blanks filled together: the most certain one first, and the others in its light."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from throughtime.errors import InputError
from throughtime.results import Filling, Progress, with_alternatives
from throughtime.text.blanks import Blanks, token_text
from throughtime.text.codec import Codec
from throughtime.text.texts import check_texts

ROWS_AT_ONCE = 256


class Partial(NamedTuple):
    """A sentence with some blanks filled: its ids, the places still blank, ln P of what was filled in."""

    ids: tuple[int, ...]
    blanks: tuple[int, ...]
    log_prob: float = 0.0


Guess = Callable[[Sequence[Partial], int], tuple[list[list[float]], list[list[int]]]]
"""Given partials and a number of words: ln P of the likeliest words at each blank, and these words."""


class BlankFiller(ABC):
    """A model that fills blanks, trained or exported."""

    codec: Codec
    sentences_at_once: int

    def fill(
        self,
        texts: str | Sequence[str],
        *,
        k: int = 5,
        num_beams: int = 10,
        progress: Progress | None = None,
    ) -> list[Filling]:
        """The best way to fill the blanks of each text, written `___` or `[MASK]`, and k - 1 alternatives.

        The blanks of a text are filled together, the most certain one first (see `best_first`); `num_beams`
        partial fillings are kept, or k where that is more. An empty text stays empty; another one without a
        blank is refused.
        """
        for name, value in (("k", k), ("num_beams", num_beams)):
            if value < 1:
                raise InputError(name, f"is {value}, expected 1 or more")
        texts = check_texts(texts)
        blanks = [Blanks.of(text, self.codec) for text in texts if text.strip()]
        found: list[Filling] = []
        for first in range(0, len(blanks), self.sentences_at_once):
            block = blanks[first : first + self.sentences_at_once]
            sentences = [Partial(one.ids, one.places) for one in block]
            beams = best_first(sentences, self._guess, max(k, num_beams))
            for one, own in zip(block, beams, strict=True):
                fillings = [self._filling(one, partial) for partial in own[:k]]
                found.append(with_alternatives(fillings or [Filling(one.text, (), 0.0)]))
            if progress is not None:
                progress(len(found), len(blanks))
        rest = iter(found)
        return [next(rest) if text.strip() else Filling(text, (), 1.0) for text in texts]

    @abstractmethod
    def _guess(self, partials: Sequence[Partial], width: int) -> tuple[list[list[float]], list[list[int]]]:
        """ln P of the likeliest words at the blanks, among all that may be filled in, and these words."""

    def _filling(self, blanks: Blanks, partial: Partial) -> Filling:
        words = [partial.ids[place] for place in blanks.places]
        tokens = tuple(token_text(word, self.codec).strip(" ") for word in words)
        return Filling(blanks.filled(words, self.codec), tokens, math.exp(partial.log_prob))


def best_first(sentences: Sequence[Partial], guess: Guess, width: int) -> list[list[Partial]]:
    """The likeliest fillings of each sentence, best first; at most `width` are kept on the way.

    Each partial filling is asked for its most certain blank, the one whose best word is the likeliest. That
    blank gets each of its `width` best words, the model reads the sentence anew with it, and so on. So the
    order may be another one for each filling, but is given by it: no filling is found twice, and the
    probabilities of all that there are, products of the conditional ones in that order, sum to 1.
    """
    beams = [[sentence] for sentence in sentences]
    while open_beams := [number for number, beam in enumerate(beams) if beam and beam[0].blanks]:
        partials = [partial for number in open_beams for partial in beams[number]]
        grown = iter(_grown(partials, guess, width))
        for number in open_beams:
            candidates = [one for _ in beams[number] for one in next(grown)]
            beams[number] = sorted(candidates, key=lambda one: -one.log_prob)[:width]
    return beams


def _grown(partials: Sequence[Partial], guess: Guess, width: int) -> list[list[Partial]]:
    """Each partial filling with its most certain blank filled in several ways."""
    found: list[list[Partial]] = [[] for _ in partials]
    order = sorted(range(len(partials)), key=lambda number: len(partials[number].ids))  # little padding
    for first in range(0, len(order), ROWS_AT_ONCE):
        chosen = order[first : first + ROWS_AT_ONCE]
        values, words = guess([partials[number] for number in chosen], width)
        row = 0
        for number in chosen:
            partial = partials[number]
            rows = range(row, row + len(partial.blanks))
            row = rows.stop
            surest = max(rows, key=lambda one: values[one][0])
            place = partial.blanks[surest - rows.start]
            found[number] = [
                _with(partial, place, word, log_prob)
                for word, log_prob in zip(words[surest], values[surest], strict=True)
                if log_prob > float("-inf")
            ]
    return found


def _with(partial: Partial, place: int, word: int, log_prob: float) -> Partial:
    return Partial(
        (*partial.ids[:place], word, *partial.ids[place + 1 :]),
        tuple(blank for blank in partial.blanks if blank != place),
        partial.log_prob + log_prob,
    )
