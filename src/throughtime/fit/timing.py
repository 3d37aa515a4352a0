"""The speed and remaining time of a run, and how numbers are formatted for people."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Now = Callable[[], float]
"""A clock, in seconds."""

_LETTERS = (("G", 1e9), ("M", 1e6), ("k", 1e3))
_LIVE_SECONDS = 0.5  # after this time without a report, the speed is estimated from the updates


class Clock:
    """Measures wall time, and time inside the model."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._before = self._inside = 0.0

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count the time of the block as inside the model: forward, backward, update."""
        began = time.perf_counter()
        yield
        self._inside += time.perf_counter() - began

    def count_unfinished(self) -> int:
        """Return the number of updates that the device has not finished, without waiting for it."""
        return 0

    def lap(self) -> tuple[float, float]:
        """Return the seconds since the last lap, and the share of them outside the model."""
        seconds, inside = self.state()
        outside = max(0.0, 1 - inside / seconds) if seconds else 0.0
        self.restore([0.0, 0.0])
        return seconds, outside

    def state(self) -> list[float]:
        """Return the seconds since the last lap and those inside the model, for a checkpoint."""
        return [self._before + time.perf_counter() - self._began, self._inside]

    def restore(self, state: list[float]) -> None:
        """Continue from such a state; time counts from now on."""
        self._before, self._inside = state
        self._began = time.perf_counter()


@dataclass(frozen=True)
class Report:
    """The state of training, reported at intervals. Epochs count from 1, steps are completed updates."""

    epoch: int
    step: int
    steps_per_epoch: int
    step_in_epoch: int
    loss: float
    measures: dict[str, float]
    lr: float
    tokens_per_second: float
    unit: str = "tokens"  # the unit of the speed


class Pace:
    """Measures the speed of a run in wall-clock time, including validation and checkpoints."""

    def __init__(self, clock: Now) -> None:
        self._clock = clock
        self.remaining: float | None = None
        self.speed: str | None = None
        self._total: int | None = 0
        self._from: tuple[int, float] = (0, 0.0)
        self._epoch_began = 0.0
        self._unit: str | None = None
        self._reported: tuple[int, float] = (0, 0.0)
        self._counts = (0, 0)  # updates and targets

    def begin(self, epochs: int | None, steps_per_epoch: int, step: int) -> None:
        """Start, or resume, the run at this step; without `epochs`, `remaining` is set by the reporter."""
        self._total = epochs and epochs * steps_per_epoch
        self._epoch_began = self._clock()
        self._from = self._reported = (step, self._epoch_began)

    def add_update(self, step: int, targets: int) -> None:
        """Count an update with this number of targets that was submitted; `step` updates are done."""
        now, (before, reported) = self._clock(), self._reported
        updates, targets_done = self._counts = (self._counts[0] + 1, self._counts[1] + targets)
        if step > before and now - reported >= _LIVE_SECONDS:
            self.speed = format_speed((step - before) * targets_done / updates / (now - reported), self._unit)
            self._estimate(step, now)

    def update(self, report: Report) -> None:
        """Estimate the time left from the speed since the first report, which excludes compilation."""
        now = self._clock()
        self.speed = format_speed(report.tokens_per_second, report.unit)
        self._estimate(report.step, now)
        self._reported = (report.step, now)
        if self._unit is None:
            self._from = (report.step, now)
        self._unit = report.unit

    def _estimate(self, step: int, now: float) -> None:
        before, began = self._from
        if step > before and self._total is not None:
            self.remaining = (now - began) / (step - before) * max(self._total - step, 0)

    def epoch(self) -> tuple[float, str | None]:
        """Return the seconds of the epoch that ends now, and its last speed."""
        now, began = self._clock(), self._epoch_began
        # The speed of the next epoch starts here, after validation and checkpoints.
        self._epoch_began, self._reported = now, (self._reported[0], now)
        return now - began, self.speed


def format_measure(value: float) -> str:
    """Format a loss or a perplexity with four digits.

    >>> [format_measure(value) for value in (91.2, 812.345, 1.00449, 9999.7, 123456, 0.00001234)]
    ['91.20', '812.3', '1.004', '10,000', '123,456', '1.234e-05']
    """
    return f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:#.4g}"


def format_rate(value: float) -> str:
    """Format a learning rate.

    >>> [format_rate(value) for value in (0.0012, 2e-3, 30, 0.25, 0)]
    ['1.2e-3', '2e-3', '30', '0.25', '0']
    """
    if value == 0 or 0.1 <= value < 1000 or not math.isfinite(value):
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def format_speed(value: float, unit: str | None) -> str:
    """Format a number per second, of a unit if that is known.

    >>> [format_speed(value, "tokens") for value in (950.4, 12_345, 999_600)]
    ['950 tokens/s', '12.3k tokens/s', '1.00M tokens/s']
    >>> format_speed(1_234_567, None)
    '1.23M/s'
    """
    # What rounds to 1,000 of a unit is 1.00 of the next.
    letter, size = next((pair for pair in _LETTERS if value >= 0.9995 * pair[1]), ("", 0.0))
    number = f"{value / size:#.3g}".removesuffix(".") if size else f"{value:.0f}"
    return f"{number}{letter} {unit or ''}".rstrip() + "/s"


def format_duration(seconds: float | None) -> str:
    """Format a duration as minutes and seconds, with hours and days if needed.

    >>> [format_duration(seconds) for seconds in (7.4, 200, 3800, 100_000, None)]
    ['0:07', '3:20', '1:03:20', '1 d 3:46:40', '?']
    """
    if seconds is None or not math.isfinite(seconds):
        return "?"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours == 0:
        return f"{minute}:{second:02}"
    days, hour = divmod(hours, 24)
    return (f"{days} d " if days else "") + f"{hour}:{minute:02}:{second:02}"
