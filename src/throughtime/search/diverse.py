"""Diverse beam search: groups of beams that avoid each other's tokens (Vijayakumar et al., 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.beam import Beam, BeamRows, Candidates, likeliest, ranked
from throughtime.search.hypotheses import Finished, Hypotheses


class DiverseBeam(Beam):
    """`groups` beams of `width` / `groups` each, one after another at every step.

    In a group's choice a token counts `penalty` less for each time an earlier group took it at this step. The
    log-probability and the score stay the model's own. The results are the `n_best` of every group, each
    sequence once, best first. One group is plain beam search.
    """

    def __init__(
        self,
        end_id: int | None,
        width: int = 6,
        *,
        groups: int = 3,
        penalty: float = 0.5,
        alpha: float = 0.75,
        n_best: int = 1,
        max_length: int | None = None,
        eager: bool = False,
    ) -> None:
        if groups < 1 or width % groups:
            raise InputError("--groups", f"is {groups}, expected a divisor of {width}, the number of beams")
        if not penalty >= 0:
            raise InputError("--diversity-penalty", f"is {penalty}, expected 0 or more")
        super().__init__(
            end_id, width // groups, alpha=alpha, n_best=n_best, max_length=max_length, eager=eager
        )
        self.groups, self.penalty = groups, penalty

    def candidates(self, log_probs: Tensor, rows: BeamRows) -> Candidates:
        """The best of each group, in the light of what the earlier ones took."""
        log_probs = log_probs.unflatten(0, (-1, self.groups, rows.each))
        before = rows.rank.view(-1, self.groups, rows.each)
        first = torch.arange(0, rows.rows, self.groups * rows.each, device=before.device)[:, None]
        taken = torch.zeros_like(log_probs[:, 0, 0])  # [sentences, V]
        chosen = []
        for group in range(self.groups):
            one = likeliest(log_probs[:, group], before[:, group], self.width, penalty=self.penalty * taken)
            taken.scatter_add_(1, one.token, (one.rank > -torch.inf).to(taken.dtype))
            inside = one.row % rows.each  # `likeliest` numbers the rows of its own group
            chosen.append(one._replace(row=first + group * rows.each + inside))
        return Candidates(*(torch.stack(parts, dim=1) for parts in zip(*chosen, strict=True)))

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The `n_best` of every group, the best of all first."""
        assert isinstance(hypotheses, BeamRows)
        return [self._best_of_groups(found) for found in self._cut(hypotheses).ended]

    def _best_of_groups(self, found: tuple[Finished, ...]) -> list[Finished]:
        groups: list[list[Finished]] = [[] for _ in range(self.groups)]
        for one in ranked(found):
            group = groups[one.path[0] % self.groups if one.path else 0]  # a group keeps to its first row
            if len(group) < self.n_best:
                group.append(one)
        distinct = {(one.tokens, one.ended): one for group in reversed(groups) for one in group}
        return ranked(tuple(distinct.values()))
