"""One training run: its settings, data, model and folder. `tt.train` and `throughtime train` use it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from throughtime.config import Config, build_config, refuse_idle
from throughtime.data.memory import MEMORY
from throughtime.errors import InputError
from throughtime.files import check_place, has_content
from throughtime.folder import EXISTS, ModelFolder, check_replaceable, settle_replacement
from throughtime.tasks import TASKS, Task
from throughtime.text.texts import escape_controls

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.fit.lr_finder import RateSearch
    from throughtime.fit.processes import Processes
    from throughtime.fit.time_plan import Speed
    from throughtime.tasks.base import Predictor

ProgressKind = Literal["auto", "bars", "notebook", "lines", "none"]
MAY_CHANGE = frozenset(
    "epochs minutes lr clip early_stopping device capture checkpoint_every checkpoint_minutes "
    "keep memory report_every".split()
)
"""The settings that may change when a run continues: how long, how fast and where it trains."""


@dataclass
class Training:
    """One training: its settings and the folder `out` that it fills; `start` runs it.

    Afterwards it has the trained `model`, the `dataset` and the `values` that were measured. `say` is called
    with messages, which by default go to stderr; warnings about the data are Python's.
    """

    task: str
    settings: Mapping[str, Any]
    out: Any
    resume: bool = False
    overwrite: bool = False
    checkpoint: str | None = None
    init_from: Path | str | None = None
    skip_bad: bool = False
    accept_changed_data: bool = False
    network: Any = None
    trust_changed: bool = False
    progress: ProgressKind = "auto"
    open_data: Callable[..., Dataset] | None = None
    say: Callable[[str], None] | None = None
    model: Predictor = field(init=False)
    dataset: Dataset = field(init=False)
    values: dict[str, Any] = field(default_factory=dict)
    first: bool = True
    """Whether this process reports: it is the first of those that train together."""
    began: float = 0.0
    """When the time of the run began, by `time.monotonic`; 0: with `start`."""
    speed: Speed | None = None
    """How fast the model trains, if that was measured to plan a run of some minutes."""

    notes: list[str] = field(default_factory=list)
    """What was chosen for the data and the time; shown when the training begins."""
    asked: Any = None
    """The settings as they were given, before they are completed from the data."""

    def __post_init__(self) -> None:
        """Look up the task, and check what can be checked before any work is done."""
        self.out = Path(self.out)
        self.declaration: type[Task] = TASKS[self.task]
        if "data" not in self.settings:
            raise InputError("data", "is missing: name a data set, a file or a folder")
        if self.checkpoint is not None and not self.resume:
            raise InputError("checkpoint", "is for a run that continues; set resume too")
        if self.overwrite and self.resume:
            raise InputError("overwrite", "contradicts resume; leave one of them out")

    def start(self) -> str | None:
        """Train the model; returns a reason if the run was already finished and nothing was done."""
        if not self.declaration.uses_trainer:
            return self._start(None)
        from throughtime.fit.processes import join_processes
        from throughtime.layers.devices import choose_device
        from throughtime.tasks.planning import restored_threads

        with join_processes(choose_device(str(self.settings.get("device", "auto")))) as processes:
            self.first = processes.first
            with restored_threads():
                return self._start(processes)

    def _start(self, processes: Processes | None) -> str | None:
        self.began = self.began or time.monotonic()
        check_place(self.out)
        if self.first and not self.out.exists():
            settle_replacement(self.out)  # a process may have been killed while it replaced a run
        if self.overwrite:
            check_replaceable(self.out)
        continues = has_content(self.out) if self.resume else not self.overwrite and self.out.exists()
        if processes is not None:
            processes.barrier()
        if continues and not self.resume:
            raise InputError("out", f"{self.out} {EXISTS}")
        predictor = self.declaration.part("predictor")
        if continues:
            ModelFolder.at(self.out).check(trust_changed=self.trust_changed)
            settings = self._plain_settings()
            if settings["data"] == MEMORY:
                del settings["data"]
            config = continue_config(predictor.config_type, self.out, self.task, settings)
            if (why := predictor.finish_reason(self.out, config)) is not None:
                self.values = {"run": str(self.out), "resumed": True, "why": why}
                return str(why)
            self.skip_bad = self.skip_bad or ModelFolder.at(self.out).skips_bad
            self.dataset = self._open(config)
            if self._data_name(config) != config.data:
                raise InputError("data", f"differ from the data that the run in {self.out} was started with")
            self.model = predictor.resume(self.out, config, network=self.network)
        else:
            self.create()
        if processes is not None:
            self._plan(processes, continues)
        options: dict[str, Any] = {"say": self._say}
        if self.declaration.uses_trainer:
            from throughtime.fit.progress import progress_reporter

            options = {
                "reporter": progress_reporter(self.progress if self.first else "none"),
                "began": self.began,
                "speed": self.speed,
                "notes": self.notes,
            }
        self.values = self.model.fit(
            self.dataset,
            self.out,
            **options,
            processes=processes,
            resume=self.resume,
            overwrite=self.overwrite,
            checkpoint=self.checkpoint,
            skip_bad=self.skip_bad,
            accept_changed_data=self.accept_changed_data,
        )
        if self.dataset.bad.count:
            self._say(self.dataset.bad.report())
        return None

    def create(self) -> None:
        """Open the data and create a new model, with random weights or those of `init_from`."""
        predictor = self.declaration.part("predictor")
        settings = self._plain_settings()
        config = build_config(predictor.config_type, settings, "settings")
        if self.init_from is not None:
            self.model = predictor.initialise_from(
                self.init_from, config, settings, network=self.network, trust_changed=self.trust_changed
            )
            refuse_idle(self.model.config, settings)
            self.asked = config = self.model.config
            self.dataset = self._open(config)
        else:
            refuse_idle(config, settings)
            if following := predictor.config_type.derive_settings(settings):
                shown = ", ".join(f"{key}={dumps(value)}" for key, value in following.items())
                self.notes.append(f"Set to match the given settings: {shown}.")
            config = self._suit_device(config)
            self.dataset = self._open(config)
            self.asked = config = config.model_copy(update={"data": self._data_name(config)})
            self.model = predictor.create(config, self.dataset, network=self.network)
        self._say_what_was_read(config)
        self._suit_few(settings)

    def _suit_few(self, settings: Mapping[str, Any]) -> None:
        """If the training data are few, choose the settings that suit them, of those not given."""
        if not self.declaration.uses_trainer:
            return
        from throughtime.tasks.planning import show_settings

        given = {key for key, value in settings.items() if value is not None}
        suited = self.model.config.suit_few(self.model.count_rows(self.dataset), given)
        if chosen := {key: value for key, value in suited.items() if getattr(self.asked, key) != value}:
            self.model.config = self.model.config.model_copy(update=chosen)
            self.asked = self.asked.model_copy(update=chosen)  # a plan for some minutes keeps them
            self.notes.append(f"Chosen for few training data: {show_settings(chosen)}.")

    def _suit_device(self, config: Any) -> Any:
        """If the number of epochs is known, choose the settings that suit the device, of those not given."""
        if not self.declaration.uses_trainer or config.num_epochs is None or config.network is not None:
            return config
        from throughtime.layers.devices import choose_device
        from throughtime.tasks.planning import show_settings

        chosen = config.settings_on(choose_device(config.device).type)
        if not chosen:
            return config
        why = "there, a larger model takes about as long as a small one"
        self.notes.append(f"Chosen for a GPU: {show_settings(chosen)} ({why}).")
        return config.model_copy(update=chosen)

    def _plan(self, processes: Processes, continues: bool) -> None:
        """If the time is given and not the number of epochs, choose threads and the size of a new model."""
        config = self.model.config
        if config.num_epochs is not None:
            return
        from throughtime.layers.devices import choose_device
        from throughtime.tasks.planning import choose_threads, plan_training

        left = 60 * config.minutes - (time.monotonic() - self.began)
        self.model.model.to(choose_device(config.device))
        if continues:
            self.speed = choose_threads(self.model, self.dataset, left, processes)
            return
        self.model, self.speed = plan_training(
            self.model, self.asked, self.dataset, max(left, 1.0), processes=processes, say=self.notes.append
        )

    def find_learning_rate(self) -> RateSearch:
        """Try rising learning rates on a new model, instead of `start`, and suggest one."""
        from throughtime.fit.lr_finder import find_learning_rate
        from throughtime.layers.devices import choose_device

        self.create()
        self.model.model.to(choose_device(self.model.config.device))
        return find_learning_rate(self.model.build_objective(self.dataset), self.model.config)

    def _plain_settings(self) -> dict[str, Any]:
        """The settings for a configuration, with names instead of data in memory and own networks."""
        data, network = self.settings["data"], self.network
        name = str(data) if isinstance(data, str | Path) else MEMORY
        if network is not None:
            network = network if isinstance(network, str) else "custom"
        return {**self.settings, "data": name, **({} if network is None else {"network": network})}

    def _data_name(self, config: Any) -> str:
        """The name of the data for the configuration; for data in memory it depends on the content."""
        return config.data if isinstance(self.settings["data"], str | Path) else self.dataset.name

    def _open(self, config: Any) -> Dataset:
        from throughtime.data.datasets import open_dataset

        data = self.settings["data"]
        opens = self.open_data or open_dataset
        source = config.data if isinstance(data, str | Path) else data
        dataset = opens(source, **config.data_options, skip_bad=self.skip_bad)
        if self.skip_bad:
            _refuse_if_all_are_skipped(dataset)
        return dataset

    def _say_what_was_read(self, config: Any) -> None:
        """Say how many records the user's data have, and in which columns; corpora are known."""
        from throughtime.data.catalogue import CORPORA
        from throughtime.data.datasets import describe_data

        if self.first and self.dataset.name.partition("/")[0] not in CORPORA:
            self._say(describe_data(self.dataset, getattr(config, "roles", None)))

    def _say(self, message: str) -> None:
        if self.say is not None:
            self.say(message)
        elif self.progress != "none":
            print(escape_controls(message), file=sys.stderr)


def continue_config(kind: type[Config], out: Path, task: str, settings: Mapping[str, Any]) -> Any:
    """The saved configuration of a run that continues, updated with the settings that may change."""
    saved_task, saved = ModelFolder.at(out).read_config()
    if saved_task != task:
        raise InputError("resume", f"{out} holds a model of the task {saved_task!r}, not {task!r}")
    before = build_config(kind, saved, str(out / "config.json"))
    # A null that leaves the choice to the data does not change the saved choice.
    settings = {
        key: value for key, value in settings.items() if value is not None or key not in kind.SUGGESTED
    }
    now = build_config(kind, {**saved, **settings}, "settings")
    for key in settings:
        was, new = getattr(before, key), getattr(now, key)
        if was != new and key not in MAY_CHANGE:
            raise InputError(
                key, f"is {new!r}, but the run in {out} was started with {was!r}; use another folder"
            )
    return now


def _refuse_if_all_are_skipped(dataset: Dataset) -> None:
    """Raise if all records to train on are bad, with the reason of the first."""
    shown = dataset.bad  # reading replaces this count of skipped records, which is shown later
    if next(iter(dataset.records("train" if "train" in dataset.stored else "all")), None) is None:
        bad = dataset.bad
        if bad.examples:
            skipped = "its only record was" if bad.count == 1 else f"all {bad.count:,} records were"
            raise InputError(
                dataset.name, f"has nothing to read: {skipped} skipped; first, {bad.examples[0]}"
            )
    dataset.bad = shown
