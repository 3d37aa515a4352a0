"""The settings of `train classify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from throughtime.config import Effect, architecture, one_of
from throughtime.fit.config import Share
from throughtime.tasks import text_config as shared
from throughtime.tasks.labels import column_settings

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset


class ClassifyConfig(shared.TextConfig):
    """A classifier of texts, its data and its training. Null means: chosen from the data."""

    EPOCHS: ClassVar[int] = 10
    SUGGESTED: ClassVar[frozenset[str]] = frozenset(
        {"text", "label", "id", "time", "features", "tokens", "max_size"}
    )
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *shared.TextConfig.EFFECTS,
        Effect(
            "residual",
            lambda config: (
                config.num_layers > 1
                or config.embedding_size == config.hidden_size * (1 + config.bidirectional)
            ),
            "where the input and the output of the only layer differ in size; set num_layers or "
            "embedding_size",
        ),
    )

    data: shared.Data
    text: shared.TextColumn = None
    label: shared.LabelColumn = None
    id: shared.IdColumn = None
    time: shared.TimeColumn = None
    features: shared.FeatureColumns = None
    tokens: str | None = architecture(
        None,
        description="words: unicode (any script), basic-english (lower case), space, word; char; or parts of "
        "words: bpe, unigram, wordpiece; null: unicode, or basic-english for catalogue data that are split "
        "into words already",
    )
    min_freq: shared.MinFreq = 1
    max_size: shared.MaxSize = None
    max_length: shared.Size = Field(
        500, description="maximum number of tokens of a text; the rest is cut off, in training and prediction"
    )

    cell: shared.Cell = "lstm"
    embedding_size: shared.EmbeddingSize = 128
    hidden_size: shared.HiddenSizeEachWay = 128
    num_layers: shared.NumLayers = 1
    bidirectional: bool = architecture(True, description="read texts in both directions")
    pooling: Annotated[str, one_of("throughtime.layers.pooling:POOLINGS")] = architecture(
        "max", description="how all steps become one vector: last, mean, max or attention"
    )
    residual: shared.Residual = False
    layer_norm: shared.LayerNorm = False

    word_dropout: shared.WordDropout = 0.1
    embedding_dropout: shared.EmbeddingDropout = 0.3
    hidden_dropout: shared.HiddenDropout = 0.2
    output_dropout: shared.OutputDropout = 0.3
    weight_drop: shared.WeightDrop = 0.0
    label_smoothing: Share = Field(
        0.0, description="share of the target probability that is spread over all labels"
    )

    max_tokens: shared.MaxTokens = None
    choose_by: Annotated[
        str, one_of("throughtime.metrics.measures:MEASURES", "accuracy", "macro_f1", "log_loss")
    ] = Field(
        "log_loss",
        description="validation measure that decides which weights are kept; on few texts, accuracy and "
        "macro_f1 soon stop changing",
    )

    @property
    def data_options(self) -> dict[str, Any]:
        """The options with which `open_dataset` opens the data."""
        return {"text": self.text, "label": self.label, **shared.vector_options(self, "labelled")}

    def complete(self, dataset: Dataset) -> ClassifyConfig:
        """A copy in which the settings left to the data have their values, as it is saved."""
        if dataset.kind == "vectors":
            return self.model_copy(update=column_settings(dataset))
        # Only catalogue data say that they are split into words; those with labels are all English.
        tokens = self.tokens or ("basic-english" if dataset.tokens == "space" else "unicode")
        texts = (record.text for record in dataset.labelled_texts("train"))
        size = shared.choose_max_size(self.max_size, tokens, lambda most: shared.count_words(texts, most))
        columns = column_settings(dataset)
        return self.model_copy(update={"tokens": tokens, "max_size": size, **columns})
