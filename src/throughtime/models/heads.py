"""Output heads: from a hidden state to a distribution over the vocabulary, and its loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from throughtime.cells.base import Ops
from throughtime.cells.graph import no_graph
from throughtime.errors import InputError, check_whole
from throughtime.registry import Registry

if TYPE_CHECKING:
    from throughtime.models.chunked_loss import SurprisalSums

IGNORED = -100
"""The label of rows without one, by torch's convention."""
SOFTMAX_ROWS = 32  # fit into the cache of a CPU
# Words of one product on a CPU: in such pieces the logits of 33,278 words take 0.7 of one product's time.
CPU_WORDS = 2048
# Logits in 64 bytes: a CPU multiplies 1.5 times as fast into rows that begin at a multiple of that.
ALIGNED = 16


class Head(nn.Module, ABC):
    """A distribution over words for each hidden state. Sums are in float32, products as autocast says."""

    fixed_shapes: ClassVar[bool]
    """Whether the loss runs the same kernels for all labels, as a CUDA graph needs."""

    @abstractmethod
    def loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of -ln P(label) over the rows whose label is not IGNORED.

        [N, H], [N] -> [], or [T, B, H], [T, B] -> [].
        """

    def smoothed_loss(self, hidden: Tensor, labels: Tensor, smoothing: float) -> SurprisalSums:
        """Return the sum of -ln P(label), and the sum with smoothed labels, to minimise instead."""
        raise InputError(
            "label_smoothing", f"is {smoothing}, but {type(self).__name__} does not support it; set it to 0"
        )

    @abstractmethod
    def surprisals(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return -ln P(label) of each row, 0 if it is IGNORED; without a gradient. [N, H], [N] -> [N]"""

    @abstractmethod
    def log_probs(self, hidden: Tensor) -> Tensor:
        """Return ln P of every word. [N, H] -> [N, V]"""

    def scores(self, hidden: Tensor) -> Tensor:
        """`log_probs` up to a constant in each row, perhaps in lower precision, for searches."""
        return self.log_probs(hidden)

    def graph_log_probs(self, ops: Ops, hidden: str) -> str:
        """`log_probs` in a graph: [..., H] -> [..., V]."""
        raise no_graph(self, "graph_log_probs")

    @abstractmethod
    def begin_with(self, counts: Tensor) -> None:
        """Set the biases so that the probabilities of an untrained model are the frequencies of words. [V]

        One is added to each count, so that words that do not occur have a probability, too.
        """


class SoftmaxHead(Head):
    """A softmax over all words; the loss and its gradient are computed in chunks of rows.

    `weight` ties it to an embedding table [V, H]. `chunk` is the maximum number of rows at once.

    >>> head = SoftmaxHead(650, 10_000)
    >>> head.log_probs(torch.zeros(7, 650)).shape
    torch.Size([7, 10000])
    """

    fixed_shapes = True

    def __init__(
        self,
        hidden_size: int,
        vocabulary_size: int,
        *,
        weight: nn.Parameter | None = None,
        bias: bool = True,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        if chunk is not None:
            check_whole("chunk", chunk)
        if weight is None:
            bound = hidden_size**-0.5
            weight = nn.Parameter(torch.empty(vocabulary_size, hidden_size).uniform_(-bound, bound))
        elif weight.shape != (vocabulary_size, hidden_size):
            raise InputError(
                "tied weight",
                f"is {list(weight.shape)}, but the output needs {[vocabulary_size, hidden_size]}: "
                "make the embedding as wide as the last hidden layer, or do not tie them",
            )
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(vocabulary_size)) if bias else None
        self.chunk = chunk

    def loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of -ln P(label), computed with its gradient; `backward` may be called once."""
        return self.smoothed_loss(*flatten_rows(hidden, labels), 0.0).smoothed

    def smoothed_loss(self, hidden: Tensor, labels: Tensor, smoothing: float) -> SurprisalSums:
        """Return both sums in one pass; `backward` of the smoothed one may be called once."""
        from throughtime.models.chunked_loss import smoothed_surprisal

        return smoothed_surprisal(self, hidden, labels, smoothing)

    def surprisals(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return -ln P(label) of each row, in the memory of one chunk."""
        from throughtime.models.chunked_loss import surprisals

        return surprisals(self, hidden, labels)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Return ln P of every word, with gradients of any order."""
        hidden = hidden.to(self.weight.dtype)
        if torch.is_grad_enabled() or hidden.device.type != "cpu":
            return log_softmax(logits(hidden, self.weight, self.bias))
        if self.weight.dtype == torch.bfloat16:
            return _log_softmax_in_cache(functional.linear(hidden, self.weight), self.bias)
        return _log_softmax_in_cache(logits(hidden, self.weight, None), self.bias)

    def scores(self, hidden: Tensor) -> Tensor:
        """Return the logits."""
        if type(self) is not SoftmaxHead:  # a subclass may have other log-probabilities
            return self.log_probs(hidden)
        return functional.linear(hidden.to(self.weight.dtype), self.weight, self.bias)

    def graph_log_probs(self, ops: Ops, hidden: str) -> str:
        """See `Head`."""
        return ops.op("LogSoftmax", ops.linear(hidden, self.weight, self.bias), axis=-1)

    def begin_with(self, counts: Tensor) -> None:
        """Set the bias, if there is one."""
        if self.bias is not None:
            set_log_frequencies(self.bias, counts + 1)


def logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """hidden weight' + bias, [N, V], with gradients of any order."""
    if torch.is_grad_enabled() or weight.device.type != "cpu" or product_dtype(weight) != weight.dtype:
        return functional.linear(hidden, weight, bias)
    width = -(-len(weight) // ALIGNED) * ALIGNED
    out = weight.new_empty(len(hidden), width)[:, : len(weight)]
    logits_into(hidden, weight, bias, out=out)
    return out


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the precision of sums and softmax: float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


def logits_into(states: Tensor, words: Tensor, bias: Tensor | None, *, out: Tensor) -> None:
    """states words' + bias; the product in the precision of its factors, the sum in that of `out`."""
    for some in split_words(words):
        if states.dtype != out.dtype:
            product = states @ words[some].t()
            out[:, some] = product if bias is None else product + bias[some].to(out.dtype)
        elif bias is None:
            torch.mm(states, words[some].t(), out=out[:, some])
        else:
            torch.addmm(bias[some], states, words[some].t(), out=out[:, some])


def product_dtype(weight: Tensor) -> torch.dtype:
    """Return the precision of products: that of autocast if it is on, except for float64."""
    kind = weight.device.type
    if torch.is_autocast_enabled(kind) and weight.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return weight.dtype


def split_words(words: Tensor) -> Iterator[slice]:
    """Return the words of each product: on a CPU several products are faster than one."""
    size = CPU_WORDS if words.device.type == "cpu" else len(words)
    return (slice(start, start + size) for start in range(0, len(words), size))


def flatten_rows(hidden: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """[T, B, H] and [T, B] as [N, H] and [N]; those that have this shape are unchanged."""
    if hidden.dim() > 2 and labels.shape == hidden.shape[:-1]:
        return hidden.flatten(0, -2), labels.flatten()
    return hidden, labels


def check_labels(labels: Tensor, states: Tensor) -> None:
    """Refuse labels of another shape, which torch would broadcast, or on another device."""
    rows = len(states)
    if labels.shape != (rows,):
        raise InputError("labels", f"have shape {list(labels.shape)}, expected one for each of {rows} rows")
    if labels.device != states.device:
        raise InputError(
            "labels", f"are on {labels.device}, but the states are on {states.device}; move them"
        )


def log_softmax(scores: Tensor) -> Tensor:
    """Return ln P of the words of each row, in float32 or better."""
    return functional.log_softmax(scores, 1, dtype=sum_dtype(scores.dtype))


@torch.no_grad()
def set_log_frequencies(bias: Tensor, counts: Tensor) -> None:
    """Set the bias to log frequencies with mean zero, which suits weight decay."""
    bias.copy_(counts.log())
    bias -= bias.mean()


def _log_softmax_in_cache(scores: Tensor, bias: Tensor | None) -> Tensor:
    """log_softmax of scores plus bias, a few rows at a time, so that a CPU finds them in its cache."""
    out = scores.new_empty(scores.shape, dtype=sum_dtype(scores.dtype))
    for logits_of_rows, rows in zip(scores.split(SOFTMAX_ROWS), out.split(SOFTMAX_ROWS), strict=True):
        rows.copy_(logits_of_rows)
        if bias is not None:
            rows += bias
        torch.log_softmax(rows, 1, out=rows)
    return out


HEADS = Registry[Callable[[int, int], Head]](
    "head",
    "throughtime.heads",
    {
        "softmax": "throughtime.models.heads:SoftmaxHead",
        "adaptive": "throughtime.models.other_heads:AdaptiveHead",
    },
)
"""Heads by name, each built from a hidden size and a vocabulary size."""
