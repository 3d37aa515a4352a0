"""Training that ends on time: which update is the last, and how far the run is, for its schedule."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from throughtime.errors import InputError

Sums = Mapping[str, float]

CHECKS = 0.1
"""Share of the time that validations during the training may take."""
SPAN = 0.15
"""The speed is that of the last part of the run, of this share of its time."""
FIRST_RESERVE = 0.03
"""Share of the time kept for the last validation, until one has been measured."""
FIRST_CHECK = 0.3
"""Share of the training after which a first validation is made inside an epoch that does not end soon."""
SHORT = 60.0
"""Seconds of a run below which that validation is not made, as it would take too much of the time."""
PARTS = (64, 8, 1)
"""Numbers of parts of the validation data that are tried, until one part takes as long as is allowed."""
FREE = 3.0
"""Seconds that a validation may take however short the run is."""
CHECKPOINTS = 0.1
"""Share of the time between two checkpoints, at most."""
MIN_CHECKPOINT_SECONDS = 15.0
"""Seconds between two checkpoints, at least: one of a large model takes a second."""
MAX_VALIDATIONS = 40
"""Maximum number of validations in the time of the run: more of them would not find a better model."""
PATIENCE = 1 / 3
"""Share of the training after which a run ends if no validation was better, ..."""
MIN_STALLED = 5
"""... and the number of such validations that this takes at least."""
MIN_UPDATES = 20
"""A run with time for fewer updates is refused: it would learn nothing."""
MARGIN = 1.5
"""The minimum that is asked for then, as a multiple of the time that they seem to need."""
SHORTFALL = 0.25
"""A run that has made a smaller share of the updates that were announced says so."""
CRAWLING = 1.3
"""How much longer than with a single thread an update takes if several threads wait for each other."""


class Speed(NamedTuple):
    """How fast a model trains."""

    per_update: float
    """Seconds of one update."""
    per_epoch: float
    """Seconds of one pass over the training data."""
    single: float | None = None
    """Seconds of one update with a single thread; None: the number of threads was not chosen."""


@dataclass
class TimePlan:
    """The updates that a run of `seconds` has time for. Its progress is 0 at the first and 1 at the last.

    The plan is revised as the speed is measured. Progress never jumps: after a revision it goes on from where
    it is, in steps of another size, so that a schedule is smooth and reaches its end with the last update.

    >>> plan = TimePlan(seconds=100.0, validation=0.0)
    >>> plan.revise(step=0, elapsed=0.0, per_update=1.0)
    >>> plan.last, plan.progress(50)
    (100, 0.5)
    >>> plan.revise(step=50, elapsed=75.0, per_update=1.5)  # the machine became slower
    >>> plan.last, plan.progress(50), round(plan.progress(58), 2), plan.progress(66)
    (66, 0.5, 0.75, 1.0)
    """

    seconds: float
    validation: float | None = None
    """Seconds of one validation and of saving the model; None if there was none yet."""
    closing: float = 0.0
    """Seconds from the last validation to the end of the process: the figure, the files, the exit."""
    spent: float = 0.0
    """Seconds that all validations have taken."""
    parts: int = 0
    """Validations use one of this number of parts of the data; 0 until the first one has chosen it."""
    start: int = 0
    reached: float = 0.0
    last: int = 0
    """Progress was `reached` at update `start`, and is 1 at update `last`."""
    per_update: float = 0.0
    """Seconds of an update now; 0 if not measured yet."""
    at_validation: float = 0.0
    """The same when a validation was last timed: where updates are slower now, validations are, too."""
    validated: float = 0.0
    """Seconds after which a validation last ended."""
    improved: float = 0.0
    """Progress at the best validation."""
    announced: int = 0
    """Number of updates for which there was time when the run began."""
    announced_update: float = 0.0
    """Seconds of an update then."""
    prepared: float = 0.0
    """Seconds before the first update."""
    single: float | None = None
    """Seconds of an update with a single thread, if the run uses more."""
    laps: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def reserve(self) -> float:
        """Seconds kept for the last validation."""
        if self.validation is None:
            return self.seconds * FIRST_RESERVE
        slower = self.per_update / self.at_validation if self.at_validation else 1.0
        return self.validation * max(1.0, slower)

    @property
    def until(self) -> float:
        """Seconds after which the last validation has ended: the rest is for what comes after it."""
        slower = self.per_update / self.announced_update if self.announced_update else 1.0
        return self.seconds - self.closing * max(1.0, slower)

    @property
    def between_checkpoints(self) -> float:
        """Seconds after which a checkpoint is written, at most."""
        return max(CHECKPOINTS * self.seconds, MIN_CHECKPOINT_SECONDS)

    def begin(self, prepared: float, per_update: float) -> None:
        """Plan the run after `prepared` seconds of preparation; refuse it if the rest is too short."""
        self.prepared, self.announced_update = prepared, per_update
        self.revise(0, prepared, per_update)
        self.announced = int(self.last * (1 - CHECKS))
        if self.announced < MIN_UPDATES:
            needed = max(1, math.ceil(MARGIN * (prepared + self.closing + MIN_UPDATES * per_update) / 6)) / 10
            used = f"preparation took {prepared:.1f} s here, and an update {format_milliseconds(per_update)}"
            raise InputError("minutes", f"is {self.seconds / 60:g}, but {used}; expected at least {needed:g}")

    def describe(self, steps_per_epoch: int) -> str:
        """Say what there is time for."""
        passes = float(f"{self.announced / steps_per_epoch:.2g}")
        whole = f"In {format_minutes(self.seconds / 60)}, of which preparation took {self.prepared:.0f} s,"
        updates = f"{self.announced:,} updates of {format_milliseconds(self.announced_update)}"
        read = f"{passes:g} epochs, in each of which all training data are read once"
        return f"{whole} there is time for about {updates}: {read}."

    def explain_shortfall(self, step: int, elapsed: float) -> str | None:
        """Say why a run ends after few of its announced updates; None if it has made enough of them."""
        if step >= SHORTFALL * self.announced:
            return None
        each = (elapsed - self.prepared - self.spent) / max(step, 1)
        now, then = map(format_milliseconds, (each, self.announced_update))
        return (
            f"only {step:,} of about {self.announced:,} planned updates were made: one took {now} instead of "
            f"{then}, and validations {self.spent:.0f} s; other programs may be using this machine, so "
            "train for more minutes, or when it is idle"
        )

    def progress(self, step: int) -> float:
        """The share of the training that is done before update `step`."""
        if self.last <= self.start:
            return self.reached
        share = (step - self.start) / (self.last - self.start)
        return self.reached + (1 - self.reached) * min(1.0, share)

    def is_over(self, step: int, elapsed: float) -> bool:
        """Whether the run ends: its updates are done, or only the time to validate and to save is left."""
        return 0 < self.last <= step or elapsed >= self.until - self.reserve

    def allows_validation(self, elapsed: float) -> bool:
        """Whether a validation now leaves enough time for training."""
        cost = self.reserve
        due = elapsed - self.validated >= self.seconds / MAX_VALIDATIONS
        return due and self.spent + cost <= CHECKS * elapsed and elapsed + 2 * cost < self.until

    def needs_validation(self, step: int, epoch_end: int, elapsed: float) -> bool:
        """Whether to validate inside an epoch, to know in time how long the last validation will take."""
        unknown = self.validation is None and self.seconds >= SHORT
        due = self.progress(step) >= FIRST_CHECK and self.progress(epoch_end) >= 2 * FIRST_CHECK
        return unknown and due and self.allows_validation(elapsed)

    def stalls(self, step: int, validations_since_best: int) -> bool:
        """Whether the run ends because nothing has improved for long."""
        waited = self.progress(step) - self.improved
        return validations_since_best >= MIN_STALLED and waited >= PATIENCE

    def add_validation(self, seconds: float, elapsed: float = 0.0) -> None:
        """Note that a validation took this time, and ended after `elapsed` seconds."""
        self.validated = elapsed
        self.validation = seconds if self.validation is None else max(seconds, self.validation / 2)
        self.spent += seconds
        self.at_validation = self.per_update

    def validate(
        self,
        measure: Callable[[int], Sums],
        read_clock: Callable[[], float],
        say: Callable[[str], None] = lambda message: None,
    ) -> Sums:
        """Measure the model by `measure(parts)`, on the largest part of the data that time allows.

        Each part is eight times as large as the one before, and takes at most eight times as long. So the
        next one is tried if that is allowed.
        """
        if self.parts:
            return measure(self.parts)
        allowed = max(CHECKS * self.seconds, FREE)
        for self.parts in PARTS:
            began = read_clock()
            sums = measure(self.parts)
            if 8 * (read_clock() - began) > allowed:
                break
        if self.parts > 1:
            part = f"1/{self.parts} of the validation data"
            say(f"Validations use {part}, as all of them would take too long.")
        return sums

    def observe(self, step: int, elapsed: float) -> None:
        """Revise the plan by the speed of the last updates, about a hundred times in a run."""
        training = elapsed - self.spent
        if self.laps and training - self.laps[-1][0] < self.seconds / 100:
            return
        self.laps.append((training, step))
        while len(self.laps) > 2 and training - self.laps[1][0] >= SPAN * self.seconds:
            self.laps.popleft()
        since, before = self.laps[0]
        if step > before:
            self.revise(step, elapsed, (training - since) / (step - before))

    def drops_threads(self) -> bool:
        """Whether to go on with a single thread, since the last updates were slower than those with one.

        Threads wait for each other in each operation. If another program uses one of their cores, they may be
        ten times slower than one of them alone.
        """
        if self.single is None or len(self.laps) < 3:
            return False
        last = [self.laps[number] for number in (-3, -2, -1)]
        times = [
            (later - sooner) / max(1, step - before) for (sooner, before), (later, step) in pairwise(last)
        ]
        if min(times) <= CRAWLING * self.single:
            return False
        self.single = None
        self.laps.clear()
        return True

    def revise(self, step: int, elapsed: float, per_update: float) -> None:
        """Plan the remaining updates, which take this number of seconds each."""
        self.per_update = per_update
        left = max(0.0, self.until - self.reserve - elapsed)
        if step and self.validation is not None:
            left *= 1 - min(CHECKS, self.spent / max(elapsed, 1e-9))  # more validations will take their share
        self.reached, self.start = self.progress(step), step
        self.last = step + max(0 if step else 1, int(left / max(per_update, 1e-9)))

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {key: value for key, value in vars(self).items() if key not in ("single", "laps")}

    def restore(self, state: dict[str, Any], elapsed: float, step: int) -> None:
        """Continue from such a state; a run that was given more time continues at its share of that."""
        for key, value in state.items():
            if key != "seconds":
                setattr(self, key, value)
        if self.last <= step and not self.is_over(-1, elapsed):
            self.reached, self.start, self.last = elapsed / self.seconds, step, 0
        if self.seconds > state["seconds"]:
            self.improved = self.progress(step)


def format_milliseconds(seconds: float) -> str:
    """Format the time of an update.

    >>> [format_milliseconds(seconds) for seconds in (0.0593, 0.1283, 9.02)]
    ['59.3 ms', '128 ms', '9,020 ms']
    """
    return f"{1000 * seconds:,.0f} ms" if seconds >= 0.1 else f"{1000 * seconds:.3g} ms"


def format_minutes(minutes: float) -> str:
    """Format the time of a training.

    >>> [format_minutes(minutes) for minutes in (1.0, 1.5, 10.0)]
    ['1 minute', '1.5 minutes', '10 minutes']
    """
    return f"{minutes:g} minute{'' if minutes == 1 else 's'}"
