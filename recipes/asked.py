"""Further results of a row: translations or fillings of chosen sentences, and the training loss."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from throughtime.data.datasets import Dataset, open_dataset
from throughtime.tasks.base import load

if TYPE_CHECKING:
    from throughtime.tasks.fill.model import Filler
    from throughtime.tasks.translate.model import Translator


def training_loss(run: Path) -> float:
    """Nats per real target token of the training pairs, the end tokens among them and dropout off."""
    translator: Translator = load(run)
    return translator.likelihood(_data(translator), "train").cross_entropy


def translations(run: Path, sentences: Sequence[str]) -> list[str]:
    """The translation of each sentence, with the default search."""
    translator: Translator = load(run)
    return [one.text for one in translator.translate(list(sentences))]


def fillings(run: Path, sentences: Sequence[str]) -> list[str]:
    """The best words for the blanks of each sentence, with their probabilities."""
    filler: Filler = load(run)
    return [
        ", ".join(f"{' '.join(one.tokens)} {one.probability:.2f}" for one in (own, *own.alternatives))
        for own in filler.fill(list(sentences))
    ]


def trained_on(run: Path, sentences: Sequence[str]) -> list[str]:
    """The sentences that are in the training pairs of a translator."""
    known = {pair.source for pair in _data(load(run)).pairs("train")}
    return [sentence for sentence in sentences if sentence in known]


def _data(translator: Translator) -> Dataset:
    return open_dataset(translator.config.data, **translator.config.data_options)
