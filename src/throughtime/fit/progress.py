"""How training reports its progress: bars on a terminal, an updated display in a notebook, or plain lines."""

from __future__ import annotations

import importlib
import itertools
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

from throughtime.errors import unknown
from throughtime.fit.timing import (
    Now,
    Pace,
    Report,
    format_duration,
    format_measure,
    format_rate,
    format_speed,
)
from throughtime.text.texts import escape_controls, format_count

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

Measures = dict[str, float]

_LINE_SECONDS = 60.0
_DISPLAY_SECONDS = 1.0
_SAMPLE_LINES, _SAMPLE_WIDTH = 3, 150


class Reporter:
    """Receives the progress of a training. This base class reports nothing; a subclass overrides methods."""

    def begin(self, title: str, epochs: int | None, steps_per_epoch: int, step: int) -> None:
        """Training starts; a resumed run has done `step` updates. `epochs` is None if time limits the run."""

    def plan(self, elapsed: float, seconds: float) -> None:
        """Take note that a run which is limited by time has used `elapsed` of its `seconds`."""

    def add_update(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
        """Count an update with this number of targets that was submitted; the device has completed `step`.

        This is called after every update, so it must be fast.
        """

    def update(self, report: Report) -> None:
        """Training reports its state, every `report_every` updates."""

    def epoch(self, epoch: int, train: Measures, valid: Measures, best: bool, sample: str | None) -> None:
        """Show a validated epoch. The first measure of each kind, other than the loss, is shown.

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
    """Return whether this runs in the kernel of a notebook; IPython on a terminal has none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class Lines(Reporter):
    """Plain lines on stderr: one per validation, and one whenever there was none for a minute."""

    def __init__(self, clock: Now = time.monotonic) -> None:
        self._clock, self._pace = clock, Pace(clock)
        self._last = clock()
        self._epochs: int | None = None
        self._used = 0.0, 1.0
        self._sample, self._width = "", _SAMPLE_WIDTH

    def begin(self, title: str, epochs: int | None, steps_per_epoch: int, step: int) -> None:
        """Write the title."""
        self._epochs = epochs
        self._pace.begin(epochs, steps_per_epoch, step)
        length = "epochs" if epochs is None else format_count(epochs, "epoch")
        resumed = f", resumed after step {step:,}" if step else ""
        self.say(f"{title}: {length} of {format_count(steps_per_epoch, 'step')}{resumed}")

    def plan(self, elapsed: float, seconds: float) -> None:
        """Show the time that was used in place of a number of epochs, which would change all the time."""
        self._used = elapsed, seconds
        self._pace.remaining = max(seconds - elapsed, 0.0)

    def update(self, report: Report) -> None:
        """Write a line if none was written for a minute."""
        self._pace.update(report)
        if self._clock() - self._last >= _LINE_SECONDS:
            self.say(self._status(report))

    def epoch(self, epoch: int, train: Measures, valid: Measures, best: bool, sample: str | None) -> None:
        """Write the measures of the epoch, and the first lines of the sample below if it has changed."""
        self.say(self._measures(epoch, train, valid, best))
        before, self._sample = self._sample, sample or ""
        lines = [] if self._sample == before else map(" ".join, map(str.split, self._sample.splitlines()))
        for line in itertools.islice(filter(None, lines), _SAMPLE_LINES):
            shown = escape_controls(line)
            self.say(f"    {shown[: self._width]}{'...' * (len(shown) > self._width)}")

    def say(self, message: str) -> None:
        """Write a line."""
        print(escape_controls(message), file=sys.stderr, flush=True)
        self._last = self._clock()

    def _status(self, report: Report) -> str:
        steps = f"step {report.step_in_epoch:,}/{report.steps_per_epoch:,}"
        left = f"ETA {format_duration(self._pace.remaining)}"
        return "  ".join([self._place(report.epoch), steps, *_values(report), left])

    def _place(self, epoch: int) -> str:
        if self._epochs is None:
            return f"epoch {epoch}  {self._time()}"
        return f"epoch {epoch:>{len(str(self._epochs))}}/{self._epochs}"

    def _time(self) -> str:
        return " of ".join(map(format_duration, self._used))

    def _measures(self, epoch: int, train: Measures, valid: Measures, best: bool) -> str:
        seconds, speed = self._pace.epoch()
        duration = None if self._epochs is None else format_duration(seconds)
        ends = duration, speed, "best so far" if best else None
        return "  ".join([self._place(epoch), *_compare_measures(train, valid), *filter(None, ends)])


class Notebook(Lines):
    """Lines in the output of a notebook cell, the last of them updated in place; needs no widgets."""

    def __init__(self, clock: Now = time.monotonic) -> None:
        super().__init__(clock)
        self._display: Any = importlib.import_module("IPython.display").display
        self._handle: Any = None
        self._lines: list[str] = []
        self._now = ""

    def add_update(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
        """Move the last line on, once a second."""
        self._pace.add_update(step, targets)
        if self._clock() - self._last >= _DISPLAY_SECONDS:
            speed, left = self._pace.speed or "", format_duration(self._pace.remaining)
            self._now = f"{self._place(epoch)}  step {step_in_epoch:,}  {speed}  ETA {left}"
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
    """A bar for the whole run, one for the steps of the current epoch, and the values, below the messages."""

    def __init__(self, console: Console | None = None, clock: Now = time.monotonic) -> None:
        from rich.console import Console
        from rich.text import Text

        super().__init__(clock)
        self._console = console or Console(stderr=True, highlight=False)
        self._width = max(self._console.width - 8, 1)
        self._values = Text()
        self._live: Live | None = None

    def begin(self, title: str, epochs: int | None, steps_per_epoch: int, step: int) -> None:
        """Show the bars at the current position."""
        from rich.live import Live

        super().begin(title, epochs, steps_per_epoch, step)
        self._began, self._steps_per_epoch = self._clock(), max(steps_per_epoch, 1)
        done, inside = divmod(step, self._steps_per_epoch)
        self._position = (min(done + 1, epochs or done + 1), inside)
        # stdout is not redirected; what others write on stderr appears above the bars.
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=2,
            redirect_stdout=False,
            transient=True,
        )
        self._live.start()

    def add_update(self, epoch: int, step_in_epoch: int, step: int, targets: int) -> None:
        """Store the position; the bars move at the next refresh, twice a second."""
        self._position = (epoch, step_in_epoch)
        self._pace.add_update(step, targets)

    def update(self, report: Report) -> None:
        """Show the values of the report."""
        from rich.text import Text

        self._pace.update(report)
        self._position = (report.epoch, report.step_in_epoch)
        # Replaced whole: the refreshing thread may be reading the old one.
        self._values = Text("  ".join(_values(report)[:-1]), no_wrap=True, overflow="ellipsis")

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

        (epoch, inside), steps = self._position, self._steps_per_epoch
        left = f"ETA {format_duration(self._pace.remaining)}"
        if self._epochs is None:
            elapsed, seconds = self._used
            row = "time", self._time(), min(elapsed / seconds, 1.0), left
        else:
            elapsed, done = self._clock() - self._began, (epoch - 1 + inside / steps) / self._epochs
            row = "epoch", f"{epoch}/{self._epochs}", done, f"{format_duration(elapsed)}  {left}"
        bars = Table.grid(padding=(0, 1), expand=True)
        for style in ("bold", "", "", "magenta", ""):
            bars.add_column(style=style, no_wrap=True)
        bars.columns[1].justify, bars.columns[2].ratio = "right", 1
        for name, count, done, aside in (
            row,
            ("step", f"{inside:,}/{steps:,}", inside / steps, self._pace.speed or ""),
        ):
            bars.add_row(name, count, ProgressBar(total=1, completed=done), f"{done:4.0%}", aside)
        return Group(bars, self._values)


def _values(report: Report) -> list[str]:
    return [
        f"loss {format_measure(report.loss)}",
        *(f"{name} {format_measure(value)}" for name, value in report.measures.items()),
        f"lr {format_rate(report.lr)}",
        format_speed(report.tokens_per_second, report.unit),
    ]


def _compare_measures(train: Measures, valid: Measures) -> list[str]:
    trained, decisive = _first(train), _first(valid)
    words = []
    if trained in valid:
        values = format_measure(train[trained]), format_measure(valid[trained])
        words.append(f"{trained}: train {values[0]}, valid {values[1]}")
    elif trained:
        words.append(f"train {trained} {format_measure(train[trained])}")
    if decisive and decisive != trained:
        words.append(f"valid {decisive} {format_measure(valid[decisive])}")
    return words


def _first(measures: Measures) -> str | None:
    """Return the first measure other than the loss; the loss if there is no other."""
    return min(measures, key=lambda name: name == "loss", default=None)
