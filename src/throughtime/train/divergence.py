"""Detect divergence: a loss that is not finite, or far above the first one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from throughtime.errors import ThroughtimeError

FACTOR = 1_000.0


def diverged(problem: str, place: str, rate: float, checkpoints: Sequence[str]) -> ThroughtimeError:
    """The error of a run that diverged: what happened and where, what to do, and where to resume."""
    start = f"from {checkpoints[-1]}, which is kept" if checkpoints else "from the beginning"
    return ThroughtimeError(
        f"training diverged: {problem} at {place}; lower lr (it was {rate:.3g}), set or lower clip, or scale "
        f"the data; a resumed run starts {start}, and takes a new lr or clip"
    )


class LossLimits:
    """Limits of the training and the validation loss, as multiples of the first loss of each.

    A first loss below 1 counts as 1, as a loss may be negative or near 0, such as that of a Gaussian.

    >>> limits = LossLimits()
    >>> limits.problem("training", 0.3), limits.problem("training", 900.0)
    (None, None)
    >>> limits.problem("training", 2e4)
    'the training loss is 2e+04, more than 1,000 times the first (0.3)'
    """

    def __init__(self) -> None:
        self.first: dict[str, float] = {}

    def problem(self, part: str, loss: float) -> str | None:
        """What is wrong with this loss, or None; the first finite loss sets the limit."""
        if not math.isfinite(loss):
            return f"the {part} loss is infinite or no number"
        first = self.first.setdefault(part, loss)
        if loss <= FACTOR * max(first, 1.0):
            return None
        return f"the {part} loss is {loss:.3g}, more than {FACTOR:,.0f} times the first ({first:.3g})"


def validation_loss(valid: Mapping[str, float], trained: Iterable[str]) -> float | None:
    """The validation loss: the measure that training reports too; None if there is none.

    >>> validation_loss({"bleu": 20.0, "perplexity": math.e}, ["perplexity"])
    1.0
    """
    name = next((name for name in ("loss", *trained) if name in valid), None)
    if name is None:
        return None
    # Perplexity is the exponential of the loss, so a thousandfold perplexity is not a divergence.
    return math.log(valid[name]) if name == "perplexity" else valid[name]
