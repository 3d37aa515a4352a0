"""The loss of a softmax over a part of a large vocabulary, drawn anew for each batch: for training on a CPU.

The sum over all words, by which a softmax divides, is estimated: frequent words and the labels of the batch
are counted in full, and each word of a random sample of the others stands for several of them. The estimate
is right in the mean (importance sampling: Bengio and Senécal, 2003). Models are evaluated with all words.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.models.chunked_loss import SoftmaxWeights, smoothed_surprisal
from throughtime.models.heads import IGNORED, SoftmaxHead


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
