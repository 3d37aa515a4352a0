"""Beam search: of all continuations of the k best hypotheses, the k best go on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.interface import Finished, Hypotheses
from throughtime.search.scoring import (
    Pruning,
    check_length_penalty,
    highest,
    normalise_score,
    within_hypothesis,
)
from throughtime.search.strategies import Eager, LengthPenalty, Limit, NumBeams, NumReturnSequences


@dataclass(frozen=True)
class BeamRows(Hypotheses):
    """Hypotheses of a beam. Sentences have as many rows as go on, from one to their groups times `width`.

    Each row stands in a cell of a table [sentences that are alive, groups, width], in the order of the rows.
    """

    width: int = 1
    rank: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows], what rows are compared by
    best: Tensor = field(default_factory=lambda: torch.empty(0))  # [sentences, groups, n], ended ones' scores
    alive: Tensor = field(default_factory=lambda: torch.empty(0))  # [sentences that are alive]
    cell: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows]

    @property
    def shape(self) -> tuple[int, int, int]:
        """That of the table."""
        return len(self.alive), self.best.shape[1], self.width

    def table(self, values: Tensor) -> Tensor:
        """Values of the rows, [rows, n], in their cells, [sentences, groups, width * n]; -inf elsewhere."""
        whole = values.new_full((math.prod(self.shape), values.shape[1]), -torch.inf)
        whole[self.cell] = values
        return whole.view(*self.shape[:2], -1)

    def in_cells(self, cells: Tensor) -> Tensor:
        """The rows in these cells; 0 where none is."""
        rows = self.cell.new_zeros(math.prod(self.shape))
        rows[self.cell] = torch.arange(self.rows, device=rows.device)
        return rows[cells]

    def only(self, going_on: Tensor) -> Self:
        """Drop the rows where `going_on` does not hold."""
        return replace(super().only(going_on), rank=self.rank[going_on], cell=self.cell[going_on])


class Candidates(NamedTuple):
    """The best continuations of each group, best first; -inf in `rank` where there are fewer."""

    row: Tensor  # [sentences, groups, candidates], the one it continues
    token: Tensor
    log_prob: Tensor
    rank: Tensor


class Beam:
    """The `num_beams` best of all continuations go on; those that took the end token leave with a score.

    The score is log P / L^`length_penalty`, L counting the end token. A sentence is over when none of its
    rows goes on, or when its `num_return_sequences` are certain: a log-probability only falls, so a row can
    at best reach what it has now divided by `max_length`^length_penalty. Without `max_length`, and with a
    length penalty above 0, that is never certain, and the search goes on to the caller's cap. `eager`
    compares with what a row would score if it ended at its next token at no cost: faster, rarely with another
    result, but not certain.

    `prune` drops candidates before they are ranked: see `within_token` and `within_hypothesis`; a `limit`
    stands for `within_hypothesis(limit)`.
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
        if num_beams < 1:
            raise InputError("num_beams", f"is {num_beams}, expected 1 or more")
        if not 1 <= num_return_sequences <= num_beams:
            raise InputError(
                "num_return_sequences",
                f"is {num_return_sequences}, expected 1 to {num_beams}, the number of beams",
            )
        if max_length is not None and max_length < 1:
            raise InputError("max_length", f"is {max_length}, expected 1 or more")
        self.end_id, self.width, self.n_best = end_id, num_beams, num_return_sequences
        self.length_penalty, self.max_length = check_length_penalty(length_penalty), max_length
        self.prune, self.eager = prune if limit is None else within_hypothesis(limit), eager

    @property
    def num_beams(self) -> int:
        """The number of rows that a sentence has, at most."""
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
        found = self.candidates(log_probs, rows)  # [sentences, groups, candidates]
        possible = found.rank > -torch.inf
        over = possible & (found.token == (-1 if self.end_id is None else self.end_id))
        score = self.score(found.log_prob, found.rank, length)
        best = torch.cat([rows.best[rows.alive], score.masked_fill(~over, -torch.inf)], dim=2)
        best = best.topk(self.n_best, dim=2).values
        going_on = possible & ~over
        reach = self.ceiling(found.rank, length)
        if not self.alone:
            reach = reach.masked_fill(~going_on, -torch.inf).amax(dim=2, keepdim=True)
        going_on &= reach > best[..., -1:]

        rows = self._answer_stuck(
            rows, ~possible.flatten(1).any(dim=1) & torch.isinf(best[..., 0]).all(dim=1)
        )
        worth_keeping = over & (score >= best[..., -1:])
        rows = replace(
            _retire_ended(rows, found, score, worth_keeping), best=rows.best.index_copy(0, rows.alive, best)
        )
        longer, came_from = _continue_rows(rows, found, going_on)
        if length == self.max_length:
            return self._cut(longer), came_from[:0]
        return longer, came_from

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The best of each sentence, what the length cap cut included."""
        assert isinstance(hypotheses, BeamRows)
        return [rank_results(found)[: self.n_best] for found in self._cut(hypotheses).ended]

    @property
    def alone(self) -> bool:
        """Whether a row that cannot win any more may go while others of its sentence stay.

        It may where that changes no result: all its continuations, and all that they push out, rank below it.
        A pruning may compare others with it, though, other groups avoid what it says, and what looks lost to
        an eager search may not be.
        """
        return self.groups == 1 and self.prune is None and not self.eager

    def candidates(self, log_probs: Tensor, rows: BeamRows) -> Candidates:
        """The `width` best continuations of each sentence."""
        return best_candidates(log_probs, rows, self.prune)

    def score(self, log_prob: Tensor, rank: Tensor, length: int) -> Tensor:
        """What finished hypotheses are ranked by."""
        return normalise_score(log_prob, length, self.length_penalty)

    def ceiling(self, rank: Tensor, length: int) -> Tensor:
        """What a row that goes on may score in the end, at most."""
        if self.eager:
            return normalise_score(rank, length + 1, self.length_penalty)
        if self.max_length is None:
            return rank if self.length_penalty == 0 else torch.zeros_like(rank)
        return normalise_score(rank, self.max_length, self.length_penalty)

    def _answer_stuck(self, rows: BeamRows, stuck: Tensor) -> BeamRows:
        """Sentences that nothing may continue, and that have no result: the best they had is their result."""
        if not bool(stuck.any()):
            return rows
        rank = rows.table(rows.rank[:, None]).flatten(1)
        chosen = torch.zeros_like(rank, dtype=torch.bool)
        chosen.scatter_(1, rank.argmax(dim=1, keepdim=True), stuck[:, None])
        score = self.score(rows.log_prob, rows.rank, rows.length)
        over = chosen.flatten()[rows.cell]
        return replace(rows, ended=rows.retire(over, score, by_end_token=False).ended)

    def _cut(self, rows: BeamRows) -> BeamRows:
        """No row goes on: those that would are results that the length cap cut."""
        score = self.score(rows.log_prob, rows.rank, rows.length)
        return rows.retire(torch.ones_like(score, dtype=torch.bool), score, by_end_token=False)


def rank_results(found: tuple[Finished, ...]) -> list[Finished]:
    """Best first; of equals the one that was found first."""
    return sorted(found, key=lambda one: -one.score)


def best_candidates(
    log_probs: Tensor, rows: BeamRows, prune: Pruning | None = None, penalty: Tensor | None = None
) -> Candidates:
    """The best of the continuations of each group's rows, as many as its beam is wide.

    A `penalty` [rows, V] counts in the choice, not in what is chosen. Each row's own best are found first:
    the best of all are among them, and sums are formed for few.
    """
    each = min(rows.width, log_probs.shape[1])
    liked = log_probs if penalty is None else log_probs - penalty
    # Of equals the smallest id, as greedy search has it. [rows, each]
    token = liked.argmax(dim=1, keepdim=True) if each == 1 else highest(liked, each).sort(dim=1).values
    gained = log_probs.gather(1, token).to(rows.rank.dtype)
    total = rows.rank[:, None] + gained
    worth = rows.table(total if penalty is None else total - penalty.gather(1, token))
    if prune is not None:
        sums = rows.table(total)
        stays = prune(rows.table(gained).flatten(0, 1), sums.flatten(0, 1)).view_as(sums)
        worth = worth.masked_fill(~stays, -torch.inf)
    worth, place = worth.sort(dim=2, descending=True, stable=True)
    worth, place = worth[..., : rows.width], place[..., : rows.width]
    cells = torch.arange(0, math.prod(rows.shape), rows.width, device=place.device).view(*rows.shape[:2], 1)
    row, which = rows.in_cells(cells + place // each), place % each
    total = total[row, which].masked_fill(worth == -torch.inf, -torch.inf)
    return Candidates(row, token[row, which], total, total)


def _retire_ended(rows: BeamRows, found: Candidates, score: Tensor, over: Tensor) -> BeamRows:
    """Those that took the end token become results."""
    if not bool(over.any()):
        return rows
    ended = rows.extend(found.row[over], found.token[over], found.log_prob[over])
    ended = replace(ended, rank=found.rank[over], cell=rows.cell[found.row[over]])
    everything = torch.ones(ended.rows, dtype=torch.bool, device=over.device)
    return replace(rows, ended=ended.retire(everything, score[over]).ended)


def _continue_rows(rows: BeamRows, found: Candidates, going_on: Tensor) -> tuple[BeamRows, Tensor]:
    """The rows that go on, and where each came from."""
    staying = going_on.flatten(1).any(dim=1)  # [sentences]
    place = going_on.flatten().nonzero().squeeze(1)
    row, token, log_prob, rank = (x.flatten()[place] for x in found)
    cell = going_on[staying].flatten().nonzero().squeeze(1)
    longer = rows.extend(row, token, log_prob)
    return replace(longer, rank=rank, alive=rows.alive[staying], cell=cell), row
