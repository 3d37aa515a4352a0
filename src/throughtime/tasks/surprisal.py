"""The loss of labels, and the likelihood of target texts given their sources."""

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
    """Return the labels [L, B] with IGNORED in place of padding, which then adds nothing to the loss."""
    from throughtime.data.batching.batches import real_positions

    return torch.where(real_positions(len(batch.labels), batch.target_lengths), batch.labels, IGNORED)


def label_loss(head: Head, hidden: Tensor, labels: Tensor, smoothing: float) -> Loss:
    """Return the loss of labels; with smoothing, it is only reported, and the smoothed loss is minimised."""
    if not smoothing:
        return Loss(head.loss(hidden, labels))
    return Loss(*head.smoothed_loss(hidden, labels, smoothing))


def surprisals(model: EncoderDecoder, batch: PairBatch) -> Tensor:
    """Return -ln P of each target token given the source and the tokens before it, [L, B]; 0 for padding."""
    outputs = model(batch.source, batch.source_lengths, batch.inputs).outputs
    return model.head.surprisals(outputs.flatten(0, 1), masked_labels(batch).flatten()).view_as(batch.labels)


@torch.no_grad()
def likelihood(model: EncoderDecoder, batches: Iterable[PairBatch]) -> Likelihood:
    """Return the likelihood of the targets of some batches."""
    from throughtime.metrics.likelihood import Likelihood

    device = next(model.parameters()).device
    nats = torch.zeros((), dtype=torch.float64, device=device)
    tokens = 0
    for batch in batches:
        if batch.rows:
            nats += surprisals(model, batch.to(device)).double().sum()
            tokens += int(batch.target_lengths.sum())
    return Likelihood(float(nats), tokens)
