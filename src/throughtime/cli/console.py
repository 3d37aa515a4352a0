"""Where commands print, without control characters of texts, and the command line as it was typed.

Names, tokens, labels and answers come from model folders and data, and a terminal obeys what it is sent.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.text.texts import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console


def print_text(text: str = "", end: str = "\n") -> None:
    """Print a text to stdout at once; only a terminal gets it with escaped control characters."""
    print(escape_controls(text) if sys.stdout.isatty() else text, end=end, flush=True)


def print_message(message: str) -> None:
    """Print a line to stderr."""
    print(escape_controls(message), file=sys.stderr)


def readable(text: str) -> str:
    r"""Replace bytes that were not UTF-8 by the replacement character.

    >>> readable("caf\udce9")
    'caf�'
    """
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def stdout() -> Console:
    """Return the console for results."""
    from rich.console import Console

    class ResultConsole(Console):
        def on_broken_pipe(self) -> None:
            """Let `main` handle a closed pipe."""
            raise BrokenPipeError

    console = ResultConsole(highlight=False, soft_wrap=not sys.stdout.isatty())
    return _escape_controls(console) if console.is_terminal else console


def stderr() -> Console:
    """Return the console for messages and progress, so that stdout holds results only."""
    from rich.console import Console

    return _escape_controls(Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty()))


def _escape_controls(console: Console) -> Console:
    """Let a console escape control characters in all it prints, but not its own colours."""
    from rich.console import RenderHook
    from rich.segment import Segment

    class EscapedText:
        def __init__(self, renderable: Any) -> None:
            self.renderable = renderable

        def __rich_console__(self, console: Console, options: Any) -> Iterator[Segment]:
            for segment in console.render(self.renderable, options):
                yield segment if segment.control else segment._replace(text=escape_controls(segment.text))

    class Hook(RenderHook):
        def process_renderables(self, renderables: Iterable[Any]) -> list[Any]:
            return [EscapedText(renderable) for renderable in renderables]

    console.push_render_hook(Hook())
    return console


def command_name() -> str:
    """Return the command that runs this program again from the same shell.

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
    """Return the path relative to the current folder, if it is inside."""
    here = f"{Path.cwd()}{os.sep}"
    return path.removeprefix(here)


def command_with(choices: Mapping[str, Any], options: Mapping[str, str], words: Sequence[str]) -> str:
    """Return the command of these words with other choices; empty if it has no options for them.

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
