"""Beam search: of all continuations of the k best hypotheses, the k best go on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.highest import highest
from throughtime.search.hypotheses import Finished, Hypotheses
from throughtime.search.scoring import Pruning, normalised


@dataclass(frozen=True)
class BeamRows(Hypotheses):
    """Hypotheses of which every sentence has equally many, so that models can share a sentence's memory.

    A sentence has `each` rows for each of its groups, group after group. Where fewer go on, copies of another
    row with a rank of -inf fill the place; no candidate of theirs is ever taken.
    """

    each: int = 1
    rank: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows], what rows are compared by
    best: Tensor = field(default_factory=lambda: torch.empty(0))  # [sentences, groups, n], ended ones' scores

    def only(self, going_on: Tensor) -> Self:
        """Drop the rows where `going_on` does not hold."""
        return replace(super().only(going_on), rank=self.rank[going_on])


class Candidates(NamedTuple):
    """The best continuations of each group, best first; -inf in `rank` where there are fewer."""

    row: Tensor  # [sentences, groups, candidates], the one it continues
    token: Tensor
    log_prob: Tensor
    rank: Tensor


class Beam:
    """The `width` best of all continuations go on; those that took the end token leave with a score.

    The score is log P / L^`alpha`, L counting the end token. A sentence is over when none of its rows goes
    on, or when its `n_best` are certain: a log-probability only falls, so a row can at best reach what it
    has now divided by `max_length`^alpha. Without `max_length`, and with alpha above 0, that is never
    certain, and the search goes on to the caller's cap. `eager` compares with what a row would score if it
    ended at its next token at no cost: faster, rarely with another result, but not certain.

    `prune` drops candidates before they are ranked: see `within_token` and `within_hypothesis`.
    """

    groups = 1

    def __init__(
        self,
        end_id: int | None,
        width: int = 5,
        *,
        alpha: float = 0.75,
        n_best: int = 1,
        max_length: int | None = None,
        prune: Pruning | None = None,
        eager: bool = False,
    ) -> None:
        if width < 1:
            raise InputError("--num-beams", f"is {width}, expected 1 or more")
        if not alpha >= 0:
            raise InputError("--length-penalty", f"is {alpha}, expected 0 or more")
        if not 1 <= n_best <= width:
            raise InputError("--n-best", f"is {n_best}, expected 1 to {width}, the number of beams")
        if max_length is not None and max_length < 1:
            raise InputError("--max-length", f"is {max_length}, expected 1 or more")
        self.end_id, self.width, self.alpha, self.n_best = end_id, width, alpha, n_best
        self.max_length, self.prune, self.eager = max_length, prune, eager

    def begin(self, batch: int, device: torch.device) -> BeamRows:
        """One empty row for each sentence and group."""
        empty = BeamRows.begin(batch, self.groups, device)
        best = empty.log_prob.new_full((batch, self.groups, self.n_best), -torch.inf)
        return replace(empty, rank=empty.log_prob, best=best)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Continue every row with every token; keep the best."""
        assert isinstance(hypotheses, BeamRows)
        rows, length = hypotheses, hypotheses.length + 1
        sentence = rows.sentence[:: self.groups * rows.each]  # [sentences]
        found = self.candidates(log_probs, rows)  # [sentences, groups, candidates]
        possible = found.rank > -torch.inf
        over = possible & (found.token == (-1 if self.end_id is None else self.end_id))
        score = self.score(found.log_prob, found.rank, length)
        best = torch.cat([rows.best[sentence], score.masked_fill(~over, -torch.inf)], dim=2)
        best = best.topk(self.n_best, dim=2).values
        going_on = possible & ~over
        reach = self.ceiling(found.rank, length).masked_fill(~going_on, -torch.inf).amax(dim=2)
        going_on &= (reach > best[..., -1])[..., None]

        rows = self._answered(rows, ~possible.flatten(1).any(dim=1) & torch.isinf(best[..., 0]).all(dim=1))
        worth_keeping = over & (score >= best[..., -1:])
        rows = replace(
            _ended(rows, found, score, worth_keeping), best=rows.best.index_copy(0, sentence, best)
        )
        longer, came_from = _continued(rows, found, going_on)
        if length == self.max_length:
            return self._cut(longer), came_from[:0]
        return longer, came_from

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The `n_best` of each sentence, what the length cap cut included."""
        assert isinstance(hypotheses, BeamRows)
        return [ranked(found)[: self.n_best] for found in self._cut(hypotheses).ended]

    def candidates(self, log_probs: Tensor, rows: BeamRows) -> Candidates:
        """The `width` best continuations of each sentence."""
        one = likeliest(
            log_probs.unflatten(0, (-1, rows.each)), rows.rank.view(-1, rows.each), self.width, self.prune
        )
        return Candidates(*(tensor[:, None] for tensor in one))

    def score(self, log_prob: Tensor, rank: Tensor, length: int) -> Tensor:
        """What finished hypotheses are ranked by."""
        return normalised(log_prob, length, self.alpha)

    def ceiling(self, rank: Tensor, length: int) -> Tensor:
        """What a row that goes on may score in the end, at most."""
        if self.eager:
            return normalised(rank, length + 1, self.alpha)
        if self.max_length is None:
            return rank if self.alpha == 0 else torch.zeros_like(rank)
        return normalised(rank, self.max_length, self.alpha)

    def _answered(self, rows: BeamRows, stuck: Tensor) -> BeamRows:
        """Sentences that nothing may continue, and that have no result: the best they had is their result."""
        if not bool(stuck.any()):
            return rows
        rank = rows.rank.view(len(stuck), -1)
        chosen = torch.zeros_like(rank, dtype=torch.bool)
        chosen.scatter_(1, rank.argmax(dim=1, keepdim=True), stuck[:, None])
        score = self.score(rows.log_prob, rows.rank, rows.length)
        return replace(rows, ended=rows.retire(chosen.flatten(), score, by_end_token=False).ended)

    def _cut(self, rows: BeamRows) -> BeamRows:
        """No row goes on: those that would are results that the length cap cut."""
        rows = rows.only(rows.rank > -torch.inf)
        score = self.score(rows.log_prob, rows.rank, rows.length)
        return rows.retire(torch.ones_like(score, dtype=torch.bool), score, by_end_token=False)


def ranked(found: tuple[Finished, ...]) -> list[Finished]:
    """Best first; of equals the one that was found first."""
    return sorted(found, key=lambda one: -one.score)


def likeliest(
    log_probs: Tensor, before: Tensor, width: int, prune: Pruning | None = None, penalty: Tensor | None = None
) -> Candidates:
    """The `width` best of the continuations [sentences, rows, V] of rows that stand at `before`.

    A `penalty` [sentences, V] counts in the choice, not in what is chosen. Each row's own best are found
    first: the best of all are among them, and sums are formed for few.
    """
    sentences, rows, vocabulary = log_probs.shape
    each = min(width, vocabulary)
    liked = log_probs if penalty is None else log_probs - penalty[:, None]
    if each == 1:
        token = liked.argmax(dim=2, keepdim=True)  # of equals the smallest id, as greedy search has it
    else:
        token = highest(liked.flatten(0, 1), each).sort(dim=1).values.view(sentences, rows, each)
    gained = log_probs.gather(2, token).to(before.dtype)
    total = (before[:, :, None] + gained).flatten(1)  # [sentences, rows * each]
    token = token.flatten(1)
    if prune is not None:
        total = total.masked_fill(~prune(gained.flatten(1), total), -torch.inf)
    worth = total if penalty is None else total - penalty.gather(1, token)
    place = worth.sort(dim=1, descending=True, stable=True).indices[:, :width]
    first = torch.arange(0, sentences * rows, rows, device=token.device)[:, None]
    total = total.gather(1, place)
    return Candidates(first + place // each, token.gather(1, place), total, total)


def _ended(rows: BeamRows, found: Candidates, score: Tensor, over: Tensor) -> BeamRows:
    """Those that took the end token become results."""
    if not bool(over.any()):
        return rows
    ended = rows.extend(found.row[over], found.token[over], found.log_prob[over])
    ended = replace(ended, rank=found.rank[over])
    everything = torch.ones(ended.rows, dtype=torch.bool, device=over.device)
    return replace(rows, ended=ended.retire(everything, score[over]).ended)


def _continued(rows: BeamRows, found: Candidates, going_on: Tensor) -> tuple[BeamRows, Tensor]:
    """The rows that go on, as many for every group as the largest needs; and where each came from."""
    each = int(going_on.sum(dim=2).max())
    staying = going_on.flatten(1).any(dim=1)  # [sentences]
    _, groups, width = going_on.shape
    places = torch.arange(groups, device=staying.device)[:, None] * width
    # Those that go on to the front, in their order; then somebody of the same sentence to fill the rest.
    order = going_on.logical_not().to(torch.uint8).sort(dim=2, stable=True).indices[..., :each]
    real = going_on.gather(2, order)[staying]  # [sentences that stay, groups, each]
    somebody = going_on.flatten(1).to(torch.uint8).argmax(dim=1)[staying, None, None]
    place = torch.where(real, (order + places)[staying], somebody).flatten(1)
    row, token, log_prob, rank = (x.flatten(1)[staying].gather(1, place).flatten() for x in found)
    log_prob, rank = (x.masked_fill(~real.flatten(), -torch.inf) for x in (log_prob, rank))
    longer = rows.extend(row, token, log_prob)
    return replace(longer, each=each, rank=rank), row
