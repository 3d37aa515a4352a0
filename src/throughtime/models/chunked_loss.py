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
        words, sums = weight.to(precision), widened(weight.dtype)
        per_chunk = _even(len(hidden), chunk or _default_chunk(weight))
        judge = (_InCache if weight.device.type == "cpu" else _InMemory)(words, bias, sums, smoothing)
        found, excess = [hidden.new_empty(0, dtype=sums)], [hidden.new_empty(0, dtype=sums)]
        middle = words.to(sums).mean(0) if smoothing else None
        offset = 0.0 if bias is None or not smoothing else bias.to(sums).mean()
        for start in range(0, len(hidden), per_chunk):
            rows = slice(start, start + per_chunk)
            states, known = hidden[rows].to(precision), (labels[rows] != IGNORED)[:, None]
            targets = torch.where(known, labels[rows, None], 0)
            judged = judge(states, targets)
            found.append(torch.where(known, judged.surprisal, 0.0)[:, 0])
            if middle is not None:
                above = judged.at_target[:, 0] - (states.to(sums) @ middle + offset)
                excess.append(torch.where(known[:, 0], above, 0.0))
            if any(gradient is not None for gradient in gradients):
                share = known if judged.totals is None else known / judged.totals
                _add_gradients(judge.errors_(judged, targets), share, states, words, gradients, rows)
        every = torch.cat(found)
        return every, torch.cat(excess) if smoothing else torch.zeros_like(every)


class _Judged(NamedTuple):
    """What a chunk's logits say of its labels, all but the first [C, 1]."""

    odds: Tensor  # of which `errors_` makes the gradient of the logits, [C, V]
    totals: Tensor | None  # None for ones
    surprisal: Tensor
    at_target: Tensor  # the logit


class _InCache:
    """On a CPU a chunk's logits lie in the cache, in one buffer, and all is done in their place."""

    def __init__(self, words: Tensor, bias: Tensor | None, sums: torch.dtype, smoothing: float) -> None:
        self.words, self.bias, self.sums, self.smoothing = words, bias, sums, smoothing
        self.buffer: Tensor | None = None

    def __call__(self, states: Tensor, targets: Tensor) -> _Judged:
        if self.buffer is None:  # the first chunk is the largest
            self.buffer = states.new_empty(len(states), len(self.words), dtype=self.sums)
        odds = self.buffer[: len(states)]
        _logits(states, self.words, self.bias, out=odds)
        highest = odds.amax(1, keepdim=True)
        odds.sub_(highest)
        at_target = odds.gather(1, targets)
        totals = odds.exp_().sum(1, keepdim=True)
        return _Judged(odds, totals, totals.log() - at_target, at_target + highest)

    def errors_(self, judged: _Judged, targets: Tensor) -> Tensor:
        """The gradient of the logits times the totals, in place of the odds."""
        odds, totals = judged.odds, judged.totals
        assert totals is not None
        odds.scatter_add_(1, targets, (self.smoothing - 1) * totals)
        return odds.sub_(totals * (self.smoothing / len(self.words))) if self.smoothing else odds


class _InMemory:
    """On a GPU each pass goes through memory: torch's one kernel for a softmax, in few bytes, is the best."""

    def __init__(self, words: Tensor, bias: Tensor | None, sums: torch.dtype, smoothing: float) -> None:
        self.words, self.sums, self.smoothing = words, sums, smoothing
        self.bias = None if bias is None else bias.to(words.dtype)

    def __call__(self, states: Tensor, targets: Tensor) -> _Judged:
        scores = functional.linear(states, self.words, self.bias)
        log_probs = scores.to(self.sums).log_softmax(1)
        surprisal = -log_probs.gather(1, targets)
        # Narrow scores are less to read again than what has become of them.
        odds = scores if scores.dtype != self.sums else log_probs
        return _Judged(odds, None, surprisal, scores.gather(1, targets).to(self.sums))

    def errors_(self, judged: _Judged, targets: Tensor) -> Tensor:
        """The gradient of the logits: probabilities less what was to be."""
        errors = judged.odds.exp_() if judged.odds.dtype == self.sums else judged.odds.softmax(1)
        evenly = self.smoothing / len(self.words)
        there = (-judged.surprisal).exp() - evenly - (1 - self.smoothing)
        errors = errors.sub_(evenly) if evenly else errors
        return errors.scatter_(1, targets, there.to(errors.dtype))


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


def _add_gradients(
    errors: Tensor, share: Tensor, states: Tensor, words: Tensor, gradients: Gradients, rows: slice
) -> None:
    """Add one chunk's part. `errors` times `share`, [C, V] times [C, 1], is the gradient of its logits.

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
