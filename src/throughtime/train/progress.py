"""How training reports its progress: bars on a terminal, an updated display in a notebook, or plain lines."""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

from throughtime.errors import unknown
from throughtime.text.texts import escape_controls, format_count
from throughtime.train.timing import (
    Now,
    Pace,
    Report,
    format_duration,
    format_measure,
    format_rate,
    speed_text,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

Measures = dict[str, float]

_LINE_SECONDS = 10.0
_DISPLAY_SECONDS = 1.0
_SAMPLE_LINES = 3
_OUTSIDE_SHOWN = 0.05  # share of time outside the model from which on it is shown


class Reporter:
    """Receives the progress of a training. This base class reports nothing; a subclass overrides methods."""

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Training starts; a resumed run has done `step` updates."""

    def plan(self, epochs: int, steps: int) -> None:
        """A run that is planned by time will probably begin this number of epochs, and take these updates."""

    def advance(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
        """One more update with this number of targets was submitted; the device has completed `step`.

        This is called after every update, so it must be fast.
        """

    def update(self, report: Report) -> None:
        """Training reports its state, every `report_every` updates."""

    def epoch(self, epoch: int, train: Measures, valid: Measures, best: bool, sample: str | None) -> None:
        """An epoch has been validated. The first measure of each kind, other than the loss, is shown.

        The first of `valid` decides which model is best.
        """

    def say(self, message: str) -> None:
        """Show a message."""

    def close(self) -> None:
        """Release the terminal; may be called twice."""


def progress_reporter(kind: Literal["auto", "bars", "notebook", "lines", "none"] = "auto") -> Reporter:
    """Build a reporter of this kind.

    `auto` is `notebook` in a Jupyter notebook, `bars` if stderr is a terminal, and `lines` elsewhere.

    >>> progress_reporter("none").say("nothing is printed")
    """
    if kind == "auto":
        kind = "notebook" if _in_notebook() else "bars" if sys.stderr.isatty() else "lines"
    kinds: dict[str, type[Reporter]]
    kinds = {"bars": Bars, "notebook": Notebook, "lines": Lines, "none": Reporter}
    if kind not in kinds:
        raise unknown("progress", kind, ["auto", *kinds])
    return kinds[kind]()


def _in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook; IPython on a terminal has none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class Lines(Reporter):
    """Plain lines on stderr: one per epoch, and one whenever there was none for ten seconds."""

    def __init__(self, clock: Now = time.monotonic) -> None:
        self._clock, self._pace = clock, Pace(clock)
        self._last = clock()
        self._total = 0

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Write the title."""
        self._total = epochs
        self._pace.begin(epochs, steps_per_epoch, step)
        self.say(_format_start(title, epochs, steps_per_epoch, step))

    def plan(self, epochs: int, steps: int) -> None:
        """Count to this number of epochs, and estimate the time left from this number of updates."""
        self._total = epochs
        self._pace.plan(steps)

    def update(self, report: Report) -> None:
        """Write a line if none was written for ten seconds."""
        self._pace.update(report)
        if self._clock() - self._last >= _LINE_SECONDS:
            self.say(self._status(report))

    def epoch(self, epoch: int, train: Measures, valid: Measures, best: bool, sample: str | None) -> None:
        """Write the measures of the epoch, with the sample indented below."""
        self.say(
            _format_epoch(epoch, self._total, train, valid, self._pace.epoch()) + ("  *" if best else "")
        )
        for line in (sample or "").splitlines():
            self.say(f"    {escape_controls(line)}")

    def say(self, message: str) -> None:
        """Write a line."""
        print(escape_controls(message), file=sys.stderr, flush=True)
        self._last = self._clock()

    def _status(self, report: Report) -> str:
        steps = f"{report.step_in_epoch:,}/{report.steps_per_epoch:,}"
        place = f"epoch {report.epoch}/{report.epochs}  step {steps}"
        return "  ".join([place, *_values(report), f"ETA {format_duration(self._pace.remaining)}"])


class Notebook(Lines):
    """Lines in the output of a notebook cell, the last of them updated in place; needs no widgets."""

    def __init__(self, clock: Now = time.monotonic) -> None:
        super().__init__(clock)
        self._display: Any = importlib.import_module("IPython.display").display
        self._handle: Any = None
        self._lines: list[str] = []
        self._now = ""

    def advance(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
        """Move the last line on, once a second."""
        self._pace.advance(step, targets)
        if self._clock() - self._last >= _DISPLAY_SECONDS:
            speed, left = self._pace.speed or "", format_duration(self._pace.remaining)
            self._now = f"epoch {epoch}/{self._total}  step {step_in_epoch:,}  {speed}  ETA {left}"
            self._show()

    def update(self, report: Report) -> None:
        """Show the values of the report in the last line."""
        self._pace.update(report)
        self._now = self._status(report)
        self._show()

    def say(self, message: str) -> None:
        """Add a line, above the one that changes."""
        self._lines.append(message)
        self._now = ""
        self._show()

    def close(self) -> None:
        """Leave the finished lines."""
        self._now = ""
        self._show()

    def _show(self) -> None:
        text = {"text/plain": "\n".join([*self._lines, self._now]).rstrip("\n")}
        if self._handle is None:
            self._handle = self._display(text, raw=True, display_id=True)
        else:
            self._handle.update(text, raw=True)
        self._last = self._clock()


class Bars(Lines):
    """A bar for all epochs, one for the steps of the current epoch, and the values, below the messages."""

    def __init__(self, console: Console | None = None, clock: Now = time.monotonic) -> None:
        from rich.console import Console
        from rich.text import Text

        super().__init__(clock)
        self._console = console or Console(stderr=True, highlight=False)
        self._values = Text()
        self._live: Live | None = None

    def begin(self, title: str, epochs: int, steps_per_epoch: int, step: int) -> None:
        """Show the bars at the current position."""
        from rich.live import Live

        super().begin(title, epochs, steps_per_epoch, step)
        self._began, self._steps_per_epoch = self._clock(), max(steps_per_epoch, 1)
        done, inside = divmod(step, self._steps_per_epoch)
        self._place = (min(done + 1, epochs), inside)
        # stdout is not redirected; what others write on stderr appears above the bars.
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
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
        """Show the values of the report."""
        from rich.text import Text

        self._pace.update(report)
        self._place = (report.epoch, report.step_in_epoch)
        line = Text("  ".join(_values(report)[:-1]), no_wrap=True, overflow="ellipsis")
        if report.outside is not None and report.outside >= _OUTSIDE_SHOWN:
            line.append(f"  {report.outside:.0%} of time outside the model", style="yellow")
        self._values = line  # replaced whole: the refreshing thread may be reading the old one

    def epoch(self, epoch: int, train: Measures, valid: Measures, best: bool, sample: str | None) -> None:
        """Write one line above the bars, and the first lines of the sample, cut to the width."""
        from rich.text import Text

        line = Text(_format_epoch(epoch, self._total, train, valid, self._pace.epoch()))
        if best:
            line.append("  ★" if self._console.encoding.startswith("utf") else "  *", style="bold yellow")
        self._console.print(line)
        lines = [line for line in (sample or "").splitlines() if line.strip()]
        for text in lines[:_SAMPLE_LINES]:
            shown = Text(f"  {escape_controls(' '.join(text.split()))}", style="dim")
            self._console.print(shown, no_wrap=True, overflow="ellipsis")

    def say(self, message: str) -> None:
        """Show a message above the bars; the terminal wraps it, so that a command in it can be copied."""
        self._console.print(escape_controls(message), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Remove the bars; messages stay."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _render(self) -> RenderableType:
        """Return the bars; called at every refresh, so that they move between reports."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        (epoch, inside), steps = self._place, self._steps_per_epoch
        elapsed, left = format_duration(self._clock() - self._began), format_duration(self._pace.remaining)
        epochs_done = (epoch - 1 + inside / steps) / self._total
        bars = Table.grid(padding=(0, 1), expand=True)
        for style in ("bold", "", "", "magenta", ""):
            bars.add_column(style=style, no_wrap=True)
        bars.columns[1].justify, bars.columns[2].ratio = "right", 1
        for name, count, done, aside in (
            ("epoch", f"{epoch}/{self._total}", epochs_done, f"{elapsed}  ETA {left}"),
            ("step", f"{inside:,}/{steps:,}", inside / steps, self._pace.speed or ""),
        ):
            bars.add_row(name, count, ProgressBar(total=1, completed=done), f"{done:4.0%}", aside)
        return Group(bars, self._values)


def _format_start(title: str, epochs: int, steps_per_epoch: int, step: int) -> str:
    start = f"{title}: {format_count(epochs, 'epoch')} of {format_count(steps_per_epoch, 'step')}"
    return start + (f", resumed after step {step:,}" if step else "")


def _values(report: Report) -> list[str]:
    return [
        f"loss {format_measure(report.loss)}",
        *(f"{name} {format_measure(value)}" for name, value in report.measures.items()),
        f"lr {format_rate(report.lr)}",
        speed_text(report.tokens_per_second, report.unit),
    ]


def _format_epoch(
    epoch: int, epochs: int, train: Measures, valid: Measures, pace: tuple[float, str | None]
) -> str:
    seconds, speed = pace
    trained, decisive = _first(train), _first(valid)
    parts = [f"epoch {epoch:>{len(str(epochs))}}/{epochs}"]
    if trained in valid:
        values = format_measure(train[trained]), format_measure(valid[trained])
        parts.append(f"{trained}: train {values[0]}, valid {values[1]}")
    elif trained:
        parts.append(f"train {trained} {format_measure(train[trained])}")
    if decisive and decisive != trained:
        parts.append(f"valid {decisive} {format_measure(valid[decisive])}")
    return "  ".join([*parts, format_duration(seconds), *([speed] if speed else [])])


def _first(measures: Measures) -> str | None:
    """Return the first measure other than the loss; the loss if there is no other."""
    return min(measures, key=lambda name: name == "loss", default=None)
