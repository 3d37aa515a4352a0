"""Greedy search and sampling: at each step the likeliest token, or one drawn from the distribution."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from throughtime.runtime.draws import Draws
from throughtime.runtime.search import COLDEST, check_sampling
from throughtime.search.generate import Finished, Hypotheses
from throughtime.search.strategies import NumReturnSequences, Seed, Temperature, TopK, TopP


class Greedy:
    """Take the likeliest token at each step; among equals the one with the smallest id.

    `end_id` is the token that ends a sequence; None if sequences have no end.
    """

    streams = True

    def __init__(self, end_id: int | None) -> None:
        self.end_id = end_id

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """One row for each sentence."""
        return Hypotheses.begin(batch, device=device)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Every row takes its likeliest token."""
        return append(hypotheses, log_probs, log_probs.argmax(dim=1), self.end_id)

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """The one result of each sentence."""
        return close(hypotheses)


class Sampling:
    """Draw from P^(1/temperature), from the `top_k` likeliest tokens and the smallest set of mass `top_p`.

    `num_return_sequences` texts are drawn for every prompt. The same seed gives the same draws on every
    device and from an exported model. They depend on the number of the prompt, not on the other prompts; the
    first prompt of a batch has the number `first_sentence`.

    A strategy that draws from another distribution derives from this class and overrides `probabilities`.
    """

    first_sentence = 0
    streams = True

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
        check_sampling(temperature, top_k, top_p, num_return_sequences)
        self.end_id, self.temperature, self.top_k, self.top_p = end_id, temperature, top_k, top_p
        self.num_return_sequences, self.seed = num_return_sequences, seed

    def begin(self, batch: int, device: torch.device) -> Hypotheses:
        """`num_return_sequences` rows for every sentence; random numbers start again."""
        self._draws = self.begin_draws(batch)
        self._step, self._rows = 0, torch.arange(batch * self.num_return_sequences, device=device)
        return Hypotheses.begin(batch, self.num_return_sequences, device)

    def begin_draws(self, batch: int) -> Draws:
        """The random numbers of a batch of sentences."""
        rows, each = np.arange(batch * self.num_return_sequences), self.num_return_sequences
        return Draws(self.seed, self.first_sentence + rows // each, rows % each)

    def advance(self, log_probs: Tensor, hypotheses: Hypotheses) -> tuple[Hypotheses, Tensor]:
        """Every row draws a token; log-probabilities stay those of the model."""
        number = self._step % self._draws.size
        if not number:
            self._block = torch.from_numpy(self._draws.block(self._step)).to(log_probs.device)
        points, self._step = self._block[number, self._rows], self._step + 1
        longer, kept = append(hypotheses, log_probs, self.choose(log_probs, points), self.end_id)
        self._rows = self._rows[kept]
        return longer, kept

    def choose(self, log_probs: Tensor, points: Tensor) -> Tensor:
        """The token that each row draws at its point in [0, 1). [rows]"""
        return choose_at(self.probabilities(log_probs), points)

    def finish(self, hypotheses: Hypotheses) -> list[list[Finished]]:
        """All draws of each sentence, the likeliest first."""
        return close(hypotheses)

    def probabilities(self, log_probs: Tensor) -> Tensor:
        """The distribution that is drawn from, in float64. [rows, V]"""
        if self.top_k is not None and self.top_k < log_probs.shape[1]:
            least = log_probs.topk(self.top_k, dim=1).values[:, -1:]
            log_probs = log_probs.masked_fill(log_probs < least, -torch.inf)
        top_p = 1.0 if self.top_p is None else self.top_p
        mass = log_probs.new_full((), top_p, dtype=torch.float64) if top_p < 1 else None
        temperature = log_probs.new_full((), self.temperature, dtype=torch.float64)
        return temper(log_probs, temperature, mass)


def temper(log_probs: Tensor, temperature: Tensor, top_p: Tensor | None = None) -> Tensor:
    """P^(1/temperature) in float64, limited to the smallest set of mass `top_p`. [rows, V]

    Both options are numbers, or [rows, 1] for one number per row.
    """
    p = (log_probs.double() / temperature.clamp(min=COLDEST)).softmax(dim=1)
    if top_p is None or (top_p.device.type == "cpu" and not bool((top_p < 1).any())):
        return p
    falling, order = p.sort(dim=1, descending=True, stable=True)
    beyond = (falling.cumsum(dim=1) - falling >= top_p) & (top_p < 1)  # the tokens before it have enough mass
    return p.masked_fill(beyond.gather(1, order.argsort(dim=1)), 0.0)


def choose_at(p: Tensor, points: Tensor) -> Tensor:
    """The token of each row [rows] at which its cumulative probability exceeds its point in [0, 1)."""
    reached = p.cumsum(dim=1)
    at = points[:, None] * reached[:, -1:]
    return torch.searchsorted(reached, at, right=True).squeeze(1).clamp(max=p.shape[1] - 1)


def append(
    hypotheses: Hypotheses, log_probs: Tensor, token: Tensor, end_id: int | None
) -> tuple[Hypotheses, Tensor]:
    """Give every row one token; rows that took the end token become results."""
    rows = torch.arange(hypotheses.rows, device=token.device)
    gained = log_probs.gather(1, token[:, None]).squeeze(1)
    total = hypotheses.log_prob + gained.to(hypotheses.log_prob.dtype)
    longer = hypotheses.extend(rows, token, total)
    if end_id is None:
        return longer, rows
    over = token == end_id
    return longer.retire(over, total), rows[~over]


def close(hypotheses: Hypotheses) -> list[list[Finished]]:
    """All results, including those cut at the maximum length; the likeliest of each sentence first."""
    ended = hypotheses.ended
    if hypotheses.rows:
        everything = torch.ones(hypotheses.rows, dtype=torch.bool, device=hypotheses.sentence.device)
        ended = hypotheses.retire(everything, hypotheses.log_prob, by_end_token=False).ended
    return [sorted(results, key=lambda result: -result.score) for results in ended]
