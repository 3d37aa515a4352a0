"""The entry point of the command line: the table of commands, and how errors are reported."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from throughtime.cli.average import average
from throughtime.cli.backtest import backtest
from throughtime.cli.batches import batches
from throughtime.cli.bleu import bleu
from throughtime.cli.compare import compare
from throughtime.cli.console import print_message
from throughtime.cli.convert import convert
from throughtime.cli.data import data_app, preview
from throughtime.cli.demo import demo
from throughtime.cli.doctor import doctor
from throughtime.cli.evaluate import evaluate
from throughtime.cli.export import export, import_arpa
from throughtime.cli.forecast import forecast
from throughtime.cli.generate import generate
from throughtime.cli.inspect import inspect_app
from throughtime.cli.output import InterruptedCommandError, flags, print_json
from throughtime.cli.predict import predict_command
from throughtime.cli.score import score
from throughtime.cli.serve import serve
from throughtime.cli.stats import stats
from throughtime.cli.train import train_app
from throughtime.cli.translate import translate
from throughtime.cli.usage import Command, TaskGroup, add_commands
from throughtime.errors import ThroughtimeError, shorten
from throughtime.tasks import TASKS, Task

MAX_START = 20
"""Seconds that starting may have taken on a busy machine for each second of CPU time."""


class Commands(TaskGroup):
    """Our commands, and one for each task of another package whose models answer texts."""

    def find_tasks(self) -> Iterable[str]:
        """Return the commands of these tasks."""
        return [task.command for task in self._outside_tasks()]

    def build_command(self, name: str) -> Callable[..., None] | None:
        """Build the command of such a task."""
        task = next((task for task in self._outside_tasks() if task.command == name), None)
        return None if task is None else predict_command(task)

    def _outside_tasks(self) -> list[type[Task]]:
        outside = (task for name, task in TASKS.available().items() if name not in TASKS.own)
        return [task for task in outside if task.answers is not None]


app = typer.Typer(
    name="throughtime",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train, evaluate, inspect and serve recurrent sequence models.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from throughtime.version import __version__

        print(f"throughtime {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Hold the options of the bare command."""


predictions = [predict_command(TASKS[name]) for name in TASKS.own if TASKS[name].answers is not None]
add_commands(app, demo, stats, average, evaluate, backtest, compare, bleu, translate, *predictions)
add_commands(app, forecast, score, generate, serve, export)
app.command("import", cls=Command)(import_arpa)
add_commands(app, doctor)
add_commands(data_app, convert, preview, batches)
for name, group in (("data", data_app), ("train", train_app), ("inspect", inspect_app)):
    app.add_typer(group, name=name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for a failure, 2 for bad input, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    flags.began = _process_began() if arguments is None else time.monotonic()
    flags.json, flags.debug, flags.words = "--json" in words, "--debug" in words, words
    try:
        code = _invoke(words)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _usage(error)
    except KeyboardInterrupt:
        return _stop("Interrupted.")
    except InterruptedCommandError as stopped:
        return _stop(str(stopped))
    except ThroughtimeError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        _flush_stdout()
        return 0  # the reader of our output, such as `head`, has finished; this is not a failure
    except OSError as error:
        # If the disk is full, an error names the file that was written; unbuffered stdout has no name.
        unnamed = error.filename is None and error.errno == errno.ENOSPC
        where = error.filename if _flush_stdout() and not unnamed else "stdout"
        what = error.strerror or str(error)
        return _fail(f"{where}: {what}" if where else what, 1)
    except Exception as error:
        # Some libraries add a stack trace after the first line.
        first = "".join(str(error).splitlines()[:1]).rstrip(". ")
        what = f"{type(error).__name__}: {first}" if first else type(error).__name__
        return _fail(f"unexpected {what}; run again with --debug to see where.", 1)
    return code


def _open_streams() -> None:
    """Connect standard streams that were closed at the start to the null device.

    Python sets them to None, and the first file that is opened would get their number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _invoke(words: list[str]) -> int:
    """Run a command; `main` reports the errors it raises.

    Typer's own entry point turns Ctrl-C and closed pipes into exit codes before they can be reported.
    """
    if "_THROUGHTIME_COMPLETE" in os.environ:  # a shell asks for completions
        app(args=words, prog_name="throughtime")
    command = _build_command()
    try:
        with command.make_context("throughtime", words) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except SystemExit as done:
        # Rich, which prints the help, exits like this when the reader has finished.
        if isinstance(done.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        raise
    return 0


@cache
def _build_command() -> Any:
    """Build the tree of commands: once for all that a process runs, as it takes longer than many of them."""
    return typer.main.get_command(app)


_PLAIN = (
    (r"Invalid value for '(.+?)': Input should be ", r"\1: expected "),
    (r"a valid integer\b.*", "a whole number"),
    (r"a valid number\b.*", "a number"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    (r"\. Did you mean", "; did you mean"),
    (r" \(Possible options: ([^,]*)\)", r"; did you mean \1?"),
    (r" \(Possible options: (.*)\)", r"; did you mean one of \1?"),
    (r"Got unexpected extra argument(\(s\)|s?) \((.*)\)", r"unexpected extra arguments: \2"),
    ("^No such", "no such"),
    ("^Missing ", "missing "),
)
"""Patterns in the messages of typer and pydantic, and our words for them."""


def _usage(error: typer.TyperException) -> int:
    """Report in one sentence what is wrong with a command line."""
    context, sentence = getattr(error, "ctx", None), error.format_message()
    if not sentence:
        return 2  # a command without arguments: creating the error has printed the help
    for pattern, plain in _PLAIN:
        sentence = re.sub(pattern, plain, sentence)
    if context is None:
        return _fail(sentence, 2)
    mark = " See" if sentence.endswith("?") else "; see"
    return _fail(f"{sentence.rstrip('.')}{mark} `{context.command_path} --help`", 2)


def _fail(sentence: str, code: int) -> int:
    if flags.debug and sys.exc_info()[0] is not None:
        print_message(traceback.format_exc().rstrip())
    sentence = shorten(sentence, 3_000, 1_000)
    _report(sentence, f"error: {sentence}")
    return code


def _stop(sentence: str) -> int:
    """Report Ctrl-C; returns the exit code that shells know it by."""
    _report(sentence, sentence)
    return InterruptedCommandError.exit_code


def _report(sentence: str, line: str) -> None:
    """Report why there is no result: on stderr, and with `--json` as an object on stdout."""
    if flags.json:
        with contextlib.suppress(OSError):
            print_json({"error": sentence})
    _flush_stdout()
    print_message(line)


def _flush_stdout() -> bool:
    """Flush stdout; returns False, and connects it to the null device, if it cannot be written.

    Otherwise Python would fail again when it writes what is left at exit.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def run() -> None:
    """Run the command line, as the installed script does."""
    code = main()
    gc.freeze()  # collecting what the exit drops anyway takes a second
    sys.exit(code)


def _process_began() -> float:
    """Return when this process began, by `time.monotonic`; where that cannot be known, by its CPU seconds.

    A shell that became this process may have waited before, so what is much longer is not believed.
    """
    used = age = time.process_time()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - min(max(age, used), MAX_START * used)
