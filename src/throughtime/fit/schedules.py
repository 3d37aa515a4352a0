"""Learning-rate schedules as pure functions of the progress of training: they have no state to save."""

from __future__ import annotations

import math
from typing import NamedTuple

from throughtime.fit.config import SCHEDULES, TrainingConfig


class Standing(NamedTuple):
    """The progress of training before update number `step`, counted from 0.

    `scores` are the validation measures so far, lower is better. `planned` is the share of the training that
    is done, if time determines it instead of the number of epochs.
    """

    step: int
    steps_per_epoch: int
    epochs: int
    scores: tuple[float, ...] = ()
    planned: float | None = None

    @property
    def epoch(self) -> int:
        """The epoch that the update belongs to, counted from 0."""
        return self.step // self.steps_per_epoch

    @property
    def last(self) -> int:
        """The number of the last update."""
        return self.steps_per_epoch * self.epochs - 1

    @property
    def progress(self) -> float:
        """The share of the training that is done: 0 at the first update, 1 at the last."""
        if self.planned is not None:
            return self.planned
        return min(1.0, self.step / self.last) if self.last > 0 else 0.0


def rate(config: TrainingConfig, standing: Standing) -> float:
    """The learning rate of update number `standing.step`.

    >>> config = TrainingConfig(lr=1.0, schedule="step", decay=0.5, decay_after=2)
    >>> [rate(config, Standing(step, steps_per_epoch=1, epochs=5)) for step in range(5)]
    [1.0, 1.0, 0.5, 0.25, 0.125]
    """
    schedule = SCHEDULES[config.schedule]
    factor = schedule(config, standing)
    if schedule is not one_cycle:  # which has a rise of its own
        factor *= min(1.0, (standing.step + 1) / (config.warmup_steps + 1))
    return config.lr * factor


def constant(config: TrainingConfig, standing: Standing) -> float:
    """Always `lr`."""
    return 1.0


def step(config: TrainingConfig, standing: Standing) -> float:
    """One decay with the first epoch after `decay_after`, and one more every `decay_every` epochs."""
    decays = math.ceil((standing.epoch + 1 - config.decay_after) / config.decay_every)
    return config.decay ** max(0, decays)


def plateau(config: TrainingConfig, standing: Standing) -> float:
    """One decay each time that `plateau_patience` + 1 epochs in a row brought no new best."""
    best, stalled, decays = math.inf, 0, 0
    for score in standing.scores:
        if score < best:
            best, stalled = score, 0
        elif stalled == config.plateau_patience:
            stalled, decays = 0, decays + 1
        else:
            stalled += 1
    return config.decay**decays


def cosine(config: TrainingConfig, standing: Standing) -> float:
    """Half a cosine from 1 at the first update to `final_lr` at the last."""
    return _half_cosine(1.0, config.final_lr or 0.0, standing.progress)


def one_cycle(config: TrainingConfig, standing: Standing) -> float:
    """A cosine rise from 1/25 in the first share `rise` of all updates, and a cosine fall over the others."""
    updates = standing.last + 1
    peak = (config.rise * updates - 1) / max(standing.last, 1)  # as a share of the progress
    if standing.progress < peak:
        return _half_cosine(1 / 25, 1.0, standing.progress / peak)
    peak = max(peak, 0.0)
    final = 1e-4 if config.final_lr is None else config.final_lr
    return _half_cosine(1.0, final, (standing.progress - peak) / (1 - peak) if peak < 1 else 0.0)


def _half_cosine(first: float, final: float, progress: float) -> float:
    return final + (first - final) * (1 + math.cos(math.pi * min(1.0, progress))) / 2
