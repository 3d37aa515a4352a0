"""What every command prints: one result on stdout, messages on stderr, errors that name options."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import shlex
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.cli.console import command_name, command_with, readable, stderr, stdout
from throughtime.cli.options import COMMON_OPTIONS, join_paragraphs, list_parameters, option_names, read_help
from throughtime.errors import InputError, ThroughtimeError, ThroughtimeWarning
from throughtime.text.texts import escape_controls, finite

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from throughtime.data.catalogue import CorpusFile


@dataclass(frozen=True)
class Outcome:
    """A command's result: `values` for machines (`--json`), `shown` for people."""

    values: dict[str, Any]
    shown: list[RenderableType] = field(default_factory=list)


@dataclass
class Flags:
    """The common options of the command that is running; `main` reads them when it fails."""

    json: bool = False
    debug: bool = False
    trust_changed: bool = False
    words: Sequence[str] = ()  # the command line
    began: float = 0.0  # by `time.monotonic`
    warnings: dict[str, str] = field(default_factory=dict)  # by kind


flags = Flags()


class InterruptedCommandError(ThroughtimeError):
    """Ctrl-C ended a command; the message says what is saved and how to continue."""

    exit_code = 130


def as_command(
    command: Callable[..., Outcome], group: Mapping[str, Any] | None = None
) -> Callable[..., None]:
    """Make a command print its outcome: one JSON object with `--json`, else what people read.

    The help of its options is in its docstring, in the section `Args` or one with the title of their panel.
    The options `--json` and `--debug` are added, `--trust-changed` if it loads a model, and those of a group
    that the command takes as `**options: Unpack[Group]`, or of annotations by name that are passed here. The
    command reads `flags.json`.
    """

    @functools.wraps(command)
    def run(**options: Any) -> None:
        for name in COMMON_OPTIONS:
            setattr(flags, name, bool(options.pop(name, False)))
        flags.warnings = {}
        try:
            with _print_warnings():
                outcome = command(**{name: _read(value) for name, value in options.items()})
        except InputError as error:
            raise name_options(error, run, options.get("search_option") or ()) from error
        if flags.json:
            warnings = {"warnings": [*flags.warnings.values()]} if flags.warnings else {}
            print_json(outcome.values | warnings)
        elif outcome.shown:
            console = stdout()
            for renderable in outcome.shown:
                console.print(renderable)

    run.__doc__ = join_paragraphs(read_help(command)[0])
    parameters = {parameter.name: parameter for parameter in list_parameters(command, group)}
    run.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return run


@contextlib.contextmanager
def _print_warnings() -> Iterator[None]:
    """Print warnings of the library as those of the command."""
    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if issubclass(category, ThroughtimeWarning):
                warn({str(message): str(message)})
            else:
                before(message, category, *where, **more)

        warnings.simplefilter("always", ThroughtimeWarning)
        warnings.showwarning = show
        yield


def name_options(
    error: InputError, command: Callable[..., None], search_options: Sequence[str] = ()
) -> InputError:
    """Return the error of the library with the names of options in place of parameters.

    Settings of `train` without an option are given with `--set`, those of a search with `--search-option`.
    """
    options = option_names(command)
    names = (word.partition("=")[0].replace("-", "_") for word in search_options)
    options |= {name: f"--search-option {name}" for name in names if name not in options}
    where, problem = options.get(error.where, error.where), error.problem
    task = getattr(command, "task", None)
    if task is not None and where == error.where and where in task.part("config").model_fields:
        where = f"--set {where}"
    if error.skippable and "skip_bad" in options:
        problem = f"{(problem or '').removesuffix('.')}; --skip-bad leaves bad records out"
    if problem is not None:
        problem = name_switches(problem, options)
    if error.choices and (corrected := command_with(error.choices, options, flags.words)):
        problem = f"{problem}; write `{corrected}`"
    elif error.choices:
        preview = shlex.join(["data", "preview", error.where])
        problem = f"{problem}; this command cannot: `{command_name()} {preview}` shows it as tasks read it"
    return InputError(where, problem, error.line)


def name_switches(problem: str, names: Collection[str]) -> str:
    """Return a problem as a command with these parameters says it: `set resume` becomes `add --resume`."""
    for name in {"resume", "overwrite", "trust_changed"}.intersection(names):
        problem = problem.replace(f"set {name}", f"add --{name.replace('_', '-')}")
    return problem


def suggested_commands(hints: Sequence[str], run: str) -> list[str]:
    """Commands as they are typed in a shell, ready to be printed."""
    from rich.markup import escape

    name = command_name()
    return [escape(f"  {name} " + hint.replace("{run}", shlex.quote(run))) for hint in hints]


def print_json(values: dict[str, Any]) -> None:
    """Print one object, one line, on stdout. JSON has no infinity: it becomes null."""
    text = readable(json.dumps(finite(values), ensure_ascii=False, allow_nan=False))
    print(escape_controls(text), flush=True)  # these escapes are JSON's own


def _read(value: Any) -> Any:
    """Replace bytes of a word that are not UTF-8, as on stdin.

    In the name of a file they are refused: names are stored as UTF-8 in what is made from the file.
    """
    if isinstance(value, list | tuple):
        return type(value)(_read(item) for item in value)
    if not isinstance(value, str | Path) or (clean := readable(str(value))) == str(value):
        return value
    if isinstance(value, Path) or os.path.lexists(value):
        raise InputError(clean, "is a name that is not UTF-8; rename it")
    return clean


def build_table(*headings: str, rows: Sequence[Sequence[Any]] = (), **style: Any) -> Table:
    """Return a table without lines; the columns of headings that begin with ">" are aligned to the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(**{"box": None, "padding": (0, 2, 0, 0), **style})
    for heading in headings:
        right = heading.startswith(">")
        table.add_column(heading.removeprefix(">"), justify="right" if right else "left")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


BOLD: dict[str, Any] = {"pad_edge": False, "header_style": "bold", "padding": (0, 1)}
"""The style of a table with bold headings, for `build_table`."""


def say(message: str) -> None:
    """Print a message, which is not part of the result, to stderr."""
    stderr().print(message, markup=False)


def draw_figure(path: Path | None, name: str, *content: Any, **options: Any) -> None:
    """Draw the figure `name` of `throughtime.plots` to a file, if there is one to write, and say so."""
    if path is None:
        return
    from throughtime import plots

    getattr(plots, name)(*content, path=path, **options)
    say(f"wrote {path}")


def warn(warnings: Mapping[str, str]) -> None:
    """Print warnings to stderr and add them to the JSON object; each kind of warning once."""
    for kind, sentence in warnings.items():
        if kind not in flags.warnings:
            flags.warnings[kind] = sentence
            say(f"warning: {sentence}")


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a progress bar on stderr for work in several pieces; none unless stderr is a terminal."""
    console = stderr()
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=console, transient=True)
    task = bars.add_task(title, total=None)

    def advance(done: int, total: int) -> None:
        if done < total:
            bars.start()
        bars.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bars.stop()


@contextlib.contextmanager
def download_bars() -> Iterator[Callable[[CorpusFile, int, int | None], None]]:
    """Yield a bar on stderr for each file that is being downloaded."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=stderr())
    tasks: dict[str, Any] = {}

    def advance(file: CorpusFile, done: int, total: int | None) -> None:
        if not tasks:
            bars.start()
        if file.path not in tasks:
            tasks[file.path] = bars.add_task(file.path, total=file.size)
        # A compressed file is smaller in transit than on disk, so the size from the server is the right one.
        bars.update(tasks[file.path], completed=done, total=total or file.size)

    try:
        yield advance
    finally:
        if tasks:
            bars.stop()
