"""The command line as it was typed, and as it should be."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def command_name() -> str:
    """The command that runs this program again from the same shell.

    `throughtime` if the shell finds the program that is running; otherwise the path of the installed script,
    or `python -m throughtime` if there is no script.
    """
    script = shutil.which("throughtime", path=str(Path(sys.executable).parent))
    if script is None:
        program = shutil.which("python")
        same = program is not None and Path(program).samefile(sys.executable)
        return f"{'python' if same else shlex.quote(_shorten_path(sys.executable))} -m throughtime"
    program = shutil.which("throughtime")
    if program is not None and Path(program).samefile(script):
        return "throughtime"
    return shlex.quote(_shorten_path(script))


def _shorten_path(path: str) -> str:
    """The path relative to the current folder, if it is inside."""
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here)


def command_with(choices: Mapping[str, Any], options: Mapping[str, str], words: Sequence[str]) -> str:
    """The command of these words with other choices; empty if it has no options for them.

    >>> words = ["train", "translate", "--source=x", "--data", "a.tsv"]
    >>> command_with({"source": "en"}, {"source": "--source"}, words).partition(" ")[2]
    'train translate --data a.tsv --source en'
    """
    chosen = [(options[name], str(value)) for name, value in choices.items() if name in options]
    if not chosen and "reader_option" in options:
        chosen = [("--option", f"{name}={value}") for name, value in choices.items()]
    elif len(chosen) < len(choices):
        return ""
    replaced, kept, remaining = {option for option, _ in chosen}, list[str](), iter(words)
    for word in remaining:
        option, equals, _ = word.partition("=")
        if option not in replaced:
            kept.append(word)
        elif not equals:
            next(remaining, None)
    return f"{command_name()} {shlex.join([*kept, *itertools.chain.from_iterable(chosen)])}"
