"""A mixture of softmaxes over all words, and its loss, a few rows at a time.

With s_k the surprisal of the label under the k-th softmax and pi_k its share, P is sum_k pi_k exp(-s_k). So
only what each softmax says of the label counts, and its gradient is that of an ordinary softmax times the
part that it has in P.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from throughtime.cells.base import Ops
from throughtime.errors import InputError
from throughtime.layers.dropout import check_probability, variational_dropout
from throughtime.models.chunked_loss import IGNORED
from throughtime.models.heads import Head, SoftmaxHead, log_softmax
from throughtime.models.softmax_loss import (
    Gradients,
    build_softmax,
    check_labels,
    check_states,
    default_chunk,
    even_chunk,
    flatten_rows,
    logits,
    pass_on_gradients,
)


class MixtureHead(Head):
    r"""Several softmaxes over all words, mixed in shares that the hidden state decides (Yang et al., 2018).

    .. math:: P(w | h) = \sum_k \pi_k(h)\, \text{softmax}(W \tanh(L_k h) + b)_w

    Over all contexts the logits of one softmax are a matrix of rank E at most, however many ways to go on a
    language has; a mixture is not bound by that. `weight` ties W to an embedding table [V, E], with E the
    `width`. `dropout` falls on what the tanh gives, in training only; `variational` keeps one mask through
    the time of a loss whose rows are [T, B, H].

    >>> head = MixtureHead(650, 10_000, experts=3, width=280)
    >>> head.log_probs(torch.zeros(7, 650)).shape
    torch.Size([7, 10000])
    """

    fixed_shapes = True

    def __init__(
        self,
        hidden_size: int,
        vocabulary_size: int,
        *,
        experts: int,
        width: int,
        weight: nn.Parameter | None = None,
        dropout: float = 0.0,
        variational: bool = False,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        if experts < 1:
            raise InputError("experts", f"is {experts}, expected 1 or more")
        self.shares = nn.Linear(hidden_size, experts, bias=False)
        self.states = nn.Linear(hidden_size, experts * width)
        self.softmax = SoftmaxHead(width, vocabulary_size, weight=weight, chunk=chunk)
        self.experts, self.dropout = experts, check_probability("expert_dropout", dropout)
        self.variational = variational

    def loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """The sum of -ln P(label); its gradient is computed at once, and `backward` may be called once."""
        mixed, softmax = self._mixed(hidden), self.softmax
        _, labels = flatten_rows(hidden, labels)
        return mixed_surprisal(mixed, labels, softmax.weight, softmax.bias, softmax.chunk)

    @torch.no_grad()
    def surprisals(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """-ln P(label) of each row, with the memory of one chunk's logits."""
        softmax = self.softmax
        return mixed_surprisals(self._mixed(hidden), labels, softmax.weight, softmax.bias, softmax.chunk)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """ln P of every word; gradients of any order flow."""
        states, log_shares = self._mixed(hidden)
        scores = logits(states.flatten(0, 1), self.softmax.weight, self.softmax.bias)
        each = log_softmax(scores)
        return (each.view(*log_shares.shape, -1) + log_shares[..., None]).logsumexp(1)

    def graph_log_probs(self, ops: Ops, hidden: str) -> str:
        """Expert after expert, so that no more than two distributions are there at once."""
        shares = ops.op("LogSoftmax", ops.linear(hidden, self.shares.weight), axis=-1)
        states = ops.op("Tanh", ops.linear(hidden, self.states.weight, self.states.bias))
        width = self.softmax.weight.shape[1]
        together = ""
        for expert in range(self.experts):
            state = ops.slice(states, expert * width, (expert + 1) * width)
            each = self.softmax.graph_log_probs(ops, state)
            joint = ops.op("Add", each, ops.slice(shares, expert, expert + 1))
            together = _graph_log_sum(ops, together, joint) if together else joint
        return together

    def begin_with(self, counts: Tensor) -> None:
        """Set the bias that all softmaxes share."""
        self.softmax.begin_with(counts)

    def _mixed(self, hidden: Tensor) -> Mixed:
        hidden = hidden.to(self.states.weight.dtype)
        states = self.states(hidden).tanh()
        if self.variational and states.dim() > 2:
            states = variational_dropout(states, self.dropout, self.training)
        else:
            states = functional.dropout(states, self.dropout, self.training)
        each = states.flatten(0, -2).unflatten(1, (self.experts, -1))
        return Mixed(each, log_softmax(self.shares(hidden.flatten(0, -2))))


def _graph_log_sum(ops: Ops, first: str, second: str) -> str:
    """ln(exp a + exp b), which is the larger one and ln(1 + exp(-|a - b|))."""
    apart = ops.op("Neg", ops.op("Abs", ops.op("Sub", first, second)))
    more = ops.op("Log", ops.op("Add", ops.op("Exp", apart), ops.constant(1.0)))
    return ops.op("Add", ops.op("Max", first, second), more)


class Mixed(NamedTuple):
    """What a mixture is made of."""

    states: Tensor  # of every softmax [N, K, E]
    log_shares: Tensor  # [N, K]


def mixed_surprisal(
    mixed: Mixed, labels: Tensor, weight: Tensor, bias: Tensor | None, chunk: int | None = None
) -> Tensor:
    """The sum of -ln P(label) over the rows that have a label; every softmax has the same weights [V, E].

    Where a gradient is wanted it is computed here, already; `backward` may be called once.

    >>> states = torch.tensor([[[0.0], [1.0]]])
    >>> shares = torch.tensor([[0.25, 0.75]])
    >>> weight = torch.tensor([[0.0], [2.0]])
    >>> mixed_surprisal(Mixed(states, shares.log()), torch.tensor([1]), weight, None)  # of 1/8 + 3/4 0.8808
    tensor(0.2413)
    """
    inputs = (*mixed, weight, bias)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs):
        total: Tensor = _MixedSurprisal.apply(*inputs, labels, chunk)  # type: ignore[no-untyped-call]
        return total
    return mixed_surprisals(mixed, labels, weight, bias, chunk).sum()


def mixed_surprisals(
    mixed: Mixed, labels: Tensor, weight: Tensor, bias: Tensor | None, chunk: int | None = None
) -> Tensor:
    """-ln P(label) of each row, 0 where the label is IGNORED; no gradient flows through it. [N]"""
    return _collect_mixture(mixed, labels, weight, bias, chunk, Gradients(None, None, None), None)


class _MixedSurprisal(torch.autograd.Function):
    """Gradients first, for their sum; what comes in backward is one number."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        log_shares: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        chunk: int | None,
    ) -> Tensor:
        for_states, for_shares, *for_softmax = ctx.needs_input_grad[:4]
        gradients = Gradients.wanted(states.flatten(0, 1), weight, bias, (for_states, *for_softmax))
        into_shares = torch.empty_like(log_shares) if for_shares else None
        mixed = Mixed(states, log_shares)
        found = _collect_mixture(mixed, labels, weight, bias, chunk, gradients, into_shares)
        ctx.gradients = (gradients.hidden, into_shares, gradients.weight, gradients.bias)
        ctx.shape, ctx.dtype = states.shape, weight.dtype
        return found.sum()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        states, shares, weight, bias = pass_on_gradients(ctx, outer, "MixtureHead")
        weight, bias = (None if sums is None else sums.to(ctx.dtype) for sums in (weight, bias))
        return None if states is None else states.view(ctx.shape), shares, weight, bias, None, None


@torch.no_grad()
def _collect_mixture(
    mixed: Mixed,
    labels: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    chunk: int | None,
    gradients: Gradients,
    into_shares: Tensor | None,
) -> Tensor:
    """The surprisal of each row; what `gradients` has is filled in (hidden) or added to (weight, bias)."""
    check_labels(labels, mixed.states)
    check_states(mixed.states, weight)
    learns = any(gradient is not None for gradient in gradients)
    softmax = build_softmax(weight, bias, 0.0, learns)
    words, sums = softmax.words, softmax.sums
    rows, experts, _ = mixed.states.shape
    found = [mixed.log_shares.new_empty(0, dtype=sums)]
    with torch.autocast(weight.device.type, enabled=False):
        per_chunk = even_chunk(rows, max(1, (chunk or default_chunk(weight)) // experts))
        for start in range(0, rows, per_chunk):
            some = slice(start, start + per_chunk)
            states = mixed.states[some].flatten(0, 1).to(words.dtype)
            known = (labels[some] != IGNORED)[:, None]
            targets = torch.where(known, labels[some, None], 0).repeat_interleave(experts, 0)
            scores = softmax(states, targets)
            joint = mixed.log_shares[some].to(sums) - scores.surprisal.view(-1, experts)
            together = joint.logsumexp(1, keepdim=True)
            found.append(torch.where(known, -together, 0.0)[:, 0])
            parts = torch.where(known, (joint - together).exp(), 0.0)
            if into_shares is not None:
                into_shares[some] = -parts
            if learns:
                place = slice(start * experts, start * experts + len(states))
                softmax.add_gradients(scores, parts.view(-1, 1), gradients, place)
    return torch.cat(found)
