"""Attention: how well each part of a source fits a query, and the weighted sum of the parts.

Keys are computed once per sentence; a step then only compares its queries with them. The queries of one
sentence come together, [S, n, Q]: the rows of a beam, or all steps of a target. So nothing of a sentence is
copied for its rows.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from throughtime.accelerate import attend_rows
from throughtime.cells.base import GraphState, Ops
from throughtime.cells.graph import no_graph
from throughtime.errors import InputError
from throughtime.registry import Registry
from throughtime.search.generate import Memory

COMPARED_AT_ONCE = 2**18
"""Number of query-key values that fit into the cache of a CPU; more take up to four times as long."""


class Attention(nn.Module, ABC):
    """Scores of keys for queries, turned into weights by a softmax over the real positions.

    A subclass defines `scores`, and `keys` unless the keys are the outputs themselves; with `graph_scores`
    (and `graph_keys`) it can be exported. An entry in `ATTENTIONS`, or an entry point of the group
    `throughtime.attentions`, gives it a name. `scaled` divides the scores by the square root of the keys'
    width.
    """

    def __init__(self, query_size: int, memory_size: int, key_size: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.query_size, self.memory_size, self.key_size = query_size, memory_size, key_size
        self.scaled = scaled

    @property
    def scale(self) -> float:
        """The factor of the scores."""
        return float(self.key_size**-0.5) if self.scaled else 1.0

    def keys(self, outputs: Tensor) -> Tensor:
        """The keys that queries are compared with, once for each sentence: [S, T, H] -> [S, T, D]."""
        return outputs

    @abstractmethod
    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """The score of each key for each query, before scaling: [S, n, Q], [S, T, D] -> [S, n, T]."""

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """The context [S, n, H] and the weights [S, n, T] of queries [S, n, Q].

        `padding` [S, T] is true past a sentence's end: weights are zero there, and sum to one over the rest.
        For an empty sentence all weights are zero.
        """
        scores = self.scores(query, keys) * self.scale
        if (kept := _kept_scores()) is not None:
            kept.append(scores)
        weights = masked_softmax(scores, padding[:, None])
        return torch.bmm(weights.to(values.dtype), values), weights

    def graph_keys(self, ops: Ops, outputs: str) -> str:
        """`keys` in a graph."""
        return outputs

    def graph_scores(self, ops: Ops, query: str, keys: str) -> str:
        """`scores` in a graph."""
        raise no_graph(self, "graph_scores")

    def graph_memory(self, ops: Ops, outputs: str, lengths: str) -> tuple[str, str, str]:
        """`build_memory` in a graph."""
        values = ops.op("Transpose", outputs, perm=[1, 0, 2])
        ends = ops.op("Unsqueeze", lengths, ops.axes(-1))
        return self.graph_keys(ops, values), values, ops.op("GreaterOrEqual", ops.steps(values, 1), ends)

    def graph(self, ops: Ops, query: str, memory: GraphState) -> tuple[str, str]:
        """Context [rows, H] and weights [rows, T] of queries [rows, Q], equally many for each sentence."""
        keys, values, padding = memory
        by_sentence = ops.op("Reshape", query, ops.sizes(ops.size(keys, 0), -1, self.query_size))
        scores = self.graph_scores(ops, by_sentence, keys)  # [S, n, T]
        if self.scaled:
            scores = ops.op("Mul", scores, ops.constant(self.scale))
        if ops.for_page:
            by_query = ops.op("Reshape", scores, ops.sizes(-1, ops.size(scores, 2)))
            ops.show(by_query, "attention_scores", "float32", ["rows", "time"])
        weights = graph_masked_softmax(ops, scores, ops.op("Unsqueeze", padding, ops.axes(1)))
        context = ops.op("MatMul", weights, values)
        by_row = [ops.op("Reshape", each, ops.sizes(-1, ops.size(each, 2))) for each in (context, weights)]
        return by_row[0], by_row[1]

    def extra_repr(self) -> str:
        """The options, for `print`."""
        return f"{self.query_size}, {self.memory_size}, scaled={self.scaled}"


class Additive(Attention):
    """v' tanh(W q + U h + b) (Bahdanau et al., 2015).

    It is computed as 2 v' sigmoid(2 W q + 2 (U h + b)) minus the sum of v, which is the same: on a CPU a
    sigmoid takes a sixth of the time of a tanh. Under autocast the comparison is in float32, which is faster
    than bf16 on a CPU.

    >>> attention = Additive(8, 6)
    >>> outputs, padding = torch.zeros(1, 3, 6), torch.tensor([[False, False, True]])
    >>> _, weights = attention(torch.zeros(1, 1, 8), attention.keys(outputs), outputs, padding)
    >>> weights.tolist()
    [[[0.5, 0.5, 0.0]]]
    """

    def __init__(self, query_size: int, memory_size: int, *, scaled: bool = False) -> None:
        super().__init__(query_size, memory_size, query_size, scaled=scaled)
        self.query = nn.Linear(query_size, query_size, bias=False)
        self.key = nn.Linear(memory_size, query_size)
        bound = query_size**-0.5
        self.energy = nn.Parameter(torch.empty(query_size).uniform_(-bound, bound))

    def keys(self, outputs: Tensor) -> Tensor:
        """2 (U h + b)."""
        projected: Tensor = self.key(outputs)
        return 2 * projected.to(torch.promote_types(projected.dtype, torch.float32))

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """v' tanh(W q + key / 2)."""
        asked, energy = 2 * self.query(query).to(keys.dtype), self.energy.to(keys.dtype)
        with torch.autocast(query.device.type, enabled=False):
            some = len(keys)
            if query.device.type == "cpu" and not torch.is_grad_enabled():
                some = max(1, COMPARED_AT_ONCE // max(1, asked[0].numel() * keys.shape[1]))
            parts = zip(asked.split(some), keys.split(some), strict=True)
            # [S, n, T, D] of some sentences at a time
            seen = ((q[:, :, None] + k[:, None]).sigmoid_() for q, k in parts)
            sums = [torch.matmul(sigmoids, 2 * energy) for sigmoids in seen]
            return (sums[0] if len(sums) == 1 else torch.cat(sums)) - energy.sum()

    def graph_keys(self, ops: Ops, outputs: str) -> str:
        """2 (U h + b)."""
        return ops.op("Mul", ops.constant(2.0), ops.linear(outputs, self.key.weight, self.key.bias))

    def graph_scores(self, ops: Ops, query: str, keys: str) -> str:
        """2 v' sigmoid(2 W q + key): less the sum of v, which a softmax does not see but a page shows."""
        asked = ops.op("Mul", ops.constant(2.0), ops.linear(query, self.query.weight))
        pairs = ops.op(
            "Add", ops.op("Unsqueeze", asked, ops.axes(2)), ops.op("Unsqueeze", keys, ops.axes(1))
        )  # [S, n, T, D]
        # A column, not a vector: onnxruntime takes six times as long for a vector.
        energy = ops.constant(2 * self.energy.detach().cpu()[:, None])
        scores = ops.op("Squeeze", ops.op("MatMul", ops.op("Sigmoid", pairs), energy), ops.axes(-1))
        return (
            ops.op("Sub", scores, ops.constant(float(self.energy.detach().sum()))) if ops.for_page else scores
        )


class ProductAttention(Attention):
    """q' key: the score is a product."""

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """q' key."""
        return torch.bmm(query, keys.transpose(1, 2))

    def graph_scores(self, ops: Ops, query: str, keys: str) -> str:
        """q' key."""
        return ops.op("MatMul", query, ops.op("Transpose", keys, perm=[0, 2, 1]))


class Dot(ProductAttention):
    """q' h (Luong et al., 2015): queries have the width of the encoder's outputs."""

    def __init__(self, query_size: int, memory_size: int, *, scaled: bool = False) -> None:
        if query_size != memory_size:
            raise InputError(
                "attention",
                f"'dot' needs a decoder and an encoder of one width, not {query_size} and {memory_size}; "
                "make them equal, or choose 'general'",
            )
        super().__init__(query_size, memory_size, memory_size, scaled=scaled)


class General(ProductAttention):
    """q' W h (Luong et al., 2015): W h is the key."""

    def __init__(self, query_size: int, memory_size: int, *, scaled: bool = False) -> None:
        super().__init__(query_size, memory_size, query_size, scaled=scaled)
        self.key = nn.Linear(memory_size, query_size, bias=False)

    def keys(self, outputs: Tensor) -> Tensor:
        """W h."""
        projected: Tensor = self.key(outputs)
        return projected

    def graph_keys(self, ops: Ops, outputs: str) -> str:
        """W h."""
        return ops.linear(outputs, self.key.weight)


ATTENTIONS = Registry[Callable[..., Attention]](
    "attention",
    "throughtime.attentions",
    {
        "additive": "throughtime.layers.attention:Additive",
        "dot": "throughtime.layers.attention:Dot",
        "general": "throughtime.layers.attention:General",
    },
)


def masked_softmax(scores: Tensor, padding: Tensor) -> Tensor:
    """The softmax over all positions but the padding, which gets exactly zero; in float32 or better.

    >>> masked_softmax(torch.zeros(2, 3), torch.tensor([[False, False, True], [True, True, True]])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    # The lowest number, not -inf: for an empty sentence a softmax of -inf and its gradient would be NaN.
    shown = wide.masked_fill(padding, torch.finfo(wide.dtype).min)
    return torch.softmax(shown, dim=-1).masked_fill(padding, 0.0)


def graph_masked_softmax(ops: Ops, scores: str, padding: str) -> str:
    """`masked_softmax` in a graph."""
    shown = ops.op("Where", padding, ops.constant(torch.finfo(torch.float32).min), scores)
    return ops.op("Where", padding, ops.constant(0.0), ops.op("Softmax", shown, axis=-1))


_KEPT = threading.local()


def _kept_scores() -> list[Tensor] | None:
    """The list for scores of this thread, if somebody keeps them."""
    kept: list[Tensor] | None = getattr(_KEPT, "scores", None)
    return kept


@contextmanager
def keep_scores(wanted: bool = True) -> Iterator[list[Tensor]]:
    """Collect the scores of all attention of this thread before the softmax; those of `attend` [rows, T]."""
    kept: list[Tensor] = []
    before = _kept_scores()
    _KEPT.scores = kept if wanted else before
    try:
        yield kept
    finally:
        _KEPT.scores = before


def build_memory(attention: Attention, outputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What is kept per sentence of an encoder's outputs [T, S, H]: keys, values and padding, [S, T, ...]."""
    values = outputs.transpose(0, 1).contiguous()
    steps = torch.arange(values.shape[1], device=values.device)
    return attention.keys(values), values, steps >= lengths.to(values.device)[:, None]


def attend(
    attention: Attention, query: Tensor, memory: Memory, addend: Tensor | None = None, *, show: bool = False
) -> tuple[Tensor, Tensor]:
    """The context [rows, H] and weights [rows, T] for one query per row; `memory` is from `build_memory`.

    The context is added to the `addend` [rows, H], if there is one, which may be overwritten. With `show`,
    tanh of the sum is returned instead of it.
    """
    if _kept_scores() is None:  # kernels do not return them
        answer = attend_rows(attention, query, memory, addend, show)
        if answer is not None:
            return answer
    context, weights = _attend(attention, query, memory)
    mixed = context if addend is None else addend + context
    return torch.tanh(mixed) if show else mixed, weights


def _attend(attention: Attention, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    keys, values, padding = memory.kept
    if memory.rows_each is not None:
        context, weights = attention(query.view(len(keys), -1, query.shape[-1]), keys, values, padding)
        _sort_kept(lambda scores: scores.flatten(0, 1))
        return context.flatten(0, 1), weights.flatten(0, 1)
    # Empty queries fill up sentences with fewer rows, so that no sentence is copied for its rows.
    places, most = memory.places
    table = query.new_zeros(len(keys) * most, query.shape[-1]).index_copy(0, places, query)
    context, weights = attention(table.view(len(keys), most, -1), keys, values, padding)
    _sort_kept(lambda scores: scores.flatten(0, 1).index_select(0, places))
    return context.flatten(0, 1).index_select(0, places), weights.flatten(0, 1).index_select(0, places)


def _sort_kept(by_row: Callable[[Tensor], Tensor]) -> None:
    """Turn the scores that were kept last, [S, n, T], into those of the rows."""
    if kept := _kept_scores():
        kept[-1] = by_row(kept[-1])
