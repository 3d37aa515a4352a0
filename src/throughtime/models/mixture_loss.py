"""The surprisals of a mixture of softmaxes, a few rows at a time, so that all logits never exist at once.

With s_k the surprisal of the label under the k-th softmax and pi_k its share, P is sum_k pi_k exp(-s_k). So
only what each softmax says of the label counts, and its gradient is that of an ordinary softmax times the
part that it has in P: a chunk that holds all softmaxes of its rows forms their gradients at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.models.chunk import check_labels, check_states, default_chunk, even, handed_on
from throughtime.models.chunked_loss import IGNORED
from throughtime.models.softmax_loss import Gradients, judge_of


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
    return _collect(mixed, labels, weight, bias, chunk, Gradients(None, None, None), None)


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
        found = _collect(mixed, labels, weight, bias, chunk, gradients, into_shares)
        ctx.gradients = (gradients.hidden, into_shares, gradients.weight, gradients.bias)
        ctx.shape, ctx.dtype = states.shape, weight.dtype
        return found.sum()

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        states, shares, weight, bias = handed_on(ctx, outer, "MixtureHead")
        weight, bias = (None if sums is None else sums.to(ctx.dtype) for sums in (weight, bias))
        return None if states is None else states.view(ctx.shape), shares, weight, bias, None, None


@torch.no_grad()
def _collect(
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
    judge = judge_of(weight, bias, 0.0, learns)
    words, sums = judge.words, judge.sums
    rows, experts, _ = mixed.states.shape
    found = [mixed.log_shares.new_empty(0, dtype=sums)]
    with torch.autocast(weight.device.type, enabled=False):
        per_chunk = even(rows, max(1, (chunk or default_chunk(weight)) // experts))
        for start in range(0, rows, per_chunk):
            some = slice(start, start + per_chunk)
            states = mixed.states[some].flatten(0, 1).to(words.dtype)
            known = (labels[some] != IGNORED)[:, None]
            targets = torch.where(known, labels[some, None], 0).repeat_interleave(experts, 0)
            judged = judge(states, targets)
            joint = mixed.log_shares[some].to(sums) - judged.surprisal.view(-1, experts)
            together = joint.logsumexp(1, keepdim=True)
            found.append(torch.where(known, -together, 0.0)[:, 0])
            parts = torch.where(known, (joint - together).exp(), 0.0)
            if into_shares is not None:
                into_shares[some] = -parts
            if learns:
                place = slice(start * experts, start * experts + len(states))
                judge.add_gradients(judged, parts.view(-1, 1), gradients, place)
    return torch.cat(found)
