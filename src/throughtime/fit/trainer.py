"""The training loop, from the first batch to the saved model. An objective has the model, data and loss.

The learner updates the weights; the trainer sets the rate, validates, reports and saves. All random numbers
of an update follow from (seed, update, process), and batches have a position, so a run that is killed and
resumed from its checkpoint ends with the same weights as one that was never interrupted.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from throughtime.accelerate import find_learner
from throughtime.errors import InterruptedRunError
from throughtime.fit.checkpoint import Checkpoints
from throughtime.fit.config import TrainingConfig
from throughtime.fit.divergence import Guard, describe_skips, validation_loss
from throughtime.fit.learner import Learner, PreparedBatch
from throughtime.fit.metrics import Metrics, Record, Summary
from throughtime.fit.objective import Objective
from throughtime.fit.processes import Meetings, Processes, listen_for_interrupts
from throughtime.fit.progress import Reporter
from throughtime.fit.saved_run import restore_run, save_run
from throughtime.fit.schedules import Standing, rate
from throughtime.fit.time_plan import TimePlan, format_minutes
from throughtime.fit.timing import Report
from throughtime.layers.devices import autocast, seed_generators


class Trainer:
    """Trains the model of an objective. `improved` is called whenever the weights are the best so far."""

    def __init__(
        self,
        objective: Objective,
        config: TrainingConfig,
        run: Path,
        reporter: Reporter,
        *,
        improved: Callable[[dict[str, float]], None],
        processes: Processes | None = None,
    ) -> None:
        self.objective, self.config, self.reporter, self.improved = objective, config, reporter, improved
        self.begin_update: Callable[[float], None] | None = getattr(objective, "begin_update", None)
        self.run, self.processes = run, processes or Processes()
        self.batches = objective.batches(self.processes.rank, self.processes.world_size)
        # Code for the device sees the batches of the first epoch, also in a run that is resumed later.
        self.settled: str | None = getattr(objective, "settled", None)
        learner = None
        if self.settled is None:
            learner = find_learner(objective, config, self.processes, self.batches, reporter.say)
        self.learner = learner or Learner(objective, config, self.processes)
        self.device = self.learner.device
        self.checkpoints = Checkpoints(run / "checkpoints", config.keep)
        self.metrics = Metrics(run / "metrics.jsonl" if self.processes.first else None)
        # Epochs may differ by a batch, as each begins at another token; schedules use the first.
        self.steps_per_epoch = -(-len(self.batches) // config.accumulate)
        self.step = self.resumed_at = 0
        planned = config.minutes if config.num_epochs is None else None
        self.plan = None if planned is None else TimePlan(60 * planned)
        self.shortfall: str | None = None
        self.rate_of: Callable[[Standing], float] = partial(rate, config)
        self.rate = config.lr
        self.position = self.batches.state()
        self.checksums: list[list[str]] = []  # of the data files, for the checkpoints
        self.record = Record(objective.measure, objective.better)
        self.guard = Guard(self.learner, self.checkpoints, config.report_every)
        self.last_train: dict[str, float] = {}
        self.meetings = Meetings(self.processes)
        self.out_of_time = self.validates_early = False
        self.clock, self.clock_before = self.learner.clock, [0.0, 0.0]
        self.began = self.saved_at = time.monotonic()
        self.seconds_before = 0.0

    def fit(self) -> Summary:
        """Train until all epochs are done, the time is over or nothing improves; Ctrl-C saves and raises."""
        self.saved_at = time.monotonic()
        if self.processes.first:
            self.checkpoints.sweep()
        self.clock.restore(self.clock_before)
        with contextlib.ExitStack() as stack:
            self.interrupts = stack.enter_context(listen_for_interrupts())
            stack.enter_context(self.learner.computing())
            stack.callback(self.metrics.close)
            while (why := self._stop_reason()) is None:
                self._epoch()
            if self.position["batch"]:
                self._end_inside(why)
            elif self.step > self.record.validated_at or self.settled:  # stopped between two validations
                self._validate_and_save()
        if self.plan is not None and self._time_is_over():
            self.shortfall = self.plan.explain_shortfall(self.step, self.seconds())
        return Summary(
            steps=self.step,
            epochs=self.position["epoch"],
            seconds=self.seconds(),
            train=self.last_train,
            best=self.record.best,
            best_epoch=self.record.best_epoch,
            best_step=self.record.best_step,
            best_inside=self.record.best_inside,
            why=why,
            skipped=self.learner.tally.skips,
            planned=self.plan.announced if self.plan is not None and self.shortfall else None,
        )

    def _epoch(self) -> None:
        """Train to the end of the epoch, or until the time is over."""
        self.objective.model.train()
        due = False
        for group in self.groups():
            # Checked before an update, not after: the last update of an epoch is followed by validation.
            if self.out_of_time:
                break
            if due:
                self._save()
            self.update(group)
            if self.step % self.config.report_every == 0:
                self._report()
            every = self.config.checkpoint_every
            due = self._agree() or (every is not None and self.step % every == 0)
            if self.validates_early:
                self._report()
                self._validate_inside()
                self.clock.lap()
                self.objective.model.train()
                self.validates_early = False
        else:
            self._close_epoch()

    def groups(self) -> Iterator[list[PreparedBatch]]:
        """Yield the batches of one update after another, to the end of the epoch."""
        prepared = self.learner.prepare(self.batches)
        while group := list(itertools.islice(prepared, self.config.accumulate)):
            yield group

    def update(self, group: Sequence[PreparedBatch]) -> None:
        """Take one step of the optimiser."""
        seeds = np.random.SeedSequence([self.config.seed, self.step, self.processes.rank])
        seed_generators(self.device, int(seeds.generate_state(1)[0]))
        planned = None if self.plan is None else self.plan.progress(self.step)
        scores = tuple(self.record.scores)
        standing = Standing(self.step, self.steps_per_epoch, self.epochs, scores, planned)
        self.rate = self.rate_of(standing)
        self.learner.set_rate(self.rate)
        if self.begin_update is not None:
            self.begin_update(standing.progress)
        count = sum(self.objective.count(prepared.batch) for prepared in group)
        with self.clock.inside():
            self.learner.update([prepared.batch for prepared in group], count)
        self.guard.begin(self.processes)
        self.step += 1
        self.position = group[-1].position
        self.guard.add_update(self.position, self.rate)
        # Updates that the device has not finished are not counted; this does not wait for them.
        ahead = self.clock.count_unfinished()
        epoch, inside = self.epoch_and_update()
        self.reporter.add_update(epoch, max(inside - ahead, 0), self.step - ahead, count)

    def _report(self) -> None:
        """Report the updates since the last report. Only here the host waits for the device."""
        lap = self.learner.tally.lap(self.processes)
        self.guard.check_numbers(self.step, self.resumed_at)
        epoch, step_in_epoch = self.epoch_and_update()
        rate = self.rate * float(self.learner.tally.rate_factor)
        if lap.skipped:
            self.reporter.say(describe_skips(lap.skipped, rate))
        if not lap.targets:
            if lap.skipped:
                self.metrics.write("train", self.step, epoch, {"lr": rate, "skipped": lap.skipped})
            return
        seconds, outside = self.clock.lap()
        loss, speed = lap.total / lap.targets, lap.targets / seconds
        measures = self.objective.training_measures(loss)
        clipped = {} if self.config.clip is None else {"clipped": lap.clipped}
        values = {"loss": loss, **measures, "lr": rate, "gradient_norm": lap.gradient_norm, **clipped}
        values |= {"skipped": lap.skipped, "tokens_per_second": speed, "outside": outside}
        self.metrics.write("train", self.step, epoch, values)
        position = epoch, self.step, self.steps_per_epoch, step_in_epoch
        self.reporter.update(Report(*position, loss, measures, rate, speed, self.objective.unit))
        self.guard.check_loss("training", loss, self.step, epoch)

    def _agree(self) -> bool:
        """Agree with all processes whether to stop and whether to save; return the latter."""
        if not self.meetings.due(self.step):
            return False
        now, minutes = time.monotonic(), self.config.checkpoint_minutes
        if minutes is not None and self.plan is not None:  # a run that is killed loses little of its time
            minutes = min(minutes, self.plan.between_checkpoints / 60)
        stale = minutes is not None and now - self.saved_at > 60 * minutes
        flags = [self.interrupts.asked, self._time_is_over(), stale]
        asked, self.out_of_time, due = self.meetings.hold(self.step, now, flags, self.device)
        self.learner.meet()
        if self.plan is not None:
            # All processes plan with the mean of their clocks, so that their rates are the same.
            (seconds,) = self.processes.sum([self.seconds()], self.device)
            elapsed = seconds / self.processes.world_size
            self.plan.observe(self.step, elapsed)
            if self.plan.drops_threads():
                torch.set_num_threads(1)
                self.reporter.say("Other programs use this machine: training goes on with one thread.")
            end = self.step + self.steps_per_epoch - self.epoch_and_update()[1]
            self.validates_early = self.plan.needs_validation(self.step, end, elapsed)
            self.reporter.plan(elapsed, self.plan.seconds)
        if asked:
            raise InterruptedRunError(self._save())
        return due

    def epoch_and_update(self) -> tuple[int, int]:
        """Return the epoch, counted from 1, and the number of its completed updates."""
        return self.position["epoch"] + 1, -(-self.position["batch"] // self.config.accumulate)

    def _close_epoch(self) -> None:
        """Report the epoch, and validate if it is due."""
        self._report()
        total, targets = self.learner.tally.end_epoch(self.processes)
        train = self.last_train = self.objective.training_measures(total / targets) if targets else {}
        epoch = self.batches.epoch
        self.metrics.write("epoch", self.step, epoch, {f"train_{name}": train[name] for name in train})
        self.position = self.batches.state()
        if self._validates(epoch):
            self._validate_and_save()

    @property
    def epochs(self) -> int:
        """The number of epochs; in a run that is planned by time, as many as it will probably begin."""
        if (number := self.config.num_epochs) is not None:
            return number
        assert self.plan is not None
        return max(int(self.position["epoch"]) + 1, -(-self.plan.last // self.steps_per_epoch))

    def _validates(self, epoch: int) -> bool:
        """Whether the model is validated after this epoch."""
        if self.plan is None:
            return epoch % self.config.validate_every == 0 or epoch >= self.epochs
        # Each process has its own clock.
        allowed = self.plan.allows_validation(self.seconds()) and epoch % self.config.validate_every == 0
        return self.processes.sum([float(allowed)], self.device)[0] == self.processes.world_size

    def _end_inside(self, why: str) -> None:
        """Stop inside an epoch, and save a model if there is none yet or the plan ends here.

        The checkpoint is written first: a resumed run does not see the validation after it, so its results
        are the same as those of a run that never stopped.
        """
        self._save()
        self._report()
        if self.plan is None:  # else the time is shown all along
            epoch, _ = self.epoch_and_update()
            self.reporter.say(f"{why}: stopped in epoch {epoch}, after update {self.step:,}.")
        if not self.record.best or self.plan is not None:
            self._validate_inside()

    def _validate_inside(self) -> None:
        """Validate inside an epoch."""
        total, targets, *_ = self.learner.tally.state(self.processes)
        self.last_train = self.objective.training_measures(total / targets) if targets else {}
        self._validate(self.epoch_and_update()[0])

    def _validate_and_save(self) -> None:
        """Validate at the end of an epoch, and write a checkpoint."""
        self._validate(self.batches.epoch)
        if self.learner.average_if_stalled(self.record.scores):
            self.reporter.say("Validation stalls: weights are averaged from now on.")
        self._save()
        self.clock.lap()

    @torch.no_grad()
    def _validate(self, epoch: int) -> None:
        """Measure the weights that would be saved, and save them if they are the best."""
        self.objective.model.eval()
        began, inside = time.monotonic(), bool(self.position["batch"])
        with self.learner.averaging.apply_averages():
            with autocast(self.device, self.learner.precision):
                sums = self._measure()
            added = self.processes.sum(list(sums.values()), self.device)
            valid = self.objective.summarise(dict(zip(sums, added, strict=True))) if sums else {}
            better = self.record.add(valid, self.last_train, self.step, epoch, inside)
            if better and self.processes.first:
                self.improved(self.record.best)
            shown = self.processes.first and not self.record.broken  # a broken model has no sample
            sample = self.objective.sample() if shown else None
        if self.plan is not None:
            self.plan.add_validation(time.monotonic() - began, self.seconds())
            if better:
                self.plan.improved = self.plan.progress(self.step)
        self.metrics.write("valid", self.step, epoch, valid)
        self.reporter.epoch(epoch, self.last_train, valid, better, sample)
        loss = math.nan if self.record.broken else validation_loss(valid, self.last_train)
        if loss is not None:
            self.guard.check_loss("validation" if valid else "training", loss, self.step, epoch)

    def _measure(self) -> Mapping[str, float]:
        """The sums over the validation data; if there is little time, over a part of them."""
        rank, number, validate = self.processes.rank, self.processes.world_size, self.objective.validate
        if self.plan is None:
            return validate(rank, number)

        def read_clock() -> float:  # all processes must choose the same part
            return self.processes.sum([time.monotonic()], self.device)[0] / number

        return self.plan.validate(lambda parts: validate(rank, number * parts), read_clock, self.reporter.say)

    _save, restore = save_run, restore_run

    def expect(self, spent: float, per_update: float | None) -> None:
        """Begin after `spent` seconds of preparation, or refuse: an update seems to take `per_update`."""
        if self.plan is None:
            return
        self.began = time.monotonic()
        (total,) = self.processes.sum([spent], self.device)  # all processes must plan the same
        self.seconds_before = total / self.processes.world_size
        if per_update is not None:
            self.plan.begin(self.seconds_before, per_update)

    def _stop_reason(self) -> str | None:
        """Return why training stops, or None to go on."""
        if self.settled is not None:
            return self.settled
        if self.plan is None and self.position["epoch"] >= self.epochs:
            return "all epochs done"
        patience, stalled = self.config.early_stopping, self.record.validations_since_best
        if patience is not None and stalled >= patience:
            return f"no better validation for {stalled * self.config.validate_every} epochs"
        if patience is None and self.plan is not None and self.plan.stalls(self.step, stalled):
            return "no better validation for a third of the time"
        # Each process has its own clock; if the time of one is over, all stop.
        if self.processes.sum([float(self.out_of_time or self._time_is_over())], self.device)[0]:
            minutes = self.config.minutes or 0.0
            return f"{format_minutes(minutes)} {'is' if minutes == 1 else 'are'} over"
        return None

    def _time_is_over(self) -> bool:
        """Whether the time limit is reached; not before the first update, so that a model is saved."""
        minutes = self.config.minutes
        if self.plan is not None:
            return self.step > 0 and self.plan.is_over(self.step, self.seconds())
        return minutes is not None and self.step > 0 and self.seconds() > 60 * minutes

    def seconds(self) -> float:
        """Return the seconds of the whole run, those before it was resumed included."""
        return self.seconds_before + time.monotonic() - self.began
