"""Properties of a command: the files that it creates, why it is skipped, how its training is shortened."""

from __future__ import annotations

import re
import shlex

# Settings with which a training takes seconds. A language model has two epochs, as pages show more than one.
SHORTER = {
    "language": "epochs=2 embedding_size=32 max_tokens=40000",
    "translate": "epochs=1 embedding_size=48 hidden_size=48 valid_sentences=50",
    "fill": "epochs=1 embedding_size=48 hidden_size=48",
    "tag": "epochs=1 hidden_size=32 num_layers=1 character_hidden_size=8 batch_size=128",
    "classify": "epochs=1 embedding_size=32 hidden_size=32",
    "compose": "epochs=1 embedding_size=32 hidden_size=32",
}

MINUTES = 0.4
"""What a training of some minutes is shortened to."""

LEFT_OUT = {
    "pip": "installs packages",
    "hf": "talks to a model hub",
    "make test": "CI runs it before",
    "make test-docs": "runs this very check",
    "make lint": "CI runs it before",
    "make bench": "takes an hour",
    "make results": "takes days",
    "torchrun --nnodes": "several machines",
}

# Commands whose output is what a model writes: from a shortened training it is another text.
WRITERS = (
    "translate",
    "generate",
    "tag",
    "fill",
    "classify",
    "compose",
    "complete",
    "forecast",
    "score",
    "curl",
)

_TRAINING = re.compile(r"(?:throughtime|-m throughtime) train (\w+)")
_WORD = re.compile(r"throughtime (\w+)")


def trained_task(command: str) -> str | None:
    """The task that a command trains, if it does."""
    found = _TRAINING.search(command)
    return found[1] if found else None


def subcommand(command: str) -> str:
    """`evaluate` of `throughtime evaluate ...`, `curl` of a question to a server, or ""."""
    found = _WORD.search(command)
    return found[1] if found else "curl" if command.startswith("curl ") else ""


def shortened(command: str, settings: str | None = None) -> str:
    """The command with the settings that shorten its training, after its own; without a training as it is."""
    task = trained_task(command)
    chosen = SHORTER.get(task or "", "") if settings is None else settings
    if task is None or not chosen:
        return command
    if settings is None and " --minutes " in command:  # planned by the time: without a number of epochs
        chosen = " ".join(one for one in chosen.split() if not one.startswith("epochs="))
        command = re.sub(r" --minutes \S+", f" --minutes {MINUTES}", command)
    added = " ".join(f"--set {setting}" for setting in chosen.split())
    if " --out " not in command:
        raise ValueError(f"a training without --out cannot be shortened: {command}")
    return command.replace(" --out ", f" {added} --out ", 1)


def words(command: str) -> list[str]:
    """The words of a command, as the shell has them."""
    return shlex.split(command.replace("\\\n", " "), comments=True)


def made(command: str) -> list[str]:
    """The files and folders that a command makes, as far as it says."""
    spoken = words(command)
    after = [spoken[n + 1] for n, word in enumerate(spoken[:-1]) if word in ("--out", ">", "--plot")]
    return [path.rstrip("/") for path in after]


def mentions(text: str, path: str) -> bool:
    """Whether a command or Python source names this very path, not one that only begins or ends with it."""
    return re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w-]|\.\w)", text) is not None


def left_out(command: str) -> str | None:
    """Why a command is never run by the check, if so."""
    for beginning, reason in LEFT_OUT.items():
        if command == beginning or command.startswith(beginning + " "):
            return reason
    return None
