"""Run one page from top to bottom in a folder of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tools.docs.commands import WRITERS, left_out, made, mentions, shortened, subcommand, trained_task, words
from tools.docs.compare import Strictness, difference
from tools.docs.fixtures import FixtureError, Fixtures
from tools.docs.interpreter import Session
from tools.docs.pages import PYTHON, SHELL, Block, Command
from tools.docs.shell import Server, Shell, at_port

LIMIT = 300.0  # seconds that a command or a Python block may take


@dataclass
class Step:
    """A command or a Python block, and what became of it."""

    where: str
    text: str
    seconds: float = 0.0
    skipped: str | None = None
    failed: str | None = None


@dataclass
class Run:
    """What a page knows while it runs: which paths are to be compared how, and which are missing."""

    folder: Path
    log: Path
    environment: dict[str, str]
    fixtures: Fixtures
    steps: list[Step] = field(default_factory=list)
    strictness: dict[str, Strictness] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    server: Server | None = None
    served: Strictness = "exact"
    session: Session | None = None
    stopped: bool = False

    def __post_init__(self) -> None:
        """Begin with a new shell."""
        self.shell = Shell(self.folder, self.environment, self.log)

    def close(self) -> None:
        """End all that runs for the page."""
        if self.server:
            self.server.stop()
        if self.session:
            self.session.close()
        self.shell.close()


def run_page(blocks: list[Block], run: Run, tell: Callable[[Step], None]) -> list[Step]:
    """Every block in order; a block that fails does not keep the next ones from running."""
    for block in blocks:
        if name := block.instructions.get("file"):
            (run.folder / name).write_text(block.source + "\n", encoding="utf-8")
    try:
        for block in blocks:
            if "file" in block.instructions:
                continue
            if block.language in SHELL:
                for command in block.commands():
                    step = Step(f"{block.page}:{command.line}", command.text)
                    _timed(step, run, partial(_command, step, block, command, run), tell)
            elif block.language in PYTHON:
                step = Step(f"{block.page}:{block.line}", f"{block.language} block")
                _timed(step, run, partial(_python, step, block, run), tell)
        if run.server and (wrong := run.server.stop()):
            run.steps.append(Step(f"{blocks[0].page}: the end", "throughtime serve", failed=wrong))
    finally:
        run.close()
    return run.steps


def _timed(step: Step, run: Run, act: Callable[[], None], tell: Callable[[Step], None]) -> None:
    if run.stopped:
        return
    begun = time.monotonic()
    try:
        act()
    except (FixtureError, ValueError) as error:
        step.failed = str(error)
    step.seconds = time.monotonic() - begun
    run.steps.append(step)
    tell(step)


def _prepared(step: Step, text: str, block: Block, run: Run, makes: list[str]) -> bool:
    """Whether a step can run: what it takes for granted is made first; if that cannot be, it is skipped."""
    step.skipped = block.instructions.get("skip")
    for path, reason in run.missing.items():
        if step.skipped is None and path not in makes and mentions(text, path):
            step.skipped = f"{path} was not made: {reason}"
    if step.skipped is None and (corpus := run.fixtures.lacking(text, makes, run.folder)):
        step.skipped = lacks(corpus)
    if step.skipped is None:
        for path in run.fixtures.put(text, makes, run.folder):
            run.strictness[path] = "loose"
    return step.skipped is None


def lacks(corpus: str) -> str:
    """Why a step is skipped that would fetch a corpus."""
    return f"needs the corpus {corpus}, which is not on this machine"


def _strictness(text: str, run: Run) -> Strictness:
    found = {level for path, level in run.strictness.items() if mentions(text, path)}
    return "loose" if "loose" in found else "near" if "near" in found else "exact"


def _command(step: Step, block: Block, command: Command, run: Run) -> None:
    text, makes = command.text, made(command.text)
    step.skipped = left_out(text)
    if step.skipped is None and (absent := [name for name in words(text) if name in run.fixtures.absent]):
        step.skipped = lacks(absent[0])
    if step.skipped is not None or not _prepared(step, text, block, run, makes):
        run.missing |= dict.fromkeys(makes, step.skipped or "")
        return
    level = _strictness(text, run)
    if trained_task(text) not in (None, "ngram") and not command.refused:
        shorter = text if "whole" in block.instructions else shortened(text, block.instructions.get("set"))
        level = "near" if shorter == text and level == "exact" else "loose"
        text = shorter
    if text.startswith("make demo"):
        text, level = "throughtime demo", "loose"
    run.strictness |= dict.fromkeys(makes, level)
    if subcommand(text) == "serve":
        if run.server:
            run.server.stop()
        run.server, run.served = Server(text, run.folder, run.environment, run.log), level
        step.failed = run.server.wait(LIMIT)
        return
    if run.server:
        text = at_port(text, run.server.port)
    if text.startswith("curl "):
        level = run.served
        # Without these options, curl exits with 0 whatever the server answers.
        text = text.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
    code, output = run.shell.run(text, LIMIT)
    expected = 1 if "fails" in block.instructions else 2 if command.refused else 0
    step.failed = _judged(command, code, expected, output, "exact" if command.refused else level)
    if step.failed:
        step.failed += f"\n  as it was run: {text}"
    for path in makes:
        run.missing.pop(path, None)
        if not (run.folder / path).exists():
            run.missing[path] = "its command failed"


def _judged(command: Command, code: int, expected: int, output: str, level: Strictness) -> str | None:
    wrong = None
    if code != expected:
        wrong = f"exit code {code}, not {expected}"
    elif command.shown and not (level == "loose" and subcommand(command.text) in WRITERS):
        wrong = difference(command.shown, output, level)
    elif command.shown and not output.strip():
        wrong = "nothing was printed"
    if wrong is None:
        return None
    return f"{wrong}\n--- shown\n{command.shown}\n--- got ({level})\n{output.rstrip()}\n---"


def _python(step: Step, block: Block, run: Run) -> None:
    if not _prepared(step, block.source, block, run, []):
        return
    if run.session is None:
        run.session = Session(run.folder, run.environment)
    source = at_port(block.source, run.server.port) if run.server else block.source
    step.failed = run.session.run(source, block.language, _strictness(source, run) != "loose", LIMIT)
    if step.failed:
        step.failed += f"\n--- source\n{block.source}\n---"
