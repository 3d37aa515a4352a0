"""Search over all sequences, for small cases; the costs and the errors of other searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.errors import InputError, check_whole
from throughtime.runtime.search import check_beam
from throughtime.search.beam import normalise_score
from throughtime.search.exact import ExactResult
from throughtime.search.generate import Finished, Hypotheses, StepModel, Strategy, generate
from throughtime.search.strategies import LengthPenalty, NumReturnSequences

MAX_SEQUENCES = 250_000


class Exhaustive:
    """Keep every hypothesis of positive probability; rank by log_prob / L^length_penalty.

    L counts the end token. Sequences cut at the maximum length are results, too. Among equal scores the
    shorter sequence wins, then the one with smaller ids.
    """

    def __init__(
        self,
        end_id: int | None,
        max_length: int | None,
        *,
        length_penalty: LengthPenalty = 0.75,
        num_return_sequences: NumReturnSequences = 1,
    ) -> None:
        check_beam(max(1, num_return_sequences), length_penalty, num_return_sequences)
        self.max_length = check_whole("max_length", max_length)
        self.end_id, self.n_best = end_id, num_return_sequences
        self.length_penalty = length_penalty

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """One row for each sentence."""
        return Hypotheses.begin(batch, device=device)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Continue every row with every token; refuse at the first step if there would be too many."""
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
        # Rows that ended below the best are dropped here.
        going_on = longer.last != self.end_id
        return longer.only(going_on), rows[~over]

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The best results of each sentence."""
        score = self._score(hypotheses)
        best = self._among_best(hypotheses.sentence, score, torch.ones_like(score, dtype=torch.bool))
        cut = hypotheses.retire(best, score, by_end_token=False)
        return [sorted(results, key=lambda result: -result.score)[: self.n_best] for results in cut.ended]

    def _score(self, hypotheses: Hypotheses) -> Tensor:
        return normalise_score(hypotheses.log_prob, hypotheses.length, self.length_penalty)

    def _among_best(self, sentence: Tensor, score: Tensor, of: Tensor) -> Tensor:
        """Which of the rows in the mask `of` are among the `n_best` of their sentence. [rows]"""
        rows = of.nonzero().flatten()
        rows = rows[score[rows].sort(descending=True, stable=True).indices]
        rows = rows[sentence[rows].sort(stable=True).indices]  # sentence by sentence, best first
        rank = torch.arange(len(rows), device=rows.device)
        rank -= torch.searchsorted(sentence[rows], sentence[rows])
        best = torch.zeros_like(of)
        best[rows[rank < self.n_best]] = True
        return best

    def _refuse(self, sentences: int, vocabulary: int) -> None:
        if sentences * vocabulary**self.max_length > MAX_SEQUENCES:
            each = f" for each of {sentences} sentences" if sentences > 1 else ""
            raise InputError(
                "exhaustive search",
                f"would try {vocabulary}^{self.max_length} sequences{each}, more than {MAX_SEQUENCES:,} in "
                "total; lower the maximum length, or use exact or beam search",
            )


@dataclass(frozen=True)
class SearchCosts:
    """The maximum number of candidates that greedy, beam and exhaustive search score; prints as a table.

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
            check_whole(name, value)

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
        """A table with one search per line."""
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
    """Run a search and count the candidates that it scored: all tokens, over all rows and steps."""
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
    return f"{count // 10 ** (power - 1) / 10:.1f}e+{power}"  # in integers: a float would overflow


class SearchErrors(NamedTuple):
    """How often a search missed the model's best sequence; unresolved sentences are counted separately."""

    share: float | None  # errors / resolved; None if nothing was resolved
    errors: int
    resolved: int
    unresolved: int
    unresolved_errors: int  # unresolved sentences for which something better was found


def search_errors(
    beam_results: Sequence[Finished], exact_results: Sequence[ExactResult], tolerance: float = 1e-4
) -> SearchErrors:
    """Compare the best result of a beam (with length_penalty 0) with the optimum, for each sentence.

    It is an error to be more than `tolerance` below the optimum, or not to have ended if the optimum has.

    >>> greedy = [Finished((1,), -0.9, -0.9, True), Finished((), -0.5, -0.5, True)]
    >>> best = [ExactResult(Finished((2,), -0.6, -0.6, True), True, 7), ExactResult(greedy[1], True, 2)]
    >>> search_errors(greedy, best)
    SearchErrors(share=0.5, errors=1, resolved=2, unresolved=0, unresolved_errors=0)
    """
    if len(beam_results) != len(exact_results):
        raise InputError(
            "search errors",
            f"cannot compare {len(beam_results)} results with {len(exact_results)} exact ones",
        )
    missed = [
        exact.best.log_prob - beam.log_prob > tolerance or (exact.best.ended and not beam.ended)
        for beam, exact in zip(beam_results, exact_results, strict=True)
    ]
    resolved = sum(exact.resolved for exact in exact_results)
    errors = sum(wrong and exact.resolved for wrong, exact in zip(missed, exact_results, strict=True))
    share = errors / resolved if resolved else None
    return SearchErrors(share, errors, resolved, len(missed) - resolved, sum(missed) - errors)
