"""What a softmax over many words says of the labels of a chunk of rows, and the gradients of that.

There is a way for a CPU, one for an NVIDIA GPU and one for all other devices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from throughtime.errors import InputError, ThroughtimeError
from throughtime.kernels import softmax
from throughtime.kernels.elements import widened as wide

# Logits of one chunk. A CPU wants few enough to be small beside the model, many enough that adding to the
# gradient of all weights at each chunk is cheap; a GPU wants few launches.
CPU_LOGITS, GPU_LOGITS = 2**22, 2**26
# Words of one product on a CPU: in such pieces the logits of 33,278 words take 0.7 of one product's time.
CPU_WORDS = 2048
# Logits in 64 bytes: a CPU multiplies 1.5 times as fast into rows that begin at a multiple of that.
ALIGNED = 16


def logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """hidden weight' + bias, [N, V]; gradients of any order flow."""
    if torch.is_grad_enabled() or weight.device.type != "cpu" or product_dtype(weight) != weight.dtype:
        return functional.linear(hidden, weight, bias)
    width = -(-len(weight) // ALIGNED) * ALIGNED
    out = weight.new_empty(len(hidden), width)[:, : len(weight)]
    logits_into(hidden, weight, bias, out=out)
    return out


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """What sums and softmax are computed in: float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


def logits_into(states: Tensor, words: Tensor, bias: Tensor | None, *, out: Tensor) -> None:
    """states words' + bias, the product in its inputs' precision, the rest in that of `out`."""
    for some in pieces(words):
        if states.dtype != out.dtype:
            product = states @ words[some].t()
            out[:, some] = product if bias is None else product + bias[some].to(out.dtype)
        elif bias is None:
            torch.mm(states, words[some].t(), out=out[:, some])
        else:
            torch.addmm(bias[some], states, words[some].t(), out=out[:, some])


def product_dtype(weight: Tensor) -> torch.dtype:
    """What products are computed in: autocast's choice where it is on, and it leaves float64 alone."""
    kind = weight.device.type
    if torch.is_autocast_enabled(kind) and weight.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def pieces(words: Tensor) -> Iterator[slice]:
    """The words of one product after the other, where one for all would be slower."""
    size = CPU_WORDS if words.device.type == "cpu" else len(words)
    return (slice(start, start + size) for start in range(0, len(words), size))


def default_chunk(weight: Tensor) -> int:
    """The most rows of a chunk, for a softmax with these weights."""
    logits = CPU_LOGITS if weight.device.type == "cpu" else GPU_LOGITS
    return max(32, logits // len(weight))


def pass_on_gradients(ctx: Any, outer: Tensor, head: str) -> tuple[Tensor | None, ...]:
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


def flatten_rows(hidden: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of a batch one under another: [T, B, H] and [T, B] as [N, H] and [N], which stay as they are."""
    if hidden.dim() > 2 and labels.shape == hidden.shape[:-1]:
        return hidden.flatten(0, -2), labels.flatten()
    return hidden, labels


def check_labels(labels: Tensor, states: Tensor) -> None:
    """Refuse labels that are not one a row, which torch would stretch over the rows, or lie elsewhere."""
    rows = len(states)
    if labels.shape != (rows,):
        raise InputError("labels", f"have shape {list(labels.shape)}, expected one for each of {rows} rows")
    if labels.device != states.device:
        raise InputError("labels", f"are on {labels.device}, but the states on {states.device}; move them")


def check_states(states: Tensor, weight: Tensor) -> None:
    """Refuse states of another width than that of the words."""
    if states.shape[-1] != weight.shape[1]:
        raise InputError(
            "states", f"are {states.shape[-1]} numbers wide, but the softmax's words {weight.shape[1]}"
        )


def even_chunk(rows: int, most: int) -> int:
    """Rows of each chunk, so that the last is not a sliver: 700 rows by at most 420 are 350 and 350."""
    chunks = max(1, -(-rows // most))
    return max(1, -(-rows // chunks))


class Gradients(NamedTuple):
    """Of the sum of surprisals; None for those that nobody wants."""

    hidden: Tensor | None  # [N, H]
    weight: Tensor | None  # [V, H]
    bias: Tensor | None  # [V]

    @classmethod
    def wanted(cls, hidden: Tensor, weight: Tensor, bias: Tensor | None, asked: Sequence[bool]) -> Gradients:
        """Room for those that are asked for, in the order of the tensors."""
        for_hidden, for_weight, for_bias = asked
        sums = sum_dtype(weight.dtype)
        return cls(
            torch.empty_like(hidden) if for_hidden else None,
            torch.zeros_like(weight, dtype=sums) if for_weight else None,
            torch.zeros_like(bias, dtype=sums) if bias is not None and for_bias else None,
        )


class ChunkScores(NamedTuple):
    """What a chunk's logits say of its labels."""

    states: Tensor  # of the chunk, as the softmax multiplies them
    targets: Tensor  # [C, 1], like all that follow
    surprisal: Tensor
    at_target: Tensor  # the logit
    odds: Tensor  # of which the gradients are made, [C, V]; they last until the next chunk


class ChunkSoftmax(ABC):
    """A softmax with these weights over chunks of rows, in the precision that autocast asks for.

    `smoothing` is that of the labels; `learns` says whether gradients will be asked for.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> None:
        self.words, self.bias = weight.to(product_dtype(weight)), bias
        self.sums, self.smoothing, self.learns = sum_dtype(weight.dtype), smoothing, learns

    @abstractmethod
    def __call__(self, states: Tensor, targets: Tensor) -> ChunkScores:
        """Score a chunk. [C, H], [C, 1]"""

    @abstractmethod
    def add_gradients(self, scores: ChunkScores, share: Tensor, gradients: Gradients, rows: slice) -> None:
        """Add those of a chunk, which is these rows; each row counts by its share. [C, 1]"""


class CpuSoftmax(ChunkSoftmax):
    """On a CPU a chunk's logits lie in the cache, in one buffer, and all is done in their place."""

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

    def add_gradients(self, scores: ChunkScores, share: Tensor, gradients: Gradients, rows: slice) -> None:
        """Add those of the last chunk: those of the logits times the totals take the odds' place."""
        errors, totals = scores.odds, self.totals
        errors.scatter_add_(1, scores.targets, (self.smoothing - 1) * totals)
        if self.smoothing:
            errors.sub_(totals * (self.smoothing / len(self.words)))
        _add_gradients(errors, share / totals, scores.states, self.words, gradients, rows)


class TorchSoftmax(ChunkSoftmax):
    """Where each pass goes through memory torch's one operation for a softmax, in few bytes, is the best."""

    def __call__(self, states: Tensor, targets: Tensor) -> ChunkScores:
        """Score a chunk."""
        bias = None if self.bias is None else self.bias.to(self.words.dtype)
        scores = functional.linear(states, self.words, bias)
        log_probs = scores.to(self.sums).log_softmax(1)
        at_target = scores.gather(1, targets).to(self.sums)
        # Narrow scores are less to read again than what has become of them.
        odds = scores if scores.dtype != self.sums else log_probs
        return ChunkScores(states, targets, -log_probs.gather(1, targets), at_target, odds)

    def add_gradients(self, scores: ChunkScores, share: Tensor, gradients: Gradients, rows: slice) -> None:
        """Add those of a chunk: that of the logits is probabilities less what was to be."""
        errors = scores.odds.exp_() if scores.odds.dtype == self.sums else scores.odds.softmax(1)
        evenly = self.smoothing / len(self.words)
        there = (-scores.surprisal).exp() - evenly - (1 - self.smoothing)
        errors = errors.sub_(evenly) if evenly else errors
        errors.scatter_(1, scores.targets, there.to(errors.dtype))
        _add_gradients(errors, share, scores.states, self.words, gradients, rows)


class CudaSoftmax(ChunkSoftmax):
    """On an NVIDIA GPU one kernel makes surprisals and the logits' gradients, with each row in registers.

    What is multiplied is padded with zeros until each row begins on a boundary of 16 bytes, as products at
    full speed want. The bias is two more weights of a word, for states that are always one: what a product
    in tf32 or bf16 would round away of it, and the rest.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> None:
        many, size = weight.shape
        shape = wide(many), wide(size if bias is None else size + 2)
        self._padded = weight.new_zeros(shape, dtype=product_dtype(weight))
        self._padded[:many, :size] = weight
        if bias is not None:
            coarse = bias.to(torch.bfloat16).to(bias.dtype)
            self._padded[:many, size], self._padded[:many, size + 1] = coarse, bias - coarse
        super().__init__(self._padded[:many, :size], bias, smoothing, learns)

    def __call__(self, states: Tensor, targets: Tensor) -> ChunkScores:
        """Score a chunk; where it learns, the odds are the gradients of the logits."""
        size = states.shape[1]
        padded = states.new_zeros(len(states), self._padded.shape[1])
        padded[:, :size] = states
        if self.bias is not None:
            padded[:, size : size + 2] = 1
        scores = padded @ self._padded.t()
        found = softmax.softmax_(scores, targets, len(self.words), self.smoothing, self.learns)
        return ChunkScores(padded, targets, found.surprisals[:, None], found.at_target[:, None], scores)

    def add_gradients(self, scores: ChunkScores, share: Tensor, gradients: Gradients, rows: slice) -> None:
        """Add those of a chunk."""
        many, size = self.words.shape
        errors = scores.odds
        if gradients.hidden is not None:
            gradients.hidden[rows] = (errors @ self._padded)[:, :size] * share
        if gradients.weight is None and gradients.bias is None:
            return
        sums = (errors.t() @ (scores.states * share).to(errors.dtype))[:many]
        if gradients.weight is not None:
            gradients.weight.add_(sums[:, :size])
        if gradients.bias is not None:
            gradients.bias.add_(sums[:, size])


def build_softmax(weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> ChunkSoftmax:
    """The softmax for the device of these weights."""
    kind: type[ChunkSoftmax] = TorchSoftmax
    if weight.device.type == "cpu":
        kind = CpuSoftmax
    elif weight.is_cuda and softmax.fits(len(weight), product_dtype(weight)):
        from throughtime.kernels import driver

        kind = TorchSoftmax if driver.unavailable(weight.get_device()) else CudaSoftmax
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
