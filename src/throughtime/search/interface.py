"""What models and strategies know of each other: a step's log-probabilities, and hypotheses.

A model (counted, recurrent, or several at once) is a `StepModel`; a `Strategy` never sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

if TYPE_CHECKING:
    from throughtime.search.constraints import Constraint
    from throughtime.search.generate import Moment

State = tuple[Tensor, ...]
"""What changes from token to token: flat, each tensor [rows, ...]; selected per hypothesis at every step."""


@dataclass(frozen=True)
class Memory:
    """What stays the same while a sentence is decoded: kept once per sentence, not once per hypothesis.

    `kept` holds tensors [sentences, ...] (an encoder's outputs, their lengths); `owner` says whose sentence
    each row is. Rows of a sentence lie side by side; `rows_each` is their number where all have the same.
    """

    kept: tuple[Tensor, ...]
    owner: Tensor  # [rows], into the sentences that are kept
    rows_each: int | None = 1

    @classmethod
    def empty(cls, sentences: int, device: torch.device | None = None) -> Memory:
        """For models that remember nothing per sentence."""
        return cls((), torch.arange(sentences, device=device))

    @property
    def places(self) -> tuple[Tensor, int]:
        """Where each row lies in a table [sentences, the most rows of one], and that most."""
        rows = torch.bincount(self.owner)
        most = int(rows.max()) if len(rows) else 0
        within = torch.arange(len(self.owner), device=self.owner.device) - (rows.cumsum(0) - rows)[self.owner]
        return self.owner * most + within, most

    def follow(self, owner: Tensor) -> Memory:
        """The memory for rows that belong to these sentences; a sentence without a row is forgotten."""
        if torch.equal(owner, self.owner):
            return self
        alive, renumbered, each = torch.unique_consecutive(owner, return_inverse=True, return_counts=True)
        whole = len(alive) == (int(self.owner[-1]) + 1 if len(self.owner) else 0)
        kept = self.kept if whole else tuple(tensor.index_select(0, alive) for tensor in self.kept)
        uniform = len(each) > 0 and bool((each == each[0]).all())
        return Memory(kept, renumbered, int(each[0]) if uniform else None)


class Step(NamedTuple):
    """One step of a model for every row."""

    log_probs: Tensor  # [rows, V], ln P(next); given away: a search may write on it
    state: State
    extras: Mapping[str, Tensor] = {}  # [rows, ...], attention for one; search carries them along


class StepModel(Protocol):
    """What search needs of any model."""

    def start(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, State, Memory]:
        """Read the prompts: the first input of each row, the state to enter with it, the memory."""
        ...

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token a row."""
        ...


def select(state: State, rows: Tensor) -> State:
    """The state of the hypotheses that go on."""
    return tuple(tensor.index_select(0, rows) for tensor in state)


@dataclass(frozen=True)
class Finished:
    """One sequence that a search found."""

    tokens: tuple[int, ...]  # without the end token
    log_prob: float  # ln P of the tokens, the end token included where there is one
    score: float  # what the strategy ranks by
    ended: bool  # by the end token; False where the length cap cut it
    path: tuple[int, ...] = ()  # the row that produced each token, to find its extras again


@dataclass(frozen=True)
class Hypotheses:
    """The rows that go on, sentence by sentence, and what has ended.

    Tokens lie in a buffer that doubles when it is full, so that a step costs the same at any length.

    >>> two = Hypotheses.begin(2)
    >>> two = two.extend(torch.tensor([0, 1]), torch.tensor([7, 8]), torch.tensor([-1.0, -2.0]))
    >>> two = two.extend(torch.tensor([1, 1]), torch.tensor([3, 4]), torch.tensor([-3.0, -4.0]))
    >>> two.tokens.tolist(), two.sentence.tolist()
    ([[8, 3], [8, 4]], [1, 1])
    """

    sentence: Tensor  # [rows], into the prompts
    log_prob: Tensor  # [rows]
    length: int = 0
    ended: tuple[tuple[Finished, ...], ...] = ()  # per sentence
    _tokens: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows, capacity]
    _path: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows, capacity]

    @classmethod
    def begin(cls, sentences: int, each: int = 1, device: torch.device | None = None) -> Self:
        """Empty hypotheses: `each` rows for every sentence."""
        sentence = torch.arange(sentences, device=device).repeat_interleave(each)
        empty = torch.empty(len(sentence), 16, dtype=torch.long, device=device)
        log_prob = torch.zeros(len(sentence), dtype=torch.float64, device=device)
        return cls(sentence, log_prob, 0, ((),) * sentences, empty, empty.clone())

    @property
    def rows(self) -> int:
        """How many hypotheses go on."""
        return len(self.sentence)

    @property
    def tokens(self) -> Tensor:
        """What each row has so far, the prompt apart. [rows, length]"""
        return self._tokens[:, : self.length]

    @property
    def last(self) -> Tensor:
        """The newest token of each row. [rows]"""
        return self._tokens[:, self.length - 1]

    def extend(self, rows: Tensor, token: Tensor, log_prob: Tensor) -> Self:
        """Row i of the result is old row `rows[i]` with one more token; `log_prob` is its new total.

        The buffer is handed on, so a set of hypotheses is extended once.
        """
        tokens, path, sentence = self._tokens, self._path, self.sentence
        if len(rows) != self.rows or not torch.equal(rows, torch.arange(self.rows, device=rows.device)):
            tokens, path, sentence = (x.index_select(0, rows) for x in (tokens, path, sentence))
        if self.length == tokens.shape[1]:
            tokens, path = (torch.cat([x, torch.empty_like(x)], dim=1) for x in (tokens, path))
        tokens[:, self.length], path[:, self.length] = token, rows
        return replace(
            self, sentence=sentence, log_prob=log_prob, length=self.length + 1, _tokens=tokens, _path=path
        )

    def newest(self) -> Self:
        """The same with its newest token only."""
        at = slice(self.length - 1, self.length)
        return replace(self, length=1, _tokens=self._tokens[:, at].clone(), _path=self._path[:, at].clone())

    def retire(self, over: Tensor, score: Tensor, by_end_token: bool = True) -> Self:
        """Move the rows where `over` holds to the finished ones; the others go on."""
        if not bool(over.any()):
            return self
        ended = [list(found) for found in self.ended]
        keep = self.length - 1 if by_end_token else self.length
        for row in over.nonzero().flatten().tolist():
            ended[int(self.sentence[row])].append(
                Finished(
                    tuple(self._tokens[row, :keep].tolist()),
                    float(self.log_prob[row]),
                    float(score[row]),
                    by_end_token,
                    tuple(self._path[row, : self.length].tolist()),
                )
            )
        return replace(self.only(~over), ended=tuple(tuple(found) for found in ended))

    def only(self, going_on: Tensor) -> Self:
        """Drop the rows where `going_on` does not hold."""
        return replace(
            self,
            sentence=self.sentence[going_on],
            log_prob=self.log_prob[going_on],
            _tokens=self._tokens[going_on],
            _path=self._path[going_on],
        )


class Strategy(Protocol):
    """Chooses which hypotheses go on. It never sees the model."""

    @property
    def end_id(self) -> int | None:
        """The token that ends a sequence; None where sequences have no end."""
        ...

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """The hypotheses before the first token."""
        ...

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """The hypotheses one token longer, and the row that each of those that go on came from."""
        ...

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The results of each sentence, best first, when no row goes on or the length cap is reached."""
        ...


@runtime_checkable
class WholeSearch(Protocol):
    """A strategy that runs the model itself, because it returns to prefixes that it left earlier."""

    def search(
        self,
        model: StepModel,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        constraints: Sequence[Constraint],
        watch: Callable[[Moment], None] | None,
    ) -> list[list[Finished]]:
        """The results of each prompt, best first; `watch` sees the steps that lead to them."""
        ...
