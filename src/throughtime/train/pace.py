"""The speed of a run and the time that is left."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from throughtime.train import figures

Now = Callable[[], float]
"""A clock, in seconds."""

_LIVE_SECONDS = 0.5  # after this time without a report, the speed is estimated from the updates


@dataclass(frozen=True)
class Report:
    """The state of training, reported at intervals. Epochs count from 1, steps are completed updates."""

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
    counted: str = "tokens"  # the unit of the speed


class Pace:
    """Measures the speed of a run in wall-clock time, including validation and checkpoints."""

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
        """Start, or resume, the run at this step."""
        self._total = epochs * steps_per_epoch
        self._epoch_began = self._clock()
        self.step = step
        self._from = self._reported = (step, self._epoch_began)

    def advance(self, step: int, targets: int) -> None:
        """One more update with this number of targets was submitted, and `step` updates are done."""
        now, (before, reported) = self._clock(), self._reported
        self.step = step
        self._handed = (self._handed[0] + 1, self._handed[1] + targets)
        if step > before and now - reported >= _LIVE_SECONDS:
            updates, counted = self._handed
            self.speed = speed_text((step - before) * counted / updates / (now - reported), self._counted)
            self._estimate(step, now)

    def update(self, report: Report) -> None:
        """Estimate the time left from the speed since the first report, which excludes compilation."""
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
        # The speed of the next epoch starts here, after validation and checkpoints.
        self._reported = (self.step, now)
        return now - began, speed_text(statistics.harmonic_mean(speeds), self._counted) if speeds else None


def speed_text(value: float, counted: str | None) -> str:
    """The speed with its unit, which may not be known yet."""
    return f"{figures.speed(value)} {counted}/s" if counted else f"{figures.speed(value)}/s"
