r"""A chain over indicators, fitted before the network: a conditional random field without a network.

.. math:: s_{t, y} = \sum_{f \in F_t} W_{f, y}

Its answers and those of a network are mixed as a product of experts: all scores are weighted means of both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from throughtime.layers.crf import ChainWeights, score_tags

PASSES, WORDS = (3, 8), 500_000
"""Bounds for the number of passes, and the number of words that are read in all, between these bounds."""
SENTENCES = 16
RATE, PENALTY = 0.1, 0.1
"""Of Adagrad, and of the sum of the indicators' squared weights, in each pass."""


class IndicatorChain(nn.Module):
    """Scores of tags from indicators, and a chain; `share` is its part of the mixture with a network.

    Its weights are buffers: `fit` sets them, and the training of the network leaves them alone.
    """

    table: Tensor  # [F, S]; indicator 0 is unknown, and scores nothing
    transitions: Tensor
    first: Tensor
    last: Tensor
    share: Tensor

    def __init__(self, indicators: int, tags: int) -> None:
        super().__init__()
        shapes = {"table": (indicators, tags), "transitions": (tags, tags), "first": (tags,), "last": (tags,)}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape))
        self.register_buffer("share", torch.tensor(0.5))

    @property
    def chain(self) -> ChainWeights:
        """The scores of successive tags."""
        return ChainWeights(self.transitions, self.first, self.last)

    def forward(self, indicators: Tensor) -> Tensor:
        """The scores of tags [T, B, S] of words with indicators [T, B, K]."""
        flat = embedding_bag(indicators.flatten(0, 1), self.table, mode="sum")
        return flat.view(*indicators.shape[:2], -1)


def fit_chain(
    chain: IndicatorChain,
    indicators: NDArray[np.integer[Any]],
    tags: NDArray[np.integer[Any]],
    offsets: NDArray[np.int64],
    *,
    linked: bool,
    seconds: float | None = None,
) -> None:
    """Fit the weights by Adagrad to the indicators [N, K] and tags [N] of the words of all sentences.

    Sentence i has the words from `offsets[i]` to `offsets[i + 1]`. `linked` is whether successive tags have
    scores. After `seconds` no further batch is read.
    """
    lengths = np.diff(offsets)
    passes = int(np.clip(WORDS / max(1, len(tags)), *PASSES))
    batches = -(-len(lengths) // SENTENCES)
    counts = np.bincount(indicators.ravel(), minlength=len(chain.table))
    # The penalty of a weight is divided among the batches that will probably have its indicator.
    often = 1 - (1 - 1 / batches) ** np.maximum(counts, 1.0) if batches > 1 else np.ones(len(counts))
    penalty = torch.from_numpy(2 * PENALTY / batches / often).float()[:, None]
    fitted = [chain.table, *chain.chain]
    squares = [torch.zeros_like(value) for value in fitted]
    until = None if seconds is None else time.monotonic() + seconds
    for rows in _draw_batches(lengths, passes):
        if until is not None and time.monotonic() > until:
            break
        sizes = torch.from_numpy(lengths[rows])
        places = np.zeros((int(sizes.max()), len(rows)), dtype=np.int64)
        for column, row in enumerate(rows):
            places[: lengths[row], column] = np.arange(offsets[row], offsets[row + 1])
        used, inside = torch.from_numpy(indicators[places].astype(np.int64)).unique(return_inverse=True)
        weights = [one.requires_grad_() for one in (chain.table[used], *map(torch.clone, chain.chain))]
        scores = embedding_bag(inside.flatten(0, 1), weights[0], mode="sum").view(*places.shape, -1)
        loss = _surprisal(scores, torch.from_numpy(tags[places]).long(), sizes, ChainWeights(*weights[1:]))
        gradients = torch.autograd.grad(loss, weights)
        for number in range(4 if linked else 1):
            total, at = squares[number], slice(None) if number else used
            step = gradients[number]
            if not number:
                step = step + penalty[used] * weights[0].detach()
            total[at] += step.square()
            fitted[number][at] -= RATE * step / (total[at].sqrt() + 1e-8)
        chain.table[0] = 0.0


def _draw_batches(lengths: NDArray[np.int64], passes: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of sentences of similar lengths, in another order in each pass."""
    draws = np.random.default_rng(0)
    for _ in range(passes):
        order = np.argsort(lengths + 3 * draws.random(len(lengths)), kind="stable")
        starts = np.arange(0, len(order), SENTENCES)
        for start in draws.permutation(starts):
            yield order[start : start + SENTENCES]


def _surprisal(scores: Tensor, tags: Tensor, lengths: Tensor, chain: ChainWeights) -> Tensor:
    """-ln P of the tags of all sentences; products of exponentials are fast if there are many tags."""
    steps, pairs = chain.transitions.exp(), scores[0] + chain.first
    for t in range(1, len(scores)):
        most = pairs.detach().amax(-1, keepdim=True)
        reached = ((pairs - most).exp() @ steps).clamp_min(1e-30).log() + most + scores[t]
        pairs = torch.where((t < lengths)[:, None], reached, pairs)
    return ((pairs + chain.last).logsumexp(-1) - score_tags(scores, tags, lengths, chain)).sum()
