"""The most likely path through a chain, by dynamic programming: for Markov models and for CRFs alike."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class BestPath(NamedTuple):
    """The best path of each row, and its score."""

    states: Tensor  # [T, B], 0 past a row's length
    score: Tensor  # [B]


def viterbi(scores: Tensor, transitions: Tensor, lengths: Tensor | None = None) -> BestPath:
    """The path s_1..s_T of highest sum of scores[t, s_t] + transitions[s_{t-1}, s_t].

    `scores` is [T, B, S] and holds the score of the first state in its first row; `transitions` is [S, S].
    Costs T S^2 where trying all paths costs S^T.

    >>> scores = torch.tensor([[[0.0, 1.0]], [[0.0, 0.0]]])            # two steps, one row, two states
    >>> viterbi(scores, torch.tensor([[0.0, 5.0], [0.0, 0.0]])).states.flatten().tolist()
    [0, 1]
    """
    steps, batch, _ = scores.shape
    if lengths is None:
        lengths = torch.full((batch,), steps, device=scores.device)
    best = scores[0]  # [B, S]
    came_from = []
    for t in range(1, steps):
        reach, previous = (best[:, :, None] + transitions).max(dim=1)  # [B, S]
        inside = (t < lengths)[:, None]
        best = torch.where(inside, reach + scores[t], best)
        stay = torch.arange(best.shape[1], device=scores.device).expand_as(previous)
        came_from.append(torch.where(inside, previous, stay))
    score, state = best.max(dim=1)
    path = [state]
    for previous in reversed(came_from):
        path.append(previous.gather(1, path[-1][:, None]).squeeze(1))
    states = torch.stack(path[::-1])
    inside = torch.arange(steps, device=scores.device)[:, None] < lengths
    return BestPath(states.masked_fill(~inside, 0), score)
