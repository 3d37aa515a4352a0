"""All that `train translate` can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Effect, architecture, initialisation, one_of, only_with
from throughtime.errors import InputError
from throughtime.runtime.search import MAX_LENGTH_PENALTY
from throughtime.tasks.text_config import (
    Data,
    EmbeddingDropout,
    EmbeddingSize,
    HiddenDropout,
    LayerNorm,
    MinFreq,
    OutputDropout,
    Size,
    TextConfig,
    choose_max_size,
)
from throughtime.train.config import BatchSize, LearningRate, OutputBias, Share

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

MOST_BEAMS = 1_000
Beams = Annotated[int, Field(ge=1, le=MOST_BEAMS)]
LengthPenalty = Annotated[float, Field(ge=0, le=MAX_LENGTH_PENALTY)]
ATTENTIVE = ("attention", "attention-no-feeding", "conditional")
"""The structures that look at the source anew at each step."""
FEWEST_BYTE_PIECES = 300  # 256 bytes, the special tokens, and room to join some


class TranslateConfig(TextConfig):
    """An encoder and a decoder, their data, and how they are trained. Null means: as the data suggest."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"source", "target", "shared", "max_size"})
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *TextConfig.EFFECTS,
        only_with("attention", "structure", *ATTENTIVE),
        only_with("scaled", "structure", *ATTENTIVE),
        only_with("context", "structure", "main", "context-only", "context-and-input"),
        only_with("bridge", "structure", *ATTENTIVE, "main", "state-only"),
        only_with("teacher_forcing", "structure", *ATTENTIVE, "main", "context-and-input"),
        Effect(
            "max_size",
            lambda config: not config.tokens.endswith(".json"),
            "with a tokenizer file, which has its vocabulary already; leave it out",
        ),
    )

    data: Data
    source: str | None = Field(None, description="the language that is read, such as en")
    target: str | None = Field(None, description="the language that is written, such as fr")
    tokens: str = architecture(
        "bpe", description="bpe, unigram, wordpiece, or whole: word, space, unicode, char"
    )
    shared: bool | None = architecture(
        None, description="one vocabulary for both languages; null: where tokens are parts of words"
    )
    min_freq: MinFreq = 1
    max_size: int | None = architecture(
        None, ge=1, description="the largest vocabulary; null: 1,000 to 8,000 parts by the size of the data"
    )
    max_length: Annotated[int, Field(ge=2)] = Field(
        100, description="tokens after which a sentence is cut in training, its end counted"
    )

    structure: str = architecture(
        "attention",
        description="attention, attention-no-feeding, conditional, main, state-only, context-only or "
        "context-and-input",
    )
    cell: str = architecture("gru", description="gru, lstm, rnn, mingru, ...; see `throughtime doctor`")
    embedding_size: EmbeddingSize = 256
    hidden_size: Size = architecture(512, description="units of a decoder's layer")
    encoder_size: Size | None = architecture(
        None, description="units of an encoder's layer each way; null: half the decoder's, or all one way"
    )
    num_layers: Size = architecture(1, description="layers on top of each other, of each side")
    bidirectional: bool = architecture(True, description="the encoder reads from both ends")
    attention: Annotated[str, one_of("throughtime.layers.attention:ATTENTIONS")] = architecture(
        "additive", description="how states are compared: additive, dot or general"
    )
    scaled: bool = architecture(False, description="divide what attention compares by the root of its width")
    context: Literal["last", "mean", "max"] = architecture(
        "last", description="without attention: the source as its last state, their mean or maximum"
    )
    bridge: bool = architecture(
        True, description="a layer from the encoder's state to the decoder's first one"
    )
    tied: bool = architecture(True, description="the output's weights are the target's embedding")
    layer_norm: LayerNorm = False
    output_bias: OutputBias = initialisation("frequencies")

    embedding_dropout: EmbeddingDropout = 0.2
    encoder_dropout: Share = Field(0.0, description="on what the encoder gives")
    hidden_dropout: HiddenDropout = 0.2
    output_dropout: OutputDropout = 0.3
    label_smoothing: Share = Field(0.1, description="share of a label that goes to all tokens alike")
    teacher_forcing: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="how often the decoder reads the given token, not its own, drawn at each step"
    )

    batch_size: BatchSize = 64
    max_tokens: int | None = Field(
        None, ge=1, description="positions of a batch's larger side at most, padding included"
    )
    lr: LearningRate = 1e-3
    choose_by: Annotated[str, one_of("throughtime.metrics.measures:MEASURES", "bleu", "perplexity")] = Field(
        "bleu",
        description="the validation measure that decides which weights are kept: bleu, perplexity, chrf, ...",
    )
    valid_sentences: Size = Field(500, description="validation sentences that are translated each epoch")
    valid_beams: Beams = Field(1, description="the beam of those translations; 1 is greedy search")
    num_beams: Beams = Field(5, description="the beam of `translate` and `evaluate`, unless told otherwise")
    length_penalty: LengthPenalty = Field(
        0.75, description="alpha of the same: scores are log P / length^alpha"
    )

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"source": self.source, "target": self.target, "kind": "pairs"}

    def settled(self, dataset: Dataset) -> TranslateConfig:
        """The same with what the data suggest filled in, as it is saved."""
        from throughtime.text.subword import TRAINED

        if dataset.kind not in ("pairs", "cards"):
            raise InputError("data", f"{dataset.name} holds {dataset.kind}; translation needs pairs")
        if self.source is not None and self.source == self.target:
            raise InputError("target", f"is {self.target!r}, and so is source; name two languages")
        if self.tokens == "bpe" and self.max_size is not None and self.max_size < FEWEST_BYTE_PIECES:
            raise InputError(
                "max_size",
                f"is {self.max_size}, expected at least {FEWEST_BYTE_PIECES} with tokens=bpe, which has a "
                "piece for each byte",
            )
        languages = dataset.languages or (self.source, self.target)
        return self.model_copy(
            update={
                "source": self.source or languages[0] or None,
                "target": self.target or languages[1] or None,
                "shared": self.tokens in TRAINED if self.shared is None else self.shared,
                "max_size": choose_max_size(self.max_size, self.tokens, dataset.texts("train")),
            }
        )
