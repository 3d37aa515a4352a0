"""Other heads than one softmax: the adaptive softmax, for many words, and a mixture of softmaxes.

The adaptive softmax has frequent words, and classes of rare words that are chosen in two steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from throughtime.cells.base import Ops
from throughtime.errors import InputError, check_whole
from throughtime.layers.layer import check_probability, variational_dropout
from throughtime.models.chunked_loss import SoftmaxWeights, smoothed_surprisal, surprisals
from throughtime.models.heads import (
    IGNORED,
    Head,
    SoftmaxHead,
    check_labels,
    flatten_rows,
    log_softmax,
    logits,
    set_log_frequencies,
)

ADAPTIVE_ROWS = 1024


class AdaptiveHead(Head):
    """A softmax over frequent words and classes of rare words, each with a softmax (Grave et al., 2017).

    Words are numbered by falling frequency, as in our vocabularies. `cutoffs` are the first words of the
    classes of rare words; the i-th class projects the hidden state to H / 4^i values. The weights have the
    names and shapes of torch's AdaptiveLogSoftmaxWithLoss.

    >>> AdaptiveHead(64, 30_000).softmax.cutoffs
    [2000, 6000, 30000]
    """

    fixed_shapes = True  # on a GPU

    def __init__(
        self, hidden_size: int, vocabulary_size: int, *, cutoffs: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        firsts = default_cutoffs(vocabulary_size) if cutoffs is None else list(cutoffs)
        if not firsts or any(a >= b for a, b in pairwise([0, *firsts, vocabulary_size])):
            raise InputError(
                "cutoffs", f"are {firsts}, expected rising numbers between 1 and {vocabulary_size - 1}"
            )
        if hidden_size < 4 ** len(firsts):
            raise InputError(
                "adaptive head",
                f"needs a hidden size of {4 ** len(firsts)} or more for {len(firsts)} classes of rare words, "
                f"not {hidden_size}; use the softmax head",
            )
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(hidden_size, vocabulary_size, firsts, head_bias=True)

    def loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of -ln P(label); on a GPU `backward` may be called once."""
        hidden, labels = flatten_rows(hidden, labels)
        if hidden.device.type == "cpu":
            return self._surprisals(hidden, labels).sum()
        sums = [smoothed_surprisal(*softmax).smoothed for softmax in self.split_rows(hidden, labels)]
        return torch.stack(sums).sum()

    @torch.no_grad()
    def surprisals(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return -ln P(label) of each row, in the memory of one chunk."""
        if hidden.device.type != "cpu":
            return torch.stack([surprisals(*softmax) for softmax in self.split_rows(hidden, labels)]).sum(0)
        chunks = zip(hidden.split(ADAPTIVE_ROWS), labels.split(ADAPTIVE_ROWS), strict=True)
        return torch.cat([self._surprisals(*chunk) for chunk in chunks])

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Return ln P of every word; of a rare one, ln P of its class plus ln P of the word in the class."""
        first = log_softmax(self.softmax.head(hidden))
        frequent = self.softmax.shortlist_size
        rare = (
            first[:, frequent + i, None] + log_softmax(tail(hidden))
            for i, tail in enumerate(self.softmax.tail)
        )
        return torch.cat([first[:, :frequent], *rare], 1)

    def graph_log_probs(self, ops: Ops, hidden: str) -> str:
        """See `Head`."""
        softmax, frequent = self.softmax, self.softmax.shortlist_size
        first = ops.op("LogSoftmax", ops.linear(hidden, softmax.head.weight, softmax.head.bias), axis=-1)
        classes = [ops.slice(first, 0, frequent)]
        for column, tail in enumerate(softmax.tail, frequent):
            narrow, wide = _layers(tail)
            within = ops.op("LogSoftmax", ops.linear(ops.linear(hidden, narrow.weight), wide.weight), axis=-1)
            classes.append(ops.op("Add", ops.slice(first, column, column + 1), within))
        return ops.concat(classes)

    def begin_with(self, counts: Tensor) -> None:
        """Set the bias of frequent words and classes; within a class words have none."""
        pieces = (counts + 1).tensor_split(self.softmax.cutoffs[:-1])
        classes = torch.stack([piece.sum() for piece in pieces[1:]])
        set_log_frequencies(self.softmax.head.bias, torch.cat([pieces[0], classes]))

    def split_rows(self, hidden: Tensor, labels: Tensor) -> Iterator[tuple[SoftmaxWeights, Tensor, Tensor]]:
        """Yield the softmax over frequent words and classes, then of each class: weights, states, labels.

        Each takes all rows, with IGNORED as the label of those that are not its own: to take only these, the
        host would wait for a GPU to count them. The surprisals of a row add up to -ln P(label).
        """
        kind, outcome = self._find_classes(labels, hidden)
        known = labels != IGNORED
        head = self.softmax.head
        yield SoftmaxWeights(head.weight, head.bias), hidden, torch.where(known, outcome, IGNORED)
        for i, (first, tail) in enumerate(zip(self.softmax.cutoffs[:-1], self.softmax.tail, strict=True), 1):
            narrow, wide = _layers(tail)
            yield SoftmaxWeights(wide.weight), narrow(hidden), torch.where(kind == i, labels - first, IGNORED)

    def _find_classes(self, labels: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Find the class of the word of each row, 0 if it is frequent, and the outcome of the first softmax.

        Rows without a label have those of the first word.
        """
        check_labels(labels, hidden)
        words = torch.where(labels != IGNORED, labels, 0)
        kind = torch.stack([words >= first for first in self.softmax.cutoffs[:-1]]).sum(0)
        return kind, torch.where(kind == 0, words, self.softmax.shortlist_size + kind - 1)

    def _surprisals(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Unlike torch's forward, this works in bf16 on a CPU and gives every class a gradient."""
        kind, outcome = self._find_classes(labels, hidden)
        firsts = self.softmax.cutoffs[:-1]
        log_probs = log_softmax(self.softmax.head(hidden)).gather(1, outcome[:, None])[:, 0]
        for i, (first, tail) in enumerate(zip(firsts, self.softmax.tail, strict=True), 1):
            rows = (kind == i).nonzero()[:, 0]
            inside = log_softmax(tail(hidden[rows])).gather(1, (labels[rows] - first)[:, None])
            log_probs = log_probs.index_add(0, rows, inside[:, 0])
        return torch.where(labels != IGNORED, -log_probs, 0.0)


def _layers(tail: nn.Module) -> tuple[nn.Linear, nn.Linear]:
    """Return the two layers of a class of rare words."""
    narrow, wide = cast(nn.Sequential, tail)
    return cast(nn.Linear, narrow), cast(nn.Linear, wide)


def default_cutoffs(vocabulary_size: int) -> list[int]:
    """Return the first words of the classes of rare words, for frequencies that follow Zipf's law.

    >>> default_cutoffs(30_000), default_cutoffs(300_000)
    ([2000, 6000], [20000, 60000, 180000])
    """
    shares = (1 / 15, 1 / 5, 3 / 5) if vocabulary_size >= 100_000 else (1 / 15, 1 / 5)
    firsts = {max(1, round(share * vocabulary_size)) for share in shares}
    return sorted(firsts)


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
