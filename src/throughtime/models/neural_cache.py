"""A cache of what was lately read: words that came after similar states are likelier to come again."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from throughtime.cells.base import State
from throughtime.errors import InputError
from throughtime.models.language import RecurrentLanguageModel
from throughtime.models.reading import STEPS


class NeuralCache:
    r"""A reader that mixes the model with its own recent past (Grave, Joulin and Usunier, 2017).

    .. math:: P = (1 - \text{share}) P_\text{model} + \text{share} P_\text{cache}, \quad
        P_\text{cache}(w) \propto \sum_{i=t-\text{window}}^{t-1} e^{\theta h_t \cdot h_i} [x_{i+1} = w]

    The h are the outputs of the model's last layer. While the cache is empty, P is the model's. It remembers
    what it has read from one piece to the next, so each text takes a new one.
    """

    steps = STEPS

    def __init__(self, window: int = 500, theta: float = 0.3, share: float = 0.1) -> None:
        if window < 1:
            raise InputError("window", f"is {window}, expected 1 token or more")
        if not 0 <= share < 1:
            raise InputError("share", f"is {share}, expected a number in [0, 1)")
        if not math.isfinite(theta):
            raise InputError("theta", f"is {theta}, expected a finite number")
        self.window, self.theta, self.share = window, theta, share
        self._past: tuple[Tensor, Tensor] | None = None  # outputs [W, B, H] and what came after them [W, B]

    @torch.inference_mode()
    def read(
        self, model: RecurrentLanguageModel, inputs: Tensor, labels: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """See `throughtime.models.reading.Reader`."""
        outputs, _, reached = model(inputs, state)
        alone = model.head.surprisals(outputs.flatten(0, 1), labels.flatten()).view_as(labels)
        return self.mixed(outputs, labels, alone), reached

    @torch.no_grad()
    def mixed(self, outputs: Tensor, labels: Tensor, alone: Tensor) -> Tensor:
        """The model's surprisals [T, B] mixed with the cache's; then outputs and labels join the cache."""
        states = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        if self._past is None:
            self._past = states[:0], labels[:0]
        held, words = torch.cat([self._past[0], states]), torch.cat([self._past[1], labels])
        self._past = held[-self.window :], words[-self.window :]
        # Row t of the band scores what was read before it, and no more than `window` steps before it.
        scores = self.theta * torch.einsum("tbh,ibh->bti", states, held)
        now = torch.arange(len(held) - len(states), len(held), device=held.device)[:, None]  # [T, 1]
        then = torch.arange(len(held), device=held.device)  # [I]
        scores.masked_fill_((then >= now) | (then < now - self.window), -torch.inf)
        everything = scores.logsumexp(2)  # [B, T]
        same = labels.T[:, :, None] == words.T[:, None, :]
        recalled = scores.masked_fill_(~same, -torch.inf).logsumexp(2) - everything
        both = torch.logaddexp(math.log1p(-self.share) - alone, recalled.T + _log(self.share))
        return torch.where(everything.T.isneginf(), alone, -both)


def _log(share: float) -> float:
    return math.log(share) if share else -math.inf
