"""The results of models as plain data, returned by a trained model and by its exported copy.

Only the standard library is imported here, so that using a result needs neither torch nor onnxruntime.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple


class Answer:
    """The base of all answers: `str()` is the text, `to_dict()` is everything by name, ready for JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Everything by name, as plain lists, dictionaries and numbers."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    def __str__(self) -> str:
        """The text of the answer."""
        return str(getattr(self, "text", None) or repr(self))


@dataclass(frozen=True)
class Evaluation(Answer):
    """What was measured on a split of some data: `result["bleu"]`, or all of it as `result.values`.

    The signature tells how it was measured, so that two results with the same one can be compared.
    """

    values: dict[str, Any]
    signature: str
    text: str

    def __getitem__(self, name: str) -> Any:
        """One measure by its name."""
        return self.values[name]

    def __repr__(self) -> str:
        """The text for people, with the signature below."""
        return f"{self.text}\n{self.signature}"


def _plain(value: Any) -> Any:
    if isinstance(value, Answer):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Scored:
    """A text with the log-probability of each of its tokens."""

    text: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]

    @property
    def total(self) -> float:
        """ln P(text)."""
        return sum(self.log_probs)

    @property
    def per_token(self) -> float:
        """ln P(text) divided by the number of tokens, so that long texts can be compared with short ones."""
        return self.total / len(self.log_probs) if self.log_probs else 0.0


@dataclass(frozen=True)
class Generated:
    """A text that the model generated: `text` begins with the prompt."""

    text: str
    log_prob: float
    ended: bool


@dataclass(frozen=True)
class Composed(Answer):
    """A text that was written from a label or a vector, and the score that the search ranks it by.

    `ended` is False where the maximum length cut the text.
    """

    text: str
    score: float
    log_prob: float
    ended: bool


class TaggedWord(NamedTuple):
    """A word, its tag, and the most likely tags with their probabilities, best first.

    The tags of a chain are chosen together, so the chosen one need not be the most likely of its word alone.
    """

    word: str
    tag: str
    probability: float
    likely: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Tagged:
    """Words with their tags, and the label of the whole sentence where the model gives one."""

    words: tuple[TaggedWord, ...]
    label: str = ""
    label_probability: float | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags alone."""
        return tuple(word.tag for word in self.words)


@dataclass(frozen=True)
class Classified:
    """A text and its labels, the most likely first."""

    text: str
    ranked: tuple[tuple[str, float], ...]  # label and probability

    @property
    def label(self) -> str:
        """The most likely label."""
        return self.ranked[0][0]

    @property
    def probability(self) -> float:
        """The probability of the most likely label."""
        return self.ranked[0][1]

    def values(self) -> dict[str, Any]:
        """Everything by name, ready for JSON."""
        head = {"text": self.text, "label": self.label, "probability": self.probability}
        return {**head, "probabilities": dict(self.ranked)}


@dataclass(frozen=True)
class Filling:
    """A sentence with its blanks filled, the words put in, and their joint probability."""

    text: str
    tokens: tuple[str, ...]
    probability: float

    def values(self) -> dict[str, Any]:
        """Everything by name, ready for JSON."""
        return {"text": self.text, "tokens": list(self.tokens), "probability": self.probability}
