"""What a checkpoint holds of a run, and how a run goes on from it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from throughtime.accelerate import adopt_times, export_times
from throughtime.fit.checkpoint import Checkpoint

if TYPE_CHECKING:
    from throughtime.fit.trainer import Trainer


def save_run(trainer: Trainer) -> Path | None:
    """Write a checkpoint of all that the rest of the run depends on; never after divergence."""
    trainer.guard.check_numbers(trainer.step, trainer.resumed_at)
    trainer.saved_at = time.monotonic()
    tensors, tally = trainer.learner.tensors(), trainer.learner.tally.state(trainer.processes)
    _, _, total, targets, *_ = tally
    if targets and "training" in trainer.guard.limits.first:
        trainer.guard.check_loss("training", total / targets, trainer.step, trainer.epoch_and_update()[0])
    if not trainer.processes.first:
        return None
    values = {
        "position": trainer.position,
        **trainer.record.values(),
        "train": trainer.last_train,
        "tally": tally,
        "clock": trainer.clock.state(),
        "rate": trainer.rate,
        "lr": trainer.config.lr,
        "first_losses": trainer.guard.limits.first,
        "seconds": trainer.seconds(),
        "plan": trainer.plan and trainer.plan.state(),
        "data": trainer.checksums,
        "times": export_times() or {},
    }
    return trainer.checkpoints.save(trainer.step, tensors, values)


def restore_run(trainer: Trainer, checkpoint: Checkpoint, same_data: bool = True) -> None:
    """Resume exactly from this checkpoint; with other data, from the beginning of its epoch."""
    values, position = checkpoint.values, checkpoint.values["position"]
    adopt_times(values["times"])
    trainer.learner.restore(checkpoint.tensors, str(checkpoint.path))
    trainer.learner.tally.restore(values["tally"], trainer.processes)
    if values["lr"] != trainer.config.lr:
        trainer.learner.tally.forget_skips()
    trainer.clock_before, trainer.rate = values["clock"], values["rate"]
    trainer.guard.limits.first = values["first_losses"]
    trainer.position = position if same_data else {**trainer.position, "epoch": position["epoch"]}
    trainer.batches.restore(trainer.position)
    trainer.record.restore(values, checkpoint.step)
    trainer.last_train, trainer.seconds_before = values["train"], values["seconds"]
    trainer.step = trainer.resumed_at = checkpoint.step
    if trainer.plan is not None and values["plan"] is not None:
        trainer.plan.restore(values["plan"], trainer.seconds_before, trainer.step)
    # Ctrl-C may have come after the last update of an epoch, before it was reported and validated.
    later = ["epoch", "valid"] if position["batch"] else []
    trainer.metrics.rewind(checkpoint.step, [*later, *["train"] * trainer.learner.tally.pending])
