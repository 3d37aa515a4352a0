"""What a softmax over many words says of the labels of a chunk of rows, and the gradients of that.

There is a way for a CPU, one for an NVIDIA GPU and one for all other devices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from throughtime.kernels import softmax
from throughtime.kernels.elements import widened as wide
from throughtime.models.chunk import logits_into, pieces, precision, widened


class Gradients(NamedTuple):
    """Of the sum of surprisals; None for those that nobody wants."""

    hidden: Tensor | None  # [N, H]
    weight: Tensor | None  # [V, H]
    bias: Tensor | None  # [V]

    @classmethod
    def wanted(cls, hidden: Tensor, weight: Tensor, bias: Tensor | None, asked: Sequence[bool]) -> Gradients:
        """Room for those that are asked for, in the order of the tensors."""
        for_hidden, for_weight, for_bias = asked
        sums = widened(weight.dtype)
        return cls(
            torch.empty_like(hidden) if for_hidden else None,
            torch.zeros_like(weight, dtype=sums) if for_weight else None,
            torch.zeros_like(bias, dtype=sums) if bias is not None and for_bias else None,
        )


class Judged(NamedTuple):
    """What a chunk's logits say of its labels."""

    states: Tensor  # of the chunk, as the judge multiplies them
    targets: Tensor  # [C, 1], like all that follow
    surprisal: Tensor
    at_target: Tensor  # the logit
    odds: Tensor  # of which the gradients are made, [C, V]; they last until the next chunk


class Judge(ABC):
    """Judges chunks under a softmax with these weights, in the precision that autocast asks for.

    `smoothing` is that of the labels; `learns` says whether gradients will be asked for.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> None:
        self.words, self.bias = weight.to(precision(weight)), bias
        self.sums, self.smoothing, self.learns = widened(weight.dtype), smoothing, learns

    @abstractmethod
    def __call__(self, states: Tensor, targets: Tensor) -> Judged:
        """Judge a chunk. [C, H], [C, 1]"""

    @abstractmethod
    def add_gradients(self, judged: Judged, share: Tensor, gradients: Gradients, rows: slice) -> None:
        """Add those of a chunk, which is these rows; each row counts by its share. [C, 1]"""


class InCache(Judge):
    """On a CPU a chunk's logits lie in the cache, in one buffer, and all is done in their place."""

    buffer: Tensor | None = None
    totals: Tensor

    def __call__(self, states: Tensor, targets: Tensor) -> Judged:
        """Judge a chunk."""
        if self.buffer is None:  # the first chunk is the largest
            self.buffer = states.new_empty(len(states), len(self.words), dtype=self.sums)
        odds = self.buffer[: len(states)]
        logits_into(states, self.words, self.bias, out=odds)
        highest = odds.amax(1, keepdim=True)
        odds.sub_(highest)
        at_target = odds.gather(1, targets)
        self.totals = odds.exp_().sum(1, keepdim=True)
        return Judged(states, targets, self.totals.log() - at_target, at_target + highest, odds)

    def add_gradients(self, judged: Judged, share: Tensor, gradients: Gradients, rows: slice) -> None:
        """Add those of the chunk judged last: those of the logits times the totals take the odds' place."""
        errors, totals = judged.odds, self.totals
        errors.scatter_add_(1, judged.targets, (self.smoothing - 1) * totals)
        if self.smoothing:
            errors.sub_(totals * (self.smoothing / len(self.words)))
        _add_gradients(errors, share / totals, judged.states, self.words, gradients, rows)


class InMemory(Judge):
    """Where each pass goes through memory torch's one operation for a softmax, in few bytes, is the best."""

    def __call__(self, states: Tensor, targets: Tensor) -> Judged:
        """Judge a chunk."""
        bias = None if self.bias is None else self.bias.to(self.words.dtype)
        scores = functional.linear(states, self.words, bias)
        log_probs = scores.to(self.sums).log_softmax(1)
        at_target = scores.gather(1, targets).to(self.sums)
        # Narrow scores are less to read again than what has become of them.
        odds = scores if scores.dtype != self.sums else log_probs
        return Judged(states, targets, -log_probs.gather(1, targets), at_target, odds)

    def add_gradients(self, judged: Judged, share: Tensor, gradients: Gradients, rows: slice) -> None:
        """Add those of a chunk: that of the logits is probabilities less what was to be."""
        errors = judged.odds.exp_() if judged.odds.dtype == self.sums else judged.odds.softmax(1)
        evenly = self.smoothing / len(self.words)
        there = (-judged.surprisal).exp() - evenly - (1 - self.smoothing)
        errors = errors.sub_(evenly) if evenly else errors
        errors.scatter_(1, judged.targets, there.to(errors.dtype))
        _add_gradients(errors, share, judged.states, self.words, gradients, rows)


class InRegisters(Judge):
    """On an NVIDIA GPU one kernel makes surprisals and the logits' gradients, with each row in registers.

    What is multiplied is padded with zeros until each row begins on a boundary of 16 bytes, as products at
    full speed want. The bias is two more weights of a word, for states that are always one: what a product
    in tf32 or bf16 would round away of it, and the rest.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> None:
        many, size = weight.shape
        shape = wide(many), wide(size if bias is None else size + 2)
        self._padded = weight.new_zeros(shape, dtype=precision(weight))
        self._padded[:many, :size] = weight
        if bias is not None:
            coarse = bias.to(torch.bfloat16).to(bias.dtype)
            self._padded[:many, size], self._padded[:many, size + 1] = coarse, bias - coarse
        super().__init__(self._padded[:many, :size], bias, smoothing, learns)

    def __call__(self, states: Tensor, targets: Tensor) -> Judged:
        """Judge a chunk; where it learns, the odds are the gradients of the logits."""
        size = states.shape[1]
        padded = states.new_zeros(len(states), self._padded.shape[1])
        padded[:, :size] = states
        if self.bias is not None:
            padded[:, size : size + 2] = 1
        scores = padded @ self._padded.t()
        found = softmax.softmax_(scores, targets, len(self.words), self.smoothing, self.learns)
        return Judged(padded, targets, found.surprisals[:, None], found.at_target[:, None], scores)

    def add_gradients(self, judged: Judged, share: Tensor, gradients: Gradients, rows: slice) -> None:
        """Add those of a chunk."""
        many, size = self.words.shape
        errors = judged.odds
        if gradients.hidden is not None:
            gradients.hidden[rows] = (errors @ self._padded)[:, :size] * share
        if gradients.weight is None and gradients.bias is None:
            return
        sums = (errors.t() @ (judged.states * share).to(errors.dtype))[:many]
        if gradients.weight is not None:
            gradients.weight.add_(sums[:, :size])
        if gradients.bias is not None:
            gradients.bias.add_(sums[:, size])


def judge_of(weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> Judge:
    """The judge for the device of these weights."""
    kind: type[Judge] = InMemory
    if weight.device.type == "cpu":
        kind = InCache
    elif weight.is_cuda and softmax.fits(len(weight), precision(weight)):
        from throughtime.kernels import driver

        kind = InMemory if driver.unavailable(weight.get_device()) else InRegisters
    return kind(weight, bias, smoothing, learns)


def _add_gradients(
    errors: Tensor, share: Tensor, states: Tensor, words: Tensor, gradients: Gradients, rows: slice
) -> None:
    """`errors` times `share`, [C, V] times [C, 1], is the gradient of a chunk's logits.

    It is never formed: the share goes to the other factor of each product, which is narrower.
    """
    factor = errors.to(words.dtype)
    if gradients.bias is not None:
        if errors.dtype == gradients.bias.dtype:
            gradients.bias.addmv_(errors.t(), share[:, 0].to(errors.dtype))
        else:
            gradients.bias.add_((share.t().to(errors.dtype) @ errors)[0])
    if gradients.hidden is not None:
        gradients.hidden[rows] = (factor @ words) * share
    if gradients.weight is not None:
        shared = (states * share).to(words.dtype)
        for some in pieces(words):
            if words.dtype == gradients.weight.dtype:
                gradients.weight[some].addmm_(factor[:, some].t(), shared)
            else:
                gradients.weight[some].add_(factor[:, some].t() @ shared)
