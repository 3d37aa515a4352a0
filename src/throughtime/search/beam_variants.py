"""Variants of beam search: results that differ from each other, or draws without replacement."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from throughtime.errors import InputError, check_number, check_whole
from throughtime.runtime.draws import uniform_table, whole_seed
from throughtime.runtime.search import MAX_BEAMS, check_beam
from throughtime.search.beam import Beam, Length, rank_results
from throughtime.search.candidates import BeamRows, Candidates, best_candidates, highest
from throughtime.search.generate import Finished, Hypotheses
from throughtime.search.strategies import (
    DiversityPenalty,
    Eager,
    Groups,
    LengthPenalty,
    NumBeams,
    OptionalNumBeams,
    OptionalNumReturnSequences,
    PerGroup,
    Seed,
)

GROUPS, GROUP_WIDTH = 3, 3
"""Diverse search: number of groups for a single result, and hypotheses of a group."""
CROWDED = 1e4
"""The penalty on a hypothesis that as many groups continue as there are results left that begin with it."""


class DiverseBeam(Beam):
    """`groups` beams of `num_beams` / `groups` each, one after another (Vijayakumar et al., 2018).

    When a group chooses, the log-probability of a token is lowered by `diversity_penalty` for each time that
    earlier groups took it at this step; the log-probabilities and scores of results do not change. Groups
    share no result: a group cannot end a text as an earlier group has ended it. With one group this is plain
    beam search.

    The `num_return_sequences` best results are returned, best first: the `per_group` best of every group, and
    others of a group if that is too few. By default there is a group of 3 hypotheses for each result, and at
    least 3 groups for a single one. The default penalty gives more different pairs of words than a plain beam
    without a worse best result; lower ones change little, higher ones cost quality.
    """

    def __init__(
        self,
        end_id: int | None,
        num_beams: OptionalNumBeams = None,
        *,
        groups: Groups = None,
        diversity_penalty: DiversityPenalty = 1.0,
        length_penalty: LengthPenalty = 0.75,
        num_return_sequences: OptionalNumReturnSequences = None,
        per_group: PerGroup = 1,
        max_length: int | None = None,
        eager: Eager = False,
    ) -> None:
        most = MAX_BEAMS if num_beams is None else num_beams
        count = 1 if num_return_sequences is None else num_return_sequences
        check_beam(most, length_penalty, count)
        check_number("diversity_penalty", diversity_penalty)
        if groups is None:
            groups = count if count > 1 else GROUPS
        check_whole("groups", groups, 1, most)
        if num_beams is None:
            num_beams = groups * min(GROUP_WIDTH, most // groups)
        if num_beams % groups:
            raise InputError("groups", f"is {groups}, expected a divisor of {num_beams}, the number of beams")
        width = num_beams // groups
        check_whole("per_group", per_group, 1, width)
        super().__init__(
            end_id,
            width,
            length_penalty=length_penalty,
            num_return_sequences=max(per_group, -(-count // groups)),
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
        text = torch.empty(0)  # [rows], equal for rows of the same sentence and tokens
        results: list[Tensor] = []  # of earlier groups at this step: numbers of texts and last tokens, ...
        longer: list[Tensor] = []  # ... and of their hypotheses that go on
        size, length = log_probs.shape[1], rows.length + 1
        room = self._count_results_below(log_probs, length)
        for group in range(self.groups):
            # Empty if the group has finished in all sentences.
            members = (group_of == group).nonzero().squeeze(1)
            if len(members):
                penalty = self.penalty * token_counts[sentence[members]]
                if results:
                    begun, groups = torch.cat(longer).unique(return_counts=True)
                    for taken, cost in ((torch.cat(results), math.inf), (begun[groups >= room], CROWDED)):
                        row, which = (text[members, None] == taken // size).nonzero(as_tuple=True)
                        penalty[row, taken[which] % size] += cost
                continued = best_candidates(log_probs[members], rows.only(members), penalty=penalty)
                # It numbers the rows that it is given.
                continued = continued._replace(row=members[continued.row])
                for whole, of_group in zip(chosen, continued, strict=True):
                    whole[:, group] = of_group[:, group]
                continued = Candidates(*(whole[:, group : group + 1] for whole in chosen))
                choice = self.judge(continued, rows.best[rows.alive][:, group : group + 1], length)
                over = choice.ended | choice.going_on if length == self.max_length else choice.ended
                if not results and (room < self.groups or bool(over.any())):
                    before = torch.cat([rows.sentence[:, None], rows.tokens], dim=1)
                    text = before.unique(dim=0, return_inverse=True)[1]
                if len(text):
                    keys = text[continued.row] * size + continued.token
                    results.append(keys[over])
                    longer.append(keys[choice.going_on])
            real = (chosen.rank[:, group] > -torch.inf).to(token_counts.dtype)
            token_counts.scatter_add_(1, chosen.token[:, group], real)
        return chosen

    def _count_results_below(self, log_probs: Tensor, length: int) -> float:
        """How many results can begin with a hypothesis of this length; infinite if enough for all groups."""
        left = 0 if self.max_length is None else self.max_length - length
        if not 0 < left < self.groups - 1:  # with two tokens to choose from there are left + 1
            return math.inf
        possible = (log_probs > -torch.inf).any(dim=0)
        ends = 0 if self.end_id is None else int(possible[self.end_id])
        count, others = 1, int(possible.sum()) - ends
        for _ in range(left):
            count = min(self.groups, ends + others * count)
        return count

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The best results of every group, best first."""
        assert isinstance(hypotheses, BeamRows)
        return [self._best_of_groups(results) for results in self._cut(hypotheses).ended]

    def _best_of_groups(self, results: tuple[Finished, ...]) -> list[Finished]:
        chosen, others, kept = list[Finished](), list[Finished](), [0] * self.groups
        distinct: dict[tuple[Any, ...], Finished] = {}
        for result in rank_results(results):  # without `max_length`, groups may be cut at the same texts
            distinct.setdefault((result.tokens, result.ended), result)
        for result in distinct.values():
            group = result.path[0] % self.groups if result.path else 0  # the first row belongs to the group
            kept[group] += 1
            (chosen if kept[group] <= self.n_best else others).append(result)
        return rank_results((*chosen, *others)[: self.returned or len(chosen)])


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
        rank, order = perturbed.topk(self.width, dim=1)  # [sentences, width]
        first = torch.arange(len(rows.alive), device=order.device)[:, None] * self.width
        row, which = rows.find_rows(first + order // width), order % width
        columns = (row, token[row, which], total[row, which], rank)
        return Candidates(*(tensor[:, None] for tensor in columns))

    def score(self, log_prob: Tensor, rank: Tensor, length: Length) -> Tensor:
        """The perturbed log-probability."""
        return rank

    def ceiling(self, rank: Tensor, length: Length) -> Tensor:
        """Some continuation has exactly the perturbed log-probability of its prefix, none has more."""
        return rank

    def _perturb(self, log_probs: Tensor, rows: BeamRows, step: int) -> Tensor:
        """Add Gumbel noise: one number for each sentence, step, place in the beam and token."""
        sentences, cells = (x.cpu().numpy() for x in (rows.sentence, rows.cell % self.width))
        sentences = sentences + self.first_sentence
        points = uniform_table(self._seed, step, sentences, cells, log_probs.shape[1])
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
