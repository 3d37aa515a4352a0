"""A mixture of softmaxes over all words."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from throughtime.cells.base import Ops
from throughtime.errors import check_whole
from throughtime.layers.layer import check_probability, variational_dropout
from throughtime.models.chunked_loss import smoothed_surprisal, surprisals
from throughtime.models.heads import Head, SoftmaxHead, flatten_rows, log_softmax, logits


class MixtureHead(Head):
    r"""Several softmaxes over all words, mixed in shares that depend on the hidden state (Yang et al., 2018).

    .. math:: P(w | h) = \sum_k \pi_k(h)\, \text{softmax}(W \tanh(L_k h) + b)_w

    Over all contexts, the logits of one softmax are a matrix of rank E at most; a mixture does not have this
    limit. `weight` ties W to an embedding table [V, E], where E is the `width`. `dropout` applies to the
    results of tanh, in training; `variational` keeps one mask over time if the loss gets rows [T, B, H].

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
        check_whole("experts", experts)
        self.shares = nn.Linear(hidden_size, experts, bias=False)
        self.states = nn.Linear(hidden_size, experts * width)
        self.softmax = SoftmaxHead(width, vocabulary_size, weight=weight, chunk=chunk)
        self.experts, self.dropout = experts, check_probability("expert_dropout", dropout)
        self.variational = variational

    def loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of -ln P(label), computed with its gradient; `backward` may be called once."""
        states, log_shares = self._mix(hidden)
        labels = flatten_rows(hidden, labels)[1]
        return smoothed_surprisal(self.softmax, states, labels, log_shares=log_shares).smoothed

    @torch.no_grad()
    def surprisals(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return -ln P(label) of each row, in the memory of the logits of one chunk."""
        states, log_shares = self._mix(hidden)
        return surprisals(self.softmax, states, labels, log_shares)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Return ln P of every word, with gradients of any order."""
        states, log_shares = self._mix(hidden)
        each = log_softmax(logits(states.flatten(0, 1), self.softmax.weight, self.softmax.bias))
        return (each.view(*log_shares.shape, -1) + log_shares[..., None]).logsumexp(1)

    def graph_log_probs(self, ops: Ops, hidden: str) -> str:
        """One expert after another, so that only two distributions exist at once."""
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

    def _mix(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states of every softmax [N, K, E], and the logarithms of their shares [N, K]."""
        hidden = hidden.to(self.states.weight.dtype)
        states = self.states(hidden).tanh()
        if self.variational and states.dim() > 2:
            states = variational_dropout(states, self.dropout, self.training)
        else:
            states = functional.dropout(states, self.dropout, self.training)
        each = states.flatten(0, -2).unflatten(1, (self.experts, -1))
        return each, log_softmax(self.shares(hidden.flatten(0, -2)))


def _graph_log_sum(ops: Ops, first: str, second: str) -> str:
    """ln(exp a + exp b), as the larger one plus ln(1 + exp(-|a - b|))."""
    apart = ops.op("Neg", ops.op("Abs", ops.op("Sub", first, second)))
    more = ops.op("Log", ops.op("Add", ops.op("Exp", apart), ops.constant(1.0)))
    return ops.op("Add", ops.op("Max", first, second), more)
