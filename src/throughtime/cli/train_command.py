"""The command that trains one kind of model: options and course are the same, help and task are its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any

from throughtime.cli.open_data import DateFormat, SkipBad, Source, Target
from throughtime.cli.output import Debug, Json, Outcome, reported
from throughtime.cli.training import (
    CheckpointName,
    ConfigFile,
    Data,
    FindRate,
    Hints,
    InitFrom,
    Out,
    Request,
    Resume,
    Settings,
    ShowConfig,
    settings_of,
    shown_config,
    train,
)


@dataclass(frozen=True)
class TrainCommand:
    """What `throughtime train NAME` trains; modules lie under `throughtime.tasks` and are imported late."""

    help: str
    task: str  # the module
    config: str  # module.Class of its settings, which need no torch
    hints: Hints

    def of_texts(self) -> Callable[..., None]:
        """The command, for data of one language."""
        return self._command("source", "target", "date_format")

    def of_series(self) -> Callable[..., None]:
        """The command, for time series."""
        return self._command("source", "target")

    def of_pairs(self) -> Callable[..., None]:
        """The command, for data in two languages."""
        return self._command("date_format")

    def _command(self, *without: str) -> Callable[..., None]:
        """The command, but for these options."""

        def command(
            data: Data = None,
            source: Source = None,
            target: Target = None,
            date_format: DateFormat = None,
            out: Out = None,
            config: ConfigFile = None,
            settings: Settings = None,
            resume: Resume = False,
            checkpoint: CheckpointName = None,
            init_from: InitFrom = None,
            show_config: ShowConfig = False,
            find_lr: FindRate = False,
            skip_bad: SkipBad = False,
            json: Json = False,
            debug: Debug = False,
        ) -> Outcome:
            named = {"data": data, "source": source, "target": target, "date_format": date_format}
            given = settings_of(config, settings, named)
            request = Request(out, resume, checkpoint, init_from, find_lr, skip_bad, self.hints)
            return self._told(given, show_config, request)

        whole = signature(command, eval_str=True)
        kept = [option for name, option in whole.parameters.items() if name not in without]
        command.__signature__ = whole.replace(parameters=kept)  # type: ignore[attr-defined]
        command.__doc__ = self.help
        command.config = self.config  # type: ignore[attr-defined]  # for `TakesSettings`
        return reported(command)

    def _told(self, given: dict[str, Any], show_config: bool, request: Request) -> Outcome:
        if show_config:
            module, name = self.config.rsplit(".", 1)
            return shown_config(getattr(import_module(f"throughtime.tasks.{module}"), name), given)
        task: Any = import_module(f"throughtime.tasks.{self.task}")
        return train(task, given, request)
