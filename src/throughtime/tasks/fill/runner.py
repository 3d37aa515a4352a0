"""An exported model that fills blanks, without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from throughtime.runtime.runner import TextRunner, normalise, pad
from throughtime.tasks.fill.filling import BlankFiller, Partial


class FillerRunner(BlankFiller, TextRunner):
    """An exported model that fills blanks."""

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
