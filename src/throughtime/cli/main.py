"""The entry of the command line: the table of commands, and what an error looks like."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from throughtime.cli.average import average
from throughtime.cli.backtest import backtest
from throughtime.cli.batches import batches
from throughtime.cli.bleu import bleu
from throughtime.cli.classify import classify
from throughtime.cli.compare import compare
from throughtime.cli.compose import compose
from throughtime.cli.convert import convert
from throughtime.cli.data import data_app
from throughtime.cli.demo import demo
from throughtime.cli.doctor import doctor
from throughtime.cli.evaluate import evaluate
from throughtime.cli.export import export
from throughtime.cli.fill import fill
from throughtime.cli.forecast import forecast
from throughtime.cli.generate import generate
from throughtime.cli.inspect import inspect_app
from throughtime.cli.output import InterruptedCommandError, flags, print_json
from throughtime.cli.score import score
from throughtime.cli.serve import serve
from throughtime.cli.stats import stats
from throughtime.cli.tag import tag
from throughtime.cli.train import train_app
from throughtime.cli.translate import translate
from throughtime.cli.usage import (
    Command,
    Evaluates,
    ReadsData,
    RunFirst,
    TakesLabel,
    WritesOut,
)
from throughtime.errors import ThroughtimeError

app = typer.Typer(
    name="throughtime",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Recurrent sequence models: train them, judge them, look inside them, run them anywhere.",
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


app.command("demo", cls=Command)(demo)
app.add_typer(data_app, name="data")
data_app.command("convert", cls=Command)(convert)
data_app.command("batches", cls=Command)(batches)
app.command("stats", cls=Command)(stats)
app.add_typer(train_app, name="train")
app.command("average", cls=WritesOut)(average)
app.command("evaluate", cls=Evaluates)(evaluate)
app.command("backtest", cls=ReadsData)(backtest)
app.command("compare", cls=Command)(compare)
app.command("bleu", cls=Command)(bleu)
app.command("translate", cls=RunFirst)(translate)
app.command("tag", cls=RunFirst)(tag)
app.command("fill", cls=RunFirst)(fill)
app.command("classify", cls=RunFirst)(classify)
app.command("compose", cls=TakesLabel)(compose)
app.command("forecast", cls=ReadsData)(forecast)
app.command("score", cls=RunFirst)(score)
app.command("generate", cls=RunFirst)(generate)
app.command("serve", cls=Command)(serve)
app.add_typer(inspect_app, name="inspect")
app.command("export", cls=WritesOut)(export)
app.command("doctor", cls=Command)(doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for a failure, 2 for bad input, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_streams()
    flags.json, flags.debug = "--json" in words, "--debug" in words
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
        _flushed()
        return 0  # the reader of our output (`head`, say) has left; that is no failure of ours
    except OSError as error:
        # Files that are written name themselves when the disk is full; stdout without a buffer does not.
        unnamed = error.filename is None and error.errno == errno.ENOSPC
        where = error.filename if _flushed() and not unnamed else "stdout"
        what = error.strerror or str(error)
        return _fail(f"{where}: {what}" if where else what, 1)
    except Exception as error:
        # Some libraries put a stack trace of their own behind the first line.
        first = "".join(str(error).splitlines()[:1]).rstrip(". ")
        told = f"{type(error).__name__}: {first}" if first else type(error).__name__
        return _fail(f"unexpected {told}; run again with --debug to see where.", 1)
    return code


def _open_streams() -> None:
    """Let a standard stream that came closed lead nowhere.

    Python has None in its place, and the first file that is opened would get its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _invoke(words: list[str]) -> int:
    """Run the command of these words; whatever it raises is for `main` to tell.

    Typer's own way of running it makes an exit code of Ctrl-C, and of a pipe that is no longer read, before
    anybody could say a word.
    """
    if "_THROUGHTIME_COMPLETE" in os.environ:  # a shell asks what could stand after these words
        app(args=words, prog_name="throughtime")
    command = typer.main.get_command(app)
    try:
        with command.make_context("throughtime", words) as context:
            command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except SystemExit as done:
        # So rich, which prints the help, answers a reader that has left.
        if isinstance(done.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        raise
    return 0


def _usage(error: typer.TyperException) -> int:
    """Say in one sentence what is wrong with the words of a command."""
    context, sentence = getattr(error, "ctx", None), error.format_message()
    if not sentence:
        return 2  # a command without arguments: making the error has printed the help
    if context is None:
        return _fail(sentence, 2)
    return _fail(f"{sentence.rstrip('.')}; see `{context.command_path} --help`.", 2)


def _fail(sentence: str, code: int) -> int:
    if flags.debug and sys.exc_info()[0] is not None:
        traceback.print_exc()
    _tell(sentence, f"error: {sentence}")
    return code


def _stop(sentence: str) -> int:
    """What Ctrl-C ends with: the exit code by which shells know it."""
    _tell(sentence, sentence)
    return InterruptedCommandError.exit_code


def _tell(sentence: str, line: str) -> None:
    """Say why there is no result: in the one JSON object where that was asked for, and on stderr."""
    if flags.json:
        with contextlib.suppress(OSError):
            print_json({"error": sentence})
    _flushed()
    print(line, file=sys.stderr)


def _flushed() -> bool:
    """Whether stdout takes what is written; if not, it leads nowhere from now on.

    Python writes what is left in it when it ends, and would fail at that again.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def run() -> None:
    """What the installed script calls."""
    sys.exit(main())
