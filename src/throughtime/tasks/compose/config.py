"""The settings of `train compose`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AliasChoices, Field

from throughtime.config import Effect, architecture
from throughtime.errors import InputError
from throughtime.fit.config import Share
from throughtime.models.widths import tied_widths
from throughtime.tasks import text_config as shared
from throughtime.tasks.labels import column_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from throughtime.data.datasets import Dataset


class ComposeConfig(shared.TextConfig):
    """A writer of texts from labels or vectors, its data and its training. Null: chosen from the data."""

    EPOCHS: ClassVar[int] = 15
    SUGGESTED: ClassVar[frozenset[str]] = frozenset(
        {"text", "condition", "tokens", "max_size", "vector_size"}
    )
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *shared.TextConfig.EFFECTS,
        Effect(
            "embedding_size",
            lambda config: not config.tied or config.embedding_size == config.hidden_size,
            "with tied=true, where it equals hidden_size; leave one of the three out",
        ),
    )

    data: shared.Data
    condition: str | None = Field(
        None,
        validation_alias=AliasChoices("condition", "label"),  # its name in older runs
        description="column or field of the condition, a label or a vector; null: vector, or a common name "
        "of labels such as stars",
    )
    text: shared.TextColumn = None
    tokens: str | None = architecture(
        None,
        description="words: unicode, space, ...; char; or parts of words: bpe, unigram, wordpiece; null: "
        "unicode, or space for tagged sentences",
    )
    min_freq: shared.MinFreq = 1
    max_size: shared.MaxSize = None
    max_length: Annotated[int, Field(ge=2)] = Field(
        100, description="maximum number of tokens of a training text, <eos> included; the rest is cut off"
    )

    vector_size: int | None = architecture(
        None, ge=0, description="length of the vectors in the data, 0 for labels; null: taken from the data"
    )
    condition_size: shared.Size = architecture(
        64, description="size of the learned vector that stands for a label, or for a vector of the data"
    )
    fed: bool = architecture(
        True, description="feed the label or vector at every step, not only as the first state"
    )
    cell: shared.Cell = "lstm"
    embedding_size: shared.TiedEmbeddingSize = 256
    hidden_size: shared.HiddenSize = 256
    num_layers: shared.NumLayers = 1
    tied: shared.Tied = True
    layer_norm: shared.LayerNorm = False

    embedding_dropout: shared.EmbeddingDropout = 0.2
    hidden_dropout: shared.HiddenDropout = 0.2
    output_dropout: shared.OutputDropout = 0.3
    label_smoothing: Share = Field(
        0.0, description="share of the target probability that is spread over all tokens"
    )

    max_tokens: shared.MaxTokens = None

    @classmethod
    def derive_settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that follow from the given sizes if the output shares the embedding's weights."""
        return tied_widths(given)

    @property
    def data_options(self) -> dict[str, Any]:
        """The options with which `open_dataset` opens the data."""
        return {"condition": self.condition, "text": self.text, "kind": "described"}

    def complete(self, dataset: Dataset) -> ComposeConfig:
        """A copy in which the settings left to the data have their values, as it is saved."""
        tokens = self.tokens or ("space" if dataset.kind == "tags" else "unicode")
        length = 0
        if dataset.kind == "described":
            length = next((len(record.vector) for record in dataset.records("train")), 0)
            if not length:
                raise InputError(f"{dataset.name}, split train", "holds no text with a vector")
        if self.vector_size not in (None, length):
            raise InputError("vector_size", f"is {self.vector_size}, but the data have {length} numbers")
        size = shared.choose_max_size(
            self.max_size, tokens, lambda most: shared.count_words(read_texts(dataset, "train"), most)
        )
        values = {"tokens": tokens, "max_size": size, "vector_size": length}
        return self.model_copy(update={**values, **column_settings(dataset, "condition")})


def read_texts(dataset: Dataset, split: str) -> Iterator[str]:
    """The texts of a split, without their labels or vectors."""
    records = dataset.records(split) if dataset.kind == "described" else dataset.labelled_texts(split)
    return (record.text for record in records)
