"""A model that fills blanks: sentences in, words and probabilities out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from throughtime.runtime.runner import TextRunner, normalise, pad
from throughtime.tasks.fill.filling import BlankFiller, Partial
from throughtime.text.blanks import BLANK


class FillerRunner(BlankFiller, TextRunner):
    """One graph of hidden tokens."""

    sentences_at_once = 1  # the numbers of a quantised model depend on what it reads beside a sentence

    def _read_part(self, text: str) -> str:
        return BLANK.sub(" ", text)

    def _guess(self, partials: Sequence[Partial], width: int) -> tuple[list[list[float]], list[list[int]]]:
        ids, lengths = pad([partial.ids for partial in partials])
        places = [step * len(partials) + row for row, one in enumerate(partials) for step in one.blanks]
        given = {"ids": ids, "lengths": lengths, "places": np.array(places)}
        (log_probs,) = self.session.run(["log_probs"], given)
        log_probs[:, self.settings["never"]] = -math.inf
        log_probs = normalise(log_probs)
        best = np.argsort(-log_probs, axis=1, kind="stable")[:, :width]
        return np.take_along_axis(log_probs, best, axis=1).tolist(), best.tolist()
