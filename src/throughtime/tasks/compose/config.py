"""All that `train compose` can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Effect, architecture
from throughtime.errors import InputError
from throughtime.models.widths import tied_widths
from throughtime.tasks.labels import column_settings
from throughtime.tasks.translate.config import MIN_FREQ, pieces_for
from throughtime.train.config import HIDDEN_DROPOUT, Positive, Schedule, Share, TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from throughtime.data.datasets import Dataset

Size = Annotated[int, Field(ge=1)]


class ComposeConfig(TrainingConfig):
    """A writer of texts from a label or a vector, its data, its training. Null means: as the data suggest."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"text", "label", "tokens", "max_size", "vector_size"})
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *TrainingConfig.EFFECTS,
        MIN_FREQ,
        HIDDEN_DROPOUT,
        Effect(
            "embedding_size",
            lambda config: not config.tied or config.embedding_size == config.hidden_size,
            "with tied=true: the embedding is as wide as the layers; leave one of them or hidden_size out",
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
        None, description="unicode, space, char, ...; bpe, unigram, wordpiece; null: whole words and marks"
    )
    min_freq: int = architecture(1, ge=1, description="rarer whole words become <unk>")
    max_size: int | None = architecture(
        None, ge=5, description="the largest vocabulary; null: all words, or as many parts as the data teach"
    )
    max_length: Annotated[int, Field(ge=2)] = Field(
        100, description="tokens after which a text is cut in training, its end counted"
    )

    vector_size: int | None = architecture(
        None,
        ge=0,
        description="numbers that a text is written from, 0 for a label; null: as the data have them",
    )
    condition_size: Size = architecture(
        64, description="width of the vector that a label or a given vector becomes"
    )
    fed: bool = architecture(True, description="feed it at every step too, not as the first state alone")
    cell: str = architecture("lstm", description="lstm, gru, rnn, mingru, ...; see `throughtime doctor`")
    embedding_size: Size = architecture(
        256, description="width of a token's vector; not set: that of the layers if the output is tied to it"
    )
    hidden_size: Size = architecture(256, description="units of a layer")
    num_layers: Size = architecture(1, description="layers on top of each other")
    tied: bool = architecture(True, description="the output's weights are the embedding's")
    layer_norm: bool = architecture(False, description="normalise what each layer gives")

    embedding_dropout: Share = Field(0.2, description="on embedded tokens")
    hidden_dropout: Share = Field(0.2, description="between layers")
    output_dropout: Share = Field(0.3, description="on what enters the softmax")
    label_smoothing: Share = Field(0.0, description="share of a token that goes to all tokens alike")

    epochs: int = Field(15, ge=1, description="number of passes over the training data")
    max_tokens: int | None = Field(None, ge=1, description="positions of a batch at most, padding included")
    lr: Positive = Field(2e-3, description="learning rate; `--find-lr` looks for a good one")
    schedule: Schedule = Field("cosine", description="constant, step, plateau, cosine or one-cycle")
    precision: Literal["auto", "float32", "tf32", "bf16"] = Field(
        "auto", description="of products; auto: bf16 where the hardware has it, else float32"
    )

    @classmethod
    def following(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that follow from the widths given, if the output shares the embedding's weights."""
        return tied_widths(given)

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"source": self.text, "target": self.label, "kind": "described"}

    def settled(self, dataset: Dataset) -> ComposeConfig:
        """The same with what the data suggest filled in, as it is saved."""
        from throughtime.text.subword import TRAINED

        tokens = self.tokens or ("space" if dataset.kind == "tags" else "unicode")
        most = self.max_size
        if most is None and tokens in TRAINED:
            most = pieces_for(texts_of(dataset, "train"))
        numbers = 0
        if dataset.kind == "described":
            numbers = next((len(one.vector) for one in dataset.records("train")), 0)
            if not numbers:
                raise InputError(f"{dataset.name}, split train", "holds no text with a vector")
        if self.vector_size not in (None, numbers):
            raise InputError("vector_size", f"is {self.vector_size}, but the data have {numbers} numbers")
        found = {"tokens": tokens, "max_size": most, "vector_size": numbers}
        return self.model_copy(update={**found, **column_settings(dataset, self.text, self.label)})


def texts_of(dataset: Dataset, split: str) -> Iterator[str]:
    """The texts that are to be written."""
    records = dataset.records(split) if dataset.kind == "described" else dataset.labelled(split)
    return (record.text for record in records)
