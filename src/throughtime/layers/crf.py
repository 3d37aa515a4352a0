r"""Distributions over the tags of a sentence, from scores for each tag and word: independent, or a chain.

.. math:: P(y | x) = \exp\big(a_{y_1} + \sum_t s_{t, y_t} + \sum_t A_{y_{t-1}, y_t} + e_{y_T}\big) / Z(x)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from throughtime.accelerate import chain_surprisals
from throughtime.search.exact import viterbi

FORBIDDEN = -1e4
"""The score of a forbidden pair of tags: its probability is 0, and unlike with -inf some sequence is left."""


class ChainWeights(NamedTuple):
    """Scores of successive tags [S, S], and of the first and the last tag [S]."""

    transitions: Tensor
    first: Tensor
    last: Tensor


class TagHead(nn.Module, ABC):
    """From scores [T, B, S] and lengths [B], each 1 or more, to a loss, the best tags and marginals.

    Pairs of tags can be forbidden: answers then never have them, but the loss is that of all sequences.
    """

    forbidden: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("forbidden", None, persistent=False)

    def forbid(self, pairs: Tensor) -> None:
        """Forbid pairs of successive tags, [S + 1, S + 1]; the last place is either end of a sentence."""
        self.forbidden = FORBIDDEN * pairs if pairs.any() else None

    def weights(self) -> ChainWeights | None:
        """The chain whose sequences are answers; None for independent tags."""
        learned, scores = self.learned, self.forbidden
        if scores is None:
            return learned
        forbidden = ChainWeights(scores[:-1, :-1], scores[-1, :-1], scores[:-1, -1])
        if learned is None:
            return forbidden
        return ChainWeights(*(one + other for one, other in zip(learned, forbidden, strict=True)))

    @property
    def learned(self) -> ChainWeights | None:
        """What was learned of successive tags; None for independent tags."""
        return None

    @abstractmethod
    def surprisals(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """-ln P of the tags [T, B] of each sentence, 0 for an empty one: [B]."""

    def best(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The likeliest tags of each sentence: [T, B], 0 past its end; of a chain by Viterbi's algorithm."""
        chain = self.weights()
        if chain is None:
            return scores.argmax(-1).masked_fill(~_inside(scores, lengths), 0)
        return viterbi(_add_ends(scores, lengths, chain), chain.transitions, lengths).states

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """P(tag of word t) given the whole sentence: [T, B, S], 0 past its end.

        Those of a chain are computed by the forward and the backward sums.
        """
        chain, inside = self.weights(), _inside(scores, lengths)[..., None]
        if chain is None:
            return _precise(scores).softmax(-1).masked_fill(~inside, 0.0)
        scored = _add_ends(scores, lengths, chain)
        before = torch.stack(_forward(scored, lengths, chain.transitions))  # [T, B, S]: all paths to a tag
        after = [torch.zeros_like(before[0])]  # all paths after it
        for t in range(len(scored) - 1, 0, -1):
            reach = (chain.transitions + (scored[t] + after[-1])[:, None, :]).logsumexp(2)
            after.append(torch.where((t < lengths)[:, None], reach, after[-1]))
        return (before + torch.stack(after[::-1])).softmax(-1).masked_fill(~inside, 0.0)


class Independent(TagHead):
    """Independent tags: a softmax for each word, over the possible sequences if pairs are forbidden.

    >>> scores = torch.zeros(2, 1, 4)
    >>> Independent().marginals(scores, torch.tensor([2]))[0, 0].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def surprisals(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """The sum over a sentence's words."""
        log_probs = _precise(scores).log_softmax(-1).gather(2, tags[..., None]).squeeze(2)
        return -log_probs.masked_fill(~_inside(scores, lengths), 0.0).sum(0)


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

    @property
    def learned(self) -> ChainWeights:
        """The scores of successive tags, and of those at either end."""
        return ChainWeights(self.transitions, self.first, self.last)

    def surprisals(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """ln Z less the score of the tags."""
        faster = chain_surprisals(scores, tags, lengths, self.transitions, self.first, self.last)
        if faster is not None:
            return faster
        surprisals = self.log_partition(scores, lengths) - self.score(scores, tags, lengths)
        return torch.where(lengths > 0, surprisals, 0.0)

    def score(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """The score of whole sequences of tags [T, B]: [B]."""
        return score_tags(scores, tags, lengths, self.learned)

    def log_partition(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """ln Z: the log of the summed exponentials of all sequences' scores, [B]."""
        scored = _add_ends(scores, lengths, self.learned)
        return _forward(scored, lengths, self.transitions)[-1].logsumexp(-1)


@torch.no_grad()
def mix_chains(head: TagHead, other: ChainWeights, share: float) -> LinearChain:
    """A chain whose scores are weighted means: those of a head, and the `share` of another chain's.

    >>> other = ChainWeights(torch.ones(2, 2), torch.ones(2), torch.zeros(2))
    >>> mix_chains(Independent(), other, 0.25).first.tolist()
    [0.25, 0.25]
    """
    mixed = LinearChain(len(other.first)).to(other.first.device)
    mixed.forbidden = head.forbidden
    for value, one, two in zip(mixed.learned, head.learned or mixed.learned, other, strict=True):
        value.copy_(torch.lerp(one, two, share))
    return mixed


def score_tags(scores: Tensor, tags: Tensor, lengths: Tensor, chain: ChainWeights) -> Tensor:
    """The score of whole sequences of tags [T, B] in a chain: [B]."""
    inside = _inside(scores, lengths)
    emitted = _add_ends(scores, lengths, chain).gather(2, tags[..., None]).squeeze(2)
    moved = chain.transitions[tags[:-1], tags[1:]].masked_fill(~inside[1:], 0.0)
    return emitted.masked_fill(~inside, 0.0).sum(0) + moved.sum(0)


def _forward(scored: Tensor, lengths: Tensor, transitions: Tensor) -> list[Tensor]:
    """For each step the log-sum over all sequences that end there in each tag; frozen past the end."""
    reached = [scored[0]]  # [B, S]
    for t in range(1, len(scored)):
        reach = (reached[-1][:, :, None] + transitions).logsumexp(1) + scored[t]
        reached.append(torch.where((t < lengths)[:, None], reach, reached[-1]))
    return reached


def _add_ends(scores: Tensor, lengths: Tensor, chain: ChainWeights) -> Tensor:
    """The scores, with those of the two ends added."""
    steps = torch.arange(len(scores), device=scores.device)[:, None, None]
    ends = torch.where(steps == (lengths - 1)[None, :, None], chain.last, 0.0)
    return _precise(scores) + ends + torch.where(steps == 0, chain.first, 0.0)


def _precise(scores: Tensor) -> Tensor:
    """The scores in float32 or better: bf16 is too coarse for sums of exponentials."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _inside(scores: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(len(scores), device=scores.device)[:, None] < lengths
