"""A search strategy: greedy, but it does not end before a number of tokens."""

from __future__ import annotations

import math
from typing import Annotated

from torch import Tensor

from throughtime.search.generate import Hypotheses
from throughtime.search.sampling import Greedy


class Stubborn(Greedy):
    """The most likely token at each step, where a sequence cannot end before `min_tokens` tokens."""

    def __init__(
        self, end_id: int | None, *, min_tokens: Annotated[int, "Number of tokens before the end"] = 7
    ) -> None:
        super().__init__(end_id)
        self.min_tokens = min_tokens

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Every row takes its best token that may come now."""
        if self.end_id is not None and hypotheses.length < self.min_tokens:
            log_probs[:, self.end_id] = -math.inf
        return super().advance(log_probs, hypotheses)
