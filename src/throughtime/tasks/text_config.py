"""Settings that several tasks on texts share: each is described once, and a task chooses its default."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from throughtime.config import Config, Effect, architecture
from throughtime.errors import InputError
from throughtime.fit.config import Precision, Schedule, Share, TrainingConfig

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.layers.stack import Stack

SHORT_TEXT = 500_000
"""Number of tokens below which a training text is short: it is soon known by heart."""
MIN_PIECES, MAX_PIECES, WORDS_PER_PIECE = 1_000, 8_000, 40
MAX_UNKNOWN = 0.005
"""Share of unknown words in new text, above which a language model reads parts of words."""
MAX_SAMPLED = 2_000_000
"""Number of characters from which that share is estimated."""

Size = Annotated[int, Field(ge=1)]
Data = Annotated[str, Field(description="a name from `throughtime data list`, a file, or a folder of splits")]
TextColumn = Annotated[
    str | None,
    Field(description="column or field of the text; null: text, or a common name such as review"),
]
LabelColumn = Annotated[
    str | None,
    Field(description="column or field of the label; null: label, or a common name such as stars"),
]
IdColumn = Annotated[
    str | None, Field(description="of vectors: column that names the sequence of a row; null: id, ...")
]
TimeColumn = Annotated[
    str | None,
    Field(description="of vectors: column by which the rows of a sequence are sorted; null: time, ..."),
]
FeatureColumns = Annotated[
    tuple[str, ...] | None,
    Field(description="of vectors: columns of numbers; null: all others that hold some"),
]
Tokens = Annotated[
    str | None,
    architecture(description="tokenizer: char, word, space, unicode, bpe, ...; null: what the data suggest"),
]
Normaliser = Annotated[
    str | None, architecture(description="change of the text for tokens=char: none, nfc, lower or letters")
]
Layout = Annotated[
    Literal["lines", "stream"] | None,
    architecture(description="lines (each ends with <eos>) or stream (all lines are one text)"),
]
MinFreq = Annotated[int, architecture(ge=1, description="words that are rarer than this become <unk>")]
MaxSize = Annotated[
    int | None,
    architecture(
        ge=5,
        description="maximum size of the vocabulary; null: all words, or a suitable number of word parts",
    ),
]
MaxTokens = Annotated[
    int | None, Field(ge=1, description="maximum number of positions in a batch, padding included")
]

Cell = Annotated[str, architecture(description="lstm, gru, rnn, mingru, ...; see `throughtime doctor`")]
EmbeddingSize = Annotated[int, architecture(ge=1, description="size of a token's vector")]
TiedEmbeddingSize = Annotated[
    int, architecture(ge=1, description="size of a token's vector; by default hidden_size if tied")
]
HiddenSize = Annotated[int, architecture(ge=1, description="number of units of a layer")]
HiddenSizeEachWay = Annotated[
    int, architecture(ge=1, description="number of units of a layer in each direction")
]
NumLayers = Annotated[int, architecture(ge=1, le=1_000, description="number of stacked layers")]
Tied = Annotated[bool, architecture(description="use the embedding as the weights of the output layer")]
Residual = Annotated[
    bool, architecture(description="add the input of a layer to its output where their sizes agree")
]
LayerNorm = Annotated[bool, architecture(description="normalise the output of each layer")]

WordDropout = Annotated[
    Share, Field(description="share of words that become <unk> in training, drawn for every batch")
]
EmbeddingDropout = Annotated[Share, Field(description="dropout on the vectors of tokens")]
InputDropout = Annotated[Share, Field(description="dropout on the input of the first layer")]
HiddenDropout = Annotated[Share, Field(description="dropout between layers")]
OutputDropout = Annotated[Share, Field(description="dropout on the input of the output layer")]
WeightDrop = Annotated[
    Share, Field(description="share of the recurrent weights that are dropped, drawn for every batch")
]
Variational = Annotated[bool, Field(description="use one dropout mask for all steps of a batch")]


def are_whole_words(tokens: str | None) -> bool:
    """Whether a tokenizer keeps words whole, so that rare ones may be left out of the vocabulary."""
    from throughtime.text.subword import TRAINED

    return tokens is None or not (tokens in TRAINED or tokens.endswith(".json"))


MIN_FREQ = Effect(
    "min_freq",
    lambda config: are_whole_words(config.tokens),
    "with tokens={tokens}, which splits rare words into parts; set max_size or leave it out",
)
HIDDEN_DROPOUT = Effect(
    "hidden_dropout",
    lambda config: config.num_layers > 1 or config.hidden_dropout == 0,
    "with num_layers=1, as it is applied between layers; set num_layers or leave it out",
)


VECTOR_SETTINGS = frozenset({"id", "time", "features"})


def vector_options(config: Any, kind: str) -> dict[str, Any]:
    """The options with which `open_dataset` opens vectors, or other data of a kind."""
    return {"kind": kind, **{name: getattr(config, name) for name in sorted(VECTOR_SETTINGS)}}


class StackConfig(TrainingConfig):
    """The defaults of tasks that train a stack of layers."""

    EFFECTS: ClassVar[tuple[Effect, ...]] = (*TrainingConfig.EFFECTS, HIDDEN_DROPOUT)

    schedule: Schedule = "cosine"
    precision: Precision = "auto"

    def build_stack(self, input_size: int, **options: Any) -> Stack:
        """Build the recurrent layers; `options` of `Stack` replace the settings of the same name."""
        from throughtime.layers.stack import Stack

        settings = {**self.arguments_for(Stack), "dropout": self.hidden_dropout, **options}  # type: ignore[attr-defined]
        return Stack(input_size=input_size, **settings)


class TextConfig(StackConfig):
    """The same for tasks whose tokens are whole words or parts of words."""

    EFFECTS: ClassVar[tuple[Effect, ...]] = (*StackConfig.EFFECTS, MIN_FREQ)


def count_words(texts: Iterable[str], most: float = math.inf) -> int:
    """Count running words by their spaces, until there are `most`.

    Ideographs are written without spaces; three count as one word.

    >>> count_words(["a few words", "很多字" * 3])
    6
    >>> count_words(["a few words"] * 100, most=10)
    12
    """
    count = 0
    for text in texts:
        count += max(text.count(" ") + 1, len(text.encode()) // 9 if not text.isascii() else 0)
        if count >= most:
            break
    return count


def suits_pieces(dataset: Dataset) -> bool:
    """Whether a text without tokens of its own has so many rare words that parts of words suit it better.

    A word of a new text is unknown about as often as words of this one occur once (Good and Turing).
    """
    from throughtime.data.catalogue import CORPORA
    from throughtime.text.tokenizer import tokenizer

    if dataset.tokens != "unicode" or dataset.name.partition("/")[0] in CORPORA:
        return False
    tokenize, counts, size = tokenizer("unicode").tokenize, Counter[str](), 0
    for text in dataset.texts("train"):
        counts.update(tokenize(text[: MAX_SAMPLED - size]))
        if (size := size + len(text)) >= MAX_SAMPLED:
            break
    once = sum(1 for count in counts.values() if count == 1)
    return once > MAX_UNKNOWN * max(counts.total(), 1)


def choose_max_size(given: int | None, tokens: str, count: Callable[[int], int]) -> int | None:
    """The size of a vocabulary if `given` is None: one part of words per forty running words, within bounds.

    `count` returns the number of running words, and may stop at the number that it is given: more words make
    no larger vocabulary. It is called only if it matters: tokens that are not parts of words have no limit.

    >>> [choose_max_size(None, "bpe", lambda most: words) for words in (20, 200_000, 10_000_000)]
    [1000, 5000, 8000]
    >>> choose_max_size(None, "space", lambda most: 1 // 0) is None
    True
    """
    from throughtime.text.subword import TRAINED

    if given is not None or tokens not in TRAINED:
        return given
    words = count(MAX_PIECES * WORDS_PER_PIECE)
    return max(MIN_PIECES, min(MAX_PIECES, words // WORDS_PER_PIECE))


def has_recurrent_weights(cell: str, input_size: int, hidden_size: int) -> bool:
    """Return whether a cell multiplies its state by weights, some of which can be dropped."""
    from throughtime.layers.layer import build_cell

    return "weight_hh" in build_cell(cell, input_size, hidden_size).weights()


def suggest_settings(num_tokens: int) -> dict[str, int | float]:
    """Return the settings that follow from the length of the training text.

    Smaller batches give the few tokens of a short text enough updates, forget gates that start open let
    gradients through from the first of them on, and dropped recurrent weights and weight decay keep the model
    from learning the text by heart.

    >>> suggest_settings(157_384)
    {'batch_size': 16, 'weight_drop': 0.2, 'weight_decay': 0.05, 'forget_bias': 1.0}
    >>> suggest_settings(2_000_000)
    {'batch_size': 32, 'weight_drop': 0.0, 'weight_decay': 0.0, 'forget_bias': 0.0}
    """
    if num_tokens < SHORT_TEXT:
        return {"batch_size": 16, "weight_drop": 0.2, "weight_decay": 0.05, "forget_bias": 1.0}
    return {"batch_size": 32, "weight_drop": 0.0, "weight_decay": 0.0, "forget_bias": 0.0}


class ReadsText:
    """The part of the settings of language models that says how they read a text."""

    @property
    def data_options(self: Any) -> dict[str, Any]:
        """The options with which `open_dataset` opens the data."""
        return {"text": self.text, "layout": self.layout}

    def complete(self: Any, dataset: Dataset) -> Any:
        """A copy in which the settings left to the data have their values, as it is saved."""
        from throughtime.data.memory import MEMORY

        if dataset.kind == "pairs" and dataset.name.startswith(MEMORY):
            raise InputError(
                "data",
                "holds pairs, and this task learns from single texts; pass a list of texts, without labels",
            )
        tokens = self.tokens or dataset.tokens
        normaliser = self.normaliser or dataset.normaliser_for(tokens)
        update = {"tokens": tokens, "normaliser": normaliser, "layout": self.layout or dataset.layout}
        return self.model_copy(update=update)


class WritingDefaults(Config):
    """How a model writes by default: what generation_config.json may hold."""

    do_sample: bool = True
    max_new_tokens: int = Field(100, ge=1, le=1_000_000)
    temperature: float | None = Field(None, gt=0)
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
