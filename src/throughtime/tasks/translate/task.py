"""Translation as a task: from a data set to a model folder and back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from throughtime.config import build_config
from throughtime.folder import ModelFolder
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.models.weights import read_weights
from throughtime.tasks.translate import network as presets
from throughtime.tasks.translate.codecs import SIDES, Codecs
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.direction import swapped_sides
from throughtime.tasks.translate.predictor import Generation
from throughtime.tasks.translate.trained import TASK as TASK
from throughtime.tasks.translate.trained import TrainedTranslator
from throughtime.tasks.translate.training import TranslateTask
from throughtime.text.codec import Codec
from throughtime.text.input_warnings import blank
from throughtime.train.devices import device_of
from throughtime.train.run import inherited_settings
from throughtime.train.task import Task

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

CONFIG = TranslateConfig

ARCHITECTURE = frozenset(
    "tokens shared min_freq max_size structure cell embedding_size hidden_size encoder_size num_layers "
    "bidirectional attention scaled context bridge tied layer_norm".split()
)
"""What a model that starts from another one's weights has from it."""
FIRST_WEIGHTS = frozenset({"output_bias"})
"""What has no effect there."""


def made(config: TranslateConfig, dataset: Dataset) -> TrainedTranslator:
    """A new model for these data, with its first weights drawn from the seed."""
    config = config.settled(dataset)

    def codec(side: str | None) -> Codec:
        texts = dataset.texts("train", side)
        where = dataset.name if side is None else f"{dataset.name}, {side}"
        return Codec.build(
            texts, config.tokens, min_freq=config.min_freq, max_size=config.max_size, where=where
        )

    if config.shared:
        for side in SIDES:
            if not any(text.strip() for text in dataset.texts("train", side)):
                raise blank(f"{dataset.name}, {side}")
        shared = codec(None)
        codecs = Codecs(shared, shared)
    else:
        codecs = Codecs(codec("source"), codec("target"))
    translator = with_codecs(config, codecs)
    if config.output_bias == "frequencies":
        _, target = translator.ids(dataset, "train")
        counts = np.bincount(target.flat, minlength=len(codecs.target.vocabulary))
        counts[codecs.end_id] += len(target)
        translator.model.head.begin_with(torch.from_numpy(counts))
    return translator


def with_codecs(config: TranslateConfig, codecs: Codecs) -> TrainedTranslator:
    """A new model with vocabularies that are there already."""
    torch.manual_seed(config.seed)
    return TrainedTranslator(built(config, codecs), codecs, config)


def taken_up(out: Path, config: TranslateConfig) -> TrainedTranslator:
    """The model of a run that goes on; its weights come with the checkpoint."""
    return with_codecs(config, Codecs.load(out))


def task_of(translator: TrainedTranslator, dataset: Dataset) -> Task:
    """The training task of a model on these data."""
    config = translator.config
    train = translator.ids(dataset, "train")
    usual = int(np.quantile(train[0].lengths, 0.999)) + 1 if len(train[0]) else 2  # and the end mark
    most = max(2, min(config.max_length, usual))
    translator.data_notes = swapped_sides(dataset, config.source, config.target)
    translator.generation = translator.generation.model_copy(update={"max_source_tokens": most})
    if "valid" not in dataset.splits:
        return TranslateTask(translator, train, None, [])
    judged = list(itertools.islice(dataset.pairs("valid"), config.valid_sentences))
    return TranslateTask(translator, train, translator.ids(dataset, "valid") if judged else None, judged)


def built(config: TranslateConfig, codecs: Codecs) -> EncoderDecoder:
    """The model that a configuration describes."""
    return presets.build(
        config.structure,
        len(codecs.source.vocabulary),
        len(codecs.target.vocabulary),
        bos_id=codecs.begin_id,
        cell=config.cell,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        encoder_hidden_size=config.encoder_size,
        num_layers=config.num_layers,
        bidirectional=config.bidirectional,
        context=config.context,
        attention=config.attention,
        scaled=config.scaled,
        bridge=config.bridge,
        tied=config.tied,
        shared_embedding=codecs.shared,
        embedding_dropout=config.embedding_dropout,
        hidden_dropout=config.hidden_dropout,
        encoder_dropout=config.encoder_dropout,
        output_dropout=config.output_dropout,
        layer_norm=config.layer_norm,
    )


def inherited(source: Path, config: TranslateConfig, given: Mapping[str, Any]) -> TrainedTranslator:
    """A model that starts from the weights and the vocabularies of the run `source`."""
    folder = ModelFolder.at(source)
    known = inherited_settings(folder, TASK, TranslateConfig, ARCHITECTURE, given, FIRST_WEIGHTS)
    return load(folder, config.model_copy(update=known).model_dump(mode="json"), "cpu")


def load(folder: ModelFolder, config: Mapping[str, Any], device: str) -> TrainedTranslator:
    """The model that a run saved: the best so far, where it still trains."""
    settings = build_config(TranslateConfig, config, str(folder.path / "config.json"))
    codecs = Codecs.load(folder.path)
    model = built(settings, codecs)
    read_weights(model, folder)
    translator = TrainedTranslator(model.to(device_of(device)).eval(), codecs, settings)
    where = str(folder.path / "generation_config.json")
    translator.generation = build_config(Generation, folder.read_json("generation_config.json"), where)
    return translator
