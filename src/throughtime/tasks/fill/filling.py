"""Several blanks filled together: the most certain one first, and the others in its light."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

ROWS_AT_ONCE = 256


class Partial(NamedTuple):
    """A sentence with some blanks filled: its ids, the places still blank, ln P of what was filled in."""

    ids: tuple[int, ...]
    blanks: tuple[int, ...]
    log_prob: float = 0.0


Guess = Callable[[Sequence[Partial], int], tuple[list[list[float]], list[list[int]]]]
"""Given partials and a number of words: ln P of the likeliest words at each blank, and these words."""


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
