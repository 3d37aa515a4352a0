"""How training looks to people: bars on a terminal, plain lines where it is none."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from throughtime.text.texts import several
from throughtime.train import figures
from throughtime.train.pace import Now, Pace, Report, speed_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_LINE_SECONDS = 10.0
_SAMPLE_LINES = 3
_OUTSIDE_SHOWN = 0.05  # a share of time outside the model that is worth a word


class Reporter(Protocol):
    """Who tells people how training goes."""

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Training starts, after `step` updates of a run that is resumed."""
        ...

    def advance(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
        """One more update with this number of targets was submitted; the device has completed `step`.

        This is called after every update, so it must neither wait nor print.
        """
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

    def advance(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
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

    def __init__(self, clock: Now = time.monotonic) -> None:
        self._clock = clock
        self._pace = Pace(clock)
        self._last = clock()
        self._total = 0

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Say what is trained."""
        self._total = epochs
        self._pace.begin(epochs, steps_per_epoch, step)
        self.say(_opening(title, epochs, steps_per_epoch, step))

    def advance(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
        """Say nothing: only reports are printed, so that a log stays short."""

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

    def __init__(self, console: Console | None = None, clock: Now = time.monotonic) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
        from rich.text import Text

        self._console = console or Console(stderr=True, highlight=False)
        self._pace = Pace(clock)
        self._clock, self._begun = clock, clock()
        self._total, self._steps_per_epoch, self._place = 0, 1, (1, 0)
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

        self._total, self._steps_per_epoch = epochs, max(steps_per_epoch, 1)
        self._pace.begin(epochs, steps_per_epoch, step)
        self._begun = self._clock()
        self._console.print(_opening(title, epochs, steps_per_epoch, step), markup=False, highlight=False)
        done, inside = divmod(step, self._steps_per_epoch)
        self._place = (min(done + 1, epochs), inside)
        self._show()
        # Results go to stdout as ever; what others write on stderr appears above the bars.
        self._live = Live(
            console=self._console,
            get_renderable=self._rendered,
            refresh_per_second=2,
            redirect_stdout=False,
            transient=True,
        )
        self._live.start()

    def advance(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
        """Store the position; the bars move at the next refresh, twice a second."""
        self._place = (epoch, step_in_epoch)
        self._pace.advance(step, targets)

    def update(self, report: Report) -> None:
        """Show the figures."""
        from rich.text import Text

        self._pace.update(report)
        self._place = (report.epoch, report.step_in_epoch)
        self._steps_per_epoch = max(report.steps_per_epoch, 1)
        *values, _ = _figures(report)
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

    def _show(self) -> None:
        (epoch, inside), steps = self._place, self._steps_per_epoch
        elapsed = figures.duration(self._clock() - self._begun)
        self._bars.update(
            self._epochs,
            total=self._total,
            completed=epoch - 1 + inside / steps,
            count=f"{epoch}/{self._total}",
            aside=f"{elapsed}  ETA {figures.duration(self._pace.remaining)}",
        )
        self._bars.update(
            self._steps,
            total=steps,
            completed=inside,
            count=f"{inside:,}/{steps:,}",
            aside=self._pace.speed or "",
        )

    def _rendered(self) -> RenderableType:
        """Called at every refresh, so that bars and clock move between reports."""
        from rich.console import Group

        self._show()
        return Group(self._bars, self._figures)


def _opening(title: str, epochs: int, steps_per_epoch: int, step: int) -> str:
    start = f"{title}: {several(epochs, 'epoch')} of {several(steps_per_epoch, 'step')}"
    return start + (f", resumed after step {step:,}" if step else "")


def _figures(report: Report) -> list[str]:
    return [
        f"loss {figures.measure(report.loss)}",
        *(f"{name} {figures.measure(value)}" for name, value in report.measures.items()),
        f"lr {figures.rate(report.lr)}",
        speed_text(report.tokens_per_second, report.counted),
    ]


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
