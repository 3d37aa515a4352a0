"""The settings of `train classify`."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from throughtime.config import Effect, architecture, one_of
from throughtime.fit.config import Share
from throughtime.tasks import text_config as shared
from throughtime.tasks.labels import column_settings
from throughtime.text.grams import WORD

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

PATIENCE, MANY_TEXTS = 3, 2_000
"""Epochs without improvement after which a run of default length ends, and the texts that this takes."""
MANY_UNKNOWN, MIN_WORDS = 0.2, 100
"""Share of unknown words in the validation data, of as many or more, above which the tokens are not words."""
SHORT = 4
"""Number of words below which a text is short, in the mean."""
MAX_TEXTS, MAX_CHARACTERS = 20_000, 1_000
"""Number of texts, and of the first characters of each, in which words are counted for that."""
SEQUENCE_CONVOLUTIONS = 1_500_000
"""Number of pooled convolutions of all training sequences together, as far as the setting allows."""
MIN_GRAMS, MAX_GRAMS, MAX_WEIGHTS = 2**10, 2**17, 2**22
"""Number of n-grams, and of their weights for all labels."""


class ClassifyConfig(shared.TextConfig):
    """A classifier of texts, its data and its training. Null means: chosen from the data."""

    EPOCHS: ClassVar[int] = 10
    SUGGESTED: ClassVar[frozenset[str]] = frozenset(
        {"text", "label", "tokens", "max_size", "grams", "convolutions", "early_stopping"}
        | shared.VECTOR_SETTINGS
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
        "words: bpe, unigram, wordpiece; null: unicode, or char or bpe if many words are unknown; "
        "basic-english for catalogue data that are split into words already",
    )
    min_freq: shared.MinFreq = 1
    max_size: shared.MaxSize = None
    max_length: shared.Size = Field(
        500,
        description="maximum number of tokens that the network reads at once; a longer text is read in "
        "parts, whose probabilities are averaged",
    )
    convolutions: int | None = architecture(
        None,
        ge=0,
        description="of vectors: number of pooled convolutions beside the network; 0: none; null: 2,520, "
        "of few sequences up to 10,080",
    )
    grams: int | None = architecture(
        None,
        ge=0,
        description="maximum number of n-grams of words and letters, with weights beside the network; "
        "0: the network alone; null: what the data suggest",
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
            rows = sum(1 for _ in dataset.records("train"))
            number = self.convolutions
            if number is None:
                number = min(max(SEQUENCE_CONVOLUTIONS // max(1, rows), 2_520), 10_080) // 84 * 84
            return self.model_copy(update={"grams": 0, "convolutions": number, **column_settings(dataset)})
        # Only catalogue data say that they are split into words; those with labels are all English.
        split = "basic-english" if dataset.tokens == "space" else None
        tokens = self.tokens or split or suggest_tokens(dataset)
        texts = (record.text for record in dataset.labelled_texts("train"))
        size = shared.choose_max_size(self.max_size, tokens, lambda most: shared.count_words(texts, most))
        grams = suggest_grams(dataset) if self.grams is None else self.grams
        many = sum(1 for _ in itertools.islice(dataset.labelled_texts("train"), MANY_TEXTS)) == MANY_TEXTS
        patience = PATIENCE if grams and many and self.minutes is None and not self.epochs else None
        chosen = {"early_stopping": self.early_stopping or patience, **column_settings(dataset)}
        return self.model_copy(update={"tokens": tokens, "max_size": size, "grams": grams, **chosen})


def suggest_tokens(dataset: Dataset) -> str:
    """Words, unless many words of the validation data are unknown: then letters of short texts, or pieces."""
    splits = [split for split in ("train", "valid") if split in dataset.splits]
    words, texts, known = 0, 0, Counter[bool]()
    vocabulary: set[str] = set()
    for split in splits:
        for record in itertools.islice(dataset.labelled_texts(split), MAX_TEXTS):
            found = WORD.findall(record.text[:MAX_CHARACTERS])
            words, texts = words + len(found), texts + 1
            if split == "train":
                vocabulary.update(found)
            else:
                known.update(word in vocabulary for word in found)
    if known[False] <= MANY_UNKNOWN * max(MIN_WORDS, known.total()):
        return "unicode"
    return "char" if words < SHORT * texts else "bpe"


def suggest_grams(dataset: Dataset) -> int:
    """About one n-gram for two characters, a power of 2, as far as the weights of all labels allow."""
    labels, characters = set[str](), 0
    for record in dataset.labelled_texts("train"):
        labels.add(record.label)
        characters += len(record.text)
    most = min(max(characters // 2, MIN_GRAMS), MAX_GRAMS, MAX_WEIGHTS // max(1, len(labels)))
    return int(1 << max(0, most.bit_length() - 1))
