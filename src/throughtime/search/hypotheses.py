"""What a search has so far: rows of tokens that go on, and those that have ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor


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
