"""What beams rank by, which candidates they drop, and the few highest of many values."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from throughtime.errors import InputError

COLUMNS = 128  # of `highest`

Pruning = Callable[[Tensor, Tensor], Tensor]
"""Which candidates of a step may stay, from the log-probability of each one's newest token and of the whole:
both [sentences, candidates], -inf where there is none."""

MAX_LENGTH_PENALTY = 10.0
"""Far above what anybody uses; length^penalty must stay a number."""


def normalise_score(log_prob: Tensor, length: int, length_penalty: float) -> Tensor:
    """log P / L^length_penalty, L counting the end token: 0 favours short results, 1 is the mean over tokens.

    >>> normalise_score(torch.tensor([-4.0]), 4, 0.5)
    tensor([-2.])
    """
    divisor: float = max(length, 1) ** length_penalty
    return log_prob / divisor


def check_length_penalty(length_penalty: float) -> float:
    """Return the power of the length that scores are divided by; refuse one out of range.

    >>> check_length_penalty(300)
    Traceback (most recent call last):
    throughtime.errors.InputError: length_penalty: is 300, expected a number from 0 to 10
    """
    if not 0 <= length_penalty <= MAX_LENGTH_PENALTY:
        raise InputError(
            "length_penalty", f"is {length_penalty}, expected a number from 0 to {MAX_LENGTH_PENALTY:g}"
        )
    return length_penalty


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


def highest(values: Tensor, count: int) -> Tensor:
    """Where the `count` highest of each row [rows, V] lie, in no order. [rows, count]

    On a CPU torch's own topk is slower than the softmax before it. Here a row is folded into 128 columns: the
    highest of all lie in the columns that have the highest tops, so that most of a row is compared only once.

    >>> highest(torch.tensor([[0.1, 0.4, 0.2]]), 1).tolist()
    [[1]]
    """
    vocabulary = values.shape[1]
    lines = vocabulary // COLUMNS
    if values.device.type != "cpu" or count * 4 > COLUMNS or lines < 4:
        return values.topk(count, dim=1, sorted=False).indices
    folded = lines * COLUMNS
    tops = values[:, :folded].unflatten(1, (lines, COLUMNS)).amax(dim=1)  # [rows, 128]
    columns = tops.topk(count, dim=1).indices
    inside = torch.arange(0, folded, COLUMNS)[:, None] + columns[:, None]  # [rows, lines, count]
    rest = torch.arange(folded, vocabulary).expand(len(values), -1)
    places = torch.cat([inside.flatten(1), rest], dim=1)
    return places.gather(1, values.gather(1, places).topk(count, dim=1, sorted=False).indices)
