"""A run: a folder in which a model is trained, interrupted, taken up again and finished.

Besides the files of a model folder it holds `checkpoints/`, `training.json` once it is finished, and
`learning-curve.png`. While it trains, model.safetensors is the best model so far.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from throughtime.config import configured
from throughtime.errors import InputError, ThroughtimeError
from throughtime.files import whole_folder
from throughtime.folder import ModelFolder
from throughtime.train.checkpoint import Checkpoints
from throughtime.train.config import TrainingConfig
from throughtime.train.devices import device_of
from throughtime.train.metrics import read
from throughtime.train.processes import Processes
from throughtime.train.progress import Reporter, Silent
from throughtime.train.task import Task
from throughtime.train.trainer import Trainer

FINISHED = "training.json"
MAY_CHANGE = frozenset(
    "epochs max_minutes lr clip early_stopping device capture checkpoint_every checkpoint_minutes keep "
    "report_every".split()
)
"""What a run that goes on may be told anew: how long, how fast, and where; never what it is."""


class Trainable(Protocol):
    """A model for people that can be trained and saved."""

    config: Any
    model: Any

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights."""
        ...

    def save_weights(self, folder: ModelFolder) -> None:
        """Write the weights, whole or not at all."""
        ...

    def card(self, values: Mapping[str, Any]) -> str:
        """README.md of the folder."""
        ...


def fit(
    trainable: Trainable,
    task: Task,
    out: Path,
    *,
    title: str,
    reporter: Reporter | None = None,
    processes: Processes | None = None,
    resume: bool = False,
    checkpoint: str | None = None,
) -> dict[str, Any]:
    """Train a model into the folder `out`; what was measured, by name."""
    processes, reporter = processes or Processes(), reporter or Silent()
    config: TrainingConfig = trainable.config
    if processes.first and not out.exists():
        with whole_folder(out) as temporary:
            trainable.begin(ModelFolder(temporary))
    processes.barrier()
    folder = ModelFolder.at(out)
    model: nn.Module = trainable.model
    model.to(device_of(config.device))

    def improved(measured: dict[str, float]) -> None:
        trainable.save_weights(folder)

    trainer = Trainer(task, config, out, reporter, improved=improved, processes=processes)
    if resume and (found := Checkpoints(out / "checkpoints", config.keep).latest(checkpoint)) is not None:
        trainer.restore(found)
        reporter.say(f"Going on from {found.path.name} in {out}.")
    elif resume:
        reporter.say(f"Nothing saved at {out} yet: starting afresh.")
    reporter.begin(title, config.epochs, trainer.steps_per_epoch, trainer.step)
    try:
        summary = trainer.fit()
    finally:
        reporter.close()
        if processes.first:
            _draw(out, task.measure)
    weights = sum(weight.numel() for weight in model.parameters())
    values = {"run": str(out), **asdict(summary), "parameters": weights, "device": str(trainer.device)}
    if processes.first:
        trainable.begin(folder)  # a run that went on may have been told other epochs
        folder.write_card(trainable.card(values))
        folder.write_json(FINISHED, {name: value for name, value in values.items() if name != "run"})
    processes.barrier()
    return values


def finished(out: Path, config: TrainingConfig | None = None) -> bool:
    """Whether nothing is left to do there; more epochs than it has had are something."""
    path = out / FINISHED
    if not path.is_file():
        return False
    done = json.loads(path.read_text("utf-8"))
    return config is None or done["why"] != "all epochs done" or config.epochs <= done["epochs"]


def going_on(kind: type[TrainingConfig], out: Path, task: str, given: Mapping[str, Any]) -> Any:
    """The configuration of a run that goes on: the saved one, with what may change set anew."""
    found, saved = ModelFolder.at(out).read_config()
    if found != task:
        raise InputError("--resume", f"{out} holds a model of the task {found!r}, not {task!r}")
    before = configured(kind, saved, str(out / "config.json"))
    now = configured(kind, {**saved, **given}, "settings")
    for key in given:
        was, told = getattr(before, key), getattr(now, key)
        if was != told and key not in MAY_CHANGE:
            raise InputError(
                f"--set {key}", f"is {told!r}, but the run in {out} was begun with {was!r}; use another --out"
            )
    return now


def _draw(out: Path, measure: str) -> None:
    """The learning curve; no picture where matplotlib is missing."""
    from throughtime.plots.learning import learning_plot

    lines = read(out / "metrics.jsonl")
    if any(line["kind"] == "valid" for line in lines):
        try:
            learning_plot(lines, out / "learning-curve.png", measure=measure)
        except ThroughtimeError:
            return
