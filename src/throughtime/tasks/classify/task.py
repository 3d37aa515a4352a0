"""Classification as a task: from a data set to a model folder and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from throughtime.config import build_config
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.models.weights import read_weights
from throughtime.tasks.classify import network as network
from throughtime.tasks.classify.config import ClassifyConfig
from throughtime.tasks.classify.network import SequenceClassifier
from throughtime.tasks.classify.predictor import TASK as TASK
from throughtime.tasks.classify.predictor import TrainedClassifier, refuse_vectors
from throughtime.tasks.classify.training import ClassifyTask
from throughtime.tasks.labels import Labels, labelled
from throughtime.text.codec import Codec
from throughtime.train.devices import device_of
from throughtime.train.run import inherited_settings

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

CONFIG = ClassifyConfig

SHOWN = 3
ARCHITECTURE = frozenset(
    "tokens min_freq max_size cell embedding_size hidden_size num_layers bidirectional pooling residual "
    "layer_norm".split()
)
"""What a model that starts from another one's weights has from it."""


def made(config: ClassifyConfig, dataset: Dataset) -> TrainedClassifier:
    """A new model for these data, with its first weights drawn from the seed."""
    refuse_vectors(dataset)
    labels = Labels.of(dataset)
    if len(labels) == 1:
        raise InputError(
            dataset.name, f"has the label {labels.names[0]!r} only; a classifier needs two or more"
        )
    config = config.settled(dataset)
    assert config.tokens is not None
    codec = Codec.build(
        (one.text for one in dataset.labelled("train")),
        config.tokens,
        min_freq=config.min_freq,
        max_size=config.max_size,
        reserved=("<pad>", "<unk>"),
        where=dataset.name,
    )
    return with_codec(config, codec, labels)


def with_codec(config: ClassifyConfig, codec: Codec, labels: Labels) -> TrainedClassifier:
    """A new model with a vocabulary and labels that are there already."""
    torch.manual_seed(config.seed)
    model = built(config, codec, labels)
    model.expect(torch.tensor(labels.frequencies))
    return TrainedClassifier(model, codec, labels, config)


def taken_up(out: Path, config: ClassifyConfig) -> TrainedClassifier:
    """The model of a run that goes on; its weights come with the checkpoint."""
    return with_codec(config, Codec.load(out), Labels.load(ModelFolder(out)))


def inherited(source: Path, config: ClassifyConfig, given: Mapping[str, Any]) -> TrainedClassifier:
    """A model that starts from the weights, the vocabulary and the labels of the run `source`."""
    folder = ModelFolder.at(source)
    known = inherited_settings(folder, TASK, ClassifyConfig, ARCHITECTURE, given)
    return load(folder, config.model_copy(update=known).model_dump(mode="json"), "cpu")


def task_of(classifier: TrainedClassifier, dataset: Dataset) -> ClassifyTask:
    """The training task of a model on these data."""
    train = list(labelled(dataset, "train"))
    if strange := next((one.label for one in train if one.label not in classifier.labels), None):
        raise InputError(
            dataset.name, f"has the label {strange!r}, which the model does not know; train a new model"
        )
    valid = list(labelled(dataset, "valid")) if "valid" in dataset.splits else []
    said = [one for one in valid if one.text.strip()]
    # From all over the data, which may be sorted by their labels.
    shown = said[len(said) // (2 * SHOWN) :: max(1, len(said) // SHOWN)][:SHOWN]
    return ClassifyTask(classifier, classifier.rows(train), classifier.rows(valid) if valid else None, shown)


def built(config: ClassifyConfig, codec: Codec, labels: Labels) -> SequenceClassifier:
    """The model that a configuration describes."""
    return network.build(
        len(codec.vocabulary),
        len(labels),
        unknown_id=codec.vocabulary.unk_id,
        cell=config.cell,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        bidirectional=config.bidirectional,
        pooling=config.pooling,
        residual=config.residual,
        layer_norm=config.layer_norm,
        word_dropout=config.word_dropout,
        embedding_dropout=config.embedding_dropout,
        hidden_dropout=config.hidden_dropout,
        output_dropout=config.output_dropout,
        weight_drop=config.weight_drop,
    )


def load(folder: ModelFolder, config: Mapping[str, Any], device: str) -> TrainedClassifier:
    """The model that a run saved: the best so far, where it still trains."""
    settings = build_config(ClassifyConfig, config, str(folder.path / "config.json"))
    codec, labels = Codec.load(folder.path), Labels.load(folder)
    model = built(settings, codec, labels)
    read_weights(model, folder)
    return TrainedClassifier(model.to(device_of(device)).eval(), codec, labels, settings)
