"""`throughtime train`: one command for each task, all with the same options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

import typer

from throughtime.cli.inputs import open_data
from throughtime.cli.options import option
from throughtime.cli.output import (
    InterruptedCommandError,
    Outcome,
    as_command,
    draw_figure,
    flags,
    say,
    suggested_commands,
)
from throughtime.cli.usage import TaskGroup, add_commands
from throughtime.errors import InputError
from throughtime.tasks import TASKS, Task

if TYPE_CHECKING:
    from throughtime.run import Training


class TrainGroup(TaskGroup):
    """A command for each task."""

    def find_tasks(self) -> Iterable[str]:
        """Return the names of all tasks."""
        return TASKS.available()

    def build_command(self, name: str) -> Callable[..., None] | None:
        """Build the command of a task of another package."""
        return train_command(TASKS[name]) if name in TASKS else None


train_app = typer.Typer(
    cls=TrainGroup, no_args_is_help=True, rich_markup_mode="rich", help="Train a model and save it."
)


class TrainOptions(TypedDict):
    """The options of all tasks.

    Data:
        data: Name from `throughtime data list`, a file, or a folder of splits.

    Model and training:
        set: Any setting, as KEY=VALUE; repeatable. --show-config lists all.
        config: Read settings from a YAML or TOML file.
        show_config: Print all settings with their meaning, and exit.

    Run:
        out: Folder to save the run in.
        resume: Continue the run in --out, if there is one.
        overwrite: Replace the run in --out, if there is one.
        checkpoint: With --resume: continue from this checkpoint, not the last.
        accept_changed_data: With --resume: continue even if the data files have changed.
        init_from: Start from the weights and vocabulary of another run.
        find_lr: Suggest a learning rate and exit; --out FILE.png draws the losses.

    Output:
        quiet: Print nothing but warnings and errors.
    """

    data: str | None
    skip_bad: bool
    set: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")]
    config: Path | None
    show_config: bool
    out: Path | None
    resume: bool
    overwrite: bool
    checkpoint: str | None
    accept_changed_data: bool
    init_from: Path | None
    find_lr: bool
    quiet: bool


TRAINER_OPTIONS = ("checkpoint", "accept_changed_data", "init_from", "find_lr")
"""Those of tasks that are trained step by step."""


COLUMN, COLUMNS = str | None, list[str] | None
TARGETS = option("Column to forecast; repeatable. By default y, or all numbers.", panel="Data")
DATA_OPTIONS: dict[str, dict[str, Any]] = {
    "texts": {},
    "text": {"text": COLUMN},
    "pairs": {"source": COLUMN, "target": COLUMN},
    "labelled": {"text": COLUMN, "label": COLUMN, "id": COLUMN, "time": COLUMN},
    "described": {"condition": COLUMN, "text": COLUMN},
    "tags": {"words": COLUMN, "tags": COLUMN, "id": COLUMN, "time": COLUMN},
    "series": {
        **{"id": COLUMN, "time": COLUMN, "target": Annotated[COLUMNS, TARGETS]},
        **{"known": COLUMNS, "past": COLUMNS, "date_format": COLUMN},
    },
}
"""The options that choose columns of a table, by what a task is trained on."""


def train_command(task: type[Task]) -> Callable[..., None]:
    """The command that trains a model of this task."""
    named = ("data", *DATA_OPTIONS[task.data], *task.options)

    def command(**arguments: Any) -> Outcome:
        settings = read_given(arguments, named)
        if arguments["show_config"]:
            return show_config(task, settings)
        return run_training(task, settings, arguments)

    sections = cleandoc(TrainOptions.__doc__ or "").partition("\n\n")[2]
    command.__name__ = task.name
    command.__doc__ = f"{_help(task)}\n\n{sections}"
    built = as_command(command, declare_options(task))
    built.task = task  # type: ignore[attr-defined]  # for `TakesSettings`
    return built


RUN_OPTIONS = ("resume", "overwrite", "checkpoint", "init_from", "skip_bad", "accept_changed_data")


def declare_options(task: type[Task]) -> dict[str, Any]:
    """Declare the options of a command, in the order of its help."""
    shared = get_type_hints(TrainOptions, include_extras=True)
    options = {"data": shared.pop("data"), **DATA_OPTIONS[task.data], "skip_bad": shared.pop("skip_bad")}
    for name, (kind, text) in task.options.items():
        options[name] = Annotated[kind | None, option(text, panel="Model and training")]
    left_out = () if task.uses_trainer else TRAINER_OPTIONS
    return options | {name: hint for name, hint in shared.items() if name not in left_out}


def _help(task: type[Task]) -> str:
    examples = "\n\n".join("  throughtime " + example.replace("[", "\\[") for example in task.examples)
    return f"{task.summary}\n\n{cleandoc(task.description)}\n\n[bold]Examples[/bold]\n\n{examples}"


def read_given(arguments: Mapping[str, Any], named: Iterable[str]) -> dict[str, Any]:
    """All settings that were given; --set overrides the file, and options of these names override both."""
    from throughtime.settings import read_assignments, read_settings

    options = {name: arguments[name] for name in named if arguments[name] is not None}
    settings = {} if arguments["config"] is None else read_settings(arguments["config"])
    return {**settings, **read_assignments(arguments["set"] or []), **options}


def show_config(task: type[Task], settings: Mapping[str, Any]) -> Outcome:
    """Print all settings with their meaning; JSON leaves out those that have no default."""
    from throughtime.settings import format_settings

    kind = task.part("config")
    described = format_settings(kind, settings)
    if not flags.json:
        print(described, end="")
    fields = {name: field for name, field in kind.model_fields.items() if not field.is_required()}
    defaults = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    return Outcome({**defaults, **kind.derive_settings(settings), **settings})


def run_training(task: type[Task], settings: Mapping[str, Any], arguments: Mapping[str, Any]) -> Outcome:
    """Start a run, continue one, or look for its learning rate."""
    from throughtime.errors import InterruptedRunError
    from throughtime.run import Training

    out, search, quiet = arguments["out"], bool(arguments.get("find_lr")), arguments["quiet"]
    if out is None and not search:
        raise InputError("out", "is missing: name the folder to save the run in")
    training = Training(
        task.name,
        settings,
        out or Path("-"),
        **{name: arguments[name] for name in RUN_OPTIONS if name in arguments},
        trust_changed=flags.trust_changed,
        began=flags.began,  # imports belong to the minutes of a run
        open_data=open_data,
        progress="none" if quiet else "auto",
        say=None if quiet else say,
    )
    if search:
        return find_rate(training, out)
    try:
        why = training.start()
    except InterruptedRunError as stopped:
        where = f"{stopped.checkpoint.name} is saved" if stopped.checkpoint is not None else "stopped"
        raise InterruptedCommandError(
            f"Interrupted; {where}. Continue with the same command and --resume"
            f"{' in place of --overwrite' if training.overwrite else ''}."
        ) from None
    if why is not None:
        done = f"{out} is already trained ({why}); nothing to do.{_longer(why)}"
        return Outcome(training.values, [] if quiet else [done])
    model: Any = training.model
    if not training.first or quiet:
        return Outcome(training.values)
    hints = suggested_commands(model.suggestions(training.dataset), str(out))
    lines = [model.summary(training.values), f"Saved in {out}. Continue with:", *hints]
    return Outcome(training.values, ["\n".join(lines)])


def find_rate(training: Training, out: Path | None) -> Outcome:
    """Suggest a learning rate; with --out FILE.png the curve is drawn."""
    if out is not None:
        from throughtime.files import check_file
        from throughtime.plots.style import check_format

        check_format(out, "--out with --find-lr")
        check_file(out)
    sweep = training.find_learning_rate()
    assert training.model is not None
    values: dict[str, Any] = {"lr": sweep.suggestion, "rates": sweep.rates, "losses": sweep.losses}
    tried = f"{len(sweep.rates)} updates of {training.model.config.optimizer} tried"
    text = f"Suggested: --lr {sweep.suggestion:.2g} ({tried})"
    draw_figure(out, "learning_rates", sweep.rates, sweep.losses, sweep.suggestion)
    return Outcome(values | ({} if out is None else {"plot": str(out)}), [text])


def _longer(why: str) -> str:
    """Which option to raise to train longer."""
    if why == "counted":
        return ""
    option = "--epochs" if why == "all epochs done" else "--set early_stopping"
    return f" To train longer, raise {'--minutes' if ' minute' in why else option}."


add_commands(train_app, *(train_command(TASKS[name]) for name in TASKS.own))
