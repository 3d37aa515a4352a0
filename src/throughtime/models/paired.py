"""A recurrent language model beside a counted one, which knows better what follows a context it has seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from throughtime.cells.base import State
from throughtime.models.language import RecurrentLanguageModel
from throughtime.ngram.model import NgramModel
from throughtime.search.generate import Memory, Step

SHARES = np.array([0.001, 0.003, 0.01, *np.arange(1, 51) / 50])
"""The shares of the network that are tried; it always has one, as it is what is trained."""


class PairedLanguageModel(RecurrentLanguageModel):
    r"""The weighted mean of a network and of a counted model of the same ids.

    .. math:: P(x) = \text{share} \, P_\text{network}(x) + (1 - \text{share}) P_\text{counted}(x)

    Training changes the network alone, and `choose_share` follows it on the validation text.
    """

    share: Tensor

    def __init__(self, vocabulary_size: int, *, counted: NgramModel, **options: Any) -> None:
        super().__init__(vocabulary_size, **options)
        self.counted = counted
        self.register_buffer("share", torch.ones(1))

    @property
    def weights(self) -> tuple[float, float]:
        """The shares of the network and of the counted model."""
        share = float(self.share.double())
        return share, 1 - share

    @property
    def shares(self) -> str:
        """The shares in words."""
        network, counted = self.weights
        return f"{network:.0%} network, {counted:.0%} counted"

    def prepare(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, ...]:  # type: ignore[override]
        """Arrange the prompts for both models."""
        return (*super().prepare(prompts), *self.counted.prepare(prompts))

    def read(  # type: ignore[override]
        self, last: Tensor, ids: Tensor, lengths: Tensor, words: Tensor
    ) -> tuple[Tensor, State, Memory]:
        """Read the prompts; the words before the last one are a part of the state."""
        last, state, memory = super().read(last, ids, lengths)
        return last, (*state, words[:, :-1].to(last.device)), memory

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token per row; return ln P of every next token, [rows, V]. Counts are on the host."""
        *own, words = state
        alone = super().step(last, tuple(own), memory)
        counted = self.counted.step(last.cpu(), (words.cpu(),), memory)
        log_probs = torch.logaddexp(
            alone.log_probs + self.share.log(), counted.log_probs.to(alone.log_probs) + (1 - self.share).log()
        )
        return Step(log_probs, (*alone.state, counted.state[0].to(last.device)))

    @property
    def recorded_modules(self) -> Sequence[nn.Module]:
        """None, as counts are looked up on the host."""
        return ()

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[npt.NDArray[np.float64]]:
        """Return ln P of every id given those before it."""
        from throughtime.metrics.measures import mix_log_probs

        pairs = zip(super().log_probs(sequences), self.counted.log_probs(sequences), strict=True)
        return [mix_log_probs(pair, self.weights) for pair in pairs]

    def mix(self, pieces: Iterable[Tensor], ids: npt.NDArray[Any], begin: int | None) -> Iterator[Tensor]:
        """Yield surprisals of both, of the network and of the counted model [3, T], from the network's."""
        before = [] if begin is None else [begin]
        counted = -self.counted.log_probs([[*before, *ids.tolist()]])[0][len(before) :]
        rest, done = (1 - self.share).log(), 0
        for alone in pieces:
            here = torch.from_numpy(counted[done : done + len(alone)]).to(alone)
            done += len(alone)
            yield torch.stack([-torch.logaddexp(self.share.log() - alone, rest - here), alone, here])

    def choose_share(self, nats: npt.NDArray[np.float64]) -> float:
        """Take the best of SHARES, with which -ln P of the validation text was measured; return the least."""
        best = int(nats.argmin())
        self.share.fill_(float(SHARES[best]))
        return float(nats[best])


def try_shares(surprisals: npt.NDArray[np.float64], log_probs: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Return -ln P of a text with each of SHARES, from -ln P of the network and ln P of the counted model."""
    from throughtime.metrics.measures import mix_log_probs

    return np.array([-mix_log_probs([-surprisals, log_probs], (s, 1 - s)).sum() for s in SHARES])
