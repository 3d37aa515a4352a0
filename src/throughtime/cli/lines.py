"""Lines in, lines out: what the commands that work as filters have in common."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from throughtime.cli.output import say, warn
from throughtime.text.texts import one_line as one_line

LINES_AT_ONCE = 2_000


def lines(file: Path | None) -> Iterator[list[str]]:
    """The lines of the file, or of stdin, many at a time; at a keyboard one at a time.

    A file without lines is refused, as somebody named it. An empty stdin gets a message and is no error: a
    filter that is given nothing gives nothing.
    """
    if file is not None:
        from throughtime.data.source import read_lines

        yield from _blocks((line for _, line in read_lines(file)), LINES_AT_ONCE)
        return
    # With newline=None, Python ends a line at \n, \r\n or \r, as `read_lines` does.
    sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline=None)  # type: ignore[union-attr]
    typed = (line.removesuffix("\n") for line in sys.stdin)
    empty = True
    for block in _blocks(typed, 1 if sys.stdin.isatty() else LINES_AT_ONCE):
        empty = False
        yield block
    if empty:
        say("stdin holds no lines: nothing to do")


def warn_about(model: Any, texts: list[str], done: int | None = None) -> None:
    """Warn about texts that a model knows little about.

    Call it after the model has answered, so that an error is shown without warnings. For lines of a file,
    `done` is the number of lines before these; blank lines among them are not worth a warning.
    """
    if done is None:
        warn(model.input_warnings(texts))
    elif not done or any(text.strip() for text in texts):
        numbers = range(done + 1, done + len(texts) + 1)
        warn(model.input_warnings(texts, numbers=numbers, blank_lines=True))


def _blocks(rest: Iterator[str], size: int) -> Iterator[list[str]]:
    while block := list(itertools.islice(rest, size)):
        yield block
