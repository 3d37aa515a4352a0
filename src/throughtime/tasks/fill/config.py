"""All that `train fill` can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Effect, architecture
from throughtime.errors import InputError
from throughtime.tasks.translate.config import MIN_FREQ, pieces_for
from throughtime.train.config import HIDDEN_DROPOUT, Positive, Schedule, Share, TrainingConfig

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

Size = Annotated[int, Field(ge=1)]
OF_TEXT = ("text", "tags", "pairs", "cards", "labelled", "described")


class FillConfig(TrainingConfig):
    """A model that fills blanks, its data, and how it is trained. Null means: as the data suggest."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"side", "tokens", "max_size"})
    EFFECTS: ClassVar[tuple[Effect, ...]] = (*TrainingConfig.EFFECTS, MIN_FREQ, HIDDEN_DROPOUT)

    data: str = Field(description="a name of `throughtime data list`, a file, or a folder of splits")
    source: str | None = Field(None, description="of pairs: the source language, such as en")
    target: str | None = Field(None, description="of pairs: the target language, such as fr")
    side: Literal["source", "target"] | None = Field(
        None, description="of pairs: which side is learned; null: the source"
    )
    tokens: str | None = architecture(
        None,
        description="whole: unicode, space, word, char, or parts: bpe, unigram, wordpiece; null: unicode, "
        "or space where the data are cut into words already",
    )
    min_freq: int = architecture(2, ge=1, description="rarer whole words become <unk>")
    max_size: int | None = architecture(
        None, ge=8, description="the largest vocabulary; null: no limit, or 1,000 to 8,000 parts of words"
    )
    max_length: Annotated[int, Field(ge=2)] = Field(
        100, description="tokens of the longest sentence; a longer line is cut into several"
    )
    mask_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.15,
        description="the chance of a token to be hidden, drawn anew each epoch; one of a sentence at least",
    )

    cell: str = architecture("lstm", description="lstm, gru, rnn, mingru, ...; see `throughtime doctor`")
    embedding_size: Size = architecture(256, description="width of a token's vector")
    hidden_size: Size = architecture(256, description="units of a layer each way")
    num_layers: Size = architecture(2, description="layers on top of each other, each reading both ways")
    tied: bool = architecture(True, description="the output's weights are the embedding's")
    layer_norm: bool = architecture(False, description="normalise what each layer gives")

    embedding_dropout: Share = Field(0.1, description="on embedded tokens")
    hidden_dropout: Share = Field(0.2, description="between layers")
    output_dropout: Share = Field(0.2, description="on what enters the softmax")

    epochs: int = Field(20, ge=1, description="number of passes over the training data")
    batch_size: int = Field(64, ge=1, description="sentences of one batch, over all processes")
    max_tokens: int | None = Field(None, ge=1, description="positions of a batch at most, padding included")
    lr: Positive = Field(2e-3, description="learning rate; `--find-lr` looks for a good one")
    schedule: Schedule = Field("cosine", description="constant, step, plateau, cosine or one-cycle")
    precision: Literal["auto", "float32", "tf32", "bf16"] = Field(
        "auto", description="of products; auto: bf16 where the hardware has it, else float32"
    )

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"source": self.source, "target": self.target, "layout": "lines"}

    def side_of(self, dataset: Dataset) -> str | None:
        """The side of these data that is text for this model; None where they have no sides."""
        return (self.side or "source") if dataset.kind in ("pairs", "cards") else None

    def settled(self, dataset: Dataset) -> FillConfig:
        """The same with what the data suggest filled in, as it is saved."""
        from throughtime.text.subword import TRAINED

        if dataset.kind not in OF_TEXT:
            raise InputError(dataset.name, f"holds {dataset.kind} data; filling blanks needs text")
        side = self.side_of(dataset)
        if side is None and self.side is not None:
            raise InputError("side", f"is {self.side}, but {dataset.name} holds {dataset.kind}; leave it out")
        cut_already = dataset.tokens == "space" or dataset.kind == "tags"
        tokens = self.tokens or ("space" if cut_already else "unicode")
        parts = pieces_for(dataset.texts("train", side)) if tokens in TRAINED else None
        return self.model_copy(
            update={"side": side, "tokens": tokens, "max_size": self.max_size or parts},
        )
