"""A trained word counter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import torch

from outside.wordcount import CountOptions
from outside.wordcount.config import WordCountConfig
from outside.wordcount.training import Counter, WordCountObjective
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import LabelledBatches
from throughtime.folder import ModelFolder
from throughtime.results import Evaluation
from throughtime.runtime.keywords import complete_options
from throughtime.tasks.base import Predictor, Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.text.codec import Codec
from throughtime.text.texts import check_texts

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset


class WordCounterAssets(NamedTuple):
    """The characters."""

    codec: Codec

    def save(self, folder: ModelFolder) -> None:
        """Write them into a model folder."""
        self.codec.save(folder.path)


class WordCounter(Predictor):
    """Counts words: `tt.load("RUN").count_words("how many?")`."""

    task = "wordcount"
    config_type = WordCountConfig

    @classmethod
    def prepare(cls, config: Any, dataset: Dataset) -> tuple[Any, WordCounterAssets]:
        """Find the characters of the training texts."""
        return config, WordCounterAssets(Codec.build(dataset.texts("train"), "char", where=dataset.name))

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: Any) -> WordCounterAssets:
        """Read the characters."""
        return WordCounterAssets(Codec.load(folder.path))

    @classmethod
    def build_network(cls, config: Any, assets: WordCounterAssets) -> Counter:
        """The network that a configuration describes."""
        return Counter(len(assets.codec.vocabulary), **config.arguments_for(Counter))

    def build_objective(self, dataset: Dataset) -> WordCountObjective:
        """Batches, loss and validation on these data."""
        return WordCountObjective(self, list(dataset.texts("train")), list(dataset.texts("valid")))

    def rows(self, texts: Sequence[str]) -> tuple[RaggedIds, list[int]]:
        """Texts as ids, and the number of words of each."""
        return RaggedIds.of(map(self.assets.codec.encode, texts)), [len(text.split()) for text in texts]

    @torch.inference_mode()
    def count_words(
        self, texts: str | Sequence[str], *, progress: Progress | None = None, **options: Unpack[CountOptions]
    ) -> list[float]:
        """About how many words each text has."""
        texts, times = check_texts(texts), complete_options(CountOptions, options)["times"]
        found = [0.0] * len(texts)
        for batch in LabelledBatches(*self.rows(texts), batch_size=64, shuffle=False):
            numbers = self.model(batch.ids.to(self.device), batch.lengths.to(self.device)).tolist()
            for place, number in zip(batch.indices.tolist(), numbers, strict=True):
                found[place] = number * times
        return found

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """The mean squared error on a split."""
        refuse_options(options, (), "is not for word counters")
        texts = list(dataset.texts(split))
        errors = [
            (one - len(text.split())) ** 2 for one, text in zip(self.count_words(texts), texts, strict=True)
        ]
        mse = sum(errors) / len(errors)
        return Evaluation({"mse": mse, "texts": len(texts)}, "tokens:char", f"mse {mse:.4f}")

    def describe(self) -> Description:
        """The model in words."""
        config = self.config
        characters = str(len(self.assets.codec.vocabulary))
        return Description(
            f"Word counter of {config.data}",
            f"{config.num_layers} x {config.cell} of {config.hidden_size}",
            f"{characters} characters",
            {"characters": characters},
            (),
            'count_words("...")',
        )
