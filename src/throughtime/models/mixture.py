"""A mixture of softmaxes as an output head: what one softmax over a narrow state cannot say."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from throughtime.errors import InputError
from throughtime.layers.dropout import checked_probability, variational_dropout
from throughtime.models.chunk import flat, logits
from throughtime.models.heads import Head, SoftmaxHead, log_softmax
from throughtime.models.mixture_loss import Mixed, mixed_surprisal, mixed_surprisals


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
        self.experts, self.dropout = experts, checked_probability("expert_dropout", dropout)
        self.variational = variational

    def loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """The sum of -ln P(label); its gradient is computed at once, and `backward` may be called once."""
        mixed, softmax = self._mixed(hidden), self.softmax
        _, labels = flat(hidden, labels)
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
