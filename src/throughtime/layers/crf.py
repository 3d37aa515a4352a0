r"""Distributions over the tags of a sentence, from scores for each tag and word: independent, or a chain.

.. math:: P(y | x) = \exp\big(a_{y_1} + \sum_t s_{t, y_t} + \sum_t A_{y_{t-1}, y_t} + e_{y_T}\big) / Z(x)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from throughtime.kernels import chain
from throughtime.search.exact import viterbi


class TagHead(nn.Module, ABC):
    """From scores [T, B, S] and lengths [B], each 1 or more, to a loss, the best tags and marginals."""

    @abstractmethod
    def surprisals(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """-ln P of the tags [T, B] of each sentence, 0 for an empty one: [B]."""

    @abstractmethod
    def best(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The likeliest tags of each sentence: [T, B], 0 past its end."""

    @abstractmethod
    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """P(tag of word t) given the whole sentence: [T, B, S], 0 past its end."""


class Independent(TagHead):
    """Independent tags: a softmax for each word.

    >>> scores = torch.zeros(2, 1, 4)
    >>> Independent().marginals(scores, torch.tensor([2]))[0, 0].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def surprisals(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """The sum over a sentence's words."""
        log_probs = _precise(scores).log_softmax(-1).gather(2, tags[..., None]).squeeze(2)
        return -log_probs.masked_fill(~_inside(scores, lengths), 0.0).sum(0)

    def best(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The highest score of each word."""
        return scores.argmax(-1).masked_fill(~_inside(scores, lengths), 0)

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The softmax."""
        inside = _inside(scores, lengths)[..., None]
        return _precise(scores).softmax(-1).masked_fill(~inside, 0.0)


class LinearChain(TagHead):
    """A linear-chain conditional random field (Lafferty et al., 2001): neighbouring tags interact.

    `transitions[i, j]` is the score of j after i; `first` and `last` are the scores of a tag at either end.
    All three start at zero, where the chain equals `Independent`.

    >>> chain, scores = LinearChain(3), torch.zeros(4, 1, 3)
    >>> round(chain.log_partition(scores, torch.tensor([4])).exp().item())              # 3 ** 4 sequences
    81
    """

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.first = nn.Parameter(torch.zeros(tags))
        self.last = nn.Parameter(torch.zeros(tags))

    def surprisals(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """ln Z less the score of the tags; on an NVIDIA GPU in one launch."""
        if _has_kernels(scores):
            ends = torch.stack([self.first, self.last])
            found: Tensor = ChainSurprisals.apply(  # type: ignore[no-untyped-call]
                _precise(scores), tags, lengths, self.transitions, ends
            )
            return found
        found = self.log_partition(scores, lengths) - self.score(scores, tags, lengths)
        return torch.where(lengths > 0, found, 0.0)

    def score(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """The score of whole sequences of tags [T, B]: [B]."""
        inside = _inside(scores, lengths)
        emitted = self._add_ends(scores, lengths).gather(2, tags[..., None]).squeeze(2)
        moved = self.transitions[tags[:-1], tags[1:]].masked_fill(~inside[1:], 0.0)
        return emitted.masked_fill(~inside, 0.0).sum(0) + moved.sum(0)

    def log_partition(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """ln Z: the log of the summed exponentials of all sequences' scores, [B]."""
        return self._forward(self._add_ends(scores, lengths), lengths)[-1].logsumexp(-1)

    def best(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The sequence of highest score, by Viterbi's algorithm."""
        return viterbi(self._add_ends(scores, lengths), self.transitions, lengths).states

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """By the forward and the backward sums."""
        scored = self._add_ends(scores, lengths)
        before = torch.stack(self._forward(scored, lengths))  # [T, B, S]: all paths to a tag
        after = [torch.zeros_like(before[0])]  # all paths after it
        for t in range(len(scored) - 1, 0, -1):
            reach = (self.transitions + (scored[t] + after[-1])[:, None, :]).logsumexp(2)
            after.append(torch.where((t < lengths)[:, None], reach, after[-1]))
        inside = _inside(scores, lengths)[..., None]
        return (before + torch.stack(after[::-1])).softmax(-1).masked_fill(~inside, 0.0)

    def _forward(self, scored: Tensor, lengths: Tensor) -> list[Tensor]:
        """For each step the log-sum over all sequences that end there in each tag; frozen past the end."""
        reached = [scored[0]]  # [B, S]
        for t in range(1, len(scored)):
            reach = (reached[-1][:, :, None] + self.transitions).logsumexp(1) + scored[t]
            reached.append(torch.where((t < lengths)[:, None], reach, reached[-1]))
        return reached

    def _add_ends(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The scores, with those of the two ends added."""
        steps = torch.arange(len(scores), device=scores.device)[:, None, None]
        ends = torch.where(steps == (lengths - 1)[None, :, None], self.last, 0.0)
        return _precise(scores) + ends + torch.where(steps == 0, self.first, 0.0)


class ChainSurprisals(torch.autograd.Function):
    """The surprisals of a chain by our own kernels, with first derivatives."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, tags: Tensor, lengths: Tensor, transitions: Tensor, ends: Tensor
    ) -> Tensor:
        """-ln P of the tags of each row; `ends` [2, S] are the scores of the first and the last tag."""
        given = chain.ChainInputs.prepare(scores, tags, lengths, transitions, ends)
        found, sums = chain.surprisals(given)
        ctx.save_for_backward(*given, *sums)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the scores, the transitions and the ends."""
        saved = ctx.saved_tensors
        own = len(chain.ChainInputs._fields)
        into = chain.gradients(chain.ChainInputs(*saved[:own]), chain.ChainSums(*saved[own:]), outer)
        return into.scores, None, None, into.transitions, into.ends


def _has_kernels(scores: Tensor) -> bool:
    """Whether our own kernels support these scores: neither float64 nor thousands of tags."""
    if not scores.is_cuda or scores.dtype == torch.float64:
        return False
    return chain.is_available(scores.get_device(), scores.shape[2])


def _precise(scores: Tensor) -> Tensor:
    """The scores in float32 or better: bf16 is too coarse for sums of exponentials."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _inside(scores: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(len(scores), device=scores.device)[:, None] < lengths
