"""What every trained model has in common: it is created for data, trained, saved, loaded and described here.

A task derives its predictor from `Predictor` and says how its network is built and what it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from throughtime.config import Config, build_config
from throughtime.errors import InputError, unknown
from throughtime.files import check_new, whole_folder
from throughtime.folder import ModelFolder
from throughtime.registry import Registry
from throughtime.results import Evaluation
from throughtime.results import Progress as Progress
from throughtime.tasks import TASKS
from throughtime.tasks.description import Description, suggest_evaluation, training_length, write_card

if TYPE_CHECKING:
    import torch
    from torch import nn

    from throughtime.data.datasets import Dataset
    from throughtime.train.objective import Objective as TrainingTask

CUSTOM = "custom"
"""The name that a configuration has for a network that is not registered."""
NETWORKS = Registry[Callable[..., Any]]("network", "throughtime.networks", {})
"""Networks of other packages: functions from a configuration and the assets of its task to a module."""


class Assets(Protocol):
    """What a network needs besides its configuration and weights: vocabularies, labels, scales."""

    def save(self, folder: ModelFolder) -> None:
        """Write the files of the model folder that hold it."""
        ...


class Predictor:
    """A network with all that it needs to answer: its assets, and the configuration that it was made from."""

    task: ClassVar[str]
    config_type: ClassVar[Any]
    generation_defaults: ClassVar[Mapping[str, Any] | None] = None
    """What generation_config.json holds at first; None for models that generate nothing."""
    network_parts: ClassVar[tuple[str, ...]] = ()
    """The attributes that a network of the user must have besides `forward`."""

    def __init__(self, model: Any, assets: Any, config: Any) -> None:
        self.model, self.assets, self.config = model, assets, config
        self.folder: ModelFolder | None = None
        self.training_data: Any = None  # Python objects that `train` was given, which no folder stores
        self.generation: Any = dict(self.generation_defaults or {})

    # What a task defines

    @classmethod
    def prepare(cls, config: Any, dataset: Dataset) -> tuple[Any, Any]:
        """The configuration with what the data suggest filled in, and the assets built from the data."""
        raise NotImplementedError

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: Any) -> Any:
        """Read the assets that a model folder holds."""
        raise NotImplementedError

    @classmethod
    def build_network(cls, config: Any, assets: Any) -> nn.Module:
        """The network that a configuration describes."""
        raise NotImplementedError

    def initialise_weights(self) -> None:
        """Change the weights of a new network that depend on the configuration or the assets."""

    def adapt_to(self, dataset: Dataset) -> None:
        """Change the weights of a new network that depend on the data, such as an output bias."""

    def training_task(self, dataset: Dataset) -> TrainingTask:
        """Batches, loss and validation of this model on these data, for the trainer."""
        raise NotImplementedError

    def describe(self) -> Description:
        """The model in words."""
        raise NotImplementedError

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure the model on a split of opened data."""
        raise NotImplementedError

    def suggestions(self, dataset: Dataset) -> list[str]:
        """Commands to go on with after training, with {run} for the folder."""
        return [*suggest_evaluation(dataset), *(one.replace("FOLDER", "{run}") for one in self._uses())]

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the data that the model was created for."""
        return ()

    # Written once for all tasks

    @classmethod
    def create(cls, config: Any, dataset: Dataset, *, network: Any = None) -> Self:
        """A new model for these data; its first weights are drawn from the seed."""
        config, assets = cls.prepare(config, dataset)
        predictor = cls.initialise(config, assets, network=network)
        if config.network is None:
            predictor.adapt_to(dataset)
        return predictor

    @classmethod
    def initialise(cls, config: Any, assets: Any, *, network: Any = None) -> Self:
        """A new model with assets that exist already."""
        import torch

        torch.manual_seed(config.seed)
        predictor = cls(cls._choose_network(config, assets, network), assets, config)
        if config.network is None:
            predictor.initialise_weights()
        return predictor

    @classmethod
    def resume(cls, out: Path, config: Any, *, network: Any = None) -> Self:
        """The model of a run that is continued; its weights come with the checkpoint."""
        return cls.initialise(config, cls.load_assets(ModelFolder(out), config), network=network)

    @classmethod
    def initialise_from(
        cls, source: Path | str, config: Any, given: Mapping[str, Any], *, network: Any = None
    ) -> Self:
        """A model that starts from the weights and assets of the run `source`.

        The settings of its architecture come from there too; `given` settings that contradict them are
        refused.
        """
        folder = ModelFolder.at(source)
        known = architecture_of(folder, cls.task, cls.config_type, given)
        return cls.load(folder, {**config.model_dump(mode="json"), **known}, "cpu", network=network)

    @classmethod
    def load(
        cls, folder: ModelFolder, settings: Mapping[str, Any], device: str, *, network: Any = None
    ) -> Self:
        """The model that a run saved; the best one so far if it is still training."""
        from throughtime.layers.devices import choose_device
        from throughtime.models.weights import read_weights

        config = build_config(cls.config_type, settings, str(folder.path / "config.json"))
        assets = cls.load_assets(folder, config)
        own = cls._choose_network(config, assets, network)
        read_weights(own, folder)
        predictor = cls(own.to(choose_device(device)).eval(), assets, config)
        predictor.folder = folder
        predictor.load_generation(folder)
        return predictor

    @classmethod
    def _choose_network(cls, config: Any, assets: Any, network: Any) -> nn.Module:
        """The task's own network, a registered one, or a module (or a function that builds it) of the caller.

        A folder names registered networks only: loading it never imports a module that it names.
        """
        from torch import nn

        name = config.network
        if network is not None and network != name and (name != CUSTOM or isinstance(network, str)):
            trained = "the task's own" if name is None else "an own module" if name == CUSTOM else repr(name)
            raise InputError("network", f"does not fit: this model was trained with {trained} network")
        if name is None:
            return cls.build_network(config, assets)
        if name == CUSTOM and network is None:
            raise InputError(
                "network", "was an own module of the user when this model was trained; pass it again"
            )
        source = network if name == CUSTOM else NETWORKS[name]
        built = source if isinstance(source, nn.Module) else source(config, assets)
        if not isinstance(built, nn.Module):
            raise InputError("network", f"gives a {type(built).__name__}, expected a torch.nn.Module")
        if missing := [part for part in cls.network_parts if not hasattr(built, part)]:
            raise InputError("network", f"lacks {', '.join(missing)}, which a network for {cls.task} needs")
        return built

    @classmethod
    def finish_reason(cls, out: Path, config: Any) -> str | None:
        """Why the run in this folder needs no more training, or None."""
        from throughtime.train.run import finish_reason

        return finish_reason(out, config)

    def fit(
        self, dataset: Dataset, out: Path, *, warn: Callable[[str], None] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Train into the folder `out` and return what was measured, by name.

        `warn` is called with warnings about the data; the other options are those of
        `throughtime.train.run.fit`.
        """
        from throughtime.train.run import fit

        task = self.training_task(dataset)
        if warn is not None:
            for note in self.notes:
                warn(note)
        return fit(self, task, out, title=self.title, **options)

    def summary(self, values: Mapping[str, Any]) -> str:
        """What a training came to, in words."""
        best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
        place = f"epoch {values['best_epoch']}" if values["best_epoch"] else f"update {values['steps']:,}"
        return (
            f"Trained {training_length(values)}, in {values['seconds']:.0f} s on {values['device']}: "
            f"{values['why']}.\nBest after {place}: {best}."
        )

    def evaluate(
        self,
        data: Any = None,
        *,
        split: str = "test",
        skip_bad: bool = False,
        progress: Progress | None = None,
        **options: Any,
    ) -> Evaluation:
        """Measure the model on a split of its own data, or of others: a name, a path, records, a data set."""
        from throughtime.version import __version__

        dataset = self.open_data(data, skip_bad=skip_bad)
        found = self.evaluate_split(dataset, split, progress=progress, **options)
        signature = f"data:{dataset.name}|split:{split}|{found.signature}|version:{__version__}"
        return Evaluation(found.values, signature, f"{dataset.name}, {split}: {found.text}")

    def open_data(self, data: Any = None, *, skip_bad: bool = False, **options: Any) -> Dataset:
        """Open data in the way the training data were opened; by default those themselves.

        Options of `open_dataset` that are not None take the place of those of the training.
        """
        from throughtime.data.datasets import open_dataset

        own = data is None or (isinstance(data, str) and data == self.config.data)
        own = own and self.folder is not None and self.folder.skips_bad
        if data is None:
            data = self.config.data if self.training_data is None else self.training_data
        given = {name: value for name, value in options.items() if value is not None}
        return open_dataset(data, **{**self.config.data_options, **given}, skip_bad=skip_bad or own)

    def load_generation(self, folder: ModelFolder) -> None:
        """Read generation_config.json, for models that generate."""
        if self.generation_defaults is not None:
            self.generation = folder.read_json("generation_config.json")

    def save_description(self, folder: ModelFolder) -> None:
        """Write all files of the model but its weights and its card."""
        folder.write_config(self.task, self.config.model_dump(mode="json"))
        self.assets.save(folder)
        if self.generation_defaults is not None:
            folder.write_json("generation_config.json", self.generation)

    def save(self, path: Path | str) -> None:
        """Write the model to a new folder, whole or not at all."""
        from throughtime.models.weights import save_weights

        check_new(path)
        with whole_folder(path) as temporary:
            folder = ModelFolder(temporary)
            self.save_description(folder)
            save_weights(self.model, folder)
            folder.write_card(self.card(self.training_values()))

    def export(self, out: Path | str, *, format: str = "onnx", int8: bool = False) -> dict[str, Any]:  # noqa: A002
        """Write the model to a folder that runs without torch, with `throughtime.runtime.load`.

        It is checked against torch; what was written and how far its numbers are off is returned. With
        `int8`, weights have one byte each: smaller and faster, with numbers that are a little off.
        """
        from throughtime.export.write import FORMATS, write_export

        declaration = TASKS[self.task]
        if format not in FORMATS:
            raise unknown("format", format, FORMATS)
        if declaration.exporter is None:
            raise InputError("task", f"{self.task!r} has no export")
        check_new(out)
        name = self.folder.path.name if self.folder is not None else self.task
        exported = declaration.part("exporter")(self)
        return write_export(exported, self.task, Path(out), name=name, int8=int8)

    def training_values(self) -> dict[str, Any]:
        """What was measured in the training of this model, as far as its folder tells."""
        known = self.folder is not None and (self.folder.path / "training.json").is_file()
        measured = self.folder.read_json("training.json") if self.folder is not None and known else {}
        return {"parameters": self.num_weights, "best": {}, **measured}

    @property
    def num_weights(self) -> int:
        """The number of weights of the network."""
        return sum(weight.numel() for weight in self.model.parameters())

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        device: torch.device = next(iter(self.model.parameters())).device
        return device

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        words = self._words()
        size = f"{self.num_weights / 1e6:.2f} M" if self.num_weights >= 5_000 else f"{self.num_weights:,}"
        return f"{self.config.data}: {words.network}, {size} weights, {words.details}"

    def card(self, values: Mapping[str, Any]) -> str:
        """The text of README.md in the model folder; `values` are the measurements of the training."""
        return write_card(self._words(), self.config, values)

    def __repr__(self) -> str:
        """What it is and where it was loaded from."""
        place = f" from {self.folder.path}" if self.folder is not None else ""
        return f"<{type(self).__name__}{place}: {self.title}>"

    def _words(self) -> Description:
        """The model in words, where a network of the user is known by its class alone."""
        words = self.describe()
        if getattr(self.config, "network", None) is None:
            return words
        return replace(words, network=f"{type(self.model).__name__} ({self.config.network} network)")

    def _uses(self) -> Iterator[str]:
        yield from self.describe().commands


def load(path: Path | str, device: str = "auto", *, task: str | None = None, network: Any = None) -> Any:
    """Open a trained model, whatever its task; see `throughtime.api.load`."""
    folder = ModelFolder.at(path)
    found, settings = folder.read_config()
    if task is not None and found != task:
        raise InputError("task", f"is {task!r}, but {path} holds a model of the task {found!r}")
    return TASKS[found].part("predictor").load(folder, settings, device, network=network)


def architecture_of(
    folder: ModelFolder, task: str, config_type: type[Config], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings that a model takes over from the run it starts from; `given` ones must not contradict."""
    found, saved = folder.read_config()
    if found != task:
        raise InputError("init_from", f"{folder.path} holds a model of the task {found!r}, not {task!r}")
    saved = build_config(config_type, saved, str(folder.path / "config.json")).model_dump(mode="json")
    known = config_type.fields_with_role("architecture")
    for key in known & set(given):
        left_to_data = given[key] is None and key in config_type.SUGGESTED
        if given[key] != saved[key] and not left_to_data:
            raise InputError(
                key, f"is {given[key]!r}, but the model in {folder.path} has {saved[key]!r}; leave it out"
            )
    for key in config_type.fields_with_role("initialisation") & set(given):
        if given[key] != config_type.model_fields[key].default:
            raise InputError(key, "has no effect together with init_from; leave one of them out")
    return {key: saved[key] for key in known}
