"""Where commands print: results on stdout, messages on stderr, without control characters of texts.

Names, tokens, labels and answers come from model folders and data, and a terminal obeys what it is sent.
"""

from __future__ import annotations

import re
import sys
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
    """The console for results."""
    from rich.console import Console

    class ResultConsole(Console):
        def on_broken_pipe(self) -> None:
            """Let `main` handle a closed pipe."""
            raise BrokenPipeError

    console = ResultConsole(highlight=False, soft_wrap=not sys.stdout.isatty())
    return _escape_controls(console) if console.is_terminal else console


def stderr() -> Console:
    """The console for messages and progress, so that stdout holds results only."""
    from rich.console import Console

    return _escape_controls(Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty()))


def _escape_controls(console: Console) -> Console:
    """The console, which from now on escapes control characters in all it prints, but not its own colours."""
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
