"""The surprisals of a softmax over many words, or of a mixture of several, a few rows at a time.

The logits of all rows never exist at once. The gradient of a sum of surprisals is known as soon as the logits
are: the probabilities, minus one at the label. So the forward pass computes the gradients of a chunk together
with its logits, and the backward pass only scales them: nothing is kept but the gradients, and nothing is
computed twice.

In a mixture, with s_k the surprisal of the label under the k-th softmax and pi_k its share, P is
sum_k pi_k exp(-s_k). The gradient of each softmax is that of an ordinary one times its part of P.

A training on a CPU may use a part of a large vocabulary, drawn anew for each batch. The sum over all words,
by which a softmax divides, is then estimated: frequent words and the labels of the batch are counted in full,
and each word of a random sample of the others stands for several of them. The estimate is right in the mean
(importance sampling: Bengio and Senécal, 2003). Models are evaluated with all words.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from throughtime.models.heads import IGNORED, SoftmaxHead, check_labels
from throughtime.models.softmax_loss import (
    Gradients,
    build_softmax,
    check_states,
    default_chunk,
    even_chunk,
    pass_on_gradients,
)


class SoftmaxWeights(NamedTuple):
    """What a softmax is computed from; `chunk` is the maximum number of rows at once."""

    weight: Tensor  # [V, H]
    bias: Tensor | None = None
    chunk: int | None = None


class SurprisalSums(NamedTuple):
    """Two sums over the same rows: the one to report, and the one to minimise instead."""

    surprisal: Tensor  # of the labels; without a gradient
    smoothed: Tensor


def smoothed_surprisal(
    head: SoftmaxHead | SoftmaxWeights,
    hidden: Tensor,
    labels: Tensor,
    smoothing: float = 0.0,
    log_shares: Tensor | None = None,
) -> SurprisalSums:
    """Return the sums of -ln P(label) and of the same with smoothed labels, over the rows that have a label.

    P is the softmax of `head` for hidden [N, H]. With `log_shares` [N, K], P is a mixture of K softmaxes with
    the weights of `head`, and hidden is [N, K, H]. Smoothed labels give the share `smoothing` of each label
    to all words equally (Szegedy et al., 2016); mixtures have none. If a gradient is needed, it is computed
    here; `backward` may be called once.

    >>> from throughtime.models.heads import SoftmaxHead
    >>> head = SoftmaxHead(1, 3, weight=torch.nn.Parameter(torch.tensor([[0.0], [0.0], [3.0]])), bias=False)
    >>> both = smoothed_surprisal(head, torch.ones(2, 1), torch.tensor([2, IGNORED]), 0.1)
    >>> [round(one.item(), 4) for one in both]   # ln P is -0.0949 once and -3.0949 twice
    [0.0949, 0.2949]
    """
    inputs = (hidden, log_shares, head.weight, head.bias)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs):
        total, smoothed = _SummedSurprisal.apply(*inputs, labels, smoothing, head.chunk)  # type: ignore[no-untyped-call]
        return SurprisalSums(smoothed.detach() if total is None else total, smoothed)
    nothing = Gradients(None, None, None)
    total, smoothed = _collect_sums(*inputs, labels, head.chunk, nothing, None, smoothing)
    return SurprisalSums(smoothed if total is None else total, smoothed)


def surprisals(
    head: SoftmaxHead | SoftmaxWeights, hidden: Tensor, labels: Tensor, log_shares: Tensor | None = None
) -> Tensor:
    """Return -ln P(label) of each row, 0 where the label is IGNORED; without a gradient. [N]"""
    nothing = Gradients(None, None, None)
    return _collect(hidden, log_shares, head.weight, head.bias, labels, head.chunk, nothing, None, 0.0)[0]


class _SummedSurprisal(torch.autograd.Function):
    """The forward pass computes the gradients of the sum; the backward pass scales them by one number."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        log_shares: Tensor | None,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        chunk: int | None,
    ) -> tuple[Tensor | None, Tensor]:
        for_hidden, for_shares, *for_softmax = ctx.needs_input_grad[:4]
        gradients = Gradients.allocate(hidden.flatten(0, -2), weight, bias, (for_hidden, *for_softmax))
        into_shares = torch.empty_like(log_shares) if log_shares is not None and for_shares else None
        total, smoothed = _collect_sums(
            hidden, log_shares, weight, bias, labels, chunk, gradients, into_shares, smoothing
        )
        ctx.gradients = (gradients.hidden, into_shares, gradients.weight, gradients.bias)
        ctx.shape, ctx.dtype = hidden.shape, weight.dtype
        ctx.head = "SoftmaxHead" if log_shares is None else "MixtureHead"
        if total is not None:
            ctx.mark_non_differentiable(total)
        ctx.set_materialize_grads(False)  # the total gets no gradient, not even zeros
        return total, smoothed

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        hidden, shares, weight, bias = pass_on_gradients(ctx, outer[1], ctx.head)
        weight, bias = (None if sums is None else sums.to(ctx.dtype) for sums in (weight, bias))
        if hidden is not None and hidden.shape != ctx.shape:  # of a mixture
            hidden = hidden.view(ctx.shape)
        return hidden, shares, weight, bias, None, None, None


def _collect_sums(*inputs: Any) -> tuple[Tensor | None, Tensor]:
    """Add up the surprisals that `_collect` finds (None if nothing is smoothed), and the smoothed ones."""
    *_, smoothing = inputs
    surprisals, excess = _collect(*inputs)
    if excess is None:
        return None, surprisals.sum()
    return surprisals.sum(), (surprisals + smoothing * excess).sum()


@torch.no_grad()
def _collect(
    hidden: Tensor,
    log_shares: Tensor | None,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    chunk: int | None,
    gradients: Gradients,
    into_shares: Tensor | None,
    smoothing: float,
) -> tuple[Tensor, Tensor | None]:
    """Return the surprisal of each row; fill in the gradients and `into_shares`.

    A smoothed surprisal is a surprisal plus `smoothing` times the excess of the logit over the mean logit;
    this excess is returned second. The mean over words is a product with the mean word, so it is cheap.
    """
    check_labels(labels, hidden)
    check_states(hidden, weight)
    learns = any(gradient is not None for gradient in gradients)
    softmax = build_softmax(weight, bias, smoothing, learns)
    words, sums = softmax.words, softmax.sums
    experts = 1 if log_shares is None else log_shares.shape[1]
    with torch.autocast(weight.device.type, enabled=False):
        per_chunk = even_chunk(len(hidden), max(1, (chunk or default_chunk(weight)) // experts))
        surprisals: list[Tensor] = []
        excess: list[Tensor] = []
        middle = words.to(sums).mean(0) if smoothing else None
        offset = 0.0 if bias is None or not smoothing else bias.to(sums).mean()
        skips = softmax.skips_ignored and log_shares is None
        for start in range(0, len(hidden), per_chunk):
            rows = slice(start, start + per_chunk)
            states, targets = hidden[rows].flatten(0, -2).to(words.dtype), labels[rows, None]
            known = None if skips else targets != IGNORED
            if known is not None:
                targets = torch.where(known, targets, 0)
            scores = softmax(states, targets if experts == 1 else targets.repeat_interleave(experts, 0))
            surprisal, share = scores.surprisal, known
            if log_shares is not None:
                assert known is not None
                joint = log_shares[rows].to(sums) - surprisal.view(-1, experts)
                together = joint.logsumexp(1, keepdim=True)
                parts = torch.where(known, (joint - together).exp(), 0.0)
                surprisal, share = -together, parts.view(-1, 1)
                if into_shares is not None:
                    into_shares[rows] = -parts
            if known is not None:
                surprisal = torch.where(known, surprisal, 0.0)
            surprisals.append(surprisal[:, 0])
            if middle is not None:
                above = scores.at_target[:, 0] - (states.to(sums) @ middle + offset)
                excess.append(torch.where(labels[rows] != IGNORED, above, 0.0))
            if learns:
                expert_rows = slice(start * experts, start * experts + len(states))
                softmax.add_gradients(scores, share, gradients, expert_rows)
        none = hidden.new_empty(0, dtype=sums)
        return _join(surprisals, none), _join(excess, none) if smoothing else None


def _join(chunks: list[Tensor], none: Tensor) -> Tensor:
    """Return all rows; a single chunk is not copied."""
    return chunks[0] if len(chunks) == 1 else torch.cat([none, *chunks])


class WordSample(NamedTuple):
    """The words of one batch, and the logarithm of the number of words that each stands for."""

    words: Tensor  # [S]
    log_weights: Tensor  # [S]


def draw_words(labels: Tensor, frequent: Tensor, vocabulary_size: int, others: int) -> WordSample:
    """Draw the words of a batch: its labels, the `frequent` ones, and at most `others` of the rest.

    >>> sample = draw_words(torch.tensor([7]), torch.tensor([0, 1]), 11, others=2)
    >>> sample.words[:3].tolist(), sample.log_weights.exp().tolist()  # two of the other eight stand for all
    ([0, 1, 7], [1.0, 1.0, 1.0, 4.0, 4.0])
    """
    certain = torch.zeros(vocabulary_size, dtype=torch.bool, device=labels.device)
    certain[frequent] = True
    certain[labels] = True
    rest = (~certain).nonzero()[:, 0]
    drawn = rest[torch.randperm(len(rest), device=labels.device)[:others]]
    words = torch.cat([certain.nonzero()[:, 0], drawn])
    log_weights = torch.zeros(len(words), device=labels.device)
    if len(drawn):
        log_weights[-len(drawn) :] = math.log(len(rest) / len(drawn))
    return WordSample(words, log_weights)


def sampled_surprisal(
    head: SoftmaxHead, hidden: Tensor, labels: Tensor, frequent: Tensor, others: int
) -> Tensor:
    """Return an estimate of `head.loss(hidden, labels)`, hidden [N, H] and labels [N], with its gradient.

    With `others` at least the number of words that are not frequent it is that loss.
    """
    vocabulary_size = len(head.weight)
    known = labels != IGNORED
    words, log_weights = draw_words(labels[known], frequent, vocabulary_size, others)
    places = torch.empty(vocabulary_size, dtype=torch.int64, device=labels.device)
    places[words] = torch.arange(len(words), device=labels.device)
    bias = log_weights if head.bias is None else head.bias.index_select(0, words) + log_weights
    weights = SoftmaxWeights(head.weight.index_select(0, words), bias, head.chunk)
    labels = torch.where(known, places[torch.where(known, labels, words[0])], IGNORED)
    return smoothed_surprisal(weights, hidden, labels).smoothed
