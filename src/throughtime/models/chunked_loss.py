"""The surprisals of a softmax over many words, a few rows at a time, so that all logits never exist at once.

The gradient of a sum of surprisals is known as soon as the logits are: the probabilities, less one at the
label. So the forward pass forms a chunk's gradients while its logits are at hand, and the backward pass only
scales them: nothing is kept but the gradients themselves, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from throughtime.errors import ThroughtimeError

IGNORED = -100
"""A label that is no target, by torch's convention."""

# Logits of one chunk. A CPU wants few enough to be small beside the model, many enough that adding to the
# gradient of all weights at each chunk is cheap; a GPU wants few launches.
CPU_LOGITS, GPU_LOGITS = 2**22, 2**26
# Words of one product on a CPU: in such pieces the logits of 33,278 words take 0.7 of one product's time.
CPU_WORDS = 2048
# Logits in 64 bytes: a CPU multiplies 1.5 times as fast into rows that begin at a multiple of that.
ALIGNED = 16


class Gradients(NamedTuple):
    """Of the sum of surprisals; None for those that nobody wants."""

    hidden: Tensor | None  # [N, H]
    weight: Tensor | None  # [V, H]
    bias: Tensor | None  # [V]


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


def logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """hidden weight' + bias, [N, V]; gradients of any order flow."""
    if torch.is_grad_enabled() or weight.device.type != "cpu" or _precision(weight) != weight.dtype:
        return functional.linear(hidden, weight, bias)
    width = -(-len(weight) // ALIGNED) * ALIGNED
    out = weight.new_empty(len(hidden), width)[:, : len(weight)]
    _logits(hidden, weight, bias, out=out)
    return out


def widened(dtype: torch.dtype) -> torch.dtype:
    """What sums and softmax are computed in: float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


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
        for_hidden, for_weight, for_bias = ctx.needs_input_grad[:3]
        sums = widened(weight.dtype)
        gradients = Gradients(
            torch.empty_like(hidden) if for_hidden else None,
            torch.zeros_like(weight, dtype=sums) if for_weight else None,
            torch.zeros_like(bias, dtype=sums) if bias is not None and for_bias else None,
        )
        found, excess = _collect(hidden, labels, weight, bias, chunk, gradients, smoothing)
        ctx.gradients, ctx.dtype = gradients, weight.dtype
        total = found.sum()
        ctx.mark_non_differentiable(total)
        ctx.set_materialize_grads(False)  # nothing comes back for the total, not even zeros
        return total, (found + smoothing * excess).sum()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise ThroughtimeError(
                "the loss of a SoftmaxHead gives first derivatives only; "
                "for create_graph=True sum its log_probs at the labels"
            )
        if ctx.gradients is None:
            raise ThroughtimeError(
                "backward was called twice on one loss of a SoftmaxHead; compute the loss again"
            )
        # Let go of here, the tensors belong to nobody else: autograd takes them as .grad without a copy.
        (hidden, weight, bias), ctx.gradients = ctx.gradients, None
        for gradient in (hidden, weight, bias):
            if gradient is not None:
                gradient.mul_(outer[1])
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
    precision = _precision(weight)
    with torch.autocast(weight.device.type, enabled=False):
        words = weight.to(precision)
        per_chunk = _even(len(hidden), chunk or _default_chunk(weight))
        buffer = weight.new_empty(min(per_chunk, len(hidden)), len(weight), dtype=widened(weight.dtype))
        found, excess = [buffer.new_empty(0)], [buffer.new_empty(0)]
        middle = words.to(buffer.dtype).mean(0) if smoothing else None
        offset = 0.0 if bias is None or not smoothing else bias.to(buffer.dtype).mean()
        for start in range(0, len(hidden), per_chunk):
            rows = slice(start, start + per_chunk)
            states, known = hidden[rows].to(precision), (labels[rows] != IGNORED)[:, None]
            odds = buffer[: len(states)]
            _logits(states, words, bias, out=odds)
            targets = torch.where(known, labels[rows, None], 0)
            if middle is not None:
                above = odds.gather(1, targets)[:, 0] - (states.to(buffer.dtype) @ middle + offset)
                excess.append(torch.where(known[:, 0], above, 0.0))
            surprisal, totals = _odds_(odds, targets)
            found.append(torch.where(known, surprisal, 0.0)[:, 0])
            if any(gradient is not None for gradient in gradients):
                odds.scatter_add_(1, targets, (smoothing - 1) * totals)
                if smoothing:
                    odds.sub_(totals * (smoothing / len(words)))
                _add_gradients(odds, known / totals, states, words, gradients, rows)
        every = torch.cat(found)
        return every, torch.cat(excess) if smoothing else torch.zeros_like(every)


def _logits(states: Tensor, words: Tensor, bias: Tensor | None, *, out: Tensor) -> None:
    """states words' + bias, the product in its inputs' precision, the rest in that of `out`."""
    for some in _pieces(words):
        if states.dtype != out.dtype:
            product = states @ words[some].t()
            out[:, some] = product if bias is None else product + bias[some].to(out.dtype)
        elif bias is None:
            torch.mm(states, words[some].t(), out=out[:, some])
        else:
            torch.addmm(bias[some], states, words[some].t(), out=out[:, some])


def _odds_(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Turn logits into odds against the likeliest word, in place; give surprisals and sums of odds [C, 1]."""
    logits.sub_(logits.amax(1, keepdim=True))
    at_target = logits.gather(1, targets)
    totals = logits.exp_().sum(1, keepdim=True)
    return totals.log() - at_target, totals


def _add_gradients(
    odds: Tensor, share: Tensor, states: Tensor, words: Tensor, gradients: Gradients, rows: slice
) -> None:
    """Add one chunk's part. `odds` times `share`, [C, V] times [C, 1], is the gradient of its logits.

    It is never formed: the share goes to the other factor of each product, which is narrower.
    """
    if gradients.bias is not None:
        gradients.bias.addmv_(odds.t(), share[:, 0])
    factor = odds.to(words.dtype)
    if gradients.hidden is not None:
        gradients.hidden[rows] = (factor @ words) * share
    if gradients.weight is not None:
        shared = (states * share).to(words.dtype)
        for some in _pieces(words):
            if words.dtype == gradients.weight.dtype:
                gradients.weight[some].addmm_(factor[:, some].t(), shared)
            else:
                gradients.weight[some].add_(factor[:, some].t() @ shared)


def _precision(weight: Tensor) -> torch.dtype:
    """What products are computed in: autocast's choice where it is on, and it leaves float64 alone."""
    kind = weight.device.type
    if torch.is_autocast_enabled(kind) and weight.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def _pieces(words: Tensor) -> Iterator[slice]:
    size = CPU_WORDS if words.device.type == "cpu" else len(words)
    return (slice(start, start + size) for start in range(0, len(words), size))


def _default_chunk(weight: Tensor) -> int:
    logits = CPU_LOGITS if weight.device.type == "cpu" else GPU_LOGITS
    return max(32, logits // len(weight))


def _even(rows: int, most: int) -> int:
    """Rows of each chunk, so that the last is not a sliver: 700 rows by at most 420 are 350 and 350."""
    chunks = max(1, -(-rows // most))
    return max(1, -(-rows // chunks))
