"""The answers of models as plain data, the same from a trained model and from its exported copy.

Only the standard library is imported here, so that using an answer needs neither torch nor onnxruntime. Every
prediction method returns a list with one answer for each input; if several answers were requested, the others
are its `alternatives`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from throughtime.errors import DamagedModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[int, int], None]
"""Called with the number of inputs that are done and the number of all inputs."""
AnswerType = TypeVar("AnswerType", bound="Answer")


class Answer:
    """The base of all answers: `str()` gives its text, `to_dict()` all its values by name, ready for JSON."""

    def __post_init__(self) -> None:
        """Refuse scores and probabilities that are not numbers."""
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]  # faster than `fields`
            if _has_nan(getattr(self, name)):
                raise DamagedModelError

    def to_dict(self) -> dict[str, Any]:
        """All values by name, as plain lists, dictionaries and numbers."""
        values = {field.name: _to_plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        for alternative in values.get("alternatives", ()):
            del alternative["alternatives"]  # an alternative has none of its own
        return values

    def __str__(self) -> str:
        """The text of the answer."""
        return str(getattr(self, "text", None) or repr(self))


def with_alternatives(answers: Sequence[AnswerType]) -> AnswerType:
    """The first of some answers to one input, with the others as its alternatives."""
    return replace(answers[0], alternatives=tuple(answers[1:]))  # type: ignore[type-var]


@dataclass(frozen=True)
class Evaluation(Answer):
    """The measures of a model on a split of some data: `result["bleu"]`, or all of them as `result.values`.

    The signature says how they were measured; results with the same signature can be compared.
    """

    values: dict[str, Any]
    signature: str
    text: str

    def __post_init__(self) -> None:
        """Accept all measures: one without a value, such as a correlation of constants, may be NaN."""

    def __getitem__(self, name: str) -> Any:
        """One measure by its name."""
        return self.values[name]

    def __repr__(self) -> str:
        """The text for people, with the signature below."""
        return f"{self.text}\n{self.signature}"


@dataclass(frozen=True)
class Scored(Answer):
    """A text with the log-probability of each of its tokens."""

    text: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]

    @property
    def log_prob(self) -> float:
        """ln P(text), the sum over its tokens."""
        return sum(self.log_probs)

    @property
    def total(self) -> float:
        """The same as `log_prob`."""
        return self.log_prob

    @property
    def perplexity(self) -> float:
        """exp(-`per_token`): the number of equally likely tokens to choose from at each step."""
        try:
            return math.exp(-self.per_token)
        except OverflowError:
            return math.inf

    def __repr__(self) -> str:
        """The text with its log-probability, number of tokens and perplexity.

        >>> Scored("dog bites man", ("dog", "bites", "man"), (-2.0, -3.0, -4.0))
        Scored('dog bites man', log_prob=-9, tokens=3, perplexity=20.09)
        """
        numbers = f"log_prob={self.log_prob:.4g}, tokens={len(self.tokens)}, perplexity={self.perplexity:.4g}"
        return f"Scored({self.text!r}, {numbers})"

    @property
    def per_token(self) -> float:
        """ln P(text) divided by the number of tokens, so that long texts can be compared with short ones."""
        return self.total / len(self.log_probs) if self.log_probs else 0.0


@dataclass(frozen=True)
class Generated(Answer):
    """A text that continues a prompt; `ended` is False if it was cut at the maximum length."""

    text: str
    log_prob: float
    ended: bool
    alternatives: tuple[Generated, ...] = ()


@dataclass(frozen=True)
class Composed(Answer):
    """A text that was written from a label or a vector, and the score that the search ranks it by.

    `ended` is False if the text was cut at the maximum length.
    """

    text: str
    score: float
    log_prob: float
    ended: bool
    alternatives: tuple[Composed, ...] = ()


@dataclass(frozen=True)
class Alignment:
    """How much each target word attended to each source word; both sides end with their end mark."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]  # [target words][source words], rows sum to 1

    def best(self, word: int) -> str:
        """The source word that a target word attended to most; the end mark does not count.

        >>> Alignment(("go", "home", "</s>"), ("rentre",), ((0.2, 0.5, 0.3),)).best(0)
        'home'
        """
        row = self.weights[word][: len(self.source) - 1]
        return self.source[row.index(max(row))] if row else ""


@dataclass(frozen=True)
class Translation(Answer):
    """A translation, and the score that the search ranks it by.

    `ended` is False if it was cut at the maximum length; the alignment is None unless it was requested.
    """

    text: str
    score: float
    log_prob: float
    ended: bool
    alignment: Alignment | None = None
    alternatives: tuple[Translation, ...] = ()


class TaggedWord(NamedTuple):
    """A word, its tag, and the most likely tags with their probabilities, best first.

    The tags of a chain are chosen together, so the chosen one need not be the most likely of its word alone.
    """

    word: str
    tag: str
    probability: float
    likely: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Tagged(Answer):
    """Words with their tags, and the label of the whole sentence if the model gives one."""

    words: tuple[TaggedWord, ...]
    label: str = ""
    label_probability: float | None = None
    chunks: tuple[tuple[str, str], ...] = ()
    """The type and text of each chunk, if tags such as B-PER and I-PER mark chunks."""

    @property
    def text(self) -> str:
        """One line: word/tag for each word, then a tab and the label if there is one.

        >>> Tagged((TaggedWord("play", "O", 0.9), TaggedWord("jazz", "B-genre", 0.8)), "Play").text
        'play/O jazz/B-genre\\tPlay'
        """
        line = " ".join(f"{word.word}/{word.tag}" for word in self.words)
        return f"{line}\t{self.label}" if self.label else line

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags alone."""
        return tuple(word.tag for word in self.words)

    def to_dict(self) -> dict[str, Any]:
        """All values by name; the label only if there is one."""
        words = [{**word._asdict(), "likely": dict(word.likely)} for word in self.words]
        chunks = [{"type": kind, "text": text} for kind, text in self.chunks]
        label = {"label": self.label, "label_probability": self.label_probability} if self.label else {}
        return {"words": words, "chunks": chunks, **label}


@dataclass(frozen=True)
class Classified(Answer):
    """A text and its labels with their probabilities, the most likely first."""

    text: str
    ranked: tuple[tuple[str, float], ...]

    @property
    def label(self) -> str:
        """The most likely label."""
        return self.ranked[0][0]

    @property
    def probability(self) -> float:
        """The probability of the most likely label."""
        return self.ranked[0][1]

    def to_dict(self) -> dict[str, Any]:
        """All values by name."""
        head = {"text": self.text, "label": self.label, "probability": self.probability}
        return {**head, "probabilities": dict(self.ranked)}

    def __str__(self) -> str:
        """The most likely label."""
        return self.label


@dataclass(frozen=True)
class Filling(Answer):
    """A text with its blanks filled, the tokens put in, and their joint probability."""

    text: str
    tokens: tuple[str, ...]
    probability: float
    alternatives: tuple[Filling, ...] = ()


@dataclass(frozen=True)
class Forecast(Answer):
    """The next `h` values of one series.

    `quantiles` maps probabilities to values, and is empty for a model without intervals; `samples` are
    sample paths. `ds` are the times, or None if the series has none.
    """

    unique_id: str
    mean: NDArray[Any]  # [h]
    quantiles: dict[float, NDArray[Any]]  # each [h]
    samples: NDArray[Any] | None = None  # [paths, h]
    ds: NDArray[Any] | None = None  # [h]

    def to_dict(self) -> dict[str, Any]:
        """All values by name; times as text, and None for numbers that are not finite."""
        return super().to_dict() | {"ds": None if self.ds is None else format_times(self.ds)}


def format_times(ds: NDArray[Any]) -> list[str]:
    """Times as they are written in a file: without the hour if all are midnights.

    >>> import numpy as np
    >>> format_times(np.array(["2020-01-06T00", "2020-01-06T12"], "datetime64[ns]"))
    ['2020-01-06 00:00:00', '2020-01-06 12:00:00']
    """
    if ds.dtype.kind != "M":
        return [str(time) for time in ds.tolist()]
    days = ds.astype("datetime64[D]")
    if (days == ds).all():
        return [str(day) for day in days]
    return [str(time).replace("T", " ") for time in ds.astype("datetime64[s]")]


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    if not isinstance(value, tuple):
        return False
    kinds = set(map(type, value))
    if kinds == {float}:  # the scores of all tokens of a text: many
        return any(map(math.isnan, value))
    return kinds != {str} and any(map(_has_nan, value))


def _to_plain(value: Any) -> Any:
    if isinstance(value, Answer):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _to_plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return {name: _to_plain(item) for name, item in value._asdict().items()}
    if hasattr(value, "tolist"):
        return _to_plain(value.tolist())
    if isinstance(value, dict):
        return {name: _to_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN and no infinity
    return value if value is None or isinstance(value, str | int | float) else str(value)
