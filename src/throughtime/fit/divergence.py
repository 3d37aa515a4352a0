"""Trainings that diverge: how it is noticed, and what the error says."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from throughtime.errors import ThroughtimeError
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.fit.checkpoint import Checkpoints
    from throughtime.fit.learner import Learner
    from throughtime.fit.processes import Processes

DIVERGENCE_FACTOR = 1_000.0
"""A loss larger than the first by this factor has diverged."""
MAX_SKIPS = 10
"""Number of skipped updates after which a run gives up: the rate is then a thousandth of what it was."""


class Guard:
    """Stops a run that diverges, with an error that names the update, its batch and its rate."""

    def __init__(self, learner: Learner, checkpoints: Checkpoints, report_every: int) -> None:
        self._learner, self._checkpoints = learner, checkpoints
        self.limits = LossLimits()
        self._recent: deque[tuple[dict[str, Any], float]] = deque(maxlen=2 * report_every)

    def add_update(self, position: dict[str, Any], rate: float) -> None:
        """Remember the position after an update, and its rate."""
        self._recent.append((position, rate))

    def begin(self, processes: Processes) -> None:
        """Read the first loss at once: by the first report, training may have diverged already."""
        if "training" not in self.limits.first:
            _, _, total, targets, *_ = self._learner.tally.state(processes)
            if targets:  # else it was skipped
                self.limits.problem("training", total / targets)

    def check_loss(self, kind: str, loss: float, step: int, epoch: int) -> None:
        """Stop the run if the training or validation loss after `step` updates is far above the first."""
        if (problem := self.limits.problem(kind, loss)) is not None:
            # The schedule may have lowered the rate to almost 0 since.
            rate = max((rate for _, rate in self._recent), default=0.0)
            raise self._error(problem, f"update {step} (epoch {epoch})", rate)

    def check_numbers(self, step: int, resumed_at: int) -> None:
        """Stop the run if too many updates had to be skipped, or if the last one has broken the weights."""
        tally = self._learner.tally
        too_many = tally.skips >= MAX_SKIPS
        # The last update may have broken the weights though its gradient was finite.
        if not too_many and (step == resumed_at or self._learner.is_finite()):
            return
        update, problem = step, "weights became NaN or infinite"
        if too_many:
            update = resumed_at + tally.last_skip + 1
            problem = (
                f"the loss or its gradient was NaN or infinite in {format_count(tally.skips, 'update')}, "
                "although each of them was skipped and halved the rate; the last was"
            )
        position, rate = self._recent[len(self._recent) - 1 - (step - update)]
        raise self._error(
            problem, f"update {update} (epoch {position['epoch'] + 1}, batch {position['batch']})", rate
        )

    def _error(self, problem: str, where: str, rate: float) -> ThroughtimeError:
        """Return the error of a run that diverged: what happened and where, and what to do."""
        names = self._checkpoints.names()
        start = f"from {names[-1]}, which is kept" if names else "from the beginning"
        return ThroughtimeError(
            f"training diverged: {problem} at {where}; lower lr (it was {rate:.3g}), set or lower clip, or "
            f"scale the data; a resumed run starts {start}, and takes a new lr or clip"
        )


def describe_skips(skips: int, rate: float) -> str:
    """Describe the updates that were skipped since the last report."""
    return (
        f"Skipped {format_count(skips, 'update')}: the loss or its gradient was NaN or infinite; "
        f"each such update halves the learning rate, which is now {rate:.3g}."
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

    def problem(self, kind: str, loss: float) -> str | None:
        """Return what is wrong with this loss, or None; the first finite loss sets the limit."""
        if not math.isfinite(loss):
            return f"the {kind} loss is not finite"
        first = self.first.setdefault(kind, loss)
        if loss <= DIVERGENCE_FACTOR * max(first, 1.0):
            return None
        return (
            f"the {kind} loss is {loss:.3g}, more than {DIVERGENCE_FACTOR:,.0f} times the first ({first:.3g})"
        )


def validation_loss(valid: Mapping[str, float], trained: Iterable[str]) -> float | None:
    """Return the validation loss: the measure that training reports too; None if there is none.

    >>> validation_loss({"bleu": 20.0, "perplexity": math.e}, ["perplexity"])
    1.0
    """
    name = next((name for name in ("loss", *trained) if name in valid), None)
    if name is None:
        return None
    # Perplexity is the exponential of the loss, so a thousandfold perplexity is not a divergence.
    return math.log(valid[name]) if name == "perplexity" else valid[name]
