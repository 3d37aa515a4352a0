"""The counted language model as a task: from a data set to a model folder and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from throughtime.config import Config, build_config
from throughtime.errors import InputError
from throughtime.files import whole_folder
from throughtime.folder import ModelFolder
from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import Smoothing, build_smoothing
from throughtime.tasks.language.framing import Framing, suggested
from throughtime.tasks.language.predictor import LanguageModel
from throughtime.tasks.resuming import going_on

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TASK = "ngram"
OPTIONS = {"normaliser": "--normalise", "strengths": "--strength"}  # where they are not called as the setting


class NgramConfig(Config):
    """All that `train ngram` can be told. None means: as the data set suggests."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"tokens", "normaliser", "layout"})

    data: str
    split: str = "train"
    tokens: str | None = None
    normaliser: str | None = None
    layout: Literal["lines", "stream"] | None = None
    min_freq: int = 1
    max_size: int | None = None
    order: int = 3
    smoothing: str = "kneser-ney"
    strengths: tuple[float, ...] = ()
    backward: bool = False

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"layout": self.layout}

    def settled(self, dataset: Dataset) -> NgramConfig:
        """The same with the data set's suggestions filled in, as it is saved."""
        return self.model_copy(update=suggested(dataset, self.tokens, self.normaliser, self.layout))


class NgramLanguageModel(LanguageModel):
    """An n-gram model with its codec and the configuration that made it."""

    model: NgramModel

    def __init__(self, model: NgramModel, framing: Framing, config: NgramConfig) -> None:
        super().__init__(model, framing)
        self.config = config

    def save(
        self, path: Path | str, metrics: list[Mapping[str, Any]], card: str, *, skip_bad: bool = False
    ) -> None:
        """Write the model folder, whole or not at all; `skip_bad`: bad records of its data were left out."""
        with whole_folder(path) as temporary:
            folder = ModelFolder(temporary)
            folder.write_config(TASK, self.config.model_dump(mode="json"))
            folder.write_tensors(self.model.tensors())
            self.framing.codec.save(temporary)
            folder.write_json("generation_config.json", {"do_sample": True, "max_new_tokens": 100})
            folder.write_metrics(metrics)
            folder.write_card(card)
            if skip_bad:
                folder.write_skipping()


def smoothing_of(config: NgramConfig) -> Smoothing:
    """The smoothing that is wished for; refuses what does not fit it or the order."""
    chosen: Smoothing = build_smoothing(config.smoothing, config.strengths)
    if len(config.strengths) > config.order:
        raise InputError(
            "--strength",
            f"is given {len(config.strengths)} times, but the order is {config.order}; "
            "give it at most once per order",
        )
    return chosen


def check_same(config: NgramConfig, out: Path) -> None:
    """Refuse a folder that holds anything but the model of these settings."""
    going_on(
        NgramConfig,
        out,
        TASK,
        config.model_dump(),
        option=lambda key: OPTIONS.get(key, f"--{key.replace('_', '-')}"),
    )


def fit(config: NgramConfig, dataset: Dataset) -> NgramLanguageModel:
    """Count a split of a data set."""
    from throughtime.text.codec import Codec
    from throughtime.text.tokenizer import check_normaliser

    config = config.settled(dataset)
    assert config.tokens is not None
    check_normaliser(config.normaliser or "none", config.tokens, OPTIONS["normaliser"])
    chosen = smoothing_of(config)
    marked = config.layout == "lines"
    codec = Codec.build(
        dataset.texts(config.split),
        config.tokens,
        min_freq=config.min_freq,
        max_size=config.max_size,
        reserved=("<unk>", "<bos>", "<eos>") if marked else ("<unk>",),
        normaliser=config.normaliser or "none",
        where=dataset.name,
    )
    framing = Framing(codec, marked, config.backward)
    sequences = framing.sequences(dataset.texts(config.split))
    counts = NgramCounts.of(sequences, config.order, len(codec.vocabulary), framing.never_predicted)
    return NgramLanguageModel(NgramModel(counts, chosen), framing, config)


def load(folder: ModelFolder, config: Mapping[str, Any], device: str) -> NgramLanguageModel:
    """The model that `save` wrote. Counts are looked up, not computed: the device does not matter."""
    from throughtime.text.codec import Codec

    made = build_config(NgramConfig, config, str(folder.path / "config.json"))
    codec, tensors = Codec.load(folder.path), folder.read_tensors()
    framing = Framing(codec, made.layout == "lines", made.backward)
    chosen = build_smoothing(made.smoothing, made.strengths)
    model = NgramModel.from_tensors(tensors, framing.never_predicted, chosen)
    if len(codec.vocabulary) != model.vocabulary_size:
        raise InputError(
            str(folder.path),
            f"has a vocabulary of {len(codec.vocabulary):,} tokens but counts of {model.vocabulary_size:,}; "
            "one of its files is damaged, so train it again",
        )
    loaded = NgramLanguageModel(model, framing, made)
    loaded.generation = folder.read_json("generation_config.json")
    return loaded
