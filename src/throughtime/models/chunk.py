"""One chunk of rows under a softmax over many words: its logits, surprisals and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from throughtime.errors import InputError, ThroughtimeError

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


def logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """hidden weight' + bias, [N, V]; gradients of any order flow."""
    if torch.is_grad_enabled() or weight.device.type != "cpu" or precision(weight) != weight.dtype:
        return functional.linear(hidden, weight, bias)
    width = -(-len(weight) // ALIGNED) * ALIGNED
    out = weight.new_empty(len(hidden), width)[:, : len(weight)]
    _logits(hidden, weight, bias, out=out)
    return out


def widened(dtype: torch.dtype) -> torch.dtype:
    """What sums and softmax are computed in: float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


class Judged(NamedTuple):
    """What a chunk's logits say of its labels, all but the first [C, 1]."""

    odds: Tensor  # of which `errors_` makes the gradient of the logits, [C, V]
    totals: Tensor | None  # None for ones
    surprisal: Tensor
    at_target: Tensor  # the logit


class InCache:
    """On a CPU a chunk's logits lie in the cache, in one buffer, and all is done in their place."""

    def __init__(self, words: Tensor, bias: Tensor | None, sums: torch.dtype, smoothing: float) -> None:
        self.words, self.bias, self.sums, self.smoothing = words, bias, sums, smoothing
        self.buffer: Tensor | None = None

    def __call__(self, states: Tensor, targets: Tensor) -> Judged:
        """Judge a chunk; the odds last until the next one."""
        if self.buffer is None:  # the first chunk is the largest
            self.buffer = states.new_empty(len(states), len(self.words), dtype=self.sums)
        odds = self.buffer[: len(states)]
        _logits(states, self.words, self.bias, out=odds)
        highest = odds.amax(1, keepdim=True)
        odds.sub_(highest)
        at_target = odds.gather(1, targets)
        totals = odds.exp_().sum(1, keepdim=True)
        return Judged(odds, totals, totals.log() - at_target, at_target + highest)

    def errors_(self, judged: Judged, targets: Tensor) -> Tensor:
        """The gradient of the logits times the totals, in place of the odds."""
        odds, totals = judged.odds, judged.totals
        assert totals is not None
        odds.scatter_add_(1, targets, (self.smoothing - 1) * totals)
        return odds.sub_(totals * (self.smoothing / len(self.words))) if self.smoothing else odds


class InMemory:
    """On a GPU each pass goes through memory: torch's one kernel for a softmax, in few bytes, is the best."""

    def __init__(self, words: Tensor, bias: Tensor | None, sums: torch.dtype, smoothing: float) -> None:
        self.words, self.sums, self.smoothing = words, sums, smoothing
        self.bias = None if bias is None else bias.to(words.dtype)

    def __call__(self, states: Tensor, targets: Tensor) -> Judged:
        """Judge a chunk."""
        scores = functional.linear(states, self.words, self.bias)
        log_probs = scores.to(self.sums).log_softmax(1)
        surprisal = -log_probs.gather(1, targets)
        # Narrow scores are less to read again than what has become of them.
        odds = scores if scores.dtype != self.sums else log_probs
        return Judged(odds, None, surprisal, scores.gather(1, targets).to(self.sums))

    def errors_(self, judged: Judged, targets: Tensor) -> Tensor:
        """The gradient of the logits: probabilities less what was to be."""
        errors = judged.odds.exp_() if judged.odds.dtype == self.sums else judged.odds.softmax(1)
        evenly = self.smoothing / len(self.words)
        there = (-judged.surprisal).exp() - evenly - (1 - self.smoothing)
        errors = errors.sub_(evenly) if evenly else errors
        return errors.scatter_(1, targets, there.to(errors.dtype))


def judge_of(weight: Tensor, bias: Tensor | None, smoothing: float = 0.0) -> InCache | InMemory:
    """What judges chunks under a softmax with these weights, in the precision that autocast asks for."""
    kind = InCache if weight.device.type == "cpu" else InMemory
    return kind(weight.to(precision(weight)), bias, widened(weight.dtype), smoothing)


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


def add_gradients(
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


def precision(weight: Tensor) -> torch.dtype:
    """What products are computed in: autocast's choice where it is on, and it leaves float64 alone."""
    kind = weight.device.type
    if torch.is_autocast_enabled(kind) and weight.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def _pieces(words: Tensor) -> Iterator[slice]:
    size = CPU_WORDS if words.device.type == "cpu" else len(words)
    return (slice(start, start + size) for start in range(0, len(words), size))


def default_chunk(weight: Tensor) -> int:
    """The most rows of a chunk, for a softmax with these weights."""
    logits = CPU_LOGITS if weight.device.type == "cpu" else GPU_LOGITS
    return max(32, logits // len(weight))


def handed_on(ctx: Any, outer: Tensor, head: str) -> tuple[Tensor | None, ...]:
    """The gradients of a loss that its forward pass has left in `ctx`, times what came back for it; once.

    `head` is the name of the class whose loss it is.
    """
    if torch.is_grad_enabled():
        raise ThroughtimeError(
            f"the loss of a {head} gives first derivatives only; "
            "for create_graph=True sum its log_probs at the labels"
        )
    if ctx.gradients is None:
        raise ThroughtimeError(f"backward was called twice on one loss of a {head}; compute the loss again")
    # Let go of here, the tensors belong to nobody else: autograd takes them as .grad without a copy.
    found: tuple[Tensor | None, ...] = tuple(ctx.gradients)
    ctx.gradients = None
    for gradient in found:
        if gradient is not None:
            gradient.mul_(outer)
    return found


def check_labels(labels: Tensor, rows: int) -> None:
    """Refuse labels that are not one a row, which torch would stretch over the rows."""
    if labels.shape != (rows,):
        raise InputError("labels", f"have shape {list(labels.shape)}, expected one for each of {rows} rows")


def even(rows: int, most: int) -> int:
    """Rows of each chunk, so that the last is not a sliver: 700 rows by at most 420 are 350 and 350."""
    chunks = max(1, -(-rows // most))
    return max(1, -(-rows // chunks))
