"""The settings of `throughtime train translate`, and those of translating with a trained model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from throughtime.config import Config, Effect, architecture, initialisation, one_of, only_with
from throughtime.errors import InputError
from throughtime.fit.config import BatchSize, LearningRate, OutputBias, Share
from throughtime.runtime.search import MAX_BEAMS, MAX_LENGTH_PENALTY
from throughtime.tasks.text_config import (
    Data,
    EmbeddingSize,
    HiddenDropout,
    LayerNorm,
    MinFreq,
    NumLayers,
    Size,
    TextConfig,
    choose_max_size,
    count_words,
)

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

Beams = Annotated[int, Field(ge=1, le=MAX_BEAMS)]
LengthPenalty = Annotated[float, Field(ge=0, le=MAX_LENGTH_PENALTY)]


class Switches(NamedTuple):
    """What a decoder without attention is made of."""

    initial_state: str  # the encoder's last one, zero, or learned
    feed_context: bool  # whether each step reads the context c, one vector for the whole source
    feed_token: bool  # whether each step reads the previous token


SWITCHES = {
    "state-only": Switches("encoder", False, False),
    "seq2seq": Switches("encoder", False, True),
    "context-only": Switches("learned", True, False),
    "context-and-input": Switches("learned", True, True),
    "main": Switches("encoder", True, True),
}
"""The structures without attention: names for combinations of three switches."""
ATTENTIVE = ("attention", "attention-no-feeding", "conditional")
"""The structures with attention."""
LARGE = {"hidden_size": 512, "lr": 3e-3}
"""The settings of a larger model, which is better if there is time for it."""
LARGE_PASSES = 60
"""Passes of 256 units from which on 512 units, which train about half as fast, are better."""
SMALL_BATCHES = ((150, 16), (700, 32))
"""Updates up to which smaller batches, of which there are more in the same time, are better on a CPU."""
MIN_BYTE_PIECES = 300  # 256 bytes, the special tokens, and some room for longer pieces


class Generation(Config):
    """How a model translates by default: the contents of generation_config.json."""

    num_beams: Beams = 5
    length_penalty: LengthPenalty = 0.75
    max_source_tokens: int = Field(100, ge=2)  # longer texts are translated sentence by sentence


class TranslateConfig(TextConfig):
    """The settings of a translator, its data and its training. Null means: as the data suggest."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset(
        {"source", "target", "shared", "max_size", "epochs", "embedding_dropout", "output_dropout"}
    )
    REASONS: ClassVar[dict[str, str]] = {
        "hidden_size": "a larger model is better if there is time for many epochs",
        "batch_size": "smaller batches give more updates",
        "embedding_dropout": "the more epochs, the more dropout",
        "output_dropout": "the more epochs, the more dropout",
    }
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *TextConfig.EFFECTS,
        only_with("attention", "structure", *ATTENTIVE),
        only_with("scaled", "structure", *ATTENTIVE),
        only_with("feed_context", "structure", *SWITCHES),
        only_with("feed_token", "structure", *SWITCHES),
        Effect(
            "context",
            lambda config: config.structure in SWITCHES and config.switches.feed_context,
            "with structure={structure}; set structure=main or context-only or context-and-input, or "
            "feed_context=true, or leave it out",
        ),
        Effect(
            "bridge",
            lambda config: config.switches.initial_state == "encoder",
            "where the decoder's first state does not come from the encoder; set initial_state=encoder, or "
            "leave it out",
        ),
        *(
            Effect(
                key,
                lambda config: config.switches.feed_token,
                "where the decoder does not read the previous token; set feed_token=true, or leave it out",
            )
            for key in ("teacher_forcing", "teacher_forcing_schedule")
        ),
        Effect(
            "final_teacher_forcing",
            lambda config: config.teacher_forcing_schedule != "constant",
            "with teacher_forcing_schedule=constant; set it to linear or inverse-sigmoid, or leave it out",
        ),
        Effect(
            "max_size",
            lambda config: not config.tokens.endswith(".json"),
            "with a tokenizer file, which has its vocabulary already; leave it out",
        ),
    )

    data: Data
    source: str | None = Field(None, description="source language, such as en")
    target: str | None = Field(None, description="target language, such as fr")
    tokens: str = architecture(
        "bpe", description="parts of words: bpe, unigram, wordpiece; or word, space, unicode, char, a file"
    )
    lowercase: bool = architecture(False, description="convert all text to lower case")
    shared: bool | None = architecture(
        None, description="one vocabulary for both languages; null: if tokens are parts of words"
    )
    min_freq: MinFreq = 1
    max_size: int | None = architecture(
        None, ge=1, description="maximum size of a vocabulary; null: none, or 1,000 to 8,000 parts of words"
    )
    max_length: Annotated[int, Field(ge=2)] = Field(
        100, description="maximum number of tokens of a training sentence, its end mark included"
    )

    structure: str = architecture(
        "attention-no-feeding",
        description="attention, attention-no-feeding, conditional, or without attention: seq2seq, main, "
        "state-only, context-only, context-and-input",
    )
    initial_state: Literal["encoder", "zero", "learned"] | None = architecture(
        None, description="the decoder's first state: encoder, zero or learned; null: as the structure has it"
    )
    feed_context: bool | None = architecture(
        None, description="feed the context to every step; null: as the structure has it"
    )
    feed_token: bool | None = architecture(
        None, description="feed the previous token to every step; null: as the structure has it"
    )
    cell: str = architecture("gru", description="gru, lstm, rnn, mingru, ...; see `throughtime doctor`")
    embedding_size: EmbeddingSize = 256
    hidden_size: Size = architecture(
        256, description="units of a decoder layer; by default 512 on a GPU, or if minutes allow it"
    )
    encoder_size: Size | None = architecture(
        None,
        description="units of an encoder layer per direction; null: hidden_size, half of it if bidirectional",
    )
    num_layers: NumLayers = 1
    bidirectional: bool = architecture(True, description="the encoder reads in both directions")
    attention: Annotated[str, one_of("throughtime.layers.attention:ATTENTIONS")] = architecture(
        "additive", description="score function of the attention: additive, dot or general"
    )
    scaled: bool = architecture(False, description="divide attention scores by the square root of their size")
    context: Literal["last", "mean", "max"] = architecture(
        "last", description="without attention: the encoder's last output, or the mean or maximum of all"
    )
    bridge: bool = architecture(True, description="a linear layer between the states of encoder and decoder")
    tied: bool = architecture(True, description="use the target embedding as the weights of the output layer")
    layer_norm: LayerNorm = False
    output_bias: OutputBias = initialisation("frequencies")

    embedding_dropout: Share | None = Field(
        None, description="dropout on embedded tokens; null: 0.1 to 0.3, more for more epochs"
    )
    encoder_dropout: Share = Field(0.0, description="dropout on the output of the encoder")
    hidden_dropout: HiddenDropout = 0.2
    output_dropout: Share | None = Field(
        None, description="dropout on the input of the output layer; null: 0.1 to 0.4, more for more epochs"
    )
    label_smoothing: Share = Field(0.1, description="share of the target probability spread over all tokens")
    teacher_forcing: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="probability that the decoder reads the reference token, not its own prediction"
    )
    teacher_forcing_schedule: Literal["constant", "linear", "inverse-sigmoid"] = Field(
        "constant", description="constant, or its fall to final_teacher_forcing: linear or inverse-sigmoid"
    )
    final_teacher_forcing: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="linear, inverse-sigmoid: probability at the end of the training"
    )

    batch_size: BatchSize = 64
    max_tokens: int | None = Field(
        None, ge=1, description="maximum number of positions on the larger side of a batch, with padding"
    )
    lr: LearningRate = 4e-3
    choose_by: Annotated[str, one_of("throughtime.metrics.measures:MEASURES", "bleu", "perplexity")] = Field(
        "bleu", description="validation measure that selects the best weights: bleu, perplexity, chrf, ..."
    )
    valid_sentences: Size = Field(500, description="number of validation sentences to translate each epoch")
    valid_beams: Beams = Field(1, description="number of beams for these translations; 1 is greedy search")
    num_beams: Beams = Field(5, description="default number of beams of `translate` and `evaluate`")
    length_penalty: LengthPenalty = Field(
        0.75, description="default length penalty alpha of these commands: scores are log P / length^alpha"
    )

    @property
    def switches(self) -> Switches:
        """The switches of the decoder: those of the structure, unless they are set."""
        initial, context, token = SWITCHES.get(self.structure, Switches("encoder", True, True))
        return Switches(
            self.initial_state or initial,
            context if self.feed_context is None else self.feed_context,
            token if self.feed_token is None else self.feed_token,
        )

    @property
    def data_options(self) -> dict[str, Any]:
        """The options of `open_dataset` for the training data."""
        return {"source": self.source, "target": self.target, "kind": "pairs"}

    def complete(self, dataset: Dataset) -> TranslateConfig:
        """Return the configuration completed from the data, as it is saved."""
        from throughtime.text.subword import TRAINED

        if dataset.kind not in ("pairs", "cards"):
            raise InputError("data", f"{dataset.name} holds {dataset.kind} data; translation needs pairs")
        if self.source is not None and self.source == self.target:
            raise InputError("target", f"is {self.target!r}, the same as source; name two languages")
        if self.tokens == "bpe" and self.max_size is not None and self.max_size < MIN_BYTE_PIECES:
            raise InputError(
                "max_size",
                f"is {self.max_size}, expected at least {MIN_BYTE_PIECES} with tokens=bpe, which has one "
                "token per byte",
            )
        switches = SWITCHES.get(self.structure) and self.switches
        if switches and switches.initial_state != "encoder" and not switches.feed_context:
            raise InputError(
                "feed_context",
                f"is false and initial_state is {switches.initial_state}, so the decoder would not see the "
                "source; set feed_context=true or initial_state=encoder",
            )
        languages = dataset.languages or (self.source, self.target)
        epochs, words = self.epochs, None
        if epochs is None and self.minutes is None:
            words = count_words(dataset.texts("train"))
            epochs = suggest_epochs(words)

        def count(most: int) -> int:
            return count_words(dataset.texts("train"), most) if words is None else words

        return self.model_copy(
            update={
                "source": self.source or languages[0] or None,
                "target": self.target or languages[1] or None,
                "shared": self.tokens in TRAINED if self.shared is None else self.shared,
                "max_size": choose_max_size(self.max_size, self.tokens, count),
                "epochs": epochs,
                **self._suggest_dropout(epochs or 1),
            }
        )

    def settings_for(self, passes: float) -> dict[str, Any]:
        """Return the settings that suit this number of passes over the data, of those that were not given."""
        large = passes >= LARGE_PASSES
        sizes = self._suggest_sizes() if large else {}
        return {**sizes, **self._suggest_dropout(passes / 2 if large else passes)}

    def batches_for(self, updates: float) -> dict[str, Any]:
        """Return smaller batches, at the same rate, if there is time for few updates."""
        if self.model_fields_set & {"batch_size", "max_tokens", "accumulate"}:
            return {}
        return next(({"batch_size": size} for most, size in SMALL_BATCHES if updates <= most), {})

    def settings_on(self, device: str) -> dict[str, Any]:
        """Return a larger model on a GPU, where the steps of a small one take as long."""
        return self._suggest_sizes() if device == "cuda" else {}

    def _suggest_sizes(self) -> dict[str, Any]:
        given = self.model_fields_set
        return {} if "hidden_size" in given else {key: LARGE[key] for key in LARGE if key not in given}

    def _suggest_dropout(self, passes: float) -> dict[str, float]:
        """Return the shares of dropout: data that are read more often need more."""
        level = 0 if passes < 12 else 1 if passes < 40 else 2
        suggested = {"embedding_dropout": (0.1, 0.2, 0.3)[level], "output_dropout": (0.1, 0.3, 0.4)[level]}
        return {key: value for key, value in suggested.items() if getattr(self, key) is None}


def suggest_epochs(words: int) -> int:
    """Choose the epochs for this number of words: a corpus four times as large is read half as often.

    >>> [suggest_epochs(words) for words in (10_000, 200_000, 600_000, 20_000_000)]
    [40, 21, 12, 4]
    """
    return max(4, min(40, round(30 * math.sqrt(100_000 / max(words, 1)))))
