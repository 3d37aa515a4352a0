"""How training looks to people: bars on a terminal, plain lines where it is none."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from throughtime.text.numbers import several
from throughtime.train import figures

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

Clock = Callable[[], float]

_LINE_SECONDS = 10.0
_SAMPLE_LINES = 3
_OUTSIDE_SHOWN = 0.05  # a share of time outside the model that is worth a word


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


class Reporter(Protocol):
    """Who tells people how training goes."""

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Training starts, after `step` updates of a run that is resumed."""
        ...

    def update(self, report: Report) -> None:
        """Some updates are done."""
        ...

    def epoch(
        self, epoch: int, train: dict[str, float], valid: dict[str, float], best: bool, sample: str | None
    ) -> None:
        """An epoch has ended. The first measure of each kind, other than the loss, is shown.

        The first of `valid` is what decides; where training has another, its validation is shown too.
        """
        ...

    def say(self, message: str) -> None:
        """Tell something else."""
        ...

    def close(self) -> None:
        """Give the terminal back; may be called twice."""
        ...


def reporter(stream_is_terminal: bool) -> Reporter:
    """Bars for a terminal, lines for a file or a pipe; both on stderr."""
    return Bars() if stream_is_terminal else Lines()


class Silent:
    """Says nothing: for the processes beside the first, and for tests."""

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Say nothing."""

    def update(self, report: Report) -> None:
        """Say nothing."""

    def epoch(
        self, epoch: int, train: dict[str, float], valid: dict[str, float], best: bool, sample: str | None
    ) -> None:
        """Say nothing."""

    def say(self, message: str) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Say nothing."""


class Lines:
    """Plain lines: one at the end of each epoch, and within it one when ten seconds went by without."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._pace = Pace(clock)
        self._last = clock()
        self._total = 0

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Say what is trained."""
        self._total = epochs
        self._pace.begin(epochs, steps_per_epoch, step)
        self.say(_opening(title, epochs, steps_per_epoch, step))

    def update(self, report: Report) -> None:
        """Say how it goes, if nothing was said for ten seconds."""
        self._pace.update(report)
        if self._clock() - self._last < _LINE_SECONDS:
            return
        place = (
            f"epoch {report.epoch}/{report.epochs}  step {report.step_in_epoch:,}/{report.steps_per_epoch:,}"
        )
        self.say("  ".join([place, *_figures(report), f"ETA {figures.duration(self._pace.remaining)}"]))

    def epoch(
        self, epoch: int, train: dict[str, float], valid: dict[str, float], best: bool, sample: str | None
    ) -> None:
        """Say what the epoch came to, with the sample indented below."""
        self.say(_closing(epoch, self._total, train, valid, self._pace.epoch()) + ("  *" if best else ""))
        if sample:
            for line in sample.splitlines():
                self.say(f"    {_printable(line)}")

    def say(self, message: str) -> None:
        """One line on stderr, at once."""
        print(message, file=sys.stderr, flush=True)
        self._last = self._clock()

    def close(self) -> None:
        """Nothing is held."""


class Bars:
    """A bar for all epochs, one for the steps of the present epoch and the figures, below what was said."""

    def __init__(self, console: Console | None = None, clock: Clock = time.monotonic) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.text import Text

        self._console = console or Console(stderr=True, highlight=False)
        self._pace = Pace(clock)
        self._clock, self._begun = clock, clock()
        self._total = 0
        self._bars = Progress(
            TextColumn("{task.description}", style="bold"),
            TextColumn("{task.fields[count]}", justify="right"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[aside]}"),
            console=self._console,
            expand=True,
        )
        self._epochs = self._bars.add_task("epoch", total=1, count="", aside="")
        self._steps = self._bars.add_task("step", total=1, count="", aside="")
        self._figures = Text()
        self._live: Live | None = None

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Show empty bars, or those of a resumed run where it stood."""
        from rich.live import Live

        self._total = epochs
        self._pace.begin(epochs, steps_per_epoch, step)
        self._begun = self._clock()
        self._console.print(_opening(title, epochs, steps_per_epoch, step), markup=False, highlight=False)
        done, inside = divmod(step, max(steps_per_epoch, 1))
        self._show(min(done + 1, epochs), epochs, inside, steps_per_epoch)
        # Results go to stdout as ever; what others write on stderr appears above the bars.
        self._live = Live(
            console=self._console,
            get_renderable=self._rendered,
            refresh_per_second=2,
            redirect_stdout=False,
            transient=True,
        )
        self._live.start()

    def update(self, report: Report) -> None:
        """Move the bars."""
        from rich.text import Text

        self._pace.update(report)
        self._show(report.epoch, report.epochs, report.step_in_epoch, report.steps_per_epoch)
        *values, speed = _figures(report)
        self._bars.update(self._steps, aside=speed)
        line = Text("  ".join(values), no_wrap=True, overflow="ellipsis")
        if report.outside is not None and report.outside >= _OUTSIDE_SHOWN:
            line.append(f"  {report.outside:.0%} of time outside the model", style="yellow")
        self._figures = line  # replaced whole: the refreshing thread may be reading the old one

    def epoch(
        self, epoch: int, train: dict[str, float], valid: dict[str, float], best: bool, sample: str | None
    ) -> None:
        """Leave one line above the bars, and the first lines of the sample as far as they fit."""
        from rich.text import Text

        line = Text(_closing(epoch, self._total, train, valid, self._pace.epoch()))
        if best:
            line.append("  ★" if self._console.encoding.startswith("utf") else "  *", style="bold yellow")
        self._console.print(line)
        lines = [line for line in (sample or "").splitlines() if line.strip()]
        for line_of_sample in lines[:_SAMPLE_LINES]:
            shown = Text(f"  {_printable(' '.join(line_of_sample.split()))}", style="dim")
            self._console.print(shown, no_wrap=True, overflow="ellipsis")

    def say(self, message: str) -> None:
        """One message above the bars; the terminal wraps it, so that a command in it can be copied."""
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bars away; what was said stays."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show(self, epoch: int, epochs: int, inside: int, steps: int) -> None:
        share = inside / max(steps, 1)
        self._bars.update(self._epochs, total=epochs, completed=epoch - 1 + share, count=f"{epoch}/{epochs}")
        self._bars.update(self._steps, total=max(steps, 1), completed=inside, count=f"{inside:,}/{steps:,}")

    def _rendered(self) -> RenderableType:
        """Made anew at every refresh, so that the clock runs between reports."""
        from rich.console import Group

        elapsed = figures.duration(self._clock() - self._begun)
        self._bars.update(self._epochs, aside=f"{elapsed}  ETA {figures.duration(self._pace.remaining)}")
        return Group(self._bars, self._figures)


class Pace:
    """How fast a run goes, by the clock on the wall: validation and checkpoints count as they come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.remaining: float | None = None
        self._total = 0
        self._from: tuple[int, float] = (0, 0.0)
        self._warm = False
        self._epoch_began = 0.0
        self._speeds: list[float] = []
        self._counted = "tokens"

    def begin(self, epochs: int, steps_per_epoch: int, step: int) -> None:
        """The run starts, or is resumed, at this step."""
        self._total = epochs * steps_per_epoch
        self._epoch_began = self._clock()
        self._from = (step, self._epoch_began)

    def update(self, report: Report) -> None:
        """Take the speed since the first report: before it lie compilation and cold caches."""
        now, (step, began) = self._clock(), self._from
        self._speeds.append(report.tokens_per_second)
        self._counted = report.counted
        if report.step > step:
            self.remaining = (now - began) / (report.step - step) * max(self._total - report.step, 0)
        if not self._warm:
            self._from, self._warm = (report.step, now), True

    def epoch(self) -> tuple[float, str | None]:
        """The seconds and the speed of the epoch that ends now."""
        now, began, speeds = self._clock(), self._epoch_began, self._speeds
        self._epoch_began, self._speeds = now, []
        return now - began, _speed(statistics.harmonic_mean(speeds), self._counted) if speeds else None


def _opening(title: str, epochs: int, steps_per_epoch: int, step: int) -> str:
    start = f"{title}: {several(epochs, 'epoch')} of {several(steps_per_epoch, 'step')}"
    return start + (f", resumed after step {step:,}" if step else "")


def _figures(report: Report) -> list[str]:
    return [
        f"loss {figures.measure(report.loss)}",
        *(f"{name} {figures.measure(value)}" for name, value in report.measures.items()),
        f"lr {figures.rate(report.lr)}",
        _speed(report.tokens_per_second, report.counted),
    ]


def _speed(value: float, counted: str) -> str:
    return f"{figures.speed(value)} {counted}/s"


def _closing(
    epoch: int,
    epochs: int,
    train: dict[str, float],
    valid: dict[str, float],
    pace: tuple[float, str | None],
) -> str:
    seconds, speed = pace
    trained, judged = _first(train), _first(valid)
    parts = [f"epoch {epoch:>{len(str(epochs))}}/{epochs}"]
    if trained in valid:
        parts.append(f"{trained}: train {_value(train, trained)}, valid {_value(valid, trained)}")
    elif trained:
        parts.append(f"train {trained} {_value(train, trained)}")
    if judged and judged != trained:
        parts.append(f"valid {judged} {_value(valid, judged)}")
    parts.append(figures.duration(seconds))
    if speed is not None:
        parts.append(speed)
    return "  ".join(parts)


def _first(measures: dict[str, float]) -> str | None:
    """The measure that people follow: the loss only where there is no other."""
    return min(measures, key=lambda name: name == "loss", default=None)


def _value(measures: dict[str, float], name: str) -> str:
    return figures.measure(measures[name])


def _printable(text: str) -> str:
    """A young model may well say an escape sequence: nothing of it may reach the terminal."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
