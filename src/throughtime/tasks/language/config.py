"""All that `train language` can be told."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Effect, architecture, initialisation, one_of, only_with
from throughtime.models.widths import layer_widths, tied_widths
from throughtime.tasks.language.framing import Framing, follow_suggestions
from throughtime.tasks.translate.config import MIN_FREQ
from throughtime.train.config import HIDDEN_DROPOUT, OutputBias, Positive, Schedule, Share, TrainingConfig

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.text.codec import Codec

Size = Annotated[int, Field(ge=1)]


class LanguageConfig(TrainingConfig):
    """A recurrent language model, its data, and how it is trained. Null means: as the data suggest."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset({"tokens", "normaliser", "layout"})
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *TrainingConfig.EFFECTS,
        Effect(
            "hidden_size",
            lambda config: config.last_size or config.hidden_size in config.widths,
            "where the only layer is as wide as the embedding whose weights the output shares; leave "
            "embedding_size or tied=true out, or set num_layers",
        ),
        Effect(
            "hidden_size",
            lambda config: config.hidden_size in config.widths,
            "where last_size is the width of the only layer; set num_layers or leave one of them out",
        ),
        MIN_FREQ,
        Effect(
            "residual",
            lambda config: any(a == b for a, b in pairwise([config.embedding_size, *config.widths])),
            "where no layer is as wide as what enters it; set embedding_size, hidden_size or num_layers",
        ),
        only_with("init_range", "init", "uniform"),
        only_with("forget_bias", "cell", "lstm"),
        HIDDEN_DROPOUT,
        Effect(
            "variational",
            lambda config: (
                config.input_dropout
                or config.output_dropout
                or config.hidden_dropout
                or config.expert_dropout
            ),
            "without dropout; set input_dropout, hidden_dropout, output_dropout or expert_dropout",
        ),
        only_with("train_windows", "sampling", "overlapping"),
        Effect(
            "valid_rows",
            lambda config: config.valid_windows is None,
            "with valid_windows, which are read like training batches; leave one of them out",
        ),
        Effect("warm_up_gradient", lambda config: config.warm_up > 0, "with warm_up=0; set warm_up too"),
        only_with("tau", "truncation", "truncated"),
        only_with("pi", "truncation", "randomised"),
    )

    data: str = Field(description="a name of `throughtime data list`, a file, or a folder of splits")
    tokens: str | None = architecture(
        None, description="char, word, space, unicode, bpe, ...; null: the data's own"
    )
    normaliser: str | None = architecture(None, description="none, nfc, lower or letters; for characters")
    layout: Literal["lines", "stream"] | None = architecture(
        None, description="lines (each ends with <eos>) or stream (one text)"
    )
    reversed: bool = architecture(False, description="read each line, or the stream, from right to left")
    min_freq: int = architecture(1, ge=1, description="rarer tokens become <unk>")
    max_size: int | None = architecture(None, ge=4, description="the largest vocabulary")
    max_tokens: int | None = Field(None, ge=2, description="train on the first so many tokens only")

    cell: str = architecture(
        "lstm", description="lstm, gru, rnn, mingru, lstm-mogrifier, ...; see `throughtime doctor`"
    )
    embedding_size: Size = architecture(
        256, description="width of a token's vector; not set: that of the layers if the output is tied to it"
    )
    hidden_size: Size = architecture(256, description="units of a layer; of the last: see last_size")
    last_size: Size | None = architecture(
        None, description="units of the last layer; null: embedding_size where tied to it, else hidden_size"
    )
    num_layers: Size = architecture(1, description="layers on top of each other")
    tied: bool = architecture(True, description="the output's weights are the embedding's")
    head: Annotated[str, one_of("throughtime.models.heads:HEADS")] = architecture(
        "softmax", description="adaptive: rare words are chosen in two steps; for large vocabularies"
    )
    experts: Size = architecture(
        1, description="softmaxes that are mixed; with several the last layer is free"
    )
    residual: bool = architecture(
        False, description="add a layer's input to its output where the widths agree"
    )
    layer_norm: bool = architecture(False, description="normalise what each layer gives")
    initial: Literal["zero", "learned"] = architecture("zero", description="the state before the first token")
    init: Literal["torch", "xavier", "scratch", "uniform"] = initialisation(
        "torch",
        description="first weights, but for output_bias; scratch is N(0, 0.01^2), "
        "uniform U(-init_range, init_range)",
    )
    init_range: Annotated[float, Field(gt=0)] = initialisation(0.1, description="of uniform")
    output_bias: OutputBias = initialisation("frequencies")
    forget_bias: float = initialisation(
        0.0, description="added to the bias of an LSTM's forget gate at the start"
    )

    embedding_dropout: Share = Field(0.0, description="share of words that are dropped, wherever they stand")
    input_dropout: Share = Field(0.2, description="on what enters the first layer")
    hidden_dropout: Share = Field(0.2, description="on what enters each further layer")
    output_dropout: Share = Field(0.3, description="on what enters the softmax")
    expert_dropout: Share = Field(0.0, description="on what enters each of several softmaxes")
    weight_drop: Share = Field(0.0, description="share of recurrent weights that a batch does without")
    variational: bool = Field(False, description="one dropout mask through all steps of a batch")
    activation_penalty: float = Field(0.0, ge=0, description="times the mean square of the dropped outputs")
    temporal_penalty: float = Field(0.0, ge=0, description="times the mean square of the outputs' change")

    sampling: Literal["sequential", "rotated", "random", "overlapping"] = Field(
        "sequential",
        description="sequential rows carry the state from batch to batch, as do rotated ones, which begin "
        "elsewhere in each epoch; windows, random or overlapping, begin afresh",
    )
    num_steps: Size = Field(35, description="tokens of a row in one batch: how far gradients go back")
    train_windows: Size | None = Field(None, description="overlapping: train on the first so many windows")
    valid_windows: Size | None = Field(None, description="overlapping: validate on the next so many")
    warm_up: int = Field(
        0, ge=0, description="first steps of each row in a batch, or of each block of tau, that add no loss"
    )
    warm_up_gradient: bool = Field(False, description="let gradients flow through the warm-up")
    truncation: Literal["full", "truncated", "randomised"] = Field(
        "full", description="of gradients within a batch: full, cut every tau steps, or at random"
    )
    tau: Size = Field(10, description="truncated: steps between cuts")
    pi: Annotated[float, Field(gt=0, le=1)] = Field(
        0.9, description="randomised: the chance that a gradient passes a step"
    )
    valid_rows: Size = Field(10, description="rows in which validation text is read while training")

    lr: Positive = Field(4e-3, description="learning rate; `--find-lr` looks for a good one")
    schedule: Schedule = Field("cosine", description="constant, step, plateau, cosine or one-cycle")

    @classmethod
    def following(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that follow from the widths given, if one softmax shares the embedding's weights."""
        if given.get("experts", 1) != 1:
            return {}
        if given.get("last_size") is not None:
            return tied_widths(given, "last_size")
        # With several layers, only the last one needs the embedding's width.
        several = given.get("num_layers", 1) != 1
        return {} if several and "embedding_size" in given else tied_widths(given)

    @property
    def widths(self) -> list[int]:
        """Units of each layer, lowest first."""
        return layer_widths(
            self.embedding_size,
            self.hidden_size,
            self.num_layers,
            tied=self.tied,
            experts=self.experts,
            last_size=self.last_size,
        )

    @property
    def goes_on(self) -> bool:
        """Whether a row of a batch continues that of the batch before."""
        return self.sampling in ("sequential", "rotated")

    @property
    def data_options(self) -> dict[str, Any]:
        """How `open_dataset` opens its data."""
        return {"layout": self.layout}

    def settled(self, dataset: Dataset) -> LanguageConfig:
        """The same with the data set's suggestions filled in, as it is saved."""
        return self.model_copy(update=follow_suggestions(dataset, self.tokens, self.normaliser, self.layout))

    def frame(self, codec: Codec) -> Framing:
        """The framing in which a model with this vocabulary reads text."""
        return Framing(codec, self.layout == "lines", self.reversed, running=True)
