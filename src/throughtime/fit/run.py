"""A run: a folder in which a model is trained, interrupted, resumed and finished.

Besides the files of a model folder it holds `checkpoints/`, `training.json` once it is finished, and
`learning-curve.png`. While it trains, model.safetensors is the best model so far, and `first/` has the
weights that it began with. One training at a time may write in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from throughtime.errors import InputError, ThroughtimeError, ThroughtimeWarning
from throughtime.files import has_content, sweep_parts, whole_folder
from throughtime.fit.checkpoint import Checkpoint, Checkpoints
from throughtime.fit.config import TrainingConfig
from throughtime.fit.metrics import Metrics, Summary, read_metrics
from throughtime.fit.objective import Objective
from throughtime.fit.processes import Processes
from throughtime.fit.progress import Reporter
from throughtime.fit.time_plan import Speed
from throughtime.fit.trainer import Trainer
from throughtime.folder import EXISTS, ModelFolder, set_aside, settle_replacement
from throughtime.layers.devices import choose_device
from throughtime.manifest import write_manifest
from throughtime.models.weights import read_weights, save_weights
from throughtime.text.texts import format_count

try:
    import fcntl
except ModuleNotFoundError:  # Windows, where a folder cannot be locked
    fcntl = None  # type: ignore[assignment]

FINISHED = "training.json"
FIRST = "first"
CHECKSUMS = "data.json"
ENDING = 3
"""How much longer the end of a run takes than drawing and saving: with the exit, on a busy machine."""
_FREE, _TAKEN, _BUSY = range(3)


class Trainable(Protocol):
    """A predictor that can be trained and saved."""

    config: Any
    model: Any

    def save_description(self, folder: ModelFolder) -> None:
        """Write all files of the model except its weights and its card."""
        ...

    def card(self, values: Mapping[str, Any]) -> str:
        """Return the text of README.md."""
        ...


def fit(
    trainable: Trainable,
    objective: Objective,
    out: Path,
    *,
    title: str,
    reporter: Reporter | None = None,
    processes: Processes | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint: str | None = None,
    skip_bad: bool = False,
    checksums: Sequence[Sequence[str]] = (),
    accept_changed_data: bool = False,
    began: float | None = None,
    speed: Speed | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Train a model into the folder `out`, and return the results by name.

    With `resume`, an existing run continues from its last checkpoint, or from the one named `checkpoint`.
    With `overwrite`, it is replaced; it comes back if the training fails before it has saved a model.
    `skip_bad` notes in the folder that bad records were skipped. `checksums` are the names and SHA-256
    sums of the data files; a run whose files have changed is resumed only with `accept_changed_data`.
    `began` is when the preparation of a new run began, by `time.monotonic`; it counts as time of the run.
    `speed` is that of the model, if it was measured. `notes` are shown below the title.
    """
    processes, reporter = processes or Processes(), reporter or Reporter()
    config, folder, model = trainable.config, ModelFolder(out), trainable.model
    model.to(choose_device(config.device))

    def save_best(measured: dict[str, float]) -> None:
        with folder.replace() as new:
            save_weights(trainable.model, new)

    saved = Checkpoints(out / "checkpoints", config.keep)
    if resume and not saved.names() and (out / FIRST).is_dir():
        read_weights(model, ModelFolder(out / FIRST))
    trainer = Trainer(objective, config, out, reporter, improved=save_best, processes=processes)
    trainer.checksums = [list(pair) for pair in checksums]
    with RunLock(out, processes, trainer.device, overwrite) as lock:
        if resume:
            lock.resume()
        latest = saved.latest(checkpoint) if resume else None
        same_data = not resume or _check_data(out, latest, trainer.checksums, accept_changed_data)
        if trainer.plan is not None:
            trainer.plan.closing = rehearse_end(trainable, trainer)
        _plan_time(trainer, speed, began, latest is None)
        # Last, when nothing can be refused any more: a corrected call must not find the folder taken.
        lock.create(partial(_write_beginning, trainable, trainer.checksums))
        if processes.first:
            _tidy(folder, skip_bad)
        if resume:
            _resume(trainer, latest, same_data, out)
        # The objective has notes on the data in its batches.
        _announce(trainer, title, [*notes, *getattr(objective, "notes", ())])
        summary = _train(trainer, out)
        values = _describe_results(trainer, summary, out)
        if processes.first:
            _write_end(trainable, folder, values)
        processes.barrier()
    return values


def _check_data(out: Path, latest: Checkpoint | None, now: list[list[str]], accepted: bool) -> bool:
    """Whether the data files are those of the run so far; refuse others unless they are `accepted`."""
    change = _data_change(out, latest, now)
    if change is not None and not accepted:
        raise InputError(
            "accept_changed_data",
            f"is not set, and {change} since the run in {out} was started; restore the data, train in "
            "another folder, or set it to continue with the changed data",
        )
    return change is None


def _resume(trainer: Trainer, latest: Checkpoint | None, same_data: bool, out: Path) -> None:
    """Go on from a checkpoint; from the beginning if there is none."""
    if latest is not None:
        trainer.restore(latest, same_data)
        trainer.reporter.say(f"Continuing from {latest.path.name} in {out}.")
    else:
        trainer.metrics.rewind(-1)  # those of the earlier attempt
        trainer.reporter.say(f"Nothing saved in {out} yet: starting from the beginning.")


def _plan_time(trainer: Trainer, speed: Speed | None, began: float | None, is_new: bool) -> None:
    """Tell the trainer how fast its model is and, for a new run, how long it was prepared."""
    if trainer.plan is not None and speed is not None and torch.get_num_threads() > 1:
        trainer.plan.single = speed.single
    if is_new:
        spent = 0.0 if began is None else time.monotonic() - began
        trainer.expect(spent, None if speed is None else speed.per_update)


def rehearse_end(trainable: Trainable, trainer: Trainer) -> float:
    """Return how many seconds the end of a run takes, from drawing and saving a curve of two points."""
    seconds = 0.0
    if trainer.processes.first:
        with tempfile.TemporaryDirectory() as place:
            metrics = Metrics(Path(place) / "metrics.jsonl")
            for epoch, kind in ((1, "train"), (1, "valid"), (2, "valid")):
                metrics.write(kind, epoch, epoch, {trainer.objective.measure: 1.0, "lr": 1.0})
            metrics.close()
            _draw(Path(place), trainer.objective, Reporter())  # imports what draws
            began = time.monotonic()
            _draw(Path(place), trainer.objective, Reporter())
            trainable.save_description(ModelFolder(Path(place)))
            seconds = ENDING * (time.monotonic() - began)
    (agreed,) = trainer.processes.sum([seconds], trainer.device)
    return agreed


def _write_beginning(trainable: Trainable, checksums: list[list[str]], new_folder: Path) -> None:
    """Write the first files of a run."""
    trainable.save_description(ModelFolder(new_folder))
    write_manifest(new_folder)
    # The seed does not determine them: they may come from another run, or depend on the data.
    first = new_folder / FIRST
    first.mkdir()
    save_weights(trainable.model, ModelFolder(first))
    ModelFolder(first).write_json(CHECKSUMS, {"data": checksums})


def _tidy(folder: ModelFolder, skip_bad: bool) -> None:
    """Remove what earlier processes left behind, and note that bad records are skipped."""
    sweep_parts(folder.path)
    sweep_parts(folder.path.parent, folder.path.name)
    if skip_bad:
        folder.write_skipping()


def _announce(trainer: Trainer, title: str, notes: Sequence[str]) -> None:
    """Report that training starts, what there is time for, and notes."""
    reporter, plan = trainer.reporter, trainer.plan
    reporter.begin(title, trainer.config.num_epochs, trainer.steps_per_epoch, trainer.step)
    if plan is not None:
        reporter.plan(trainer.seconds(), plan.seconds)
        if plan.announced:
            reporter.say(plan.describe(trainer.steps_per_epoch))
    for note in notes:
        reporter.say(note)


def _train(trainer: Trainer, out: Path) -> Summary:
    """Train to the end; draw the learning curve also if training fails."""
    try:
        summary = trainer.fit()
    finally:
        trainer.reporter.close()
        if trainer.processes.first:
            _draw(out, trainer.objective, trainer.reporter)
    if trainer.shortfall is not None and trainer.processes.first:
        warnings.warn(trainer.shortfall, ThroughtimeWarning, stacklevel=3)
    return summary


def _describe_results(trainer: Trainer, summary: Summary, out: Path) -> dict[str, Any]:
    """Return the results of a run by name."""
    weights = sum(weight.numel() for weight in trainer.objective.model.parameters())
    values = {"run": str(out), **asdict(summary), "parameters": weights, "device": str(trainer.device)}
    return values | getattr(trainer.objective, "facts", {})


def _write_end(trainable: Trainable, folder: ModelFolder, values: Mapping[str, Any]) -> None:
    """Write the description, the card and the results of a finished run."""
    with folder.replace() as new:
        trainable.save_description(new)  # a resumed run may have other settings
    folder.write_card(trainable.card(values))
    folder.write_json(FINISHED, {name: value for name, value in values.items() if name != "run"})
    shutil.rmtree(folder.path / FIRST, ignore_errors=True)


def _data_change(out: Path, checkpoint: Checkpoint | None, now: list[list[str]]) -> str | None:
    """Return what has changed in the data files since the checkpoint, or the start, of a run; else None."""
    started = out / FIRST / CHECKSUMS
    if checkpoint is None and not started.is_file():
        return None
    before = ModelFolder(out / FIRST).read_json(CHECKSUMS) if checkpoint is None else checkpoint.values
    sums = before.get("data", now)
    if len(sums) != len(now):
        return f"the data have {format_count(len(now), 'file')} where they had {len(sums)}"
    for (name, current), (_, earlier) in zip(now, sums, strict=True):
        if current != earlier:
            return f"{name} has changed (SHA-256 {current[:12]}... where it was {earlier[:12]}...)"
    return None


def finish_reason(out: Path, config: TrainingConfig) -> str | None:
    """Return why a run is complete, or None if it is not, such as with settings to train longer."""
    if not (out / FINISHED).is_file():
        return None
    folder = ModelFolder.at(out)
    done = folder.read_json(FINISHED)
    if not isinstance(done.get("epochs"), int) or not isinstance(done.get("why"), str):
        raise InputError(
            str(out / FINISHED), "lacks its 'epochs' or 'why'; the file is damaged, remove it and resume"
        )
    _, before = folder.read_config()
    now = config.model_dump(mode="json")
    same = all(now[key] == before[key] for key in ("minutes", "early_stopping"))
    why: str = done["why"]
    if (epochs := config.num_epochs) is not None and epochs <= done["epochs"]:
        return why
    return why if same and why != "all epochs done" else None


def _draw(out: Path, objective: Objective, reporter: Reporter) -> None:
    """Draw the learning curve, unless matplotlib is missing."""
    try:
        from throughtime.plots.learning import learning_curve

        measured = out / "metrics.jsonl"
        lines = read_metrics(measured) if measured.exists() else []
        if {"train", "valid"} <= {line["kind"] for line in lines}:  # else there is no curve
            learning_curve(lines, objective.measure, objective.better, path=out / "learning-curve.png")
    except ThroughtimeError:
        return
    except Exception as error:  # no error of a picture may cost the training
        reporter.say(f"The learning curve could not be drawn: {error}")


class RunLock(contextlib.ExitStack):
    """Locks the folder of a run for all processes of one training, until the block or the process ends.

    The folder itself is locked, so no lock file remains after a process is killed.
    """

    def __init__(self, out: Path, processes: Processes, device: torch.device, overwrite: bool) -> None:
        super().__init__()
        self._out, self._processes, self._device, self._overwrite = out, processes, device, overwrite
        self._resumes = False

    def resume(self) -> None:
        """Lock the run that is there, if there is one."""
        self._resumes = self._processes.first and has_content(self._out)
        self._agree(self._lock() if self._resumes else _FREE)

    def create(self, fill: Callable[[Path], None]) -> None:
        """Create the folder, unless its run is resumed: `fill` writes its first files."""
        creates = self._processes.first and not self._resumes
        self._agree(self._create(fill) if creates else _FREE)

    def _create(self, fill: Callable[[Path], None]) -> int:
        replaces = self._overwrite and has_content(self._out)
        if replaces and self._lock() == _BUSY:
            return _BUSY
        try:
            with whole_folder(self._out) as temporary:
                fill(temporary)
                if replaces:
                    set_aside(self._out)
        except OSError as error:
            # The folder was not there when the command began; another process has made it since.
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return _TAKEN
            raise
        return self._lock()

    def _lock(self) -> int:
        if fcntl is not None:
            handle = os.open(self._out, os.O_RDONLY)
            self.callback(os.close, handle)
            # Some network file systems lock no folders; training there is better than none.
            with contextlib.suppress(OSError):
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _BUSY
        self.callback(settle_replacement, self._out)
        return _FREE

    def _agree(self, code_here: int) -> None:
        """Raise the error of the first process in all of them; the others would wait for it."""
        (code,) = self._processes.sum([float(code_here)], self._device)
        if code == _TAKEN:
            raise InputError("out", f"{self._out} {EXISTS}")
        if code == _BUSY:
            raise InputError(
                "out", f"another process trains in {self._out}; wait for it or choose another folder"
            )
