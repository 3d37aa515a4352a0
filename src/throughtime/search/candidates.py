"""The rows of a beam search in a table, and the best continuations of each sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from throughtime.errors import check_number
from throughtime.search.generate import Hypotheses

COLUMNS = 128  # of `highest`

Pruning = Callable[[Tensor, Tensor], Tensor]
"""Returns which candidates of a step may stay, from the log-probabilities of their newest tokens and of the
whole candidates: both [sentences, candidates], -inf where there is none."""


def prune_by_hypothesis(limit: float) -> Pruning:
    """Keep the candidates whose total probability is at most `limit` below that of the best one."""
    check_number("limit", limit, 0, 1)
    return lambda gained, total: _is_within(limit, total)


def prune_by_token(limit: float) -> Pruning:
    """Keep the candidates whose newest token's probability is at most `limit` below that of the best one.

    >>> newest = torch.tensor([[0.5, 0.3, 0.1]]).log()
    >>> prune_by_token(0.2)(newest, newest).tolist()
    [[True, True, False]]
    """
    check_number("limit", limit, 0, 1)
    return lambda gained, total: _is_within(limit, gained.masked_fill(total == -torch.inf, -torch.inf))


def _is_within(limit: float, log_p: Tensor) -> Tensor:
    # max p - p <= limit, divided by max p: the p of a long hypothesis may be below the smallest number.
    best = log_p.amax(dim=-1, keepdim=True)
    short_of_best = -torch.expm1(log_p - best)
    nearest_above = 1 + 4 * torch.finfo(log_p.dtype).eps  # .5 - .3 is a little more than .2
    return short_of_best <= nearest_above * torch.exp((math.log(limit) if limit else -math.inf) - best)


def highest(values: Tensor, count: int) -> Tensor:
    """The places of the `count` highest values of each row [rows, V], in no order. [rows, count]

    On a CPU torch's topk is slower than the softmax before it. Here a row is folded into 128 columns: the
    highest values are in the columns with the highest maxima, so most values are compared only once.

    >>> highest(torch.tensor([[0.1, 0.4, 0.2]]), 1).tolist()
    [[1]]
    """
    if values.dtype == torch.float64:  # n-grams, where many are equal: the first of them, as in a page
        return values.sort(dim=1, descending=True, stable=True).indices[:, :count]
    vocabulary = values.shape[1]
    lines = vocabulary // COLUMNS
    if values.device.type != "cpu" or count * 4 > COLUMNS or lines < 4:
        return values.topk(count, dim=1, sorted=False).indices
    folded = lines * COLUMNS
    maxima = values[:, :folded].unflatten(1, (lines, COLUMNS)).amax(dim=1)  # [rows, 128]
    columns = maxima.topk(count, dim=1).indices
    inside = torch.arange(0, folded, COLUMNS)[:, None] + columns[:, None]  # [rows, lines, count]
    rest = torch.arange(folded, vocabulary).expand(len(values), -1)
    positions = torch.cat([inside.flatten(1), rest], dim=1)
    return positions.gather(1, values.gather(1, positions).topk(count, dim=1, sorted=False).indices)


@dataclass(frozen=True)
class BeamRows(Hypotheses):
    """Hypotheses of a beam: each sentence has the rows that continue, at most `width` for each of its groups.

    Each row has a cell in a table [sentences that are alive, groups, width], in the order of the rows.
    """

    width: int = 1
    rank: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows], what rows are compared by
    best: Tensor = field(
        default_factory=lambda: torch.empty(0)
    )  # [sentences, groups, n], the best scores of ended ones
    alive: Tensor = field(default_factory=lambda: torch.empty(0))  # [sentences that are alive]
    cell: Tensor = field(default_factory=lambda: torch.empty(0))  # [rows]

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the table."""
        return len(self.alive), self.best.shape[1], self.width

    @property
    def full(self) -> bool:
        """Whether every cell has a row."""
        return self.rows == math.prod(self.shape)

    def table(self, values: Tensor) -> Tensor:
        """Values of the rows [rows, n] in their cells [sentences, groups, width * n]; -inf elsewhere."""
        if self.full:
            return values.view(*self.shape[:2], -1)
        whole = values.new_full((math.prod(self.shape), values.shape[1]), -torch.inf)
        whole[self.cell] = values
        return whole.view(*self.shape[:2], -1)

    def find_rows(self, cells: Tensor) -> Tensor:
        """The rows in these cells; 0 for an empty cell."""
        if self.full:
            return cells
        rows = self.cell.new_zeros(math.prod(self.shape))
        rows[self.cell] = torch.arange(self.rows, device=rows.device)
        return rows[cells]

    def only(self, rows: Tensor) -> Self:
        """Keep these rows, given as a mask or as indices."""
        return replace(super().only(rows), rank=self.rank[rows], cell=self.cell[rows])


class Candidates(NamedTuple):
    """The best continuations of each group, best first; -inf in `rank` where there are fewer."""

    row: Tensor  # [sentences, groups, candidates], the one it continues
    token: Tensor
    log_prob: Tensor
    rank: Tensor


def best_candidates(
    log_probs: Tensor, rows: BeamRows, prune: Pruning | None = None, penalty: Tensor | None = None
) -> Candidates:
    """The `width` best continuations of each group.

    A `penalty` [rows, V] influences the choice, but not the log-probabilities of what is chosen. The best
    tokens of each row are found first: the best of all are among them, so few sums are needed.
    """
    each = min(rows.width, log_probs.shape[1])
    preference = log_probs if penalty is None else log_probs - penalty
    # Among equals the smallest id, as in greedy search. [rows, each]
    token = (
        preference.argmax(dim=1, keepdim=True) if each == 1 else highest(preference, each).sort(dim=1).values
    )
    gained = log_probs.gather(1, token).to(rows.rank.dtype)
    total = rows.rank[:, None] + gained
    worth = rows.table(total if penalty is None else total - penalty.gather(1, token))
    if prune is not None:
        sums = rows.table(total)
        stays = prune(rows.table(gained).flatten(0, 1), sums.flatten(0, 1)).view_as(sums)
        worth = worth.masked_fill(~stays, -torch.inf)
    worth, order = worth.sort(dim=2, descending=True, stable=True)
    worth, order = worth[..., : rows.width], order[..., : rows.width]
    cells = torch.arange(0, math.prod(rows.shape), rows.width, device=order.device).view(*rows.shape[:2], 1)
    row, which = rows.find_rows(cells + order // each), order % each
    total = total[row, which].masked_fill(worth == -torch.inf, -torch.inf)
    return Candidates(row, token[row, which], total, total)
