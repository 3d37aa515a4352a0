"""A run: a folder in which a model is trained, interrupted, taken up again and finished.

Besides the files of a model folder it holds `checkpoints/`, `training.json` once it is finished, and
`learning-curve.png`. While it trains, model.safetensors is the best model so far, and `first/` has the
weights that it began with.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from throughtime.config import build_config
from throughtime.errors import InputError, ThroughtimeError
from throughtime.folder import ModelFolder
from throughtime.models.weights import read_weights, save_weights
from throughtime.train.checkpoint import Checkpoints
from throughtime.train.config import TrainingConfig
from throughtime.train.devices import device_of
from throughtime.train.metrics import read
from throughtime.train.processes import Processes
from throughtime.train.progress import Reporter, Silent
from throughtime.train.run_lock import Claim
from throughtime.train.task import Task
from throughtime.train.trainer import Trainer

FINISHED = "training.json"
FIRST = "first"


class Trainable(Protocol):
    """A model for people that can be trained and saved."""

    config: Any
    model: Any

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights."""
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
    skip_bad: bool = False,
) -> dict[str, Any]:
    """Train a model into the folder `out`; what was measured, by name.

    That bad records were left out of the data (`skip_bad`) is written down, for who judges the model on them.
    """
    processes, reporter = processes or Processes(), reporter or Silent()
    config: TrainingConfig = trainable.config
    folder = ModelFolder(out)
    model: nn.Module = trainable.model
    model.to(device_of(config.device))

    def begin(place: Path) -> None:
        trainable.begin(ModelFolder(place))
        # The seed alone does not give them: they may be another run's, or depend on the data.
        (place / FIRST).mkdir()
        save_weights(model, ModelFolder(place / FIRST))

    def improved(measured: dict[str, float]) -> None:
        save_weights(trainable.model, folder)

    saved = Checkpoints(out / "checkpoints", config.keep)
    if resume and not saved.names() and (out / FIRST).is_dir():
        read_weights(model, ModelFolder(out / FIRST))
    trainer = Trainer(task, config, out, reporter, improved=improved, processes=processes)
    with Claim(out, processes, trainer.device) as claim:
        if resume:
            claim.go_on()
        found = saved.latest(checkpoint) if resume else None
        # Only now, when nothing is left to refuse: a command put right must not find the folder taken.
        claim.begin(begin)
        if processes.first and skip_bad:
            folder.write_skipping()
        if found is not None:
            trainer.restore(found)
            reporter.say(f"Going on from {found.path.name} in {out}.")
        elif resume:
            trainer.start_again()
            reporter.say(f"Nothing saved at {out} yet: starting afresh.")
        reporter.begin(title, config.epochs, trainer.steps_per_epoch, trainer.step)
        for note in getattr(task, "notes", ()):  # on what became of the data in its batches
            reporter.say(note)
        try:
            summary = trainer.fit()
        finally:
            reporter.close()
            if processes.first:
                _draw(out, task, reporter)
        weights = sum(weight.numel() for weight in model.parameters())
        values = {"run": str(out), **asdict(summary), "parameters": weights, "device": str(trainer.device)}
        values |= getattr(task, "facts", {})
        if processes.first:
            trainable.begin(folder)  # a run that went on may have been told other epochs
            folder.write_card(trainable.card(values))
            folder.write_json(FINISHED, {name: value for name, value in values.items() if name != "run"})
            shutil.rmtree(out / FIRST, ignore_errors=True)
        processes.barrier()
    return values


def finished(out: Path, config: TrainingConfig) -> str | None:
    """Why a run is complete, or None; a run with new settings for how long to train may not be."""
    if not (out / FINISHED).is_file():
        return None
    folder = ModelFolder.at(out)
    done = folder.read_json(FINISHED)
    if not isinstance(done.get("epochs"), int) or not isinstance(done.get("why"), str):
        raise InputError(
            str(out / FINISHED), "lacks its 'epochs' or 'why'; the file is damaged, remove it and go on"
        )
    _, before = folder.read_config()
    told = config.model_dump(mode="json")
    same = all(told[key] == before[key] for key in ("max_minutes", "early_stopping"))
    why: str = done["why"]
    return why if config.epochs <= done["epochs"] or (same and why != "all epochs done") else None


def inherited_settings(
    folder: ModelFolder,
    task: str,
    kind: type[TrainingConfig],
    architecture: Collection[str],
    given: Mapping[str, Any],
    first_weights: Collection[str] = (),
) -> dict[str, Any]:
    """What a model that starts from a run has from it; other wishes for these settings are refused.

    So are wishes for `first_weights`, which it has from the run too.
    """
    found, saved = folder.read_config()
    if found != task:
        raise InputError("--init-from", f"{folder.path} holds a model of the task {found!r}, not {task!r}")
    # An older run knows nothing of newer settings: it has their defaults.
    saved = build_config(kind, saved, str(folder.path / "config.json")).model_dump(mode="json")
    for key in set(architecture) & set(given):
        left_to_data = given[key] is None and key in kind.SUGGESTED
        if given[key] != saved[key] and not left_to_data:
            raise InputError(
                f"--set {key}",
                f"is {given[key]!r}, but the model in {folder.path} has {saved[key]!r}; leave it out",
            )
    for key in set(first_weights) & set(given):
        if given[key] != kind.model_fields[key].default:
            raise InputError(f"--set {key}", "has no effect with --init-from; leave one of them out")
    return {key: saved[key] for key in architecture}


def _draw(out: Path, task: Task, reporter: Reporter) -> None:
    """The learning curve; no picture where matplotlib is missing."""
    try:
        from throughtime.plots.learning import learning_curve

        measured = out / "metrics.jsonl"
        lines = read(measured) if measured.exists() else []
        if any(line["kind"] == "valid" for line in lines):
            learning_curve(lines, task.measure, task.better, path=out / "learning-curve.png")
    except ThroughtimeError:
        return
    except Exception as error:  # whatever it is: a picture is not worth the training that it shows
        reporter.say(f"The learning curve could not be drawn: {error}")
