"""A strategy that forgets what it has told, for texts without end."""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.search.generate import Strategy
from throughtime.search.hypotheses import Finished, Hypotheses


class Forgetful:
    """Another strategy, of whose tokens only the newest stay, so that memory does not grow with the text.

    For whoever takes each token as it comes; constraints that look back see one token.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    @property
    def end_id(self) -> int | None:
        """As the strategy has it."""
        return self.strategy.end_id

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """As the strategy does."""
        return self.strategy.begin(batch, device)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """As the strategy does; older tokens go."""
        longer, rows = self.strategy.advance(log_probs, hypotheses)
        return longer.newest(), rows

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """What is left: the last token of each row."""
        return self.strategy.finish(hypotheses)
