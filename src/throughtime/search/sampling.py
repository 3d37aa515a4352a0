"""Drawing one token at a time from the model's distribution, or from its likelier part."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.search.greedy import append, close
from throughtime.search.hypotheses import Finished, Hypotheses

COLDEST = 1e-30
"""Below it log-probabilities would overflow; there the likeliest token alone is left long before."""


class Sampling:
    """Draw from P^(1/temperature), cut to the `top_k` likeliest tokens and the smallest set of mass `top_p`.

    `each` sequences are drawn for every prompt. Equal seeds give equal draws on one kind of device.
    """

    def __init__(
        self,
        end_id: int | None,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        each: int = 1,
        seed: int | None = None,
    ) -> None:
        if not 0 < temperature < math.inf:
            raise InputError(
                "--temperature", f"is {temperature}, expected a finite number above 0 (greedy is --greedy)"
            )
        if top_k is not None and top_k < 1:
            raise InputError("--top-k", f"is {top_k}, expected 1 or more")
        if top_p is not None and not 0 < top_p <= 1:
            raise InputError("--top-p", f"is {top_p}, expected a number in (0, 1]")
        if each < 1:
            raise InputError("--num-return-sequences", f"is {each}, expected 1 or more")
        self.end_id, self.temperature, self.top_k, self.top_p = end_id, temperature, top_k, top_p
        self.each, self.seed = each, seed
        self.generator: torch.Generator | None = None

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """`each` rows for every sentence, and a fresh source of randomness."""
        self.generator = torch.Generator(device=device)
        if self.seed is None:
            self.generator.seed()
        else:
            self.generator.manual_seed(self.seed)
        return Hypotheses.begin(batch, self.each, device)

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
