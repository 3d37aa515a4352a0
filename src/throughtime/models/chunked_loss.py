"""The surprisals of a softmax over many words, a few rows at a time.

All logits never exist at once. The gradient of a sum of surprisals is known as soon as the logits are: the
probabilities, less one at the label. So the forward pass forms a chunk's gradients while its logits are at
hand, and the backward pass only scales them: nothing is kept but the gradients themselves, and nothing is
computed twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.models.softmax_loss import (
    Gradients,
    build_softmax,
    check_labels,
    check_states,
    default_chunk,
    even_chunk,
    pass_on_gradients,
)

IGNORED = -100
"""A label that is no target, by torch's convention."""


def summed_surprisal(
    hidden: Tensor, labels: Tensor, weight: Tensor, bias: Tensor | None, chunk: int | None = None
) -> Tensor:
    """The sum of -ln P(label) over the rows that have a label; P is the softmax of hidden weight' + bias.

    Where a gradient is wanted it is computed here, already; `backward` may be called once.

    >>> hidden, weight = torch.zeros(3, 2), torch.zeros(4, 2)
    >>> summed_surprisal(hidden, torch.tensor([3, IGNORED, 1]), weight, None)  # 2 ln 4
    tensor(2.7726)
    """
    return smoothed_surprisal(hidden, labels, weight, bias, 0.0, chunk).smoothed


class Smoothed(NamedTuple):
    """Two sums over the same rows: what is measured, and what is minimised in its place."""

    surprisal: Tensor  # of the labels; no gradient flows through it
    smoothed: Tensor


def smoothed_surprisal(
    hidden: Tensor,
    labels: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    smoothing: float,
    chunk: int | None = None,
) -> Smoothed:
    """Surprisals beside those under smoothed labels, in one pass (Szegedy et al., 2016).

    The smoothed one takes the share `smoothing` of a label away and gives it to all words alike.

    >>> hidden, weight = torch.ones(1, 1), torch.tensor([[0.0], [0.0], [3.0]])
    >>> both = smoothed_surprisal(hidden, torch.tensor([2]), weight, None, 0.1)
    >>> [round(float(one), 4) for one in both]   # ln P is -0.0949 once and -3.0949 twice
    [0.0949, 0.2949]
    """
    inputs = (hidden, weight, bias)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs):
        both = _SummedSurprisal.apply(*inputs, labels, smoothing, chunk)  # type: ignore[no-untyped-call]
        return Smoothed(*both)
    found, excess = _collect(hidden, labels, weight, bias, chunk, Gradients(None, None, None), smoothing)
    return Smoothed(found.sum(), (found + smoothing * excess).sum())


def surprisals(
    hidden: Tensor, labels: Tensor, weight: Tensor, bias: Tensor | None, chunk: int | None = None
) -> Tensor:
    """-ln P(label) of each row, 0 where the label is IGNORED; no gradient flows through it. [N]"""
    return _collect(hidden, labels, weight, bias, chunk, Gradients(None, None, None), 0.0)[0]


class _SummedSurprisal(torch.autograd.Function):
    """Gradients first, for their sum; what comes in backward is one number."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        chunk: int | None,
    ) -> tuple[Tensor, Tensor]:
        gradients = Gradients.wanted(hidden, weight, bias, ctx.needs_input_grad[:3])
        found, excess = _collect(hidden, labels, weight, bias, chunk, gradients, smoothing)
        ctx.gradients, ctx.dtype = gradients, weight.dtype
        total = found.sum()
        ctx.mark_non_differentiable(total)
        ctx.set_materialize_grads(False)  # nothing comes back for the total, not even zeros
        return total, (found + smoothing * excess).sum()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias = pass_on_gradients(ctx, outer[1], "SoftmaxHead")
        weight, bias = (None if sums is None else sums.to(ctx.dtype) for sums in (weight, bias))
        return hidden, weight, bias, None, None, None


@torch.no_grad()
def _collect(
    hidden: Tensor,
    labels: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    chunk: int | None,
    gradients: Gradients,
    smoothing: float,
) -> tuple[Tensor, Tensor]:
    """The surprisal of each row; what `gradients` has is filled in (hidden) or added to (weight, bias).

    A smoothed surprisal is one with `smoothing` times the logit's excess over the mean logit added: that
    excess comes second. The mean over words is a product with the mean word, so it costs next to nothing.
    """
    check_labels(labels, hidden)
    check_states(hidden, weight)
    learns = any(gradient is not None for gradient in gradients)
    softmax = build_softmax(weight, bias, smoothing, learns)
    words, sums = softmax.words, softmax.sums
    with torch.autocast(weight.device.type, enabled=False):
        per_chunk = even_chunk(len(hidden), chunk or default_chunk(weight))
        found, excess = [hidden.new_empty(0, dtype=sums)], [hidden.new_empty(0, dtype=sums)]
        middle = words.to(sums).mean(0) if smoothing else None
        offset = 0.0 if bias is None or not smoothing else bias.to(sums).mean()
        for start in range(0, len(hidden), per_chunk):
            rows = slice(start, start + per_chunk)
            states, known = hidden[rows].to(words.dtype), (labels[rows] != IGNORED)[:, None]
            targets = torch.where(known, labels[rows, None], 0)
            scores = softmax(states, targets)
            found.append(torch.where(known, scores.surprisal, 0.0)[:, 0])
            if middle is not None:
                above = scores.at_target[:, 0] - (states.to(sums) @ middle + offset)
                excess.append(torch.where(known[:, 0], above, 0.0))
            if learns:
                softmax.add_gradients(scores, known, gradients, rows)
        every = torch.cat(found)
        return every, torch.cat(excess) if smoothing else torch.zeros_like(every)
