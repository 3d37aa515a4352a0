"""The softmax over many words for a chunk of rows: the surprisals of its labels, and their gradients.

There are two implementations here, for a CPU and for other devices; one for NVIDIA GPUs is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from throughtime.accelerate import find_softmax_kernel
from throughtime.errors import InputError, ThroughtimeError
from throughtime.models.heads import logits_into, product_dtype, split_words, sum_dtype

# Number of logits of one chunk. On a CPU it should be small compared with the model, but large enough that
# adding to the gradient of all weights after each chunk is cheap; a GPU needs few launches.
CPU_LOGITS, GPU_LOGITS = 2**22, 2**26


def default_chunk(weight: Tensor) -> int:
    """Return the default maximum number of rows of a chunk, for a softmax with these weights."""
    logits = CPU_LOGITS if weight.device.type == "cpu" else GPU_LOGITS
    return max(32, logits // len(weight))


def pass_on_gradients(ctx: Any, outer: Tensor, head: str) -> tuple[Tensor | None, ...]:
    """Multiply the gradients that the forward pass of a loss left in `ctx` by that of the loss; only once.

    `head` is the name of the class that computes the loss.
    """
    if torch.is_grad_enabled():
        raise ThroughtimeError(
            f"the loss of a {head} gives first derivatives only; "
            "for create_graph=True sum its log_probs at the labels"
        )
    if ctx.gradients is None:
        raise ThroughtimeError(f"backward was called twice on one loss of a {head}; compute the loss again")
    # Once `ctx` lets go of the tensors, autograd takes them as .grad without a copy.
    gradients: tuple[Tensor | None, ...] = tuple(ctx.gradients)
    ctx.gradients = None
    for gradient in gradients:
        if gradient is not None:
            gradient.mul_(outer)
    return gradients


def check_states(states: Tensor, weight: Tensor) -> None:
    """Refuse states whose width differs from that of the softmax weights."""
    if states.shape[-1] != weight.shape[1]:
        raise InputError(
            "states", f"have the width {states.shape[-1]}, but the softmax expects {weight.shape[1]}"
        )


def even_chunk(rows: int, most: int) -> int:
    """Number of rows per chunk for chunks of equal size: 700 rows by at most 420 are 350 and 350."""
    chunks = max(1, -(-rows // most))
    return max(1, -(-rows // chunks))


class Gradients(NamedTuple):
    """The gradients of the sum of surprisals; None for those that are not needed."""

    hidden: Tensor | None  # [N, H]
    weight: Tensor | None  # [V, H]
    bias: Tensor | None  # [V]

    @classmethod
    def allocate(
        cls, hidden: Tensor, weight: Tensor, bias: Tensor | None, asked: Sequence[bool]
    ) -> Gradients:
        """Allocate those that are asked for, in the order of the tensors.

        The first chunk of rows fills those of weight and bias in; without rows they are zeros.
        """
        for_hidden, for_weight, for_bias = asked
        sums = sum_dtype(weight.dtype)
        allocate = torch.empty_like if len(hidden) else torch.zeros_like
        return cls(
            torch.empty_like(hidden) if for_hidden else None,
            allocate(weight, dtype=sums) if for_weight else None,
            allocate(bias, dtype=sums) if bias is not None and for_bias else None,
        )


class ChunkScores(NamedTuple):
    """The scores of the labels of a chunk."""

    states: Tensor  # of the chunk, as they are multiplied
    targets: Tensor  # [C, 1], like the next two
    surprisal: Tensor
    at_target: Tensor  # the logit
    odds: Tensor  # [C, V], for the gradients; valid until the next chunk


class ChunkSoftmax(ABC):
    """A softmax with these weights over chunks of rows, in the precision of autocast.

    `smoothing` is that of the labels; `learns` says whether gradients are needed.
    """

    skips_ignored = False
    """Whether targets may be `IGNORED`: such rows have neither a surprisal nor a gradient."""

    def __init__(self, weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> None:
        self.words, self.bias = weight.to(product_dtype(weight)), bias
        self.sums, self.smoothing, self.learns = sum_dtype(weight.dtype), smoothing, learns

    @abstractmethod
    def __call__(self, states: Tensor, targets: Tensor) -> ChunkScores:
        """Score a chunk. [C, H], [C, 1]"""

    @abstractmethod
    def add_gradients(
        self, scores: ChunkScores, share: Tensor | None, gradients: Gradients, rows: slice
    ) -> None:
        """Add the gradients of a chunk, which has these rows; `share` [C, 1] is the factor of each row.

        The first chunk writes them. Without a share, all factors are 1, which `skips_ignored` allows.
        """


class CpuSoftmax(ChunkSoftmax):
    """On a CPU the logits of a chunk stay in the cache, in one buffer, and are changed in place."""

    buffer: Tensor | None = None
    totals: Tensor

    def __call__(self, states: Tensor, targets: Tensor) -> ChunkScores:
        """Score a chunk."""
        if self.buffer is None:  # the first chunk is the largest
            self.buffer = states.new_empty(len(states), len(self.words), dtype=self.sums)
        odds = self.buffer[: len(states)]
        logits_into(states, self.words, self.bias, out=odds)
        highest = odds.amax(1, keepdim=True)
        odds.sub_(highest)
        at_target = odds.gather(1, targets)
        self.totals = odds.exp_().sum(1, keepdim=True)
        return ChunkScores(states, targets, self.totals.log() - at_target, at_target + highest, odds)

    def add_gradients(
        self, scores: ChunkScores, share: Tensor | None, gradients: Gradients, rows: slice
    ) -> None:
        """Add the gradients of the last chunk; those of the logits, times the totals, overwrite the odds."""
        assert share is not None
        errors, totals = scores.odds, self.totals
        errors.scatter_add_(1, scores.targets, (self.smoothing - 1) * totals)
        if self.smoothing:
            errors.sub_(totals * (self.smoothing / len(self.words)))
        _add_gradients(errors, share / totals, scores.states, self.words, gradients, rows)


class TorchSoftmax(ChunkSoftmax):
    """Where each pass goes through memory, torch's single operation for a softmax is the best."""

    def __call__(self, states: Tensor, targets: Tensor) -> ChunkScores:
        """Score a chunk."""
        bias = None if self.bias is None else self.bias.to(self.words.dtype)
        scores = functional.linear(states, self.words, bias)
        log_probs = scores.to(self.sums).log_softmax(1)
        at_target = scores.gather(1, targets).to(self.sums)
        # Scores in bf16 are less to read again than log-probabilities in float32.
        odds = scores if scores.dtype != self.sums else log_probs
        return ChunkScores(states, targets, -log_probs.gather(1, targets), at_target, odds)

    def add_gradients(
        self, scores: ChunkScores, share: Tensor | None, gradients: Gradients, rows: slice
    ) -> None:
        """Add the gradients of a chunk; those of the logits are the probabilities minus the targets."""
        assert share is not None
        errors = scores.odds.exp_() if scores.odds.dtype == self.sums else scores.odds.softmax(1)
        evenly = self.smoothing / len(self.words)
        there = (-scores.surprisal).exp() - evenly - (1 - self.smoothing)
        errors = errors.sub_(evenly) if evenly else errors
        errors.scatter_(1, scores.targets, there.to(errors.dtype))
        _add_gradients(errors, share, scores.states, self.words, gradients, rows)


def build_softmax(weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> ChunkSoftmax:
    """Return the softmax for the device of these weights."""
    plain = CpuSoftmax if weight.device.type == "cpu" else TorchSoftmax
    return (find_softmax_kernel(weight) or plain)(weight, bias, smoothing, learns)


def _add_gradients(
    errors: Tensor, share: Tensor, states: Tensor, words: Tensor, gradients: Gradients, rows: slice
) -> None:
    """Add products with the gradient of a chunk's logits, `errors` [C, V] times `share` [C, 1].

    That product is never formed: the other factor of each product is narrower and is multiplied by the share.
    """
    factor, kept = errors.to(words.dtype), int(rows.start > 0)
    if gradients.bias is not None:
        if errors.dtype == gradients.bias.dtype:
            gradients.bias.addmv_(errors.t(), share[:, 0].to(errors.dtype), beta=kept)
        else:
            add_chunk(gradients.bias, (share.t().to(errors.dtype) @ errors)[0], rows)
    if gradients.hidden is not None:
        gradients.hidden[rows] = (factor @ words) * share
    if gradients.weight is not None:
        shared = (states * share).to(words.dtype)
        for some in split_words(words):
            if words.dtype == gradients.weight.dtype:
                gradients.weight[some].addmm_(factor[:, some].t(), shared, beta=kept)
            else:
                add_chunk(gradients.weight[some], factor[:, some].t() @ shared, rows)


def add_chunk(into: Tensor, values: Tensor, rows: slice) -> None:
    """Add what a chunk contributes; the first chunk overwrites what was there."""
    if rows.start:
        into.add_(values)
    else:
        into.copy_(values)
