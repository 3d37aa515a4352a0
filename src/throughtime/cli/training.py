"""What all commands of `train` that run the trainer have in common: their options, and the way of a run."""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from throughtime.cli.open_data import opened, skipping, tell_skipped
from throughtime.cli.output import InterruptedCommandError, Outcome, command_name, flags, say, warn
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.train.config import TrainingConfig
    from throughtime.train.processes import Processes
    from throughtime.train.run import Trainable
    from throughtime.train.task import Task

Data = Annotated[
    str | None,
    typer.Option("--data", help="A name of `throughtime data list`, a file, or a folder of splits."),
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder that the run becomes.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A setting, such as lr=1e-3; give the option once for each.", metavar="KEY=VALUE"
    ),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Settings from a YAML or TOML file.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run at --out, if there is one.")]
CheckpointName = Annotated[
    str | None, typer.Option("--checkpoint", help="With --resume: go on from this one, not the last.")
]
InitFrom = Annotated[
    Path | None, typer.Option("--init-from", help="Start from the weights and vocabulary of another run.")
]
ShowConfig = Annotated[
    bool, typer.Option("--show-config", help="Print all settings with what they mean, and stop.")
]
FindRate = Annotated[
    bool,
    typer.Option(
        "--find-lr",
        help="Try rising learning rates, suggest one, and stop; --out then names a picture of them: "
        ".png, .svg or .pdf.",
    ),
]


Hints = Callable[[Any, "Dataset"], Sequence[str]]
"""From a trained model and its data: commands to go on with, after `throughtime`, with {run} for the run."""


class Trade(Protocol):
    """What a task's module knows how to do; `throughtime.tasks.language.task` is one."""

    TASK: str
    CONFIG: Any  # the type of its configuration

    def made(self, config: Any, dataset: Dataset) -> Any:
        """A new model for these data, with its first weights drawn from the seed."""
        ...

    def inherited(self, source: Path, config: Any, given: Mapping[str, Any]) -> Any:
        """A model that starts from the weights and the vocabulary of the run `source`."""
        ...

    def taken_up(self, out: Path, config: Any) -> Any:
        """The model of a run that goes on; its weights come with the checkpoint."""
        ...

    def task_of(self, model: Any, dataset: Dataset, /) -> Task:
        """The training task of a model on these data."""
        ...


@dataclass(frozen=True)
class Request:
    """The words of a `train` command, beside the settings."""

    out: Path | None
    resume: bool = False
    checkpoint: str | None = None
    init_from: Path | None = None
    find_rate: bool = False
    skip_bad: bool = False
    hints: Hints = lambda model, dataset: ()


def after(*uses: str) -> Hints:
    """Judge it, and then these uses, whatever was trained."""
    return lambda model, dataset: (*judging(dataset), *uses)


def judging(dataset: Dataset) -> list[str]:
    """How to judge a model on data that it was not trained on, where there are some."""
    held_out = (split for split in ("test", "valid") if split in dataset.splits and _holds(dataset, split))
    return [f"evaluate {{run}} --split {split}" for split in itertools.islice(held_out, 1)]


def _holds(dataset: Dataset, split: str) -> bool:
    """Whether a split has a record; one that cannot be read counts, as who judges on it is told why."""
    try:
        return next(iter(dataset.records(split)), None) is not None
    except InputError:
        return True


def pasted(hints: Sequence[str], run: str) -> list[str]:
    """The commands as a shell takes them, and as they are printed."""
    from rich.markup import escape

    name = command_name()
    return [escape(f"  {name} " + hint.replace("{run}", shlex.quote(run))) for hint in hints]


def settings_of(config: Path | None, settings: list[str] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """All that was told: a file's settings, those of --set over them, those with an option of their own."""
    from throughtime.settings import assignments, read_settings

    told = {name: value for name, value in named.items() if value is not None}
    return {**(read_settings(config) if config is not None else {}), **assignments(settings or []), **told}


def shown_config(kind: type[TrainingConfig], given: Mapping[str, Any]) -> Outcome:
    """All settings with what they mean, on stdout; as JSON without those that still have to be given."""
    from throughtime.settings import show

    described = show(kind, given)
    if not flags.json:
        print(described, end="")
    defaults = {
        name: field.get_default(call_default_factory=True)
        for name, field in kind.model_fields.items()
        if not field.is_required()
    }
    return Outcome({**defaults, **kind.following(given), **given})


def train(trade: Trade, given: dict[str, Any], request: Request) -> Outcome:
    """Begin a run, go on with one, or look for its learning rate."""
    from throughtime.train.devices import device_of
    from throughtime.train.processes import joined

    if "data" not in given:
        raise InputError("--data", "is missing: name a data set, a file or a folder")
    if request.out is None and not request.find_rate:
        raise InputError("--out", "is missing: name the folder that the run becomes")
    if request.checkpoint is not None and not request.resume:
        raise InputError("--checkpoint", "goes with --resume, which is missing")
    if request.find_rate:
        return found_rate(trade, given, request)
    with joined(device_of(str(given.get("device", "auto")))) as processes:
        return trained(trade, given, request, processes)


def trained(trade: Trade, given: dict[str, Any], request: Request, processes: Processes) -> Outcome:
    """Begin a run or go on with one, in this process and those beside it."""
    from throughtime.files import check_place
    from throughtime.tasks.resuming import going_on
    from throughtime.train.interrupts import InterruptedRunError
    from throughtime.train.progress import Silent, reporter
    from throughtime.train.run import finished, fit
    from throughtime.train.run_lock import begun

    out = request.out
    assert out is not None
    check_place(out)
    goes_on = begun(out) if request.resume else out.exists()
    processes.barrier()
    if goes_on and not request.resume:
        raise InputError(
            "--out", f"{out} exists already; choose another folder, or give --resume to go on with it"
        )
    if goes_on:
        config = going_on(trade.CONFIG, out, trade.TASK, given)
        if (why := finished(out, config)) is not None:
            return Outcome({"run": str(out), "resumed": True, "why": why}, [_already_trained(out, why)])
        request = replace(request, skip_bad=skipping(request.skip_bad, out, config.data, config.data))
        dataset, model = _opened(config, request), trade.taken_up(out, config)
    else:
        dataset, model = _new(trade, given, request)
    task = _task(trade, model, dataset)
    tell_skipped(dataset)
    try:
        values = fit(
            model,
            task,
            out,
            title=model.title,
            reporter=reporter(sys.stderr.isatty()) if processes.first else Silent(),
            processes=processes,
            resume=request.resume,
            checkpoint=request.checkpoint,
            skip_bad=request.skip_bad,
        )
    except InterruptedRunError as stopped:
        where = f"{stopped.checkpoint.name} is saved" if stopped.checkpoint is not None else "stopped"
        raise InterruptedCommandError(
            f"Interrupted; {where}. Go on with the same command and --resume."
        ) from None
    hints = request.hints(model, dataset)
    return Outcome(values, [_shown(values, hints)] if processes.first else [])


def found_rate(trade: Trade, given: dict[str, Any], request: Request) -> Outcome:
    """Sweep the learning rate and suggest one; with --out FILE.png the curve is drawn."""
    from throughtime.train.devices import device_of
    from throughtime.train.sweep import sweep

    out = request.out
    if out is not None:
        from throughtime.files import check_file
        from throughtime.plots.style import check_format

        check_format(out, "--out with --find-lr")
        check_file(out)
    dataset, model = _new(trade, given, request)
    config: TrainingConfig = model.config
    model.model.to(device_of(config.device))
    found = sweep(_task(trade, model, dataset), config)
    values: dict[str, Any] = {"lr": found.suggested, "rates": found.rates, "losses": found.losses}
    tried = f"{len(found.rates)} updates of {config.optimizer} tried"
    text = f"Suggested: --set lr={found.suggested:.2g} ({tried})"
    if out is not None:
        from throughtime import plots

        plots.learning_rates(found.rates, found.losses, found.suggested, path=out)
        values["plot"] = str(out)
        text += f"\nDrawn in {out}."
    return Outcome(values, [text])


def _new(trade: Trade, given: dict[str, Any], request: Request) -> tuple[Dataset, Trainable]:
    """The data and a new model, drawn from the seed or taken from another run."""
    from throughtime.config import build_config, refuse_idle

    config = build_config(trade.CONFIG, given, "settings")
    if request.init_from is None:
        refuse_idle(config, given)
        _tell_following(trade.CONFIG.following(given))
        dataset = _opened(config, request)
        model = trade.made(config, dataset)
        _tell_columns(dataset, given)
        return dataset, model
    model = trade.inherited(request.init_from, config, given)
    refuse_idle(model.config, given)
    return _opened(model.config, request), model


def _task(trade: Trade, model: Any, dataset: Dataset) -> Task:
    """The training task, with what a model has to say of the data."""
    task = trade.task_of(model, dataset)
    for note in getattr(model, "notes", ()):
        warn({note: note})
    return task


def _opened(config: Any, request: Request) -> Dataset:
    return opened(config.data, **config.opening._asdict(), skip_bad=request.skip_bad)


def _tell_following(following: Mapping[str, Any]) -> None:
    if following:
        shown = ", ".join(f"{key}={dumps(value)}" for key, value in following.items())
        say(f"Set to match the given settings: {shown}.")


def _tell_columns(dataset: Dataset, given: Mapping[str, Any]) -> None:
    """Say which columns hold texts and labels, if the settings do not name them."""
    if dataset.label_columns is not None and not {"text", "label"} <= {*given}:
        text, label = dataset.label_columns
        say(f"Texts are read from the column {text!r}, labels from {label!r}.")


def _already_trained(out: Path, why: str) -> str:
    """That training is complete, and which setting to raise to train longer."""
    longer = "epochs" if why == "all epochs done" else "early_stopping"
    longer = "max_minutes" if why.endswith("minutes are over") else longer
    return f"{out} is already trained ({why}); nothing to do. To train longer, raise {longer}."


def _shown(values: dict[str, Any], hints: Sequence[str]) -> str:
    """The summary for people."""
    from throughtime.tasks.report import trained_for

    best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
    run = values["run"]
    told = [
        f"Trained {trained_for(values)}, in {values['seconds']:.0f} s on {values['device']}: "
        f"{values['why']}.",
        f"Best after {_best_place(values)}: {best}.",
        f"Saved in {run}, with its learning curve. Go on with:",
        *pasted(hints, run),
    ]
    return "\n".join(told)


def _best_place(values: dict[str, Any]) -> str:
    """The epoch of the best weights, or the update where a run stopped inside its first epoch."""
    return f"epoch {values['best_epoch']}" if values["best_epoch"] else f"update {values['steps']:,}"
