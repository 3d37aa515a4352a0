"""Filling blanks as a task: from a data set to a model folder and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from throughtime.config import build_config
from throughtime.data.batching import RaggedIds
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.models.weights import read_weights
from throughtime.tasks.fill import network as models
from throughtime.tasks.fill.config import FillConfig
from throughtime.tasks.fill.network import MaskedTokens
from throughtime.tasks.fill.predictor import TASK as TASK
from throughtime.tasks.fill.predictor import TrainedFiller
from throughtime.tasks.fill.training import FillTask
from throughtime.text.blanks import draw_blank, mask_of
from throughtime.text.codec import Codec
from throughtime.train.devices import device_of
from throughtime.train.run import inherited_settings

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

CONFIG = FillConfig
RESERVED = ("<unk>", "[MASK]")
SAMPLES = 3

ARCHITECTURE = frozenset(
    "tokens min_freq max_size cell embedding_size hidden_size num_layers tied layer_norm".split()
)
"""What a model that starts from another one's weights has from it."""


def made(config: FillConfig, dataset: Dataset) -> TrainedFiller:
    """A new model for these data, with its first weights drawn from the seed."""
    config = config.settled(dataset)
    assert config.tokens is not None
    codec = Codec.build(
        dataset.texts("train", config.side),
        config.tokens,
        min_freq=config.min_freq,
        max_size=config.max_size,
        reserved=RESERVED,
        where=dataset.name,
    )
    said = any(text.strip() for text in dataset.texts("train", config.side))
    if said and len(codec.vocabulary) == len(RESERVED):
        raise InputError(
            "min_freq", f"is {config.min_freq}, and every word of {dataset.name} is rarer; lower it"
        )
    return with_codec(config, codec)


def with_codec(config: FillConfig, codec: Codec) -> TrainedFiller:
    """A new model with a vocabulary that is there already."""
    torch.manual_seed(config.seed)
    return TrainedFiller(built(config, codec), codec, config)


def taken_up(out: Path, config: FillConfig) -> TrainedFiller:
    """The model of a run that goes on; its weights come with the checkpoint."""
    return with_codec(config, Codec.load(out))


def inherited(source: Path, config: FillConfig, given: Mapping[str, Any]) -> TrainedFiller:
    """A model that starts from the weights and the vocabulary of the run `source`."""
    folder = ModelFolder.at(source)
    known = inherited_settings(folder, TASK, FillConfig, ARCHITECTURE, given)
    return load(folder, config.model_copy(update=known).model_dump(mode="json"), "cpu")


def task_of(filler: TrainedFiller, dataset: Dataset) -> FillTask:
    """The training task of a model on these data."""
    train = filler.ids(dataset, "train")
    held_out = dataset.texts("valid", filler.config.side_of(dataset)) if "valid" in dataset.splits else ()
    if not any(text.strip() for text in held_out):  # a few lines leave none for it
        return FillTask(filler, train, None, [])
    valid = filler.ids(dataset, "valid")
    return FillTask(filler, train, valid, shown(valid, filler.codec))


def shown(rows: RaggedIds, codec: Codec) -> list[str]:
    """A few sentences from all over the data, short of a word in the middle."""
    unk = codec.vocabulary.unk_id
    fit = [number for number in range(len(rows)) if len(rows[number]) > 2 and unk not in rows[number]]
    chosen = fit[len(fit) // (2 * SAMPLES) :: max(1, len(fit) // SAMPLES)][:SAMPLES]
    return [draw_blank(rows[number].tolist(), len(rows[number]) // 2, codec) for number in chosen]


def built(config: FillConfig, codec: Codec) -> MaskedTokens:
    """The model that a configuration describes."""
    return models.build(
        len(codec.vocabulary),
        mask_id=mask_of(codec),
        cell=config.cell,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        tied=config.tied,
        layer_norm=config.layer_norm,
        embedding_dropout=config.embedding_dropout,
        hidden_dropout=config.hidden_dropout,
        output_dropout=config.output_dropout,
    )


def load(folder: ModelFolder, config: Mapping[str, Any], device: str) -> TrainedFiller:
    """The model that a run saved: the best so far, where it still trains."""
    settings = build_config(FillConfig, config, str(folder.path / "config.json"))
    codec = Codec.load(folder.path)
    model = built(settings, codec)
    read_weights(model, folder)
    return TrainedFiller(model.to(device_of(device)).eval(), codec, settings)
