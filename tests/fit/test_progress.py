"""What people see of training."""

from __future__ import annotations

import io
import math
import sys
import types
from typing import Any

import pytest
from rich.console import Console
from tests.refusals import lacks, refuses

from throughtime.fit.progress import Bars, Lines, Notebook, Reporter, progress_reporter
from throughtime.fit.timing import Pace, Report


class Clock:
    """Time that goes on when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def report(step: int, steps: int = 100, **changes: Any) -> Report:
    values = {
        "epoch": (step - 1) // steps + 1,
        "step": step,
        "steps_per_epoch": steps,
        "step_in_epoch": (step - 1) % steps + 1,
        "loss": 4.5,
        "measures": {"perplexity": 90.017},
        "lr": 1.2e-3,
        "tokens_per_second": 12_345.0,
    }
    return Report(**(values | changes))


def terminal(width: int = 80) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width, height=20, force_terminal=True, color_system=None), file


def rendered(bars: Bars) -> list[str]:
    """The bars as they stand now, line by line."""
    console, file = terminal()
    console.print(bars._render())
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_the_remaining_time_leaves_out_the_slow_start() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin(4, 100, 0)
    assert pace.remaining is None
    clock.now = 50.0
    pace.update(report(10))
    assert pace.remaining == pytest.approx(390 * 5.0)
    for step in (20, 30, 40):
        clock.now += 10.0
        pace.update(report(step))
    assert pace.remaining == pytest.approx(360.0)


def test_an_epoch_has_its_seconds_and_the_last_speed() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin(2, 2, 0)
    assert pace.epoch() == (0.0, None)
    pace.update(report(1, tokens_per_second=100.0))
    clock.now = 7.0
    assert pace.epoch() == (7.0, "100 tokens/s")
    clock.now = 9.0
    pace.update(report(2, tokens_per_second=300.0))
    assert pace.epoch() == (2.0, "300 tokens/s")


def test_lines_come_once_a_validation_and_after_each_silent_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    lines = Lines(clock)
    lines.begin("a small model", 4, 100, 0)
    for step in range(10, 101, 10):
        clock.now += 20.0
        lines.update(report(step))
    lines.epoch(
        1, {"loss": 4.0, "perplexity": 54.6}, {"perplexity": 60.0}, True, "the time\n\x1b[2Jtraveller"
    )
    lines.epoch(2, {"loss": 4.0}, {}, False, None)
    lines.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "a small model: 4 epochs of 100 steps",
        "epoch 1/4  step 30/100  loss 4.500  perplexity 90.02  lr 1.2e-3  12.3k tokens/s  ETA 12:20",
        "epoch 1/4  step 60/100  loss 4.500  perplexity 90.02  lr 1.2e-3  12.3k tokens/s  ETA 11:20",
        "epoch 1/4  step 90/100  loss 4.500  perplexity 90.02  lr 1.2e-3  12.3k tokens/s  ETA 10:20",
        "epoch 1/4  perplexity: train 54.60, valid 60.00  3:20  12.3k tokens/s  best so far",
        "    the time",
        "    \\u001b[2Jtraveller",
        "epoch 2/4  train loss 4.000  0:00  12.3k tokens/s",
    ]


def test_a_sample_is_shown_when_it_has_changed(capsys: pytest.CaptureFixture[str]) -> None:  # R112
    lines = Lines(Clock())
    lines.begin("a small model", 5, 100, 0)
    for epoch, sample in enumerate(("a b", "a b", None, "a\nb\n\n c\nd", "x" * 999), start=1):
        lines.epoch(epoch, {}, {"perplexity": 60.0}, False, sample)
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("    ")]
    assert shown == ["    a b", "    a", "    b", "    c", f"    {'x' * 150}..."]


def test_a_run_limited_by_time_shows_its_time_and_no_number_of_epochs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(Clock())
    lines.begin("a small model", None, 100, 0)
    for epoch, elapsed in ((1, 7.0), (2, 29.0), (3, 31.0)):
        lines.plan(elapsed, 30.0)
        lines.update(report(100 * epoch))
        assert lines._pace.remaining == max(30.0 - elapsed, 0.0)  # whatever the updates take
        lines.epoch(epoch, {}, {"perplexity": 60.0}, False, None)
    assert capsys.readouterr().err.splitlines() == [
        "a small model: epochs of 100 steps",
        "epoch 1  0:07 of 0:30  valid perplexity 60.00  12.3k tokens/s",
        "epoch 2  0:29 of 0:30  valid perplexity 60.00  12.3k tokens/s",
        "epoch 3  0:31 of 0:30  valid perplexity 60.00  12.3k tokens/s",
    ]
    console, file = terminal()
    bars = Bars(console, Clock())
    bars.begin("a small model", None, 100, 250)
    bars.plan(6.0, 30.0)
    bars.close()
    used, steps, *_ = rendered(bars)
    assert not lacks(used, "time", "0:06", "20%", "0:24")
    assert "50/100" in steps
    assert "resumed after step 250" in file.getvalue()


def test_what_decides_is_shown_and_what_was_trained_beside_its_validation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = Lines(Clock())
    lines.begin("a small model", 3, 100, 0)
    lines.epoch(1, {"pinball": 0.25}, {"pinball": 0.5, "mse": 0.1}, True, None)
    lines.epoch(2, {"pinball": 0.25}, {"mse": 0.1, "pinball": 0.5}, False, None)
    lines.epoch(3, {"log_loss": 0.25}, {"accuracy": 0.5, "loss": 2.0}, False, None)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "epoch 1/3  pinball: train 0.2500, valid 0.5000  0:00  best so far",
        "epoch 2/3  pinball: train 0.2500, valid 0.5000  valid mse 0.1000  0:00",
        "epoch 3/3  train log_loss 0.2500  valid accuracy 0.5000  0:00",
    ]


def test_bars_fit_eighty_columns_and_leave_the_epochs_behind() -> None:
    console, file = terminal()
    clock = Clock()
    bars = Bars(console, clock)
    bars.begin("a small model", 4, 1000, 0)
    for step in (50, 100):
        clock.now += 5.0
        bars.update(report(step, steps=1000))
    drawn = rendered(bars)
    bars.epoch(1, {"perplexity": 54.6}, {"perplexity": 60.0}, True, "[bold]the time \x1b[2J traveller" * 9)
    bars.say("saved [3] of them")
    bars.close()
    bars.close()
    assert len(drawn) == 3
    assert all(len(line) <= 80 for line in drawn)
    assert "1/4" in drawn[0]
    assert "0:10  ETA 6:30" in drawn[0]
    assert "100/1,000" in drawn[1]
    assert "12.3k tokens/s" in drawn[1]
    assert drawn[2] == "loss 4.500  perplexity 90.02  lr 1.2e-3"
    text = file.getvalue()
    assert "a small model: 4 epochs of 1,000 steps" in text
    assert "epoch 1/4  perplexity: train 54.60, valid 60.00  0:10  12.3k tokens/s  best so far" in text
    assert "    [bold]the time \\u001b[2J traveller[bold]the" in text
    assert "\x1b[2J" not in text
    assert "saved [3] of them" in text


def test_bars_survive_any_width_and_the_oddest_numbers() -> None:
    for width in (1, 7, 20, 40, 200):
        console, file = terminal(width)
        bars = Bars(console)
        bars.begin("a small model", 1, 0, 0)
        bars.update(report(1, steps=1, loss=math.nan, lr=0.0, measures={"perplexity": math.inf}))
        bars.update(report(3, steps=2, tokens_per_second=0.0))
        bars.epoch(1, {}, {}, False, "")
        bars.close()
        assert file.getvalue()


def test_a_resumed_run_starts_where_it_stood() -> None:
    console, file = terminal()
    bars = Bars(console)
    bars.begin("a small model", 4, 100, 250)
    bars.close()
    epochs, steps, *_ = rendered(bars)
    assert "resumed after step 250" in file.getvalue()
    assert "3/4" in epochs
    assert "62%" in epochs
    assert "50/100" in steps


class Shown:
    """A notebook's output: one display that is replaced whenever it is updated."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Shown:
        assert not self.texts, "one display for a training"
        self.update(data, raw=raw)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        self.texts.append(data["text/plain"])


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """IPython as a notebook's kernel has it; no other package."""
    shown = Shown()
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    display.display = shown.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_terminal_gets_bars_and_a_file_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal_at_hand, kind in ((True, Bars), (False, Lines)):
        monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda at=terminal_at_hand: at))
        assert type(progress_reporter()) is kind
    assert type(progress_reporter("none")) is Reporter
    assert type(progress_reporter("lines")) is Lines
    with refuses("progress", "'line'", "'lines'"):
        progress_reporter("line")  # type: ignore[arg-type]


def test_a_notebook_gets_one_display_that_is_updated(notebook: Shown, capsys: Any) -> None:
    reporter = progress_reporter()
    assert type(reporter) is Notebook
    clock = reporter._clock = reporter._pace._clock = Clock()
    reporter._last = 0.0
    reporter.begin("a small model", 4, 100, 0)
    for step in range(1, 11):
        clock.now += 0.25
        reporter.add_update(1, step, step, 50)
    assert len(notebook.texts) == 3  # once a second
    assert notebook.texts[-1] == "a small model: 4 epochs of 100 steps\nepoch 1/4  step 8  200/s  ETA 1:38"
    reporter.update(report(10))
    assert notebook.texts[-1].endswith(
        "step 10/100  loss 4.500  perplexity 90.02  lr 1.2e-3  12.3k tokens/s  ETA 1:38"
    )
    reporter.epoch(1, {"perplexity": 54.6}, {"perplexity": 60.0}, True, "the time")
    reporter.close()
    assert notebook.texts[-1].splitlines() == [
        "a small model: 4 epochs of 100 steps",
        "epoch 1/4  perplexity: train 54.60, valid 60.00  0:02  12.3k tokens/s  best so far",
        "    the time",
    ]
    assert capsys.readouterr() == ("", "")


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    silent: Reporter = Reporter()
    silent.begin("a small model", 1, 1, 0)
    silent.update(report(1))
    silent.epoch(1, {}, {}, True, "text")
    silent.say("text")
    silent.close()
    assert capsys.readouterr() == ("", "")


def test_the_speed_is_one_of_what_the_task_counts() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin(1, 10, 0)
    pace.update(report(5, unit="texts"))
    assert pace.epoch()[1] == "12.3k texts/s"


def test_bars_move_between_reports() -> None:
    """Every refresh shows how far it is by then, how fast, for how long, and for how long still."""
    console, _ = terminal()
    clock = Clock()
    bars = Bars(console, clock)
    bars.begin("a small model", 2, 100, 0)
    shown = []
    for step in range(1, 31):
        clock.now += 1.0
        bars.add_update(1, step, step, 50)
        shown.append(rendered(bars))
    assert [f" {step}/100 " in drawn[1] for step, drawn in enumerate(shown, 1)] == [True] * 30
    assert "0:30  ETA 2:50" in shown[-1][0]
    assert "50/s" in shown[-1][1]
    bars.update(report(30, unit="texts"))
    assert "12.3k texts/s" in rendered(bars)[1]
    clock.now += 2.0
    bars.add_update(1, 32, 32, 50)  # a report every minute or so would leave the old speed standing
    bars.close()
    assert "50 texts/s" in rendered(bars)[1]
    assert "32/100" in rendered(bars)[1]
