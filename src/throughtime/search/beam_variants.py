"""Beams with another aim: results unlike each other, or drawn without replacement."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.beam import Beam, BeamRows, Candidates, best_candidates, rank_results
from throughtime.search.interface import Finished, Hypotheses
from throughtime.search.scoring import highest
from throughtime.search.strategies import (
    DiversityPenalty,
    Eager,
    Groups,
    LengthPenalty,
    NumBeams,
    OptionalNumReturnSequences,
    PerGroup,
    Seed,
    seeded_generator,
)


class DiverseBeam(Beam):
    """`groups` beams of `num_beams` / `groups` each, one after another (Vijayakumar et al., 2018).

    In a group's choice a token counts `diversity_penalty` less for each time an earlier group took it at this
    step. The log-probability and the score stay the model's own. The results are the `per_group` best of
    every group, each sequence once, best first; of these at most `num_return_sequences`. One group is plain
    beam search.
    """

    def __init__(
        self,
        end_id: int | None,
        num_beams: NumBeams = 6,
        *,
        groups: Groups = 3,
        diversity_penalty: DiversityPenalty = 0.5,
        length_penalty: LengthPenalty = 0.75,
        num_return_sequences: OptionalNumReturnSequences = None,
        per_group: PerGroup = 1,
        max_length: int | None = None,
        eager: Eager = False,
    ) -> None:
        if groups < 1 or num_beams % groups:
            raise InputError("groups", f"is {groups}, expected a divisor of {num_beams}, the number of beams")
        if not diversity_penalty >= 0:
            raise InputError("diversity_penalty", f"is {diversity_penalty}, expected 0 or more")
        width = num_beams // groups
        if not 1 <= per_group <= width:
            raise InputError("per_group", f"is {per_group}, expected 1 to {width}, the beams of a group")
        if num_return_sequences is not None and num_return_sequences < 1:
            raise InputError("num_return_sequences", f"is {num_return_sequences}, expected 1 or more")
        super().__init__(
            end_id,
            width,
            length_penalty=length_penalty,
            num_return_sequences=per_group,
            max_length=max_length,
            eager=eager,
        )
        self.groups, self.penalty, self.returned = groups, diversity_penalty, num_return_sequences

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
                found = best_candidates(log_probs[own], rows.only(own), penalty=penalty)
                found = found._replace(
                    row=own[found.row]
                )  # `best_candidates` numbers the rows that it is given
                for whole, part in zip(chosen, found, strict=True):
                    whole[:, group] = part[:, group]
            said = (chosen.rank[:, group] > -torch.inf).to(taken.dtype)
            taken.scatter_add_(1, chosen.token[:, group], said)
        return chosen

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The best of every group, the best of all first."""
        assert isinstance(hypotheses, BeamRows)
        return [self._best_of_groups(found) for found in self._cut(hypotheses).ended]

    def _best_of_groups(self, found: tuple[Finished, ...]) -> list[Finished]:
        groups: list[list[Finished]] = [[] for _ in range(self.groups)]
        for one in rank_results(found):
            group = groups[one.path[0] % self.groups if one.path else 0]  # a group keeps to its first row
            if len(group) < self.n_best:
                group.append(one)
        distinct = {(one.tokens, one.ended): one for group in reversed(groups) for one in group}
        return rank_results(tuple(distinct.values()))[: self.returned]


class StochasticBeam(Beam):
    """`num_beams` sequences drawn without replacement: a beam over log-probabilities with Gumbel noise.

    (Kool, van Hoof and Welling, 2019.)

    The k sequences of highest log P + Gumbel noise are k draws without replacement. A prefix has the highest
    perturbed value of its continuations, so values are drawn from the top down and only the best prefixes are
    followed. A result's score is its perturbed log-probability: in the order of scores the results are the
    first draw, the second, and so on. Sequences that the length cap cuts are drawn as they are. Equal seeds
    give equal draws for equal batches on one kind of device.
    """

    def __init__(
        self, end_id: int | None, num_beams: NumBeams = 5, *, seed: Seed = None, max_length: int | None = None
    ) -> None:
        super().__init__(
            end_id, num_beams, length_penalty=0.0, num_return_sequences=num_beams, max_length=max_length
        )
        self.seed = seed
        self.generator: torch.Generator | None = None

    def begin(self, batch: int, device: torch.device) -> BeamRows:
        """One row for each sentence, with its noise, and a fresh source of randomness."""
        self.generator = seeded_generator(self.seed, device)
        empty = super().begin(batch, device)
        return replace(empty, rank=self._gumbel(empty.log_prob))

    def candidates(self, log_probs: Tensor, rows: BeamRows) -> Candidates:
        """The continuations of highest perturbed log-probability."""
        # The shift keeps the order within a row: only a row's own highest can be among the highest of all.
        noisy, width = self._gumbel(log_probs), min(self.width, log_probs.shape[1])
        token = highest(noisy, width)
        total = rows.log_prob[:, None] + log_probs.gather(1, token)  # [rows, width]
        perturbed = _at_most(rows.rank[:, None], rows.log_prob[:, None] + noisy.gather(1, token))
        perturbed = rows.table(perturbed.masked_fill(total == -torch.inf, -torch.inf))[:, 0]
        rank, place = perturbed.topk(self.width, dim=1)  # [sentences, width]
        first = torch.arange(len(rows.alive), device=place.device)[:, None] * self.width
        row, which = rows.in_cells(first + place // width), place % width
        found = (row, token[row, which], total[row, which], rank)
        return Candidates(*(tensor[:, None] for tensor in found))

    def score(self, log_prob: Tensor, rank: Tensor, length: int) -> Tensor:
        """The perturbed log-probability."""
        return rank

    def ceiling(self, rank: Tensor, length: int) -> Tensor:
        """Some continuation has exactly the perturbed log-probability of its prefix, none has more."""
        return rank

    def _gumbel(self, location: Tensor) -> Tensor:
        return location - torch.empty_like(location).exponential_(generator=self.generator).log()


def _at_most(limit: Tensor, perturbed: Tensor) -> Tensor:
    """Shift the greatest Gumbel variables of each row as if the very greatest were `limit`.

    -ln(exp(-limit) - exp(-greatest) + exp(-perturbed)), in the paper's form that neither overflows
    nor cancels.
    """
    greatest = perturbed.amax(dim=1, keepdim=True)
    below = limit - perturbed + torch.log(-torch.expm1(perturbed - greatest))
    return limit - below.relu() - torch.log1p(torch.exp(-below.abs()))
