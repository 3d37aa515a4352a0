"""What beams rank by, and which candidates they do not even look at."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from throughtime.errors import InputError

Pruning = Callable[[Tensor, Tensor], Tensor]
"""Which candidates of a step may stay, from the log-probability of each one's newest token and of the whole:
both [sentences, candidates], -inf where there is none."""

MOST_ALPHA = 10.0
"""Far above what anybody uses; length^alpha must stay a number."""


def normalised(log_prob: Tensor, length: int, alpha: float) -> Tensor:
    """log P / L^alpha: at alpha 0 shorter is better, at 1 it is the mean over tokens. L counts the end token.

    >>> normalised(torch.tensor([-4.0]), 4, 0.5)
    tensor([-2.])
    """
    divisor: float = max(length, 1) ** alpha
    return log_prob / divisor


def checked_alpha(alpha: float) -> float:
    """The power of the length that scores are divided by, if there can be such a one.

    >>> checked_alpha(300)
    Traceback (most recent call last):
    throughtime.errors.InputError: --length-penalty: is 300, expected a number from 0 to 10
    """
    if not 0 <= alpha <= MOST_ALPHA:
        raise InputError("--length-penalty", f"is {alpha}, expected a number from 0 to {MOST_ALPHA:g}")
    return alpha


def within_hypothesis(limit: float) -> Pruning:
    """Keep the candidates whose probability as a whole is at most `limit` below the best one's."""
    _check(limit)
    return lambda gained, total: _within(limit, total)


def within_token(limit: float) -> Pruning:
    """Keep the candidates whose newest token's probability is at most `limit` below the best one's.

    >>> newest = torch.tensor([[0.5, 0.3, 0.1]]).log()
    >>> within_token(0.2)(newest, newest).tolist()
    [[True, True, False]]
    """
    _check(limit)
    return lambda gained, total: _within(limit, gained.masked_fill(total == -torch.inf, -torch.inf))


def _within(limit: float, log_p: Tensor) -> Tensor:
    # max p - p <= limit, divided by max p: a long hypothesis' own p would vanish below the smallest number.
    best = log_p.amax(dim=-1, keepdim=True)
    short_of_best = -torch.expm1(log_p - best)
    nearest_above = 1 + 4 * torch.finfo(log_p.dtype).eps  # .5 - .3 is a little more than .2
    return short_of_best <= nearest_above * torch.exp((math.log(limit) if limit else -math.inf) - best)


def _check(limit: float) -> None:
    if not 0 <= limit <= 1:
        raise InputError("limit", f"is {limit}, expected a probability from 0 (the best only) to 1 (all)")
