"""Filling blanks without torch: what a trained model and its export share, and the export itself.

Several blanks of a sentence are filled together: the most certain one first, then the others given it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from throughtime.interrupt import check_interrupt
from throughtime.results import Filling, Progress, with_alternatives
from throughtime.runtime.checks import Size
from throughtime.runtime.keywords import complete_options
from throughtime.runtime.runner import TextRunner, normalise, pad
from throughtime.tasks.fill import FillOptions
from throughtime.text.codec import Codec
from throughtime.text.framing import BLANK, Blanks, token_text
from throughtime.text.texts import check_texts

ROWS_AT_ONCE, BLANKS_AT_ONCE = 256, 1_024
"""Partial fillings that are read at once, and blanks for each of which all words are scored at once."""


class Partial(NamedTuple):
    """A sentence with some blanks filled: its ids, the places still blank, ln P of the filled ones."""

    ids: tuple[int, ...]
    blanks: tuple[int, ...]
    log_prob: float = 0.0


Guess = Callable[[Sequence[Partial], int], tuple[list[list[float]], list[list[int]]]]
"""From partial fillings and a number of words to ln P of the most likely words at each blank, and these."""


class BlankFiller(ABC):
    """A model that fills blanks, trained or exported."""

    codec: Codec
    sentences_per_batch: int

    def fill(
        self, texts: str | Sequence[str], *, progress: Progress | None = None, **options: Unpack[FillOptions]
    ) -> list[Filling]:
        """Fill the blanks of each text, written `___` or `[MASK]`: the best way and `k` - 1 alternatives.

        The blanks of a text are filled together, the most certain one first (see `best_first`), with a beam
        of `num_beams` partial fillings (10 by default), or `k` (5 by default) if that is more. An empty text
        stays empty; any other text without a blank is refused.
        """
        chosen = complete_options(FillOptions, options)
        k, num_beams, texts = chosen["k"], chosen["num_beams"], check_texts(texts)
        blanks = [self._read(text) for text in texts if text.strip()]
        answers: list[Filling] = []
        for first in range(0, len(blanks), self.sentences_per_batch):
            block = blanks[first : first + self.sentences_per_batch]
            sentences = [Partial(one.ids, one.places) for one in block]
            beams = best_first(sentences, self._guess, max(k, num_beams))
            for one, own in zip(block, beams, strict=True):
                fillings = [self._build_filling(one, partial) for partial in own[:k]]
                answers.append(with_alternatives(fillings or [Filling(one.text, (), 0.0)]))
            if progress is not None:
                progress(len(answers), len(blanks))
        rest = iter(answers)
        return [next(rest) if text.strip() else Filling(text, (), 1.0) for text in texts]

    @abstractmethod
    def _guess(self, partials: Sequence[Partial], width: int) -> tuple[list[list[float]], list[list[int]]]:
        """ln P of the most likely words at each blank, without special tokens, and their ids."""

    def _read_part(self, text: str) -> str:
        """The text without its blanks, about which no warning is due."""
        return BLANK.sub(" ", text)

    def _read(self, text: str) -> Blanks:
        check_interrupt()
        return Blanks.of(text, self.codec)

    def _build_filling(self, blanks: Blanks, partial: Partial) -> Filling:
        words = [partial.ids[place] for place in blanks.places]
        tokens = tuple(token_text(word, self.codec).strip(" ") for word in words)
        return Filling(blanks.fill(words, self.codec), tokens, math.exp(partial.log_prob))


def best_first(sentences: Sequence[Partial], guess: Guess, width: int) -> list[list[Partial]]:
    """Find the most likely fillings of each sentence, best first, with a beam of `width` partial fillings.

    Each step fills the most certain blank of each partial filling, the one whose best word has the highest
    probability, with each of its `width` best words; then the model reads the sentences again. The order of
    the blanks may differ between fillings, but follows from the filling: none is found twice, and the
    probabilities of all possible fillings (products of conditional probabilities in that order) sum to 1.
    """
    beams = [[sentence] for sentence in sentences]
    while open_beams := [number for number, beam in enumerate(beams) if beam and beam[0].blanks]:
        partials = [partial for number in open_beams for partial in beams[number]]
        grown = iter(_fill_surest(partials, guess, width))
        for number in open_beams:
            candidates = [one for _ in beams[number] for one in next(grown)]
            beams[number] = sorted(candidates, key=lambda one: -one.log_prob)[:width]
    return beams


def _fill_surest(partials: Sequence[Partial], guess: Guess, width: int) -> list[list[Partial]]:
    """Fill the most certain blank of each partial filling with each of its `width` best words."""
    results: list[list[Partial]] = [[] for _ in partials]
    order = sorted(range(len(partials)), key=lambda number: len(partials[number].ids))  # little padding
    for chosen in _split_batches(order, partials):
        check_interrupt()
        values, words = guess([partials[number] for number in chosen], width)
        row = 0
        for number in chosen:
            partial = partials[number]
            rows = range(row, row + len(partial.blanks))
            row = rows.stop
            surest = max(rows, key=lambda one: values[one][0])
            place = partial.blanks[surest - rows.start]
            results[number] = [
                Partial(
                    (*partial.ids[:place], word, *partial.ids[place + 1 :]),
                    tuple(blank for blank in partial.blanks if blank != place),
                    partial.log_prob + log_prob,
                )
                for word, log_prob in zip(words[surest], values[surest], strict=True)
                if log_prob != -math.inf
            ]
    return results


class FillerSettings(TypedDict):
    """The settings of an exported model that fills blanks."""

    never: list[Size]  # ids that fill no blank


def _split_batches(order: Sequence[int], partials: Sequence[Partial]) -> Iterator[list[int]]:
    """Split the numbers of partial fillings so that few enough blanks are guessed at once."""
    batch: list[int] = []
    blanks = 0
    for number in order:
        own = len(partials[number].blanks)
        if batch and (len(batch) == ROWS_AT_ONCE or blanks + own > BLANKS_AT_ONCE):
            yield batch
            batch, blanks = [], 0
        batch.append(number)
        blanks += own
    if batch:
        yield batch


class FillerRunner(BlankFiller, TextRunner):
    """An exported model that fills blanks."""

    settings_type = FillerSettings

    sentences_per_batch = 1  # what a quantised model computes depends on the other rows of the batch

    def _guess(self, partials: Sequence[Partial], width: int) -> tuple[list[list[float]], list[list[int]]]:
        ids, lengths = pad([partial.ids for partial in partials])
        places = [step * len(partials) + row for row, one in enumerate(partials) for step in one.blanks]
        given = {"ids": ids, "lengths": lengths, "places": np.array(places)}
        (log_probs,) = self.session.run(["log_probs"], given)
        log_probs[:, self.settings["never"]] = -math.inf
        log_probs = normalise(log_probs)
        best = np.argsort(-log_probs, axis=1, kind="stable")[:, :width]
        return np.take_along_axis(log_probs, best, axis=1).tolist(), best.tolist()
