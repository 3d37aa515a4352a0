"""The softmax of a loss over many words in one kernel: surprisals, and the gradients of the logits."""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.gpu import factors, softmax
from throughtime.models.heads import product_dtype
from throughtime.models.softmax_loss import ChunkScores, ChunkSoftmax, Gradients, add_chunk


class CudaSoftmax(ChunkSoftmax):
    """On an NVIDIA GPU one kernel computes surprisals and the gradients of the logits, each row in registers.

    Its factors are padded, and the bias is two more weights of each word; see `factors`.
    """

    skips_ignored = True

    def __init__(self, weight: Tensor, bias: Tensor | None, smoothing: float, learns: bool) -> None:
        many, size = weight.shape
        self._padded = factors.pad_weights(weight, bias, product_dtype(weight))
        super().__init__(self._padded[:many, :size], bias, smoothing, learns)

    def __call__(self, states: Tensor, targets: Tensor) -> ChunkScores:
        """Score a chunk; if `learns`, the odds are the gradients of the logits."""
        padded = factors.pad_states(states, self.bias is not None, self._padded.shape[1])
        scores = padded @ self._padded.t()
        result = softmax.softmax_(scores, targets, len(self.words), self.smoothing, self.learns)
        return ChunkScores(padded, targets, result.surprisals[:, None], result.at_target[:, None], scores)

    def add_gradients(
        self, scores: ChunkScores, share: Tensor | None, gradients: Gradients, rows: slice
    ) -> None:
        """Add the gradients of a chunk."""
        many, size = self.words.shape
        errors, states = scores.odds, scores.states
        if gradients.hidden is not None:
            into = gradients.hidden[rows]
            if share is None and into.dtype == errors.dtype and factors.is_whole(into):
                torch.mm(errors, self._padded[:, :size], out=into)
            else:
                own = (errors @ self._padded)[:, :size]
                into.copy_(own if share is None else own * share)
        if gradients.weight is None and gradients.bias is None:
            return
        sums = (errors.t() @ (states if share is None else (states * share).to(errors.dtype)))[:many]
        if gradients.weight is not None:
            add_chunk(gradients.weight, sums[:, :size], rows)
        if gradients.bias is not None:
            add_chunk(gradients.bias, sums[:, size], rows)


def find_softmax(weight: Tensor) -> type[CudaSoftmax] | None:
    """Return `CudaSoftmax` for weights on an NVIDIA GPU, if a row of logits is not too wide."""
    if not (weight.is_cuda and softmax.fits(len(weight), product_dtype(weight))):
        return None
    from throughtime.gpu import driver

    return CudaSoftmax if driver.unavailable(weight.get_device()) is None else None
