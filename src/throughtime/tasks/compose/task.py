"""Writing from a label or a vector as a task: from a data set to a model folder and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from throughtime.config import build_config
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.models.weights import read_weights
from throughtime.tasks.compose import network as conditioned
from throughtime.tasks.compose.config import ComposeConfig, texts_of
from throughtime.tasks.compose.network import ConditionedLanguageModel, LabelCondition, VectorCondition
from throughtime.tasks.compose.predictor import TASK as TASK
from throughtime.tasks.compose.predictor import TrainedComposer
from throughtime.tasks.compose.training import ComposeTask
from throughtime.tasks.labels import Labels
from throughtime.text.codec import Codec
from throughtime.train.devices import device_of
from throughtime.train.run import inherited_settings

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

CONFIG = ComposeConfig

ARCHITECTURE = frozenset(
    "tokens min_freq max_size vector_size condition_size fed cell embedding_size hidden_size num_layers "
    "tied layer_norm".split()
)
"""What a model that starts from another one's weights has from it."""


def made(config: ComposeConfig, dataset: Dataset) -> TrainedComposer:
    """A new model for these data, with its first weights drawn from the seed."""
    labels = None if dataset.kind == "described" else Labels.of(dataset)
    config = config.settled(dataset)
    assert config.tokens is not None
    codec = Codec.build(
        texts_of(dataset, "train"),
        config.tokens,
        min_freq=config.min_freq,
        max_size=config.max_size,
        where=dataset.name,
    )
    composer = with_codec(config, codec, labels)
    if isinstance(composer.model.encoder, VectorCondition):
        composer.model.encoder.standardise(torch.tensor([one.vector for one in dataset.records("train")]))
    return composer


def with_codec(config: ComposeConfig, codec: Codec, labels: Labels | None) -> TrainedComposer:
    """A new model with a vocabulary that is there already."""
    torch.manual_seed(config.seed)
    return TrainedComposer(built(config, codec, labels), codec, labels, config)


def taken_up(out: Path, config: ComposeConfig) -> TrainedComposer:
    """The model of a run that goes on; its weights come with the checkpoint."""
    return with_codec(config, Codec.load(out), labels_of(config, ModelFolder(out)))


def inherited(source: Path, config: ComposeConfig, given: Mapping[str, Any]) -> TrainedComposer:
    """A model that starts from the weights, the vocabulary and the labels of the run `source`."""
    folder = ModelFolder.at(source)
    known = inherited_settings(folder, TASK, ComposeConfig, ARCHITECTURE, given)
    return load(folder, config.model_copy(update=known).model_dump(mode="json"), "cpu")


def task_of(composer: TrainedComposer, dataset: Dataset) -> ComposeTask:
    """The training task of a model on these data."""
    train = composer.texts(dataset, "train")
    has_valid = "valid" in dataset.splits and any(True for _ in dataset.records("valid"))
    return ComposeTask(composer, train, composer.texts(dataset, "valid") if has_valid else None)


def labels_of(config: ComposeConfig, folder: ModelFolder) -> Labels | None:
    """The labels that a saved model writes from; none where it writes from vectors."""
    return None if config.vector_size else Labels.load(folder)


def built(config: ComposeConfig, codec: Codec, labels: Labels | None) -> ConditionedLanguageModel:
    """The model that a configuration describes."""
    condition: LabelCondition | VectorCondition
    if labels is not None:
        condition = LabelCondition(len(labels), config.condition_size)
    else:
        assert config.vector_size is not None
        condition = VectorCondition(config.vector_size, config.condition_size)
    begin = codec.vocabulary.bos_id
    if begin is None:
        raise InputError("tokens", f"{config.tokens!r} has no <bos>; choose another tokenizer")
    return conditioned.build(
        condition,
        len(codec.vocabulary),
        bos_id=begin,
        cell=config.cell,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        fed=config.fed,
        tied=config.tied,
        layer_norm=config.layer_norm,
        embedding_dropout=config.embedding_dropout,
        hidden_dropout=config.hidden_dropout,
        output_dropout=config.output_dropout,
    )


def load(folder: ModelFolder, config: Mapping[str, Any], device: str) -> TrainedComposer:
    """The model that a run saved: the best so far, where it still trains."""
    settings = build_config(ComposeConfig, config, str(folder.path / "config.json"))
    codec = Codec.load(folder.path)
    labels = labels_of(settings, folder)
    model = built(settings, codec, labels)
    read_weights(model, folder)
    composer = TrainedComposer(model.to(device_of(device)).eval(), codec, labels, settings)
    composer.generation = folder.read_json("generation_config.json")
    return composer
