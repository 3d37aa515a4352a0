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
        sentence, group_of = rows.cell // (self.groups * self.width), rows.cell // self.width % self.groups
        taken = log_probs.new_zeros(len(rows.alive), log_probs.shape[1])  # [sentences, V]
        number = rows.cell.new_zeros(rows.shape)
        nothing = rows.rank.new_full(rows.shape, -torch.inf)
        chosen = Candidates(number, number.clone(), nothing, nothing.clone())
        for group in range(self.groups):
            own = (group_of == group).nonzero().squeeze(1)  # none, where a group is over in all sentences
            if len(own):
                penalty = self.penalty * taken[sentence[own]]
                found = likeliest(log_probs[own], rows.only(own), penalty=penalty)
                found = found._replace(row=own[found.row])  # `likeliest` numbers the rows that it is given
                for whole, part in zip(chosen, found, strict=True):
                    whole[:, group] = part[:, group]
            said = (chosen.rank[:, group] > -torch.inf).to(taken.dtype)
            taken.scatter_add_(1, chosen.token[:, group], said)
        return chosen

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
