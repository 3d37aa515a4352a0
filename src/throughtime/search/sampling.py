"""One token after another: the most likely one, or one drawn from the model's distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.interface import Finished, Hypotheses
from throughtime.search.strategies import NumReturnSequences, Seed, Temperature, TopK, TopP, seeded_generator

COLDEST = 1e-30
"""Below it log-probabilities would overflow; there the likeliest token alone is left long before."""


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


class Sampling:
    """Draw from P^(1/temperature), cut to the `top_k` likeliest tokens and the smallest set of mass `top_p`.

    `num_return_sequences` are drawn for every prompt. Equal seeds give equal draws on one kind of device.
    """

    def __init__(
        self,
        end_id: int | None,
        *,
        temperature: Temperature = 1.0,
        top_k: TopK = None,
        top_p: TopP = None,
        num_return_sequences: NumReturnSequences = 1,
        seed: Seed = None,
    ) -> None:
        if not 0 < temperature < math.inf:
            raise InputError(
                "temperature", f"is {temperature}, expected a finite number above 0 (greedy is greedy=True)"
            )
        if top_k is not None and top_k < 1:
            raise InputError("top_k", f"is {top_k}, expected 1 or more")
        if top_p is not None and not 0 < top_p <= 1:
            raise InputError("top_p", f"is {top_p}, expected a number in (0, 1]")
        if num_return_sequences < 1:
            raise InputError("num_return_sequences", f"is {num_return_sequences}, expected 1 or more")
        self.end_id, self.temperature, self.top_k, self.top_p = end_id, temperature, top_k, top_p
        self.num_return_sequences, self.seed = num_return_sequences, seed
        self.generator: torch.Generator | None = None

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """`num_return_sequences` rows for every sentence, and a fresh source of randomness."""
        self.generator = seeded_generator(self.seed, device)
        return Hypotheses.begin(batch, self.num_return_sequences, device)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Every row draws a token; its log-probability stays the model's own."""
        token = torch.multinomial(self.probabilities(log_probs), 1, generator=self.generator).squeeze(1)
        return append(hypotheses, log_probs, token, self.end_id)

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """All draws of each sentence, the likeliest first."""
        return close(hypotheses)

    def probabilities(self, log_probs: Tensor) -> Tensor:
        """What is drawn from. [rows, V]"""
        scaled = log_probs / max(self.temperature, COLDEST)
        if self.top_k is not None and self.top_k < scaled.shape[1]:
            least = scaled.topk(self.top_k, dim=1).values[:, -1:]
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        p = scaled.softmax(dim=1)
        if self.top_p is not None and self.top_p < 1:
            falling, order = p.sort(dim=1, descending=True, stable=True)
            beyond = falling.cumsum(dim=1) - falling >= self.top_p  # the mass before it suffices
            beyond[:, 0] = False  # a mass that float32 takes for 0 is that of the likeliest
            p = p.masked_fill(beyond.gather(1, order.argsort(dim=1)), 0.0)
        return p


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
