"""The base class of trained models: it creates, trains, saves, loads, evaluates and describes them.

Each task derives its predictor from `Predictor`, builds its network and adds its prediction methods.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from throughtime.config import build_config
from throughtime.errors import InputError, ThroughtimeWarning
from throughtime.files import path_exists
from throughtime.fit.config import MIN_UPDATES
from throughtime.folder import ModelFolder
from throughtime.model import TaskModel
from throughtime.registry import Registry
from throughtime.results import Evaluation
from throughtime.results import Progress as Progress
from throughtime.tasks import TASKS, TEXT_DATA, description
from throughtime.tasks.saved import SavedModel, SavedRun
from throughtime.version import __version__

if TYPE_CHECKING:
    import torch
    from torch import nn

    from throughtime.data.datasets import Dataset
    from throughtime.fit.objective import Objective as TrainingTask

CUSTOM = "custom"
"""The name in a configuration for a network that the user passed as an object."""
NETWORKS = Registry[Callable[..., Any]]("network", "throughtime.networks", {})
"""Networks of other packages: functions that take a configuration and assets, and return a module."""


class Predictor(TaskModel, SavedModel):
    """A network together with its assets and its configuration: a model that is ready to use.

    Assets are what a model needs besides configuration and weights, such as vocabularies, labels or scales.
    They have a method `save(folder)`, which writes them to a `ModelFolder`.
    """

    task: ClassVar[str]
    config_type: ClassVar[Any]
    network_parts: ClassVar[tuple[str, ...]] = ()
    """Attributes that a user's own network must have besides `forward`."""

    def __init__(self, model: Any, assets: Any, config: Any) -> None:
        self.model, self.assets, self.config = model, assets, config
        self.folder: ModelFolder | None = None
        self.examples: tuple[str, ...] = ()  # texts to try the model with
        self.training_data: Any = None  # Python objects passed to `train`; no folder stores them
        self.generation: Any = None if self.generation_defaults is None else dict(self.generation_defaults)

    # Defined by each task

    @classmethod
    def prepare(cls, config: Any, dataset: Dataset) -> tuple[Any, Any]:
        """Return the configuration, completed from the data, and the assets built from the data."""
        raise NotImplementedError

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: Any) -> Any:
        """Read the assets from a model folder."""
        raise NotImplementedError

    @classmethod
    def build_network(cls, config: Any, assets: Any) -> nn.Module:
        """Build the network that a configuration describes."""
        raise NotImplementedError

    def initialise_weights(self) -> None:
        """Set the first weights that depend on the configuration or the assets."""

    def adapt_to(self, dataset: Dataset) -> None:
        """Set the first weights that depend on the training data, such as an output bias."""

    def build_objective(self, dataset: Dataset) -> TrainingTask:
        """Return the batches, loss and validation of this model on these data, for the trainer."""
        return cast("TrainingTask", TASKS[self.task].part("objective")(self, dataset))

    def count_rows(self, dataset: Dataset) -> int:
        """Count the rows of training batches, as far as it matters whether they are few."""
        bad = dataset.bad  # reading replaces this count of skipped records, which is shown later
        enough = MIN_UPDATES * self.config.batch_size * self.config.accumulate
        records = itertools.islice(dataset.records("train"), enough)
        count, dataset.bad = sum(1 for _ in records), bad
        return count

    def describe(self) -> description.Description:
        """Describe the model in words."""
        raise NotImplementedError

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure the model on one split of an open data set."""
        raise NotImplementedError

    def suggestions(self, dataset: Dataset) -> list[str]:
        """Return commands to try after training, with {run} in place of the folder."""
        uses = [command.replace("FOLDER", "{run}") for command in self.describe().commands]
        return [*description.suggest_evaluation(dataset), *uses]

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the data that the model was created for."""
        return ()

    @property
    def facts(self) -> dict[str, Any]:
        """What clients of a server need to know of the model besides its name and task."""
        return {}

    def read_examples(self, dataset: Dataset, split: str) -> Iterator[str]:
        """Yield texts of a split to choose examples from; none for a model that reads no text."""
        if TASKS[self.task].data not in TEXT_DATA:
            return iter(())
        return (line for text in dataset.texts(split) for line in text.splitlines())

    def shape_example(self, text: str) -> str:
        """Return an example text as a user would type it."""
        return text

    # The same for all tasks

    @classmethod
    def create(cls, config: Any, dataset: Dataset, *, network: Any = None) -> Self:
        """Create a new model for these data; the seed determines its first weights."""
        config, assets = cls.prepare(config, dataset)
        predictor = cls.initialise(config, assets, network=network)
        if config.network is None:
            predictor.adapt_to(dataset)
        predictor.examples = description.find_examples(predictor, dataset)
        return predictor

    @classmethod
    def initialise(cls, config: Any, assets: Any, *, network: Any = None) -> Self:
        """Create a new model with existing assets."""
        import torch

        torch.manual_seed(config.seed)
        predictor = cls(cls._choose_network(config, assets, network).eval(), assets, config)
        if config.network is None:
            predictor.initialise_weights()
        return predictor

    @classmethod
    def resume(cls, out: Path, config: Any, *, network: Any = None) -> Self:
        """Create the model of a run that is resumed; the checkpoint holds its weights."""
        return cls.initialise(config, cls.load_assets(ModelFolder(out), config), network=network)

    @classmethod
    def initialise_from(
        cls,
        source: Path | str,
        config: Any,
        given: Mapping[str, Any],
        *,
        network: Any = None,
        trust_changed: bool = False,
    ) -> Self:
        """Create a model with the weights, assets and architecture settings of the run `source`.

        Settings in `given` that contradict that architecture are refused.
        """
        folder, kind = ModelFolder.at(source), cls.config_type
        folder.check(trust_changed=trust_changed)
        task, settings = folder.read_config()
        if task != cls.task:
            raise InputError(
                "init_from", f"{folder.path} holds a model of the task {task!r}, not {cls.task!r}"
            )
        saved = build_config(kind, settings, str(folder.path / "config.json")).model_dump(mode="json")
        architecture = kind.fields_with_role("architecture")
        for key in architecture & given.keys():
            left_to_data = given[key] is None and key in kind.SUGGESTED
            if given[key] != saved[key] and not left_to_data:
                raise InputError(
                    key, f"is {given[key]!r}, but the model in {folder.path} has {saved[key]!r}; leave it out"
                )
        for key in kind.fields_with_role("initialisation") & given.keys():
            if given[key] != kind.model_fields[key].default:
                raise InputError(key, "has no effect together with init_from; leave one of them out")
        settings = config.model_dump(mode="json")
        # What the data would suggest is as in that run; the length of the training is planned anew.
        suggested = {key for key in kind.SUGGESTED if settings[key] is None} - {"epochs"}
        settings |= {key: saved[key] for key in architecture | suggested}
        return cls.load(folder, settings, "cpu", network=network)

    @classmethod
    def load(
        cls, folder: ModelFolder, settings: Mapping[str, Any], device: str, *, network: Any = None
    ) -> Self:
        """Load the best model of a run, which may still be training."""
        from throughtime.layers.devices import choose_device
        from throughtime.models.weights import load_network, read_weights

        config = build_config(cls.config_type, settings, str(folder.path / "config.json"))
        assets = cls.load_assets(folder, config)
        if config.network is None:
            own = load_network(lambda: cls._choose_network(config, assets, network), folder)
        else:
            own = cls._choose_network(config, assets, network)
            read_weights(own, folder)
        predictor = cls(own.to(choose_device(device)).eval(), assets, config)
        predictor.open_folder(folder)
        return predictor

    @classmethod
    def _choose_network(cls, config: Any, assets: Any, network: Any) -> nn.Module:
        """Return the task's own network, a registered one, or the caller's module (or what it builds).

        A model folder names registered networks only: loading never imports a module named in a folder.
        """
        from torch import nn

        name = config.network
        if network is not None and network != name and (name != CUSTOM or isinstance(network, str)):
            trained = "the task's own" if name is None else "a custom" if name == CUSTOM else f"the {name!r}"
            raise InputError("network", f"does not match: this model was trained with {trained} network")
        if name is None:
            return cls.build_network(config, assets)
        if name == CUSTOM and network is None:
            raise InputError("network", "is missing: this model was trained with a custom network; pass it")
        source = network if name == CUSTOM else NETWORKS[name]
        built = source if isinstance(source, nn.Module) else source(config, assets)
        if not isinstance(built, nn.Module):
            raise InputError("network", f"is a {type(built).__name__}, expected a torch.nn.Module")
        if missing := [part for part in cls.network_parts if not hasattr(built, part)]:
            raise InputError("network", f"lacks {', '.join(missing)}, required by the task {cls.task}")
        return built

    @classmethod
    def finish_reason(cls, out: Path, config: Any) -> str | None:
        """Say why the run in this folder needs no more training; None if it does."""
        from throughtime.fit.run import finish_reason

        return finish_reason(out, config)

    def fit(self, dataset: Dataset, out: Path, **options: Any) -> dict[str, Any]:
        """Train, write the run to the folder `out`, and return the measurements by name.

        The options are those of `throughtime.fit.run.fit`.
        """
        from throughtime.fit.run import fit

        task = self.build_objective(dataset)
        self.examples = description.find_examples(self, dataset)
        self.add_seen(dataset, out, options.get("processes"))
        for note in self.notes:
            warnings.warn(note, ThroughtimeWarning, stacklevel=2)
        return fit(self, task, out, title=self.title, checksums=dataset.checksums(), **options)

    def summary(self, values: Mapping[str, Any]) -> str:
        """Summarise a finished training in words."""
        return description.summarise_training(values)

    def evaluate(
        self,
        data: Any = None,
        *,
        split: str = "test",
        skip_bad: bool = False,
        progress: Progress | None = None,
        **options: Any,
    ) -> Evaluation:
        """Measure the model on a split of `data`: a name, path, records or data set; default: its own.

        Data without splits of their own are split as for training, so `split="test"` is a small part of
        them; `split="all"` measures on all.
        """
        if isinstance(data, str) and data in "train valid test heldout all".split() and not path_exists(data):
            raise InputError("data", f"is {data!r}, the name of a split; pass it as split")
        dataset = self.open_data(data, skip_bad=skip_bad)
        evaluation = self.evaluate_split(dataset, split, progress=progress, **options)
        signature = f"data:{dataset.name}|split:{split}|{evaluation.signature}|version:{__version__}"
        found = Evaluation(evaluation.values, signature, f"{dataset.name}, {split}: {evaluation.text}")
        return self.add_count(found, dataset, split, options.get("others") or ())

    def open_data(self, data: Any = None, *, skip_bad: bool = False, **options: Any) -> Dataset:
        """Open data as the training data were opened; by default, the training data.

        Options of `open_dataset` that are not None override those of the training.
        """
        from throughtime.data.datasets import open_dataset

        if self.folder is not None and (data is None or (isinstance(data, str) and data == self.config.data)):
            skip_bad = skip_bad or self.folder.skips_bad
        if data is None:
            data = self.config.data if self.training_data is None else self.training_data
        choices = {name: value for name, value in options.items() if value is not None}
        return open_dataset(data, **{**self.config.data_options, **choices}, skip_bad=skip_bad, strict=False)

    @property
    def device(self) -> torch.device:
        """The device that holds the network."""
        return cast("torch.device", next(self.model.parameters()).device)

    @property
    def title(self) -> str:
        """The model in one line: its data, network and size."""
        words = self._words()
        size = f"{self.num_weights / 1e6:.2f} M" if self.num_weights >= 5_000 else f"{self.num_weights:,}"
        return f"{self.config.data}: {words.network}, {size} weights, {words.details}"

    def card(self, values: Mapping[str, Any]) -> str:
        """Return the text of README.md in the model folder; `values` are measurements of the training."""
        return description.write_card(self._words(), self.config, values, self.examples)

    def __repr__(self) -> str:
        """Show the title and the folder that the model was loaded from."""
        place = f" from {self.folder.path}" if self.folder is not None else ""
        return f"<{type(self).__name__}{place}: {self.title}>"

    @property
    def _layers(self) -> str:
        """The recurrent layers in words."""
        config = self.config
        layers = f"{config.num_layers} x " if config.num_layers > 1 else ""
        return f"{layers}{config.cell} of {config.hidden_size}"

    def _words(self) -> description.Description:
        """Describe the model; a network that is not the task's own is named by its class."""
        words = self.describe()
        if getattr(self.config, "network", None) is None:
            return words
        return replace(words, network=f"{type(self.model).__name__} ({self.config.network} network)")


def load(
    path: Path | str,
    device: str = "auto",
    *,
    task: str | None = None,
    network: Any = None,
    trust_changed: bool = False,
) -> Any:
    """Load a trained model of any task; see `throughtime.api.load`."""
    folder = ModelFolder.at(path)
    folder.check(trust_changed=trust_changed)  # before anything is read from it
    saved = SavedRun(folder, *folder.read_config())
    if task is not None and saved.task != task:
        raise InputError("task", f"is {task!r}, but {path} holds a model of the task {saved.task!r}")
    return saved.build(device, network=network)
