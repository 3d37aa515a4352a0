"""The settings of `train language`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Effect, architecture, initialisation, one_of, only_with
from throughtime.fit.config import MIN_BATCHES, BatchSize, LearningRate, OutputBias, Precision, Share
from throughtime.models.widths import layer_widths, tied_widths
from throughtime.tasks import text_config as shared
from throughtime.text.framing import Framing

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.text.codec import Codec

Probability = Annotated[float, Field(gt=0, le=1)]

WIDER_PASSES = 6
"""Epochs of 256 units from which on 384 units are better in the same time."""
SIZES = frozenset("hidden_size embedding_size embedding tied last_size experts".split())
"""Settings that decide the size of a model: if one of them is given, no other size is chosen."""
LARGE = {
    "hidden_size": 512,
    "embedding_size": 512,
    "weight_drop": 0.3,
    "input_dropout": 0.4,
    "output_dropout": 0.5,
}
"""The settings of a larger model, which needs more dropout."""


class LanguageConfig(shared.ReadsText, shared.TextConfig):
    """A recurrent language model, its data and its training. Null means: chosen from the data."""

    SUGGESTED: ClassVar[frozenset[str]] = frozenset(
        "tokens normaliser layout batch_size weight_drop weight_decay forget_bias counted".split()
    )
    REASONS: ClassVar[dict[str, str]] = dict.fromkeys(
        ("hidden_size", "embedding_size"), "wider layers are better if there is time for several epochs"
    )
    EFFECTS: ClassVar[tuple[Effect, ...]] = (
        *shared.TextConfig.EFFECTS,
        Effect(
            "hidden_size",
            lambda config: config.last_size or config.hidden_size in config.widths,
            "where tied=true gives the only layer the size of the embedding; leave embedding_size or tied "
            "out, or set num_layers",
        ),
        Effect(
            "hidden_size",
            lambda config: config.hidden_size in config.widths,
            "where last_size is the size of the only layer; set num_layers or leave one of them out",
        ),
        Effect(
            "residual",
            lambda config: any(a == b for a, b in pairwise([config.embedding_size, *config.widths])),
            "where the input and the output of every layer differ in size; set embedding_size, hidden_size "
            "or num_layers",
        ),
        only_with("init_range", "init", "uniform"),
        only_with("embedding_size", "embedding", "learned"),
        only_with("forget_bias", "cell", "lstm"),
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
        only_with("tau", "truncation", "truncated", "sliding"),
        only_with("pi", "truncation", "randomised"),
    )

    data: shared.Data
    text: shared.TextColumn = None
    tokens: shared.Tokens = None
    normaliser: shared.Normaliser = None
    layout: shared.Layout = None
    reversed: bool = architecture(False, description="read each line, or the stream, from right to left")
    min_freq: int = architecture(1, ge=1, description="tokens that are rarer than this become <unk>")
    max_size: int | None = architecture(None, ge=4, description="maximum size of the vocabulary")
    max_tokens: int | None = Field(
        None, ge=2, description="train on only this number of tokens, from the beginning"
    )

    cell: str = architecture(
        "lstm", description="lstm, gru, rnn, mingru, lstm-mogrifier, ...; see `throughtime doctor`"
    )
    embedding: Literal["learned", "one-hot"] = architecture(
        "learned", description="learned, or one-hot: each token is a one-hot vector, without weights"
    )
    embedding_size: shared.TiedEmbeddingSize = 256
    hidden_size: shared.Size = architecture(
        256, description="number of units of a layer, by default 512 on a GPU; for the last one see last_size"
    )
    last_size: shared.Size | None = architecture(
        None, description="number of units of the last layer; null: embedding_size if tied, else hidden_size"
    )
    num_layers: shared.NumLayers = 1
    tied: shared.Tied = True
    counted: Annotated[int, Field(ge=1, le=100)] | Literal["none"] | None = architecture(
        None,
        description="order of a counted model that is mixed in by validation; null: chosen by validation; "
        "none: the network alone",
    )
    head: Annotated[str, one_of("throughtime.models.heads:HEADS")] = architecture(
        "softmax",
        description="softmax, or adaptive: rare words are chosen in two steps, for large vocabularies",
    )
    experts: shared.Size = architecture(
        1, description="number of softmaxes to mix; with several, last_size may differ from embedding_size"
    )
    residual: shared.Residual = False
    layer_norm: shared.LayerNorm = False
    initial: Literal["zero", "learned"] = architecture(
        "zero", description="state before the first token: zero or learned"
    )
    init: Literal["torch", "xavier", "scratch", "uniform"] = initialisation(
        "torch",
        description="distribution of the initial weights: torch (torch's defaults), xavier, scratch, which "
        "is N(0, 0.01^2), or uniform, U(-init_range, init_range)",
    )
    init_range: Annotated[float, Field(gt=0)] = initialisation(
        0.1, description="uniform: maximum absolute value"
    )
    output_bias: OutputBias = initialisation("frequencies")
    forget_bias: float | None = initialisation(
        None,
        description="number to add to the initial bias of an LSTM's forget gate; null: 0, for a short text 1",
    )

    embedding_dropout: Share = Field(
        0.0, description="share of words whose vectors are set to zero in a batch"
    )
    input_dropout: shared.InputDropout = 0.2
    hidden_dropout: shared.HiddenDropout = 0.2
    output_dropout: shared.OutputDropout = 0.3
    expert_dropout: Share = Field(0.0, description="dropout on the input of each of several softmaxes")
    weight_drop: Share | None = Field(
        None,
        description="share of the recurrent weights that are dropped, drawn for every batch; null: 0, for a "
        "short text 0.2 if the cell has such weights",
    )
    variational: shared.Variational = False
    activation_penalty: float = Field(
        0.0, ge=0, description="weight in the loss of the mean square of the outputs, after dropout"
    )
    temporal_penalty: float = Field(
        0.0,
        ge=0,
        description="weight in the loss of the mean square change of the outputs from step to step",
    )

    sampling: Literal["sequential", "rotated", "random", "overlapping"] = Field(
        "sequential",
        description="sequential: rows carry the state from batch to batch; rotated: the same, but each epoch "
        "begins at another place; random, overlapping: each row is a window with a new state",
    )
    num_steps: shared.Size = Field(
        35, description="number of tokens of a row in a batch, which is how far gradients flow back"
    )
    train_windows: shared.Size | None = Field(
        None, description="overlapping: train on only this number of windows, from the beginning"
    )
    valid_windows: shared.Size | None = Field(
        None, description="overlapping: validate on this number of windows after those"
    )
    warm_up: int = Field(
        0,
        ge=0,
        description="number of steps without loss at the beginning of each row or of each block of tau steps",
    )
    warm_up_gradient: bool = Field(False, description="let gradients flow through the warm-up")
    truncation: Literal["full", "truncated", "sliding", "randomised"] = Field(
        "full",
        description="how far gradients flow back in a batch: full; truncated: cut every tau steps; sliding: "
        "tau steps back from each position (tau times the work); randomised: cut at random",
    )
    tau: shared.Size = Field(
        10, description="truncated: number of steps between cuts; sliding: number of steps to go back"
    )
    pi: Probability | list[Probability] = Field(
        0.9,
        description="randomised: probability that a gradient passes a step, or a list with one for each step",
    )
    valid_rows: shared.Size = Field(
        10, description="number of rows into which the validation text is divided"
    )

    # Null until `suit` completes it, before a trainer sees it; its own type has no null.
    batch_size: BatchSize | None = Field(  # type: ignore[assignment]
        None, description="number of rows in a batch, over all processes; null: 32, for a short text 16"
    )
    lr: LearningRate = 4e-3
    weight_decay: Annotated[float, Field(ge=0)] | None = Field(  # type: ignore[assignment]
        None,
        description="weight decay: decoupled with adamw, otherwise added to the gradient; null: 0, for a "
        "short text 0.05 with adamw",
    )
    precision: Precision = "float32"

    @classmethod
    def derive_settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Derive settings from the given sizes if one softmax shares the embedding's weights."""
        if given.get("embedding") == "one-hot":
            return {} if "tied" in given else {"tied": False}
        if given.get("experts", 1) != 1:
            return {}
        if given.get("last_size") is not None:
            return tied_widths(given, "last_size")
        # With several layers, only the last one needs the size of the embedding.
        several = given.get("num_layers", 1) != 1
        return {} if several and "embedding_size" in given else tied_widths(given)

    @property
    def widths(self) -> list[int]:
        """Number of units of each layer, the lowest first."""
        return layer_widths(
            self.embedding_size,
            self.hidden_size,
            self.num_layers,
            tied=self.tied,
            experts=self.experts,
            last_size=self.last_size,
        )

    @property
    def carries_state(self) -> bool:
        """Whether each row of a batch continues the same row of the batch before."""
        return self.sampling in ("sequential", "rotated")

    def complete(self, dataset: Dataset) -> LanguageConfig:
        """Return a copy that follows the data; a text with many rare words is read in parts of words."""
        config: LanguageConfig = super().complete(dataset)
        if self.tokens is None and self.min_freq == 1 and shared.suits_pieces(dataset):
            texts = dataset.texts("train")
            # Half as many parts as for a translator: a softmax over them takes most of the time.
            size = shared.choose_max_size(
                self.max_size, "bpe", lambda most: shared.count_words(texts, 2 * most) // 2
            )
            config = config.model_copy(update={"tokens": "bpe", "normaliser": "none", "max_size": size})
        return config

    @property
    def num_read(self) -> int | None:
        """The number of first tokens of the training text that are trained on; None: all."""
        if self.train_windows is not None:  # the rest may be for validation
            return min(self.train_windows + self.num_steps, self.max_tokens or 2**62)
        return self.max_tokens

    def suit(self, num_tokens: int) -> LanguageConfig:
        """Return a copy in which the settings left to the length of the training text have their values."""
        read = num_tokens if self.num_read is None else min(num_tokens, self.num_read)
        found: dict[str, Any] = shared.suggest_settings(read)
        if self.optimizer != "adamw":  # the others scale the decay like a gradient: that needs a choice
            found["weight_decay"] = 0.0
        if self.cell != "lstm":
            found["forget_bias"] = None
        elif self.init != "torch":  # these weights were asked for
            found["forget_bias"] = 0.0
        # A cell is built only if its answer matters.
        undecided = self.weight_drop is None and found["weight_drop"]
        if undecided and not shared.has_recurrent_weights(self.cell, self.embedding_size, self.widths[0]):
            found["weight_drop"] = 0.0
        return self.model_copy(
            update={key: value for key, value in found.items() if getattr(self, key) is None}
        )

    def suit_few(self, rows: int, given: Collection[str]) -> dict[str, Any]:
        """For a text of few tokens, fewer steps if it has fewer than 8 rows of them, and smaller batches.

        >>> LanguageConfig(data="x", batch_size=16).suit_few(49, {}).items() >= {("num_steps", 6)}
        True
        """
        predicted, steps = rows - 1, self.num_steps
        # A batch size that is given must be filled once; else there may be 8 batches of one row.
        least = self.batch_size if "batch_size" in given and self.batch_size else MIN_BATCHES
        if "num_steps" not in given:
            steps = max(1, min(steps, predicted // least))
        fewer = {"num_steps": steps} if steps < self.num_steps else {}
        # Here `max_tokens` limits the text, not a batch.
        return fewer | super().suit_few(predicted // steps, {*given} - {"max_tokens"})

    def settings_for(self, passes: float) -> dict[str, Any]:
        """Return wider layers if there is time for several epochs, unless sizes were given."""
        if passes < WIDER_PASSES or self.model_fields_set & SIZES:
            return {}
        return dict.fromkeys(("hidden_size", "embedding_size"), 384)

    def settings_on(self, device: str) -> dict[str, Any]:
        """Return a larger model on a GPU, where the steps of a small one take as long."""
        if device != "cuda" or self.model_fields_set & SIZES:
            return {}
        chosen = {key: value for key, value in LARGE.items() if key not in self.model_fields_set}
        if not shared.has_recurrent_weights(self.cell, self.embedding_size, self.widths[0]):
            chosen.pop("weight_drop", None)
        return chosen

    def frame(self, codec: Codec) -> Framing:
        """Return the framing with which a model with this vocabulary reads text."""
        return Framing(codec, self.layout == "lines", self.reversed, running=True)
