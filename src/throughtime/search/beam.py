"""Beam search: of all continuations of the k best hypotheses, the k best continue."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.errors import check_whole
from throughtime.runtime.search import check_beam
from throughtime.search.candidates import BeamRows, Candidates, Pruning, best_candidates, prune_by_hypothesis
from throughtime.search.generate import Finished, Hypotheses
from throughtime.search.strategies import Eager, LengthPenalty, Limit, NumBeams, NumReturnSequences

Length = int | Tensor
"""A number of tokens; also as a tensor []."""


def normalise_score(log_prob: Tensor, length: Length, length_penalty: float) -> Tensor:
    """log P / L^length_penalty; L counts the end token. 0 favours short results, 1 is the mean over tokens.

    >>> normalise_score(torch.tensor([-4.0]), 4, 0.5)
    tensor([-2.])
    """
    if isinstance(length, Tensor):
        return log_prob / length.to(log_prob.dtype).clamp(min=1) ** length_penalty
    divisor: float = max(length, 1) ** length_penalty
    return log_prob / divisor


class Choice(NamedTuple):
    """What becomes of the candidates of a step; all but `best` are [sentences, groups, candidates]."""

    candidates: Candidates
    score: Tensor
    possible: Tensor
    ended: Tensor  # with the end token, and worth keeping
    going_on: Tensor
    best: Tensor  # [sentences, groups, n], the best scores of ended ones


class Beam:
    """The `num_beams` best of all continuations continue; those that took the end token become results.

    The score of a result is log P / L^`length_penalty`, where L counts the end token. A sentence is finished
    when it has no rows left, or when no row can beat its `num_return_sequences` best results:
    log-probabilities only fall, so a row can reach at most its present one divided by
    `max_length`^length_penalty. Without `max_length`, and with a length penalty above 0, there is no such
    bound, and the search runs to the caller's maximum length. With `eager` the bound is what a row would
    score if it ended at its next token at no cost: this is faster and rarely changes the result, but may.

    `prune` drops candidates before they are ranked: see `prune_by_token` and `prune_by_hypothesis`. A `limit`
    is short for `prune=prune_by_hypothesis(limit)`.
    """

    groups = 1

    def __init__(
        self,
        end_id: int | None,
        num_beams: NumBeams = 5,
        *,
        length_penalty: LengthPenalty = 0.75,
        num_return_sequences: NumReturnSequences = 1,
        max_length: int | None = None,
        limit: Limit = None,
        eager: Eager = False,
        prune: Pruning | None = None,
    ) -> None:
        check_beam(num_beams, length_penalty, num_return_sequences)
        if max_length is not None:
            check_whole("max_length", max_length)
        self.end_id, self.width, self.n_best = end_id, num_beams, num_return_sequences
        self.length_penalty, self.max_length = length_penalty, max_length
        self.prune, self.eager = prune if limit is None else prune_by_hypothesis(limit), eager

    @property
    def num_beams(self) -> int:
        """Maximum number of rows of a sentence."""
        return self.groups * self.width

    def begin(self, batch: int, device: torch.device) -> BeamRows:
        """One empty row for each sentence and group."""
        empty = BeamRows.begin(batch, self.groups, device)
        best = empty.log_prob.new_full((batch, self.groups, self.n_best), -torch.inf)
        return replace(
            empty,
            width=self.width,
            rank=empty.log_prob,
            best=best,
            alive=torch.arange(batch, device=device),
            cell=torch.arange(empty.rows, device=device) * self.width,
        )

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Continue every row with every token; keep the best."""
        assert isinstance(hypotheses, BeamRows)
        rows, length = hypotheses, hypotheses.length + 1
        chosen = self.judge(self.candidates(log_probs, rows), rows.best[rows.alive], length)
        candidates, best = chosen.candidates, chosen.best
        rows = self._answer_stuck(
            rows, ~chosen.possible.flatten(1).any(dim=1) & torch.isinf(best[..., 0]).all(dim=1)
        )
        rows = replace(
            _retire_ended(rows, candidates, chosen.score, chosen.ended),
            best=rows.best.index_copy(0, rows.alive, best),
        )
        longer, came_from = _continue_rows(rows, candidates, chosen.going_on)
        if length == self.max_length:
            return self._cut(longer), came_from[:0]
        return longer, came_from

    def judge(self, candidates: Candidates, best: Tensor, length: Length) -> Choice:
        """What becomes of candidates; `best` are the scores of the results of their groups so far."""
        possible = candidates.rank > -torch.inf
        over = possible & (candidates.token == (-1 if self.end_id is None else self.end_id))
        score = self.score(candidates.log_prob, candidates.rank, length)
        best = torch.cat([best, score.masked_fill(~over, -torch.inf)], dim=2)
        best = best.topk(self.n_best, dim=2).values
        going_on = possible & ~over
        reach = self.ceiling(candidates.rank, length)
        if not self.alone:
            reach = reach.masked_fill(~going_on, -torch.inf).amax(dim=2, keepdim=True)
        going_on &= reach > best[..., -1:]
        return Choice(candidates, score, possible, over & (score >= best[..., -1:]), going_on, best)

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The best results of each sentence, including those cut at the maximum length."""
        assert isinstance(hypotheses, BeamRows)
        return [rank_results(results)[: self.n_best] for results in self._cut(hypotheses).ended]

    @property
    def alone(self) -> bool:
        """Whether a row that cannot win any more may be dropped while other rows of its sentence continue.

        This must not change any result: the row's continuations, and those that they would displace, rank
        below it. But a pruning compares others with it, other groups avoid its tokens, and a row that an
        eager search gives up may still win.
        """
        return self.groups == 1 and self.prune is None and not self.eager

    def candidates(self, log_probs: Tensor, rows: BeamRows) -> Candidates:
        """The `width` best continuations of each sentence."""
        return best_candidates(log_probs, rows, self.prune)

    def score(self, log_prob: Tensor, rank: Tensor, length: Length) -> Tensor:
        """The score that finished hypotheses are ranked by."""
        return normalise_score(log_prob, length, self.length_penalty)

    def ceiling(self, rank: Tensor, length: Length) -> Tensor:
        """The highest score that a row may still reach."""
        if self.eager:
            return normalise_score(rank, length + 1, self.length_penalty)
        if self.max_length is None:
            return rank if self.length_penalty == 0 else torch.zeros_like(rank)
        return normalise_score(rank, self.max_length, self.length_penalty)

    def _answer_stuck(self, rows: BeamRows, stuck: Tensor) -> BeamRows:
        """For sentences that cannot continue and have no result, their best row becomes the result."""
        if not bool(stuck.any()):
            return rows
        rank = rows.table(rows.rank[:, None]).flatten(1)
        chosen = torch.zeros_like(rank, dtype=torch.bool)
        chosen.scatter_(1, rank.argmax(dim=1, keepdim=True), stuck[:, None])
        score = self.score(rows.log_prob, rows.rank, rows.length)
        over = chosen.flatten()[rows.cell]
        return replace(rows, ended=rows.retire(over, score, by_end_token=False).ended)

    def _cut(self, rows: BeamRows) -> BeamRows:
        """Turn all rows that continue into results cut at the maximum length."""
        if not rows.rows:
            return rows
        score = self.score(rows.log_prob, rows.rank, rows.length)
        return rows.retire(torch.ones_like(score, dtype=torch.bool), score, by_end_token=False)


def rank_results(results: tuple[Finished, ...]) -> list[Finished]:
    """Sort results, best first; among equals, the one found first."""
    return sorted(results, key=lambda result: -result.score)


def _retire_ended(rows: BeamRows, candidates: Candidates, score: Tensor, over: Tensor) -> BeamRows:
    """Turn the candidates that took the end token into results."""
    if not bool(over.any()):
        return rows
    ended = rows.extend(candidates.row[over], candidates.token[over], candidates.log_prob[over])
    ended = replace(ended, rank=candidates.rank[over], cell=rows.cell[candidates.row[over]])
    everything = torch.ones(ended.rows, dtype=torch.bool, device=over.device)
    return replace(rows, ended=ended.retire(everything, score[over]).ended)


def _continue_rows(rows: BeamRows, candidates: Candidates, going_on: Tensor) -> tuple[BeamRows, Tensor]:
    """The rows that continue, and the row that each came from."""
    staying = going_on.flatten(1).any(dim=1)  # [sentences]
    position = going_on.flatten().nonzero().squeeze(1)
    row, token, log_prob, rank = (x.flatten()[position] for x in candidates)
    cell = going_on[staying].flatten().nonzero().squeeze(1)
    longer = rows.extend(row, token, log_prob)
    return replace(longer, rank=rank, alive=rows.alive[staying], cell=cell), row
