"""How fast a run goes, and when it will be over."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from throughtime.train import figures

Now = Callable[[], float]
"""A clock, in seconds."""

_LIVE_SECONDS = 0.5  # without a report, after which the speed is taken from the updates themselves


@dataclass(frozen=True)
class Report:
    """The state of training every so many updates. Epochs count from 1, steps are updates done."""

    epoch: int
    epochs: int
    step: int
    steps_per_epoch: int
    step_in_epoch: int
    loss: float
    measures: dict[str, float]
    lr: float
    tokens_per_second: float
    outside: float | None
    seconds: float
    counted: str = "tokens"  # what it is that goes by at this speed


class Pace:
    """How fast a run goes, by the clock on the wall: validation and checkpoints count as they come."""

    def __init__(self, clock: Now) -> None:
        self._clock = clock
        self.step = 0
        self.remaining: float | None = None
        self.speed: str | None = None
        self._total = 0
        self._from: tuple[int, float] = (0, 0.0)
        self._warm = False
        self._epoch_began = 0.0
        self._speeds: list[float] = []
        self._counted: str | None = None
        self._reported: tuple[int, float] = (0, 0.0)
        self._handed: tuple[int, int] = (0, 0)  # updates and targets

    def begin(self, epochs: int, steps_per_epoch: int, step: int) -> None:
        """The run starts, or is resumed, at this step."""
        self._total = epochs * steps_per_epoch
        self._epoch_began = self._clock()
        self.step = step
        self._from = self._reported = (step, self._epoch_began)

    def advance(self, step: int, targets: int) -> None:
        """One more update of so many targets was handed over, and `step` are done."""
        now, (before, reported) = self._clock(), self._reported
        self.step = step
        self._handed = (self._handed[0] + 1, self._handed[1] + targets)
        if step > before and now - reported >= _LIVE_SECONDS:
            updates, counted = self._handed
            self.speed = speed_text((step - before) * counted / updates / (now - reported), self._counted)
            self._estimate(step, now)

    def update(self, report: Report) -> None:
        """Take the speed since the first report: before it lie compilation and cold caches."""
        now = self._clock()
        self.step = report.step
        self._speeds.append(report.tokens_per_second)
        self._counted = report.counted
        self.speed = speed_text(report.tokens_per_second, report.counted)
        self._estimate(report.step, now)
        self._reported = (report.step, now)
        if not self._warm:
            self._from, self._warm = (report.step, now), True

    def _estimate(self, step: int, now: float) -> None:
        before, began = self._from
        if step > before:
            self.remaining = (now - began) / (step - before) * max(self._total - step, 0)

    def epoch(self) -> tuple[float, str | None]:
        """The seconds and the speed of the epoch that ends now."""
        now, began, speeds = self._clock(), self._epoch_began, self._speeds
        self._epoch_began, self._speeds = now, []
        # Validation and checkpoints are no part of the speed that follows.
        self._reported = (self.step, now)
        return now - began, speed_text(statistics.harmonic_mean(speeds), self._counted) if speeds else None


def speed_text(value: float, counted: str | None) -> str:
    """So many of what is counted, in a second; what it is may not be known yet."""
    return f"{figures.speed(value)} {counted}/s" if counted else f"{figures.speed(value)}/s"
