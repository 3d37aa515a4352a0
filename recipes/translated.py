"""What the row of a translator tells beside its BLEU: the loss on its training pairs, chosen sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from throughtime.data.datasets import open_dataset
from throughtime.tasks import load
from throughtime.tasks.trained_translator import TrainedTranslator


def training_loss(run: Path) -> float:
    """Nats per real target token of the training pairs, the end tokens among them and dropout off."""
    translator: TrainedTranslator = load(run)
    opening = translator.config.opening
    dataset = open_dataset(translator.config.data, source=opening.source, target=opening.target)
    return translator.likelihood(dataset, "train").cross_entropy


def said(run: Path, sentences: Sequence[str]) -> list[str]:
    """What it makes of each sentence, searched as it searches if nobody says otherwise."""
    translator: TrainedTranslator = load(run)
    return [own[0].text for own in translator.translate(list(sentences))]
