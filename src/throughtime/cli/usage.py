"""Commands that explain common mistakes: settings given as options, and arguments in the wrong order."""

from __future__ import annotations

import difflib
import importlib
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from throughtime.cli.inputs import is_run
from throughtime.errors import InputError
from throughtime.files import path_exists

MAX_LENGTH = 60
SIMILAR = 0.8
"""Minimum similarity, from 0 to 1, of an unknown option to the setting that is suggested for it."""
SIMILAR_OPTION = 0.7
"""The same for an option that is suggested for it."""
STRAY = ("--label", "--data", "--out")
"""Options whose value may be given as an argument by mistake, the most probable first."""
_NUMBER = re.compile(r"-[0-9.]")
_TABLE = re.compile(r"\{([\w.]+):(\w+)\}")
"""A table of names in a help text, imported only when the help is shown."""
_VALUE_NAMES = {int: "N", float: "X", str: "TEXT", Path: "PATH"}


def _hide_type(ctx: Any) -> None:
    """Show nothing in place of the Python type of an argument or a switch."""


class Group(TyperGroup):
    """A group of commands whose help shows no Python types."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Hide the types of the options, then print the page."""
        params: list[Any] = self.get_params(ctx)
        for param in params:
            param.display_type_rich = _hide_type
        super().format_help(ctx, formatter)


class TaskGroup(Group):
    """A group with commands of tasks; those of other packages are built when they are asked for."""

    def find_tasks(self) -> Iterable[str]:
        """Return the names of the commands of all tasks that can be imported."""
        return ()

    def build_command(self, name: str) -> Callable[..., None] | None:
        """Build the command of a task of another package; None if there is no such task."""
        return None

    def list_commands(self, ctx: Any) -> list[str]:
        """Our own commands, and those of other packages."""
        return [*dict.fromkeys((*super().list_commands(ctx), *self.find_tasks()))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name."""
        if cmd_name not in self.commands and (built := self.build_command(cmd_name)) is not None:
            single = typer.Typer(rich_markup_mode="rich", add_completion=False)
            self.commands[cmd_name] = typer.main.get_command(add_commands(single, built))
        return super().get_command(ctx, cmd_name)


class Command(TyperCommand):
    """A command whose help has room for words at 80 columns: short value names, defaults in the text."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; for an unknown option, suggest what was probably meant."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if hasattr(error, "possibilities"):
                error.possibilities = self._suggest_options(getattr(error, "option_name", ""))
            raise

    def _suggest_options(self, wrong: str) -> list[str]:
        from throughtime.search.strategies import STRATEGIES, strategy_options

        name, options = wrong.lstrip("-"), [option for param in self.params for option in param.opts]
        known = {word.lstrip("-").replace("-", "_"): word for word in options if word.startswith("--")}
        if "search" in known and name in STRATEGIES:
            return [f"--search {name}"]
        near = difflib.get_close_matches(name.replace("-", "_"), known, cutoff=SIMILAR_OPTION)
        if near or "search" not in known:
            return [known[option] for option in near]
        searching = dict.fromkeys(option for kind in STRATEGIES.own for option in strategy_options(kind))
        near = _near_settings(wrong, searching)
        return [known.get(key, f"--search-option {key}=VALUE") for key in near]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Shorten what stands beside the help of each option, then print the page."""
        params: list[Any] = self.get_params(ctx)
        panels = {getattr(param, "rich_help_panel", None) for param in self.params}
        for param in params:
            if param.param_type_name != "option":
                param.display_type_rich = _hide_type
                continue
            if param.name == "help" and "Output" in panels:
                param.rich_help_panel = "Output"
            if param.metavar is None:
                kind = param.type_descriptor.annotation
                kind = (*get_args(kind), kind)[0]
                param.metavar = "" if param.is_flag else _VALUE_NAMES.get(kind, "VALUE")
            param.help = _TABLE.sub(_names, param.help or "")
            default = self.get_default(param)
            shown = default is not None and default is not False and default not in ("", ())
            if shown and param.show_default is True:
                param.help = f"{param.help or ''} \\[default: {default}]".strip()
            if not isinstance(param.show_default, str):
                param.show_default = False
            param.min = param.max = None
        super().format_help(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, without braces; a name in dots needs no more of them."""
        pieces = [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]
        return [re.sub(r"(\.{3}\]?)\.{3}$", r"\1", piece) for piece in pieces]

    def get_default(self, param: Any) -> Any:
        """Return the default of an option, as its help shows it; None for one without."""
        return None if param.required or callable(param.default) else param.default


def _names(table: re.Match[str]) -> str:
    """Return the names in a table, our own and those of other packages."""
    names = [*getattr(importlib.import_module(table[1]), table[2])]
    return f"{', '.join(names[:-1])} or {names[-1]}"


class TakesSettings(Command):
    """A command of `train`: if a setting is given as an option, the error shows how to use `--set`.

    The command's function has the declaration of its task as `task`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; for an unknown option that is a setting, raise the better error."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if option := getattr(error, "option_name", None):
                self._refuse(words, option)
            raise

    def get_default(self, param: Any) -> Any:
        """Return the default of the setting that an option sets."""
        field = getattr(self.callback, "task").part("config").model_fields.get(param.name)  # noqa: B009
        return super().get_default(param) if field is None or field.is_required() else field.default

    def _refuse(self, words: list[str], wrong: str) -> None:
        """Refuse settings that were given as options, if the option that is wrong is one or nearly one."""
        fields = getattr(self.callback, "task").part("config").model_fields  # noqa: B009
        options = {option for param in self.params for option in param.opts}
        meant: dict[str, str] = {}
        near: list[str] = []
        for number, word in enumerate(words):
            option, _, assigned = word.partition("=")
            if word == "--":
                break
            if not option.startswith("-") or option in options or option in meant:
                continue
            key, off = _setting(option, fields)
            if key is None and option == wrong:
                near = _near_settings(option, fields)
                key = next(iter(near), None)
            if key is not None:
                after = assigned if "=" in word else _get_following_word(words[number + 1 :])
                value = _value(after, fields[key].annotation, off)
                spelling = f"--{key.replace('_', '-')}"
                meant[option] = (
                    f"{spelling} {shlex.quote(value)}" if spelling in options else _set(key, value)
                )
        if wrong not in meant:
            return
        write = f"write `{' '.join(meant.values())}`"
        if near:
            others = f" (similar: {', '.join(near[1:])})" if near[1:] else ""
            known = "" if f"--{near[0].replace('_', '-')}" in options else f", but {near[0]} is a setting"
            raise InputError(wrong, f"is not an option{known}: {write}{others}")
        what = "are settings" if len(meant) > 1 else "is a setting"
        raise InputError(", ".join(meant), f"{what} of the task: {write}")


def _set(key: str, value: str) -> str:
    return f"--set {shlex.quote(f'{key}={value}')}"


def _our_name(option: str) -> str:
    """Return the name of the setting that an option means, if other libraries call it otherwise.

    >>> _our_name("--learning-rate"), _our_name("--num-layers")
    ('lr', 'num_layers')
    """
    from throughtime.config import SYNONYMS  # here, as it imports pydantic

    key = option.lstrip("-").replace("-", "_")
    return SYNONYMS.get(key, key)


def _setting(option: str, fields: dict[str, Any]) -> tuple[str | None, bool]:
    """Return the setting that an option names, and whether it is to be off, as in --no-tied."""
    key = _our_name(option)
    if key in fields:
        return key, False
    rest = key.removeprefix("no_")
    return (rest, True) if rest in fields and _is_truth(fields[rest].annotation) else (None, False)


def _near_settings(option: str, fields: dict[str, Any]) -> list[str]:
    """List the settings that an option may mean: with its words in their names, or the most similar one.

    >>> _near_settings("--dropout", {"lr": 1, "output_dropout": 1, "hidden_dropout": 1})
    ['hidden_dropout', 'output_dropout']
    >>> _near_settings("--embed-size", {"batch_size": 1, "embedding_size": 1}), _near_settings("--zzz", {})
    (['embedding_size'], [])
    """
    key = _our_name(option).replace("drop_out", "dropout")
    words = set(key.split("_"))
    # --dropout and --size most often mean the hidden layers, --layers and --beams a number.
    matches = sorted(
        (name for name in fields if words <= set(name.split("_"))),
        key=lambda name: not name.startswith(("hidden_", "num_")),
    )
    return matches or difflib.get_close_matches(key, fields, 1, SIMILAR)


def _get_following_word(words: list[str]) -> str | None:
    """Return the word after an option, unless it is an option too."""
    return words[0] if words and (not words[0].startswith("-") or _NUMBER.match(words[0])) else None


def _value(text: str | None, kind: Any, off: bool) -> str:
    if _is_truth(kind) and (text is None or text.lower() not in ("true", "false")):
        return "false" if off else "true"
    return "VALUE" if text is None else text


def _is_truth(kind: Any) -> bool:
    return bool in (kind, *get_args(kind))


class RunFirst(Command):
    """A command whose first argument is the folder of a model; errors show the right order of arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Check the order of the arguments, then parse them."""
        if not ctx.resilient_parsing:
            self._check_order(ctx, list(args))
        return super().parse_args(ctx, args)

    def option_for(self, word: str) -> str | None:
        """Return the option that this extra argument was probably meant for."""
        from throughtime.data.dataset import SPLITS

        options = {option for param in self.params for option in param.opts}
        splits = ("--split",) if word in (*SPLITS, "heldout", "all") else ()
        return next((option for option in (*splits, *STRAY) if option in options), None)

    def _check_order(self, ctx: Any, words: list[str]) -> None:
        first, *others = self._positional(ctx, words) or [""]
        arguments = [param for param in self.params if param.param_type_name == "argument"]
        several = len(arguments) == 1 and arguments[0].metavar == "RUN..."
        alone = several or (len(arguments) == 1 and arguments[0].nargs == 1)
        if several:  # what looks like a path may be the folder of a run that is missing
            others = [word for word in others if not _is_path(word) or is_run(word)]
        if is_run(first):
            extra = [word for word in others if not (several and is_run(word))]
            if alone and extra:
                takes = "runs" if several else "one run"
                raise InputError(
                    _shorten(extra[0]),
                    f"is an extra argument: this command takes {takes}, and options; write "
                    f"`{self._correct_command(ctx, words, first, extra)}`",
                )
            return
        run = next((word for word in others if is_run(word)), None)
        if run is None or _is_path(first):
            return
        strays = [word for word in (first, *others) if word != run] if alone else []
        raise InputError(
            "RUN",
            f"comes first, and {_shorten(first)} is not the folder of a trained model, but {run} is; "
            f"write `{self._correct_command(ctx, words, run, strays)}`",
        )

    def _positional(self, ctx: Any, words: list[str]) -> list[str] | None:
        """Return the positional arguments; None if `--help` is given or an option is wrong."""
        try:
            values, rest, _ = self.make_parser(ctx).parse_args(list(words))
        except typer.TyperException:
            return None
        if values.get("help"):
            return None
        texts: list[str] = []
        for param in self.params:
            if param.param_type_name == "argument":
                value = values.get(param.name)
                words_of_param = [value] if isinstance(value, str) else value or ()
                texts += [word for word in words_of_param if isinstance(word, str)]
        return [*texts, *rest]

    def _correct_command(self, ctx: Any, words: list[str], run: str, strays: list[str]) -> str:
        """Return the command line as it should have been."""
        rest = words
        for word in (run, *strays):
            rest = self._drop_word(ctx, rest, word)
        added: list[str] = []
        for word in strays:
            option = self.option_for(word)
            if option is not None and option not in (*rest, *added):
                added += [option, word]
        path = ctx.command_path.replace("inspect model", "inspect")
        return f"{path} {shlex.join([run, *rest, *added])}"

    def _drop_word(self, ctx: Any, words: list[str], word: str) -> list[str]:
        """Return the words without this argument; the same word as the value of an option stays."""
        before = self._positional(ctx, words) or []
        for number in (number for number, candidate in enumerate(words) if candidate == word):
            left = [*words[:number], *words[number + 1 :]]
            if len(self._positional(ctx, left) or []) == len(before) - 1:
                return left
        return words


def add_commands(app: typer.Typer, *commands: Callable[..., None]) -> typer.Typer:
    """Add commands under the names of their functions, of the class that explains the mistakes with them."""
    for command in commands:
        first = next(iter(command.__annotations__))
        kind = RunFirst if first in ("run", "words") else Command
        app.command(command.__name__, cls=TakesSettings if hasattr(command, "task") else kind)(command)
    return app


def _is_path(word: str) -> bool:
    """Return whether a word was probably meant as a path."""
    return path_exists(word) or ("/" in word and not re.search(r"\s", word))


def _shorten(word: str) -> str:
    return repr(word if len(word) <= MAX_LENGTH else f"{word[:MAX_LENGTH]}...")
