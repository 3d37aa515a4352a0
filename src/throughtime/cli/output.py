"""What every command prints: one result on stdout, messages on stderr, errors that name options."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import re
import shlex
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import OptionInfo

from throughtime.cli.console import command_name, command_with, readable, stderr, stdout
from throughtime.cli.options import Shared, keyword_option, option
from throughtime.errors import InputError, ThroughtimeError, ThroughtimeWarning
from throughtime.runtime.keywords import Keyword
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
    warnings: dict[str, str] = field(default_factory=dict)  # by kind


flags = Flags()
COMMON_OPTIONS = ("trust_changed", "json", "debug")
"""The options whose values are in `flags`."""


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
    parameters = {parameter.name: parameter for parameter in _parameters(command, group)}
    run.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return run


def _parameters(
    command: Callable[..., Outcome], group: Mapping[str, Any] | None
) -> Iterator[inspect.Parameter]:
    """The parameters of a command with those of its group written out, and the options that all have.

    Those after `*` come after the group.
    """
    hints, helps = get_type_hints(command, include_extras=True), read_help(Shared)[1] | read_help(command)[1]
    declared = inspect.signature(command).parameters
    for parameter in sorted(
        declared.values(), key=lambda parameter: parameter.kind is parameter.KEYWORD_ONLY
    ):
        name = parameter.name
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter.replace(
                kind=parameter.KEYWORD_ONLY, annotation=add_help(name, hints[name], helps)
            )
            continue
        if group is None:
            (kind,) = get_args(hints[name])
            helps = read_help(Shared)[1] | read_help(kind)[1] | read_help(command)[1]
            group = get_type_hints(kind, include_extras=True)
        for key, hint in group.items():
            if key not in declared:  # the command may declare an option in its own way
                yield build_parameter(key, hint, helps)
    for name in COMMON_OPTIONS:
        if name != "trust_changed" or {"run", "runs", "words", "resume"} & {*hints, *(group or ())}:
            yield build_parameter(name, bool, helps)


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
    """The error of the library with the names of options in place of parameters.

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
    return InputError(where, problem, error.line)


def name_switches(problem: str, names: Collection[str]) -> str:
    """A problem as a command with these parameters says it: `set resume` becomes `add --resume`."""
    for name in {"resume", "overwrite", "trust_changed"}.intersection(names):
        problem = problem.replace(f"set {name}", f"add --{name.replace('_', '-')}")
    return problem


def read_help(command: Callable[..., Any]) -> tuple[str, dict[str, tuple[str | None, str]]]:
    """Read a docstring: its text without the sections of options, and the panel and help of each option."""
    paragraphs, helps = [], {}
    for paragraph in inspect.cleandoc(command.__doc__ or "").split("\n\n"):
        title, _, section = paragraph.partition(":\n    ")
        if not section or "\n" in title:
            paragraphs.append(paragraph)
            continue
        panel = None if title == "Args" else title
        for described in re.split(r"\n {4}(?! )", section):
            name, _, text = described.partition(": ")
            helps[name] = (panel, " ".join(text.split()))
    return "\n\n".join(paragraphs), helps


Helps = Mapping[str, tuple[str | None, str]]
"""The panel and the help of options, by name."""


def build_parameter(name: str, hint: Any, helps: Helps) -> inspect.Parameter:
    """The parameter of an option of a group, or of a keyword of a prediction."""
    default = None
    if isinstance(keyword := (*get_args(hint), None, None)[1], Keyword):
        hint, default = keyword_option(name, hint), keyword.default or None
    hint = add_help(name, hint, helps)
    if get_args(hint)[0] is bool:
        default = False
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def add_help(name: str, hint: Any, helps: Helps) -> Any:
    """The annotation of a parameter as an option with help; a switch has no `--no-...`."""
    kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    info = copy(metadata[0]) if metadata else option(None, *[f"--{name.replace('_', '-')}"] * (kind is bool))
    if info.help is None:
        info.rich_help_panel, info.help = helps[name]
    return Annotated[kind, info]


def option_names(command: Callable[..., None]) -> dict[str, str]:
    """The options of a command by the names of its parameters; arguments are left out."""
    options = {}
    for parameter, hint in command.__annotations__.items():
        for info in getattr(hint, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                # In an annotation, the first name of an option is in the place of its default.
                names = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
                options[parameter] = names[0] if names else f"--{parameter.replace('_', '-')}"
    return options


def suggested_commands(hints: Sequence[str], run: str) -> list[str]:
    """Commands as they are typed in a shell, ready to be printed."""
    from rich.markup import escape

    name = command_name()
    return [escape(f"  {name} " + hint.replace("{run}", shlex.quote(run))) for hint in hints]


def join_paragraphs(text: str) -> str:
    r"""A docstring with each paragraph in one line, so that help fills the terminal, however wide it is.

    >>> join_paragraphs("One line of a paragraph,\n    and another.\n\n      an example")
    'One line of a paragraph, and another.\n\n  an example'
    """
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in inspect.cleandoc(text).split("\n\n"))


def print_json(values: dict[str, Any]) -> None:
    """One object, one line, on stdout. JSON has no infinity: it becomes null."""
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
    """A table without lines; the columns of headings that begin with ">" are aligned to the right."""
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
    """A progress bar on stderr for work in several pieces; none unless stderr is a terminal."""
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
    """A bar on stderr for each file that is being downloaded."""
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
