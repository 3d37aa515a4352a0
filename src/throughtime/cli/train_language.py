"""`throughtime train language`: a recurrent language model, from a line of words to a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from throughtime.cli.opening import SkipBad, opened, tell_skipped
from throughtime.cli.output import Debug, Json, Outcome, reported, say
from throughtime.errors import InputError

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.language_config import LanguageConfig
    from throughtime.tasks.recurrent import RecurrentLanguage
    from throughtime.train.processes import Processes

TASK = "language"
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


@reported
def train_language(
    data: Annotated[
        str | None,
        typer.Option("--data", help="A name of `throughtime data list`, a file, or a folder of splits."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The folder that the run becomes.")] = None,
    config: ConfigFile = None,
    settings: Settings = None,
    resume: Resume = False,
    checkpoint: CheckpointName = None,
    init_from: InitFrom = None,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print all settings with what they mean, and stop.")
    ] = False,
    find_lr: Annotated[
        bool, typer.Option("--find-lr", help="Try rising learning rates, suggest one, and stop.")
    ] = False,
    skip_bad: SkipBad = False,
    json: Json = False,
    debug: Debug = False,
) -> Outcome:
    """Train a recurrent language model: RNN, GRU, LSTM or any other cell.

    [bold]Examples[/bold]

      throughtime train language --data timemachine --out runs/timemachine

      throughtime train language --data ptb --config my.yaml --set lr=1e-3 --set epochs=40 --out runs/ptb

      throughtime train language --data my.txt --out runs/mine --resume

      throughtime train language --show-config > my.yaml

      torchrun --nproc-per-node 2 -m throughtime train language --data ptb --out runs/ptb
    """
    from throughtime.config import configured
    from throughtime.settings import assignments, read_settings, show
    from throughtime.tasks.language_config import LanguageConfig

    given = {
        **(read_settings(config) if config is not None else {}),
        **assignments(settings or []),
        **({"data": data} if data is not None else {}),
    }
    if show_config:
        print(show(LanguageConfig, given), end="")
        return Outcome({})
    if "data" not in given:
        raise InputError("--data", "is missing: name a data set, a file or a folder")
    if out is None and not find_lr:
        raise InputError("--out", "is missing: name the folder that the run becomes")
    if find_lr:
        return found_rate(configured(LanguageConfig, given, "settings"), out, init_from, skip_bad)
    assert out is not None
    from throughtime.train.devices import device_of
    from throughtime.train.processes import joined

    with joined(device_of(str(given.get("device", "auto")))) as processes:
        return trained(given, out, resume, checkpoint, init_from, skip_bad, processes)


def trained(
    given: dict[str, Any],
    out: Path,
    resume: bool,
    checkpoint: str | None,
    init_from: Path | None,
    skip_bad: bool,
    processes: Processes,
) -> Outcome:
    """Begin a run or go on with one, in this process and those beside it."""
    from throughtime.config import configured
    from throughtime.tasks.language_config import LanguageConfig
    from throughtime.tasks.recurrent import task_of
    from throughtime.tasks.runs import finished, fit, going_on
    from throughtime.train.interrupts import InterruptedRunError
    from throughtime.train.progress import Silent, reporter

    begun = out.exists()
    processes.barrier()
    if begun and not resume:
        raise InputError(
            "--out", f"{out} exists already; choose another folder, or give --resume to go on with it"
        )
    if begun:
        settled = going_on(LanguageConfig, out, TASK, given)
        if finished(out, settled):
            return Outcome({"run": str(out), "resumed": True}, [f"{out} is already trained; nothing to do."])
        dataset = opened(settled.data, layout=settled.layout, skip_bad=skip_bad)
        language = taken_up(out, settled)
    else:
        dataset, language = begun_with(
            configured(LanguageConfig, given, "settings"), init_from, given, skip_bad
        )
    task = task_of(language, dataset)
    tell_skipped(dataset)
    try:
        values = fit(
            language,
            task,
            out,
            title=title(language),
            reporter=reporter(sys.stderr.isatty()) if processes.first else Silent(),
            processes=processes,
            resume=resume,
            checkpoint=checkpoint,
        )
    except InterruptedRunError as stopped:
        where = f"{stopped.checkpoint.name} is saved" if stopped.checkpoint is not None else "stopped"
        say(f"Interrupted; {where}. Go on with the same command and --resume.")
        raise typer.Exit(stopped.exit_code) from None
    return Outcome(values, [shown(values)] if processes.first else [])


def begun_with(
    config: LanguageConfig, init_from: Path | None, given: dict[str, Any], skip_bad: bool
) -> tuple[Dataset, RecurrentLanguage]:
    """The data and a new model, drawn from the seed or taken from another run."""
    from throughtime.tasks.recurrent import inherited, made

    dataset = opened(config.data, layout=config.layout, skip_bad=skip_bad)
    if init_from is None:
        return dataset, made(config, dataset)
    language = inherited(init_from, config, given)
    return opened(config.data, layout=language.config.layout, skip_bad=skip_bad), language


def taken_up(out: Path, config: LanguageConfig) -> RecurrentLanguage:
    """The model of a run that goes on; its weights come with the checkpoint."""
    from throughtime.tasks.recurrent import with_codec
    from throughtime.text.codec import Codec

    return with_codec(config, Codec.load(out))


def found_rate(config: LanguageConfig, out: Path | None, init_from: Path | None, skip_bad: bool) -> Outcome:
    """Sweep the learning rate and suggest one; with --out FILE.png the curve is drawn."""
    from throughtime.tasks.recurrent import task_of
    from throughtime.train.devices import device_of
    from throughtime.train.sweep import sweep

    if out is not None:
        from throughtime.plots.style import check_format

        check_format(out)
    dataset, language = begun_with(config, init_from, config.model_dump(), skip_bad)
    language.model.to(device_of(config.device))
    found = sweep(task_of(language, dataset), language.config)
    values: dict[str, Any] = {"lr": found.suggested, "rates": found.rates, "losses": found.losses}
    tried = f"{len(found.rates)} updates of {config.optimizer} tried"
    text = f"Suggested: --set lr={found.suggested:.2g} ({tried})"
    if out is not None:
        from throughtime.plots.learning import rate_plot

        values["plot"] = str(rate_plot(found.rates, found.losses, found.suggested, out))
        text += f"\nDrawn in {out}."
    return Outcome(values, [text])


def title(language: RecurrentLanguage) -> str:
    """What is trained, in one line."""
    config, model = language.config, language.model
    weights = sum(weight.numel() for weight in model.parameters())
    layers = f"{config.num_layers} x " if config.num_layers > 1 else ""
    return (
        f"{config.data}: {layers}{config.cell} of {config.hidden_size}, "
        f"{weights / 1e6:.2f} M weights, vocabulary {model.vocabulary_size:,} ({config.tokens})"
    )


def shown(values: dict[str, Any]) -> str:
    """The summary for people."""
    best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
    run = values["run"]
    return (
        f"Trained {values['epochs']} epochs, {values['steps']:,} updates, in {values['seconds']:.0f} s on "
        f"{values['device']}: {values['why']}.\n"
        f"Best after epoch {values['best_epoch']}: {best}.\n"
        f"Saved in {run}, with its learning curve. Go on with:\n"
        f"  throughtime evaluate {run} --split test\n"
        f'  throughtime generate {run} --prompt "the " --max-new-tokens 200 --temperature 0.8'
    )
