"""The loss of labels, and how likely given texts are: each token given the source and those before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from throughtime.models.heads import IGNORED, Head
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.train.objective import Loss

if TYPE_CHECKING:
    from throughtime.data.batching.pairs import PairBatch
    from throughtime.metrics.likelihood import Likelihood


def masked_labels(batch: PairBatch) -> Tensor:
    """The labels, [L, B], with IGNORED past each target's end: the loss is over real tokens only."""
    from throughtime.data.batching.batches import real_positions

    return torch.where(real_positions(len(batch.labels), batch.target_lengths), batch.labels, IGNORED)


def label_loss(head: Head, hidden: Tensor, labels: Tensor, smoothing: float) -> Loss:
    """The loss of these labels; with label smoothing, another loss is minimised and this one is reported."""
    if not smoothing:
        return Loss(head.loss(hidden, labels))
    return Loss(*head.smoothed_loss(hidden, labels, smoothing))


def surprisals(model: EncoderDecoder, batch: PairBatch) -> Tensor:
    """-ln P of each target token given the source and those before it, [L, B]; 0 past a target's end."""
    outputs = model(batch.source, batch.source_lengths, batch.inputs).outputs
    return model.head.surprisals(outputs.flatten(0, 1), masked_labels(batch).flatten()).view_as(batch.labels)


@torch.no_grad()
def likelihood(model: EncoderDecoder, batches: Iterable[PairBatch]) -> Likelihood:
    """How likely the model finds the targets of these batches."""
    from throughtime.metrics.likelihood import Likelihood

    device = next(model.parameters()).device
    nats = torch.zeros((), dtype=torch.float64, device=device)
    tokens = 0
    for batch in batches:
        if batch.rows:
            nats += surprisals(model, batch.to(device)).double().sum()
            tokens += int(batch.target_lengths.sum())
    return Likelihood(float(nats), tokens)
