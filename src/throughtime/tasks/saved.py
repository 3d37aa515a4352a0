"""The folder of a trained model: what is saved and exported, and the records that it was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from throughtime.config import check_config
from throughtime.data.seen import Hashes, SeenCount, SeenRecords, hash_records, load_seen, save_seen
from throughtime.errors import InputError
from throughtime.files import check_new
from throughtime.folder import ModelFolder
from throughtime.results import Evaluation
from throughtime.tasks import TASKS
from throughtime.tasks.description import load_examples, save_examples

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset
    from throughtime.fit.processes import Processes

MOSTLY_SEEN = 0.5
"""Share of the records above which an evaluation warns that the model was trained on them."""


class SavedModel:
    """The side of a predictor that lies in a folder: its files, and the records that it was trained on."""

    task: ClassVar[str]
    generation_defaults: ClassVar[Mapping[str, Any] | None] = None
    """The first contents of generation_config.json; None for models that do not generate."""
    generation_type: ClassVar[Any] = None
    """The settings that generation_config.json may hold."""
    model: Any
    assets: Any
    config: Any
    generation: Any
    folder: ModelFolder | None
    examples: tuple[str, ...]

    def card(self, values: Mapping[str, Any]) -> str:
        """Return the text of README.md in the model folder; `values` are measurements of the training."""
        raise NotImplementedError

    def open_folder(self, folder: ModelFolder) -> None:
        """Read what every model folder holds besides assets and weights."""
        self.folder, self.examples = folder, load_examples(folder)
        self.load_generation(folder)

    def load_generation(self, folder: ModelFolder) -> None:
        """Read generation_config.json, if this model generates."""
        if self.generation is not None:
            self.generation = folder.read_json("generation_config.json")
            if self.generation_type is not None:
                check_config(
                    self.generation_type, self.generation, str(folder.path / "generation_config.json")
                )

    def save_description(self, folder: ModelFolder) -> None:
        """Write all files of the model except its weights and its card."""
        folder.write_config(self.task, self.config.model_dump(mode="json"))
        self.assets.save(folder)
        save_examples(self.examples, folder)
        save_seen(self.seen, folder)
        if self.generation is not None:
            folder.write_json("generation_config.json", dict(self.generation))

    def save(self, path: Path | str) -> None:
        """Write the model to a new folder, completely or not at all."""
        from throughtime.models.weights import save_weights

        check_new(path)
        with ModelFolder.create(path) as folder:
            self.save_description(folder)
            save_weights(self.model, folder)
            self.save_measurements(folder)
            folder.write_card(self._measured_card())

    def _measured_card(self) -> str:
        try:
            return self.card(self.training_values())
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if self.folder is None:
                raise
            # The manifest leaves it out, so anything may be in it.
            raise InputError(str(self.folder.path / "training.json"), "is damaged; remove it") from error

    def save_measurements(self, folder: ModelFolder) -> None:
        """Write what was measured with these weights and belongs to them, if anything."""

    def export(
        self,
        out: Path | str,
        *,
        format: str | None = None,  # noqa: A002
        int8: bool = False,
        weights: str | None = None,
        sample: bool = True,
    ) -> dict[str, Any]:
        """Write the model to a folder that `throughtime.runtime.load` runs without torch.

        The export is checked against torch. Returns the files written and the largest difference. With
        `int8`, each weight is stored in one byte: smaller and faster, but slightly less accurate. An n-gram
        model is written as an ARPA file instead; see `NgramLanguageModel.write_arpa`.

        With `format="html"`, or without a format if the name ends in .html, `out` is one HTML file that runs
        the model in a browser and shows how it works; `weights` are "int8" (if it is not given), "float16" or
        "float32". The file also holds a few of the data, to try the model with, unless `sample` is False.
        """
        from throughtime.graphs import check_options, choose_format

        declaration = TASKS[self.task]
        chosen = choose_format(format, out, default=(*declaration.formats, "onnx")[0])
        run = f"this {type(self).__name__}" if self.folder is None else self.folder.path
        check_format(run, self.task, chosen, chosen)
        check_options(chosen, int8, weights, sample)
        if chosen == "arpa":
            return dict(cast(Any, self).write_arpa(out))
        if chosen == "html":
            from throughtime.tasks.pages import export_html

            return export_html([self], out, weights=weights or "int8", sample=sample)
        from throughtime.graphs.write import copy_to_cpu, write_export

        check_new(out)
        name = self.folder.path.name if self.folder is not None else self.task
        exported = declaration.part("exporter")(copy_to_cpu(self))
        return write_export(exported, self.task, Path(out), name=name, int8=int8)

    @property
    def num_weights(self) -> int:
        """The number of weights of the network."""
        return sum(weight.numel() for weight in self.model.parameters())

    def training_values(self) -> dict[str, Any]:
        """Return the measurements of this model's training that its folder holds."""
        values = {"parameters": self.num_weights, "best": {}}
        if self.folder is not None and (self.folder.path / "training.json").is_file():
            values |= self.folder.read_json("training.json")
        return values

    @cached_property
    def seen(self) -> SeenRecords | None:
        """The records that the model was trained on, read from its folder when needed; None if unknown."""
        return load_seen(self.folder)

    def hash_split(self, dataset: Dataset, split: str) -> Iterator[Hashes]:
        """Yield the hashes of the records of a split as the model reads them, many at a time."""
        if dataset.kind == "vectors":
            return hash_records((record.key,) for record in dataset.records(split))
        is_paired = dataset.kind in ("pairs", "cards")
        return hash_records(dataset.pairs(split) if is_paired else dataset.records(split))

    def add_seen(self, dataset: Dataset, out: Path | None = None, processes: Processes | None = None) -> None:
        """Add the training records of a data set to those of the model, and of the run that is in `out`.

        Of several processes, the first does it, which writes the folder.
        """
        if processes is not None and not processes.first:
            return
        before = self.seen or load_seen(None if out is None else ModelFolder(out)) or SeenRecords()
        self.seen = before.add(self.hash_split(dataset, getattr(self.config, "split", "train")))

    def count_seen(self, dataset: Dataset, split: str, others: Sequence[SavedModel] = ()) -> SeenCount | None:
        """Count the records of a split that this model, or one of the others, was trained on.

        None if no model knows its records, as those of older versions.
        """
        known = [model.seen for model in (self, *others) if model.seen is not None]
        filters = tuple(bits for seen in known for bits in seen.filters)
        return SeenRecords(filters).count(self.hash_split(dataset, split)) if known else None

    def add_count(
        self, evaluation: Evaluation, dataset: Dataset, split: str, others: Sequence[SavedModel] = ()
    ) -> Evaluation:
        """Return an evaluation that also says how many of its records the model was trained on."""
        seen = self.count_seen(dataset, split, others)
        if seen is None:
            return replace(evaluation, values={**evaluation.values, "trained_on": None})
        said = str(seen)
        if split != "train" and seen.is_certain and seen.trained_on > MOSTLY_SEEN * seen.records:
            said = f"Warning: {seen}. How well the model does on new data is not measured here."
        values = {**evaluation.values, "records": seen.records, "trained_on": seen.trained_on}
        return replace(evaluation, values=values, text=f"{evaluation.text}\n{said}")


def check_format(run: Any, task: str, chosen: str, asked: str | None) -> None:
    """Refuse a run whose models are not written in the chosen format."""
    own, exporter = TASKS[task].formats, TASKS[task].exporter
    formats = (*(own or ("onnx",)), "html")
    if chosen not in formats:
        known = " or ".join(map(repr, formats))
        stated = "is missing" if asked is None and chosen == "onnx" else f"is {chosen!r}"
        raise InputError("format", f"{stated}, but {run} holds a model of the task {task!r}; give {known}")
    if exporter is None and chosen not in own:
        known = ", ".join(sorted(name for name, one in TASKS.available().items() if one.exporter))
        raise InputError(
            str(run), f"holds a model of the task {task!r}, which cannot be exported; {known} can"
        )


class SavedRun(NamedTuple):
    """The folder of a trained model, opened and its configuration read, but nothing else yet."""

    folder: ModelFolder
    task: str
    settings: dict[str, Any]

    @classmethod
    def open(cls, path: Path | str) -> SavedRun:
        """Open the folder at this path; an error says why it is not one of a model."""
        folder = ModelFolder.at(path)
        return cls(folder, *folder.read_config())

    def load(self, device: str = "auto", *, network: Any = None, trust_changed: bool = False) -> Any:
        """Load the model, after its files were compared with those that were saved."""
        self.folder.check(trust_changed=trust_changed)
        return self.build(device, network=network)

    def build(self, device: str = "auto", *, network: Any = None) -> Any:
        """Build the model, whose files were compared before."""
        return TASKS[self.task].part("predictor").load(self.folder, self.settings, device, network=network)
