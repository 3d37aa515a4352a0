"""The settings of `train fill`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import architecture, initialisation
from throughtime.errors import InputError
from throughtime.fit.config import BatchSize, OutputBias
from throughtime.tasks import text_config as shared

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TEXT_KINDS = ("text", "tags", "pairs", "cards", "labelled", "described")
"""The kinds of data that hold texts."""

FEW_WORDS = 1_000
"""Training words below which rare ones are kept, as there are hardly any others."""
FEW_PASSES = 8
"""Epochs of two layers up to which one layer that predicts all tokens in a pass is better."""
FEWEST_PASSES = 1
"""Epochs of two layers up to which a layer of half the size is better, as it has more updates."""


class FillConfig(shared.TextConfig):
    """A model that fills blanks, its data and its training. Null means: chosen from the data."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"side", "tokens", "max_size"})
    REASONS: ClassVar[dict[str, str]] = {
        "structure": "one layer that predicts all tokens in a pass learns more from few epochs",
    }

    data: shared.Data
    text: shared.TextColumn = None
    source: str | None = Field(None, description="source language of sentence pairs, such as en")
    target: str | None = Field(None, description="target language of sentence pairs, such as fr")
    side: Literal["source", "target"] | None = Field(
        None, description="side of sentence pairs to train on; null: the source"
    )
    tokens: str | None = architecture(
        None,
        description="words: unicode, space, word; char; or parts of words: bpe, unigram, wordpiece; null: "
        "unicode, or space if the data are split into words already",
    )
    min_freq: int = architecture(
        2,
        ge=1,
        description="words that are rarer than this become <unk>; by default 1 for fewer than 1,000 words",
    )
    max_size: int | None = architecture(
        None,
        ge=8,
        description="maximum size of the vocabulary; null: all words, or 1,000 to 8,000 word parts",
    )
    max_length: Annotated[int, Field(ge=2)] = Field(
        100, description="maximum number of tokens of a sentence; longer lines are split into several"
    )
    mask_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.15,
        description="probability that a token is masked, drawn in each epoch; at least one per sentence",
    )

    structure: Literal["masked", "beside"] = architecture(
        "masked",
        description="masked: a hidden token is predicted from the states at its mask; beside: from those on "
        "both sides of it, so that one pass predicts all tokens, with one layer",
    )
    cell: shared.Cell = "lstm"
    embedding_size: shared.EmbeddingSize = 256
    hidden_size: shared.HiddenSizeEachWay = 256
    num_layers: shared.NumLayers = 2
    tied: shared.Tied = True
    layer_norm: shared.LayerNorm = False

    embedding_dropout: shared.EmbeddingDropout = 0.1
    hidden_dropout: shared.HiddenDropout = 0.2
    output_dropout: shared.OutputDropout = 0.2

    output_bias: OutputBias = initialisation("frequencies")

    sampled_words: int | None = Field(
        None,
        ge=0,
        description="words in the softmax during training, in addition to those of the batch: half are the "
        "most frequent, half are drawn at random; 0: all; null: 2,000 for structure=beside on a CPU, or 0",
    )
    batch_size: BatchSize = 64
    max_tokens: shared.MaxTokens = None

    @property
    def data_options(self) -> dict[str, Any]:
        """The options with which `open_dataset` opens the data."""
        return {"source": self.source, "target": self.target, "text": self.text, "layout": "lines"}

    @classmethod
    def derive_settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The structure without masks has one layer."""
        return {"num_layers": 1} if given.get("structure") == "beside" and "num_layers" not in given else {}

    def find_side(self, dataset: Dataset) -> str | None:
        """The side of these data that the model reads; None where the data have no sides."""
        return (self.side or "source") if dataset.kind in ("pairs", "cards") else None

    def settings_for(self, passes: float) -> dict[str, Any]:
        """With time for a few epochs, one layer that predicts all tokens in a pass; a small one for less."""
        if passes >= FEW_PASSES:
            return {}
        chosen: dict[str, Any] = {"batch_size": 128, "lr": 5e-3}
        if not self.model_fields_set & {"structure", "num_layers"}:
            chosen |= {"structure": "beside", "num_layers": 1}
        if passes < FEWEST_PASSES:
            chosen |= {"embedding_size": 128, "hidden_size": 128}
        return {key: value for key, value in chosen.items() if key not in self.model_fields_set}

    def complete(self, dataset: Dataset) -> FillConfig:
        """A copy in which the settings left to the data have their values, as it is saved."""
        if dataset.kind not in TEXT_KINDS:
            raise InputError(dataset.name, f"holds {dataset.kind} data; filling blanks needs text")
        side = self.find_side(dataset)
        if side is None and self.side is not None:
            raise InputError("side", f"is {self.side}, but {dataset.name} does not hold pairs; leave it out")
        if self.structure == "beside" and self.num_layers != 1:
            raise InputError(
                "num_layers",
                f"is {self.num_layers}, but structure=beside has one layer; leave one of them out",
            )
        split_already = dataset.tokens == "space" or dataset.kind == "tags"
        tokens = self.tokens or ("space" if split_already else "unicode")

        def count(most: int) -> int:
            return shared.count_words(dataset.texts("train", side), most)

        size = shared.choose_max_size(self.max_size, tokens, count)
        update = {"side": side, "tokens": tokens, "max_size": size}
        keeps = "min_freq" in self.model_fields_set or not shared.are_whole_words(tokens)
        if not keeps and count(FEW_WORDS) < FEW_WORDS:
            update["min_freq"] = 1
        return self.model_copy(update=update)
