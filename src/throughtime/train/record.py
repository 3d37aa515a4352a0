"""What the validations of a run have found so far."""

from __future__ import annotations

import math
from typing import Any, Literal


class Record:
    """The scores of all validations, less being better whatever is measured, and the best one's figures.

    `every` epochs lie between two validations; the last epoch is validated in any case. What is infinite or
    no number is no record, and makes the model `broken` until the next validation.

    >>> record = Record("bleu", "more", every=5)
    >>> record.take({"bleu": 20.0}, {}, step=50), record.take({"bleu": 19.0}, {}, step=100)
    (True, False)
    >>> record.best, record.best_epoch(after=10), record.stalled
    ({'bleu': 20.0}, 5, 1)
    """

    def __init__(self, measure: str, better: Literal["less", "more"], every: int) -> None:
        self._measure, self._sign, self._every = measure, 1 if better == "less" else -1, every
        self.scores: list[float] = []
        self.best: dict[str, float] = {}
        self._best_at = 0
        self.broken = False
        self.judged_at = 0  # the update after which the model was last judged

    def take(self, valid: dict[str, float], train: dict[str, float], step: int) -> bool:
        """Whether this validation, after update `step`, is the best so far; without data each one is."""
        self.judged_at = step
        figures = [valid[self._measure]] if valid else [*train.values()]
        self.broken = not all(map(math.isfinite, figures))
        better = not self.broken
        if valid:
            score, least = (math.inf if self.broken else self._sign * figures[0]), self._least
            # Where nothing is right yet, as BLEU 0 says of every epoch, a smaller loss is progress.
            closer = valid.get("loss", math.inf) < self.best.get("loss", math.inf)
            better = score < least or (score == least < math.inf and closer)
            if better:
                self._best_at = len(self.scores)
            self.scores.append(score)
        if better:
            self.best = valid or train
        return better

    @property
    def stalled(self) -> int:
        """How many validations there were since the best."""
        return len(self.scores) - 1 - self._best_at if self.scores else 0

    @property
    def _least(self) -> float:
        return min(self.scores, default=math.inf)

    def best_epoch(self, after: int) -> int:
        """The epoch with the best validation, after so many epochs."""
        return min(after, (len(self.scores) - self.stalled) * self._every) if self.scores else after

    def values(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"scores": self.scores, "best": self.best, "best_at": self._best_at}

    def restore(self, values: dict[str, Any], step: int) -> None:
        """Go on from a checkpoint after update `step`."""
        self.scores, self.best, self.judged_at = values["scores"], values["best"], step
        # A checkpoint of an older run knows scores alone.
        self._best_at = values.get("best_at", self.scores.index(self._least) if self.scores else 0)
        self.broken = self.scores[-1:] == [math.inf]
