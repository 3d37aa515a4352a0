"""All that `train classify` can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Effect, architecture, one_of
from throughtime.tasks.labels import column_settings
from throughtime.tasks.translate.config import MIN_FREQ, pieces_for
from throughtime.train.config import HIDDEN_DROPOUT, Positive, Schedule, Share, TrainingConfig

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

Size = Annotated[int, Field(ge=1)]


class ClassifyConfig(TrainingConfig):
    """A classifier of whole texts, its data, and how it is trained. Null means: as the data suggest."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"text", "label", "tokens", "max_size"})
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *TrainingConfig.EFFECTS,
        MIN_FREQ,
        HIDDEN_DROPOUT,
        Effect(
            "residual",
            lambda config: (
                config.num_layers > 1
                or config.embedding_size == config.hidden_size * (1 + config.bidirectional)
            ),
            "where the only layer is not as wide as what enters it; set num_layers or embedding_size",
        ),
    )

    data: str = Field(description="a name of `throughtime data list`, a file, or a folder of splits")
    text: str | None = Field(
        None, description="the column or field of the text; null: text, or a usual name such as review"
    )
    label: str | None = Field(
        None, description="the column or field of the label; null: label, or a usual name such as stars"
    )
    tokens: str | None = architecture(
        None,
        description="words: unicode (any script), basic-english (small letters), space, word; char; or parts "
        "of words: bpe, unigram, wordpiece; null: unicode, or basic-english where a corpus of the catalogue "
        "is cut into words already",
    )
    min_freq: int = architecture(1, ge=1, description="rarer whole words become <unk>")
    max_size: int | None = architecture(
        None, ge=5, description="the largest vocabulary; null: all words, or as many parts as the data teach"
    )
    max_length: Size = Field(500, description="tokens after which a text is cut, in training and ever after")

    cell: str = architecture("lstm", description="lstm, gru, rnn, mingru, ...; see `throughtime doctor`")
    embedding_size: Size = architecture(128, description="width of a token's vector")
    hidden_size: Size = architecture(128, description="units of a layer, each way")
    num_layers: Size = architecture(1, description="layers on top of each other")
    bidirectional: bool = architecture(True, description="read from both ends")
    pooling: Annotated[str, one_of("throughtime.layers.pooling:POOLINGS")] = architecture(
        "max", description="all steps as one vector: last, mean, max or attention"
    )
    residual: bool = architecture(
        False, description="add a layer's input to its output where the widths agree"
    )
    layer_norm: bool = architecture(False, description="normalise what each layer gives")

    word_dropout: Share = Field(0.1, description="share of words that become <unk>, drawn at every batch")
    embedding_dropout: Share = Field(0.3, description="on embedded tokens")
    hidden_dropout: Share = Field(0.2, description="between layers")
    output_dropout: Share = Field(0.3, description="on what enters the softmax")
    weight_drop: Share = Field(0.0, description="share of recurrent weights that a batch does without")
    label_smoothing: Share = Field(0.0, description="share of a label that goes to all labels alike")

    epochs: int = Field(10, ge=1, description="number of passes over the training data")
    max_tokens: int | None = Field(None, ge=1, description="positions of a batch at most, padding included")
    lr: Positive = Field(2e-3, description="learning rate; `--find-lr` looks for a good one")
    schedule: Schedule = Field("cosine", description="constant, step, plateau, cosine or one-cycle")
    precision: Literal["auto", "float32", "tf32", "bf16"] = Field(
        "auto", description="of products; auto: bf16 where the hardware has it, else float32"
    )
    choose_by: Annotated[
        str, one_of("throughtime.metrics.measures:MEASURES", "accuracy", "macro_f1", "log_loss")
    ] = Field(
        "log_loss",
        description="the validation measure that decides which weights are kept; of few texts, accuracy and "
        "macro_f1 are soon the same for all",
    )

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"source": self.text, "target": self.label, "kind": "labelled"}

    def settled(self, dataset: Dataset) -> ClassifyConfig:
        """The same with what the data suggest filled in, as it is saved."""
        from throughtime.text.subword import TRAINED

        # Only the catalogue's data say that they are cut; of them only English ones have labels.
        tokens = self.tokens or ("basic-english" if dataset.tokens == "space" else "unicode")
        most = self.max_size
        if most is None and tokens in TRAINED:
            most = pieces_for(one.text for one in dataset.labelled("train"))
        return self.model_copy(
            update={"tokens": tokens, "max_size": most, **column_settings(dataset, self.text, self.label)}
        )
