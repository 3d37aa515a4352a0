"""Every sequence there is, for cases small enough: the oracle that other searches are judged by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.generate import generate
from throughtime.search.interface import Finished, Hypotheses, StepModel, Strategy
from throughtime.search.scoring import check_length_penalty, normalise_score
from throughtime.search.strategies import LengthPenalty, NumReturnSequences

MOST_SEQUENCES = 250_000


class Exhaustive:
    """Keeps every hypothesis of positive probability; ranks by log_prob / L^length_penalty.

    L counts the end token. What the length cap cuts is a result as well. Of equal scores the shorter wins,
    then the smaller ids.
    """

    def __init__(
        self,
        end_id: int | None,
        max_length: int | None,
        *,
        length_penalty: LengthPenalty = 0.75,
        num_return_sequences: NumReturnSequences = 1,
    ) -> None:
        if max_length is None or max_length < 1:
            raise InputError("max_length", f"is {max_length}, expected 1 or more")
        if num_return_sequences < 1:
            raise InputError("num_return_sequences", f"is {num_return_sequences}, expected 1 or more")
        self.end_id, self.max_length, self.n_best = end_id, max_length, num_return_sequences
        self.length_penalty = check_length_penalty(length_penalty)

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """One row for each sentence."""
        return Hypotheses.begin(batch, device=device)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Every row goes on with every token; refused at the first where that would become too many."""
        vocabulary = log_probs.shape[1]
        if hypotheses.length == 0:
            self._refuse(hypotheses.rows, vocabulary)
        total = (hypotheses.log_prob[:, None] + log_probs).flatten()
        possible = (total > -torch.inf).nonzero().flatten()
        rows, token = possible // vocabulary, possible % vocabulary
        longer = hypotheses.extend(rows, token, total[possible])
        if self.end_id is None:
            return longer, rows
        over = token == self.end_id
        score = self._score(longer)
        longer = longer.retire(over & self._among_best(longer.sentence, score, over), score)
        # Those that ended below the best have left no trace: they are dropped here.
        going_on = longer.last != self.end_id
        return longer.only(going_on), rows[~over]

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The best of each sentence."""
        score = self._score(hypotheses)
        best = self._among_best(hypotheses.sentence, score, torch.ones_like(score, dtype=torch.bool))
        cut = hypotheses.retire(best, score, by_end_token=False)
        return [sorted(found, key=lambda one: -one.score)[: self.n_best] for found in cut.ended]

    def _score(self, hypotheses: Hypotheses) -> Tensor:
        return normalise_score(hypotheses.log_prob, hypotheses.length, self.length_penalty)

    def _among_best(self, sentence: Tensor, score: Tensor, of: Tensor) -> Tensor:
        """Which of the rows `of` are among the `n_best` of their sentence. [rows]"""
        order = of.nonzero().flatten()
        order = order[score[order].sort(descending=True, stable=True).indices]
        order = order[sentence[order].sort(stable=True).indices]
        place = torch.arange(len(order), device=score.device)
        first = torch.searchsorted(sentence[order], sentence[order])
        best = torch.zeros_like(of)
        best[order[place - first < self.n_best]] = True
        return best

    def _refuse(self, sentences: int, vocabulary: int) -> None:
        if sentences * vocabulary**self.max_length > MOST_SEQUENCES:
            raise InputError(
                "exhaustive search",
                f"would try {vocabulary}^{self.max_length} sequences for each of {sentences} sentences, "
                f"more than {MOST_SEQUENCES:,} in all; lower the maximum length, or use exact or beam search",
            )


def exhaustive(
    model: StepModel,
    prompts: Sequence[Sequence[int]],
    end_id: int | None,
    max_new_tokens: int,
    length_penalty: float = 0.75,
    num_return_sequences: int = 1,
) -> list[list[Finished]]:
    """The best of all |Y|^T sequences, for each prompt."""
    strategy = Exhaustive(
        end_id,
        max_new_tokens,
        length_penalty=length_penalty,
        num_return_sequences=num_return_sequences,
    )
    return generate(model, prompts, strategy, max_new_tokens=max_new_tokens)


@dataclass(frozen=True)
class SearchCosts:
    """How many candidates greedy, beam and exhaustive search score at most, by formula; printed as a table.

    >>> print(SearchCosts(vocabulary=10_000, steps=10, num_beams=5))
    |Y| = 10,000, T = 10
    greedy        |Y| T              100,000
    beam of 5     k |Y| T            500,000
    exhaustive    |Y|^T              1.0e+40
    """

    vocabulary: int
    steps: int
    num_beams: int

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        for name, value in vars(self).items():
            if value < 1:
                raise InputError(name, f"is {value}, expected 1 or more")

    @property
    def greedy(self) -> int:
        """|Y| T"""
        return self.vocabulary * self.steps

    @property
    def beam(self) -> int:
        """k |Y| T"""
        return self.num_beams * self.vocabulary * self.steps

    @property
    def exhaustive(self) -> int:
        """|Y|^T"""
        return int(self.vocabulary**self.steps)

    def __str__(self) -> str:
        """A table, one search a line."""
        rows = [
            ("greedy", "|Y| T", self.greedy),
            (f"beam of {self.num_beams}", "k |Y| T", self.beam),
            ("exhaustive", "|Y|^T", self.exhaustive),
        ]
        head = f"|Y| = {self.vocabulary:,}, T = {self.steps}"
        return "\n".join(
            [head, *(f"{name:<14}{formula:<10}{_short(count):>16}" for name, formula, count in rows)]
        )


def count_candidates(
    model: StepModel, prompts: Sequence[Sequence[int]], strategy: Strategy, *, max_new_tokens: int
) -> int:
    """How many candidates a search really scored: the tokens weighed, over all its rows and steps."""
    scored: list[int] = []
    generate(
        model,
        prompts,
        strategy,
        max_new_tokens=max_new_tokens,
        watch=lambda moment: scored.append(moment.log_probs.numel()),
    )
    return sum(scored)


def _short(count: int) -> str:
    if count < 10**12:
        return f"{count:,}"
    power = math.floor(math.log10(count))
    return f"{count // 10 ** (power - 1) / 10:.1f}e+{power}"  # in whole numbers: a float would overflow
