"""An n-gram language model: it counts a text, is saved and loaded, all without torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from throughtime.config import build_config
from throughtime.errors import InputError
from throughtime.files import check_new, parse_json
from throughtime.folder import ModelFolder
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Fixed, count_predicted
from throughtime.results import Evaluation
from throughtime.tasks.base import Progress
from throughtime.tasks.description import Description, refuse_options, suggest_evaluation
from throughtime.tasks.language_model import LanguageModel, report_likelihood
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.text.codec import Codec
from throughtime.text.tokenizer import check_normaliser, tokenizer

if TYPE_CHECKING:
    import torch

    from throughtime.data.datasets import Dataset
    from throughtime.ngram.disk_counts import DiskCounts

MAX_MEASURED = 1_000_000
"""Bytes of the first line of metrics.jsonl."""


class NgramLanguageModel(LanguageModel):
    """A language model that counts n-grams; call `count` or `fit` before you use a new one."""

    task = "ngram"
    config_type = NgramConfig
    model: NgramModel
    config: NgramConfig

    @classmethod
    def create(cls, config: NgramConfig, dataset: Dataset, *, network: Any = None) -> Self:
        """Create a model that has counted nothing yet; settings and data that do not fit are refused."""
        if config.minutes is not None:  # the order will be chosen: this is the lowest that fits the lists
            lowest = max(1, len(config.prune), len(config.strengths))
            config = config.model_copy(update={"order": lowest})
        config.build_smoothing()
        config.memory_bytes  # noqa: B018 - refuses what is not a size
        dataset.texts(config.split)  # refuses data of another kind and missing splits
        config = config.complete(dataset)
        check_normaliser(config.normaliser or "none", str(config.tokens))
        return cls(None, None, config)

    @classmethod
    def initialise_from(
        cls, source: Path | str, config: NgramConfig, given: Mapping[str, Any], **options: Any
    ) -> Self:
        """Refuse, since counts come from the data only."""
        raise InputError("init_from", "is for models with weights; an n-gram model is counted from its data")

    @classmethod
    def load(
        cls, folder: ModelFolder, settings: Mapping[str, Any], device: str, *, network: Any = None
    ) -> Self:
        """Load a saved model; the device does not matter."""
        config = build_config(NgramConfig, settings, str(folder.path / "config.json"))
        framing = config.frame(Codec.load(folder.path))
        size = len(framing.codec.vocabulary)
        tensors, where = folder.map_tensors(), str(folder.path / "model.safetensors")
        smoothing = config.build_smoothing() if config.holds_counts else None
        model = NgramModel.from_tensors(tensors, framing.never_predicted, smoothing, where)
        if config.order != model.order:
            raise InputError(
                where, f"holds n-grams of up to {model.order} words, not the order {config.order}"
            )
        if size != model.vocabulary_size:
            raise InputError(
                str(folder.path),
                f"has a vocabulary of {size:,} tokens but counts of {model.vocabulary_size:,}; one of its "
                "files is damaged, so train it again",
            )
        predictor = cls(model, framing, config)
        predictor.open_folder(folder)
        return predictor

    @classmethod
    def read_arpa(cls, path: Path | str, *, tokens: str = "space") -> Self:
        """Read a model from an ARPA file; `tokens` names the tokenizer that splits text into its words."""
        from throughtime.ngram.arpa import read_arpa
        from throughtime.tasks.ngram.export import build_vocabulary

        found = read_arpa(path)
        layout = "lines" if found.has_lines else "stream"
        given = {"data": str(path), "tokens": tokens, "layout": layout, "order": found.model.order}
        config = build_config(NgramConfig, {**given, "smoothing": Fixed.name}, str(path))
        codec = Codec(tokenizer(tokens), build_vocabulary(found.words, str(path)))
        return cls(found.model, config.frame(codec), config)

    @classmethod
    def finish_reason(cls, out: Path, config: NgramConfig) -> str | None:
        """Counting is always finished, since the folder is written as a whole."""
        return "counted"

    def count(self, dataset: Dataset) -> Self:
        """Build the vocabulary of the configured split, and count its n-grams."""
        from throughtime.tasks.ngram.training import count_in_memory

        count_in_memory(self, dataset)
        return self

    def fit(self, dataset: Dataset, out: Path, **options: Any) -> dict[str, Any]:
        """Count, measure the perplexity of the validation split, and save into the new folder `out`."""
        from throughtime.tasks.ngram.training import fit

        return fit(self, dataset, out, **options)

    def summary(self, values: Mapping[str, Any]) -> str:
        """Return a summary of what was counted."""
        stored = ", ".join(f"{count:,}" for count in values["ngrams"])
        perplexity = values["valid_perplexity"]
        measured = "" if perplexity is None else f"\nValidation perplexity {perplexity:.2f}."
        return (
            f"Counted {values['tokens']:,} tokens ({values['tokenizer']}) in {values['seconds']:.1f} s; "
            f"vocabulary {values['vocabulary']:,} with {', '.join(values['reserved'])}.\n"
            f"Stored n-grams of length 1 to {values['order']}: {stored}.{measured}"
        )

    def suggestions(self, dataset: Dataset) -> list[str]:
        """Return commands that evaluate the model and generate text."""
        return [*suggest_evaluation(dataset, self.config.split), "generate {run} --seed 1"]

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure the perplexity of a split."""
        refuse_options(options, (), "is for recurrent language models or translators, not for counted ones")
        return report_likelihood(self.likelihood(dataset, split), self.signature(dataset))

    def save(self, path: Path | str) -> None:
        """Write the model to a new folder, completely or not at all."""
        check_new(path)
        with ModelFolder.create(path) as folder:
            self.write_files(folder, self._validation())

    def write_arpa(self, out: Path | str) -> dict[str, Any]:
        """Write the model as an ARPA file, which KenLM and SRILM read; a name that ends in .gz is packed."""
        from throughtime.graphs import check_new_file
        from throughtime.ngram.arpa import write_arpa
        from throughtime.tasks.ngram.export import arpa_words

        if self.config.backward:
            raise InputError(
                "format", "is 'arpa', which holds models that read from left to right; this one does not"
            )
        check_new_file(out)
        sizes = write_arpa(self.model, arpa_words(self.framing), out)
        return {
            "format": "arpa",
            "order": self.model.order,
            "ngrams": sizes,
            "bytes": Path(out).stat().st_size,
        }

    def open_data(self, data: Any = None, *, skip_bad: bool = False, **options: Any) -> Dataset:
        """Open data; the model of an ARPA file has none of its own."""
        if data is None and not self.has_data:
            raise InputError(
                "data", "is missing: the model was read from an ARPA file and has no data of its own"
            )
        return super().open_data(data, skip_bad=skip_bad, **options)

    def write_files(
        self, folder: ModelFolder, measured: Mapping[str, Any], counts: DiskCounts | None = None
    ) -> None:
        """Write all files of the model; its counts may be files already."""
        self.save_description(folder)
        if counts is None:
            folder.write_tensors(self.model.tensors())
        else:
            folder.write_tensor_files(counts.files)
        folder.write_metrics([measured] if measured else [])
        best = {"perplexity": measured["perplexity"]} if measured else {}
        folder.write_card(self.card({"best": best}))

    def _validation(self) -> dict[str, Any]:
        """Return the measurements on the validation split, if the model folder has them."""
        path = None if self.folder is None else self.folder.path / "metrics.jsonl"
        if path is None or not path.is_file():
            return {}
        with path.open("rb") as file:
            line = file.readline(MAX_MEASURED)
        try:
            measured = dict(parse_json(line.decode())) if line.strip() else {}
            return measured | {"perplexity": float(measured["perplexity"])} if measured else {}
        except (LookupError, TypeError, ValueError, RecursionError):  # the manifest leaves it out
            raise InputError(str(path), "does not begin with a measurement; remove it") from None

    @property
    def has_data(self) -> bool:
        """Whether the model was counted, and not read from an ARPA file."""
        return self.config.smoothing != Fixed.name

    @property
    def device(self) -> torch.device:
        """The CPU, since counts are looked up and not computed."""
        import torch

        return torch.device("cpu")

    @property
    def num_tokens(self) -> int:
        """The number of tokens that were counted."""
        return int(count_predicted(self.model.counts).sum())

    @property
    def num_ngrams(self) -> list[int]:
        """The number of stored n-grams of each length, the shortest first."""
        return [len(level.keys) for level in self.model.counts.levels]

    @property
    def title(self) -> str:
        """The model in one line."""
        words = self.describe()
        return f"{self.config.data}: {words.network}, {sum(self.num_ngrams):,} n-grams, {words.details}"

    def signature(self, dataset: Dataset) -> str:
        """Return how text is read, and what was left out of the model."""
        pruned = ",".join(map(str, self.config.prune))
        return super().signature(dataset) + (f"|prune:{pruned}" if pruned else "")

    def describe(self) -> Description:
        """Return the model in words."""
        config = self.config
        direction = "right to left" if config.backward else "left to right"
        smoothing = f"with {config.smoothing} smoothing" if self.has_data else "of an ARPA file"
        pruned = f"pruned {' '.join(map(str, config.prune))}, " if config.prune else ""
        source = f"split {config.split}, {self.num_tokens:,} tokens" if self.has_data else "an ARPA file"
        return Description(
            f"{'pruned ' if pruned else ''}{config.smoothing} {config.order}-gram model of {config.data}",
            f"{config.order}-grams {smoothing}, {pruned}{direction}",
            f"{self._vocabulary}, layout {config.layout}",
            {
                "data": f"{config.data}, {source}",
                **self._tokens,
                "text": "line by line" if config.layout == "lines" else "one stream",
            },
            ['score FOLDER "dog bites man" "man bites dog"', "generate FOLDER --seed 1"],
            "generate()[0].text",
        )
