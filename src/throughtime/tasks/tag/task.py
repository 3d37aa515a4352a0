"""Tagging as a task: from a data set to a model folder and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from throughtime.config import build_config
from throughtime.folder import ModelFolder
from throughtime.models.weights import read_weights
from throughtime.tasks.tag.codec import TagCodec
from throughtime.tasks.tag.config import TagConfig
from throughtime.tasks.tag.languages import TagLanguage, copies, opened
from throughtime.tasks.tag.network import Tagger
from throughtime.tasks.tag.predictor import TASK as TASK
from throughtime.tasks.tag.predictor import TrainedTagger, sentences_of
from throughtime.tasks.tag.training import TagTask
from throughtime.train.devices import device_of
from throughtime.train.run import inherited_settings

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

CONFIG = TagConfig

ARCHITECTURE = frozenset(
    "lowercase min_freq characters max_characters intents language_models cell word_size character_size "
    "character_hidden_size language_size hidden_size num_layers crf".split()
)
"""What a model that starts from another one's weights has from it."""


def made(config: TagConfig, dataset: Dataset) -> TrainedTagger:
    """A new model for these data, with its first weights drawn from the seed."""
    records = sentences_of(dataset, "train")
    codec = TagCodec.build(
        records,
        lowercase=config.lowercase,
        min_freq=config.min_freq,
        max_characters=config.max_characters,
    )
    return with_codec(config.settled(records), codec, opened(config.language_models))


def with_codec(config: TagConfig, codec: TagCodec, languages: Sequence[TagLanguage] = ()) -> TrainedTagger:
    """A new model with vocabularies and language models that are there already."""
    torch.manual_seed(config.seed)
    return TrainedTagger(built(config, codec, languages), codec, config, languages)


def taken_up(out: Path, config: TagConfig) -> TrainedTagger:
    """The model of a run that goes on; its weights come with the checkpoint."""
    return with_codec(config, _codec(out, config), opened(copies(out, len(config.language_models))))


def inherited(source: Path, config: TagConfig, given: Mapping[str, Any]) -> TrainedTagger:
    """A model that starts from the weights and the vocabularies of the run `source`."""
    folder = ModelFolder.at(source)
    known = inherited_settings(folder, TASK, TagConfig, ARCHITECTURE, given)
    return load(folder, {**config.model_dump(mode="json"), **known}, "cpu")


def task_of(tagger: TrainedTagger, dataset: Dataset) -> TagTask:
    """The training task of a model on these data."""
    train = tagger.codec.taught(
        sentences_of(dataset, "train"), tagger.languages, labelled=bool(tagger.config.intents)
    )
    valid = sentences_of(dataset, "valid") if "valid" in dataset.splits else []
    return TagTask(tagger, train, valid)


def built(config: TagConfig, codec: TagCodec, languages: Sequence[TagLanguage] = ()) -> Tagger:
    """The model that a configuration describes."""
    return Tagger(
        codec.vectors,
        len(codec.characters) if config.characters else 0,
        len(codec.tags),
        len(codec.labels) if config.intents and codec.labels is not None else 0,
        cell=config.cell,
        word_size=config.word_size,
        character_size=config.character_size,
        character_hidden_size=config.character_hidden_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        crf=config.crf,
        word_dropout=config.word_dropout,
        input_dropout=config.input_dropout,
        language_dropout=config.language_dropout,
        hidden_dropout=config.hidden_dropout,
        output_dropout=config.output_dropout,
        variational=config.variational,
        readers=[language.reader for language in languages],
        language_size=config.language_size,
    )


def load(folder: ModelFolder, config: Mapping[str, Any], device: str) -> TrainedTagger:
    """The model that a run saved: the best so far, where it still trains."""
    settings = build_config(TagConfig, config, str(folder.path / "config.json"))
    codec, languages = (
        _codec(folder.path, settings),
        opened(copies(folder.path, len(settings.language_models))),
    )
    model = built(settings, codec, languages)
    read_weights(model, folder)
    return TrainedTagger(model.to(device_of(device)).eval(), codec, settings, languages)


def _codec(folder: Path, config: TagConfig) -> TagCodec:
    return TagCodec.load(
        folder,
        lowercase=config.lowercase,
        min_freq=config.min_freq,
        max_characters=config.max_characters,
    )
