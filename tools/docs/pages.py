"""The blocks of a page: commands with what they are shown to print, Python, and instructions in comments.

An instruction stands in a comment of its own above the fence of a block, where readers do not see it:

    <!-- test-docs: skip REASON -->         the block is not run
    <!-- test-docs: file NAME -->           the block is a file that is there from the beginning of the page
    <!-- test-docs: set KEY=VALUE ... -->   its trainings are shortened by these settings only
    <!-- test-docs: whole -->               its trainings are not shortened
    <!-- test-docs: fails -->               it fails while it runs: exit code 1 and an error at its end
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

SHELL = ("bash", "console")
PYTHON = ("python", "pycon")
SILENT = ("text", "yaml", "json")  # shown, not run
VERBS = ("skip", "file", "set", "whole", "fails")

_FENCE = re.compile(r"^```(\w*)\s*$")
_COMMENT = re.compile(r"^<!-- (.*?) -->$")


class PageError(ValueError):
    """What is wrong with a page itself, with its name and line."""


@dataclass(frozen=True)
class Command:
    """One command of a block, and the output that is shown below it ("" where none is)."""

    text: str
    line: int
    shown: str = ""

    @property
    def refused(self) -> bool:
        """Whether the page shows that it fails."""
        return self.shown.startswith("error:")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    source: str
    instructions: dict[str, str] = field(default_factory=dict)

    def commands(self) -> list[Command]:
        """What a shell block runs, one command after the other."""
        return _console(self) if self.language == "console" else _script(self)


def blocks_of(text: str, page: str) -> list[Block]:
    """All fenced blocks of a page, in its order."""
    found: list[Block] = []
    instructions: dict[str, str] = {}
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        if comment := _COMMENT.match(lines[number]):
            instructions |= _instruction(comment[1], f"{page}:{number + 1}")
        elif fence := _FENCE.match(lines[number]):
            if (language := fence[1]) not in (*SHELL, *PYTHON, *SILENT):
                raise PageError(f"{page}:{number + 1}: a block of an unknown language {language!r}")
            try:
                end = lines.index("```", number + 1)
            except ValueError:
                raise PageError(f"{page}:{number + 1}: the block has no end") from None
            source = "\n".join(lines[number + 1 : end])
            found.append(Block(page, number + 2, language, source, instructions))
            instructions, number = {}, end
        elif lines[number].strip():
            if lines[number].startswith("    ") and not lines[number - 1].strip():
                raise PageError(f"{page}:{number + 1}: an indented block; fence it and name its language")
            if instructions:
                raise PageError(f"{page}:{number + 1}: an instruction without a block below it")
        number += 1
    return found


def _instruction(comment: str, where: str) -> dict[str, str]:
    if comment.startswith("source: "):
        return {"skip": f"quoted from {comment.removeprefix('source: ')}, to which a test holds it"}
    if not comment.startswith("test-docs:"):
        return {}
    verb, _, rest = comment.removeprefix("test-docs:").strip().partition(" ")
    if verb not in VERBS or (verb in ("whole", "fails")) == bool(rest):
        raise PageError(f"{where}: an unknown instruction {comment!r}")
    return {verb: rest}


def _script(block: Block) -> list[Command]:
    commands: list[Command] = []
    kept: list[str] = []
    for offset, line in enumerate(block.source.splitlines()):
        if kept or (line.strip() and not line.lstrip().startswith("#")):
            kept.append(line)
        if kept and _complete("\n".join(kept)):
            commands.append(Command("\n".join(kept), block.line + offset - len(kept) + 1))
            kept = []
    if kept:
        raise PageError(f"{block.page}:{block.line}: the last command does not end")
    return commands


def _console(block: Block) -> list[Command]:
    commands: list[Command] = []
    text: list[str] = []
    shown: list[str] = []
    begun = 0

    def take() -> None:
        if text:
            commands.append(Command("\n".join(text), begun, "\n".join(shown).strip("\n")))

    for offset, line in enumerate(block.source.splitlines()):
        if line.startswith("$ "):
            take()
            text, shown, begun = [line.removeprefix("$ ")], [], block.line + offset
        elif not text:
            raise PageError(f"{block.page}:{block.line}: a console block begins with a command after `$ `")
        elif not shown and not _complete("\n".join(text)):
            text.append(line)
        else:
            shown.append(line)
    take()
    return commands


def _complete(command: str) -> bool:
    """Whether a shell would run this rather than wait for more."""
    if command.endswith("\\"):
        return False
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True
