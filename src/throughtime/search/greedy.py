"""Greedy search: the most likely token at each step."""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.search.hypotheses import Finished, Hypotheses


class Greedy:
    """argmax at each step; of equal tokens the one with the smallest id.

    `end_id` is the token that ends a sequence; None where sequences have no end.
    """

    def __init__(self, end_id: int | None) -> None:
        self.end_id = end_id

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """One row for each sentence."""
        return Hypotheses.begin(batch, device=device)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Every row takes its best token."""
        return append(hypotheses, log_probs, log_probs.argmax(dim=1), self.end_id)

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The one result of each sentence."""
        return close(hypotheses)


def append(
    hypotheses: Hypotheses, log_probs: Tensor, token: Tensor, end_id: int | None
) -> tuple[Hypotheses, Tensor]:
    """Give every row one token; rows that took the end token leave."""
    rows = torch.arange(hypotheses.rows, device=token.device)
    gained = log_probs.gather(1, token[:, None]).squeeze(1)
    total = hypotheses.log_prob + gained.to(hypotheses.log_prob.dtype)
    longer = hypotheses.extend(rows, token, total)
    if end_id is None:
        return longer, rows
    over = token == end_id
    return longer.retire(over, total), rows[~over]


def close(hypotheses: Hypotheses) -> list[list[Finished]]:
    """All results, what the length cap cut included, each sentence's most likely first."""
    everything = torch.ones(hypotheses.rows, dtype=torch.bool, device=hypotheses.sentence.device)
    cut = hypotheses.retire(everything, hypotheses.log_prob, by_end_token=False)
    return [sorted(found, key=lambda one: -one.score) for found in cut.ended]
