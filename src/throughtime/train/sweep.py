"""The learning-rate finder's run: one update at each of many rising rates."""

from __future__ import annotations

import itertools
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from throughtime.train.config import TrainingConfig
from throughtime.train.finder import suggestion
from throughtime.train.progress import Silent
from throughtime.train.task import Task
from throughtime.train.trainer import Trainer

UPDATES = {"sgd": 300, "nt-asgd": 300, "adam": 100, "adamw": 100}
"""Rates to try: plain descent is slow to learn more than how frequent each word is."""
SPAN = 1e6
HIGHEST = {"sgd": 1e3, "nt-asgd": 1e3, "adam": 1.0, "adamw": 1.0}
"""Rates above these are of no use; Adam's step is as long as its rate, whatever the gradient."""


@dataclass(frozen=True)
class Found:
    """The rates that were tried, the loss at each, and which one to take."""

    rates: list[float]
    losses: list[float]
    suggested: float


def sweep(task: Task, config: TrainingConfig, updates: int | None = None) -> Found:
    """Train with a rate that rises from one update to the next, until the loss breaks away."""
    updates = updates or UPDATES[config.optimizer]
    high = HIGHEST[config.optimizer]
    rates = [high / SPAN * SPAN ** (number / (updates - 1)) for number in range(updates)]
    losses: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(task, config, Path(folder), Silent(), improved=lambda measured: None)
        trainer.rate_of = lambda standing: rates[standing.step]
        task.model.train()
        while len(losses) < updates:
            for group in itertools.islice(trainer.groups(), updates - len(losses)):
                trainer.update(group)
                total, targets = trainer.learner.tally.lap(trainer.processes)
                losses.append(total / targets)
                if not math.isfinite(losses[-1]) or losses[-1] > 4 * losses[0]:
                    return _found(rates, losses)
    return _found(rates, losses)


def _found(rates: list[float], losses: list[float]) -> Found:
    tried = rates[: len(losses)]
    return Found(tried, losses, suggestion(tried, losses))
