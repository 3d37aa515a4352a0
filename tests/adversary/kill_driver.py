"""Train, and kill the training at many points: `python kill_driver.py SEED KILLS FOLDER WORDS...`.

Everything is imported once; each attempt is a process forked from here. It kills itself with SIGKILL just
before one of the operations on files below FOLDER, or before an update, and the next attempt resumes its run.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from pathlib import Path

import rich.progress  # noqa: F401 - imported before the forks
import torch._dynamo  # noqa: F401

import throughtime.fit.run
import throughtime.tasks.language.model
from throughtime.cli.main import main
from throughtime.fit.trainer import Trainer

UPDATE = "test.update"
OPERATIONS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "shutil.rmtree"}
MAX_OPERATIONS = 400
"""Operations until a kill, at most; the files of a run that begins are some fifty of them."""


def kill_before(operation: int, folder: Path, torn: bool) -> None:
    """Kill this process before the operation of this number; a torn line may end its metrics."""
    left = [operation]
    update = Trainer.update

    def announced(trainer: Trainer, group: object) -> None:
        sys.audit(UPDATE, str(folder))
        update(trainer, group)  # type: ignore[arg-type]

    def count(event: str, arguments: tuple[object, ...]) -> None:
        if event != UPDATE and event not in OPERATIONS:
            return
        if not str(arguments[0]).startswith(str(folder)):
            return
        left[0] -= 1
        if not left[0]:
            metrics = folder / "killed" / "metrics.jsonl"
            if torn and metrics.exists():
                with metrics.open("a") as file:
                    file.write('{"kind": "train", "st')
            os.kill(os.getpid(), signal.SIGKILL)

    Trainer.update = announced  # type: ignore[method-assign,assignment]
    sys.addaudithook(count)


def attempt(words: list[str], log: Path, kill: tuple[int, Path, bool] | None = None) -> int:
    """Run the command in a process of its own, and return its exit code, negative for a signal."""
    child = os.fork()
    if not child:
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(sink, 1), os.dup2(sink, 2)
        if kill is not None:
            kill_before(*kill)
        os._exit(main(words))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def drive(seed: int, kills: int, folder: Path, words: list[str]) -> None:
    """Train once without a kill, and again with at least this number of kills, a whole run at a time."""
    dice = random.Random(seed)
    log, run = folder / "log", folder / "killed"
    assert attempt([*words, "--out", str(folder / "whole")], log) == 0, log.read_text()
    resume = [*words, "--out", str(run), "--resume"]
    survived = 0
    while survived < kills:
        if (run / "training.json").exists():
            shutil.rmtree(run)
        last = MAX_OPERATIONS if survived else 8  # the first is killed while it creates its folder
        kill = (dice.randint(4, last), folder, dice.random() < 0.25)
        code = attempt(resume, log, kill)
        assert code in (0, -signal.SIGKILL), log.read_text()
        survived += code != 0
    assert attempt(resume, log) == 0, log.read_text()
    print(survived)


if __name__ == "__main__":
    sys.modules["torch.utils.tensorboard"] = None  # type: ignore[assignment]
    throughtime.fit.run._draw = lambda *_: None  # a picture takes longer than the training
    drive(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
