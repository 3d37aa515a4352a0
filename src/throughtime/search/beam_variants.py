"""Variants of beam search: results that differ from each other, or draws without replacement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.runtime.draws import uniform_table, whole_seed
from throughtime.search.beam import Beam, Length, rank_results
from throughtime.search.candidates import BeamRows, Candidates, best_candidates, highest
from throughtime.search.generate import Finished, Hypotheses
from throughtime.search.strategies import (
    DiversityPenalty,
    Eager,
    Groups,
    LengthPenalty,
    NumBeams,
    OptionalNumReturnSequences,
    PerGroup,
    Seed,
)


class DiverseBeam(Beam):
    """`groups` beams of `num_beams` / `groups` each, one after another (Vijayakumar et al., 2018).

    When a group chooses, the log-probability of a token is lowered by `diversity_penalty` for each time that
    earlier groups took it at this step; the log-probabilities and scores of results do not change. The
    results are the `per_group` best of every group, without duplicates, best first, and at most
    `num_return_sequences` of them. With one group this is plain beam search.
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
        """The best continuations of each group, given what the earlier groups took."""
        sentence, group_of = rows.cell // (self.groups * self.width), rows.cell // self.width % self.groups
        token_counts = log_probs.new_zeros(len(rows.alive), log_probs.shape[1])  # [sentences, V]
        number = rows.cell.new_zeros(rows.shape)
        nothing = rows.rank.new_full(rows.shape, -torch.inf)
        chosen = Candidates(number, number.clone(), nothing, nothing.clone())
        for group in range(self.groups):
            own = (group_of == group).nonzero().squeeze(1)  # empty if the group has finished in all sentences
            if len(own):
                penalty = self.penalty * token_counts[sentence[own]]
                found = best_candidates(log_probs[own], rows.only(own), penalty=penalty)
                found = found._replace(row=own[found.row])  # it numbers the rows that it is given
                for whole, part in zip(chosen, found, strict=True):
                    whole[:, group] = part[:, group]
            real = (chosen.rank[:, group] > -torch.inf).to(token_counts.dtype)
            token_counts.scatter_add_(1, chosen.token[:, group], real)
        return chosen

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The best results of every group, best first."""
        assert isinstance(hypotheses, BeamRows)
        return [self._best_of_groups(found) for found in self._cut(hypotheses).ended]

    def _best_of_groups(self, found: tuple[Finished, ...]) -> list[Finished]:
        groups: list[list[Finished]] = [[] for _ in range(self.groups)]
        for one in rank_results(found):
            group = groups[one.path[0] % self.groups if one.path else 0]  # the first row belongs to the group
            if len(group) < self.n_best:
                group.append(one)
        distinct = {(one.tokens, one.ended): one for group in reversed(groups) for one in group}
        return rank_results(tuple(distinct.values()))[: self.returned]


class StochasticBeam(Beam):
    """Draw `num_beams` sequences without replacement: beam search over log-probabilities with Gumbel noise.

    (Kool, van Hoof and Welling, 2019.)

    The k sequences of highest log P + Gumbel noise are k draws without replacement. The perturbed value of a
    prefix is the highest of its continuations, so values are drawn from the top down and only the best
    prefixes are continued. The score of a result is its perturbed log-probability: sorted by score, the
    results are the first draw, the second, and so on. Sequences cut at the maximum length are drawn as they
    are. The same seed gives the same draws on every device; the draws of a sentence depend on its number in
    the batch, which begins at `first_sentence`, but not on the other sentences.
    """

    first_sentence = 0
    recording_key = None  # its noise is computed on the host

    def __init__(
        self, end_id: int | None, num_beams: NumBeams = 5, *, seed: Seed = None, max_length: int | None = None
    ) -> None:
        super().__init__(
            end_id, num_beams, length_penalty=0.0, num_return_sequences=num_beams, max_length=max_length
        )
        self.seed = seed

    def begin(self, batch: int, device: torch.device) -> BeamRows:
        """One row for each sentence, with its noise."""
        self._seed = whole_seed(self.seed)
        empty = super().begin(batch, device)
        return replace(empty, rank=self._perturb(empty.log_prob[:, None], empty, step=0)[:, 0])

    def candidates(self, log_probs: Tensor, rows: BeamRows) -> Candidates:
        """The continuations of highest perturbed log-probability."""
        # The shift keeps the order within a row: only the best of a row can be among the best of all.
        noisy, width = self._perturb(log_probs, rows, rows.length + 1), min(self.width, log_probs.shape[1])
        token = highest(noisy, width)
        total = rows.log_prob[:, None] + log_probs.gather(1, token)  # [rows, width]
        perturbed = _at_most(rows.rank[:, None], rows.log_prob[:, None] + noisy.gather(1, token))
        perturbed = rows.table(perturbed.masked_fill(total == -torch.inf, -torch.inf))[:, 0]
        rank, place = perturbed.topk(self.width, dim=1)  # [sentences, width]
        first = torch.arange(len(rows.alive), device=place.device)[:, None] * self.width
        row, which = rows.find_rows(first + place // width), place % width
        found = (row, token[row, which], total[row, which], rank)
        return Candidates(*(tensor[:, None] for tensor in found))

    def score(self, log_prob: Tensor, rank: Tensor, length: Length) -> Tensor:
        """The perturbed log-probability."""
        return rank

    def ceiling(self, rank: Tensor, length: Length) -> Tensor:
        """Some continuation has exactly the perturbed log-probability of its prefix, none has more."""
        return rank

    def _perturb(self, log_probs: Tensor, rows: BeamRows, step: int) -> Tensor:
        """Add Gumbel noise: one number for each sentence, step, place in the beam and token."""
        sentences, places = (x.cpu().numpy() for x in (rows.sentence, rows.cell % self.width))
        sentences = sentences + self.first_sentence
        points = uniform_table(self._seed, step, sentences, places, log_probs.shape[1])
        noise = -np.log(-np.log(points + 2**-54))  # half of the smallest point above 0: none is 0 or 1
        return log_probs + torch.from_numpy(noise).to(log_probs)


def _at_most(limit: Tensor, perturbed: Tensor) -> Tensor:
    """Shift the Gumbel variables of each row so that the greatest becomes `limit`.

    -ln(exp(-limit) - exp(-greatest) + exp(-perturbed)), in the paper's form, which neither overflows nor
    cancels.
    """
    greatest = perturbed.amax(dim=1, keepdim=True)
    below = limit - perturbed + torch.log(-torch.expm1(perturbed - greatest))
    return limit - below.relu() - torch.log1p(torch.exp(-below.abs()))
