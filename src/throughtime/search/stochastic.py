"""Stochastic beam search: different sequences drawn from the model (Kool, van Hoof and Welling, 2019)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from throughtime.search.beam import Beam, BeamRows, Candidates
from throughtime.search.highest import highest


class StochasticBeam(Beam):
    """`width` sequences drawn without replacement: a beam over log-probabilities with Gumbel noise.

    The k sequences of highest log P + Gumbel noise are k draws without replacement. A prefix has the highest
    perturbed value of its continuations, so values are drawn from the top down and only the best prefixes are
    followed. A result's score is its perturbed log-probability: in the order of scores the results are the
    first draw, the second, and so on. Sequences that the length cap cuts are drawn as they are. Equal seeds
    give equal draws for equal batches on one kind of device.
    """

    def __init__(
        self, end_id: int | None, width: int = 5, *, seed: int | None = None, max_length: int | None = None
    ) -> None:
        super().__init__(end_id, width, alpha=0.0, n_best=width, max_length=max_length)
        self.seed = seed
        self.generator: torch.Generator | None = None

    def begin(self, batch: int, device: torch.device) -> BeamRows:
        """One row for each sentence, with its noise, and a fresh source of randomness."""
        self.generator = torch.Generator(device=device)
        if self.seed is None:
            self.generator.seed()
        else:
            self.generator.manual_seed(self.seed)
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
