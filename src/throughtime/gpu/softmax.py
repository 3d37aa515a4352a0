"""The softmax loss and its gradient on an NVIDIA GPU, with one pass over the logits.

Torch reads them several times, for a maximum, a sum, a logarithm and their gradients; and with an odd number
of words its products do not run at full speed (see `round_up_units`).
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from throughtime.gpu import factors
from throughtime.gpu.elements import KINDS, ElementKind
from throughtime.models.heads import IGNORED, product_dtype
from throughtime.models.softmax_loss import ChunkScores, ChunkSoftmax, Gradients, add_chunk

if TYPE_CHECKING:
    from throughtime.gpu import driver

FILES = ("primitives.cuh", "elements.cuh", "vectors.cuh", "block.cuh", "softmax.cu")
WARPS = (4, 8, 16, 32)
"""Possible numbers of warps per block; the smallest that holds a row is used."""
MAX_VECTORS = 9
"""Maximum number of 16-byte vectors of a row that a thread keeps in registers."""


class _Softmax(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("scores", "targets", "surprisals", "at_target")),
        *((name, ctypes.c_longlong) for name in ("pitch", "words", "ignored")),
        *((name, ctypes.c_float) for name in ("evenly", "off")),
    ]


class Surprisals(NamedTuple):
    """The surprisal and the logit of the target of each row, in float32: [C]."""

    surprisals: Tensor
    at_target: Tensor


def fits(words: int, dtype: torch.dtype) -> bool:
    """Return whether a row of logits of this type can be kept in registers."""
    return dtype in KINDS and words * dtype.itemsize <= WARPS[-1] * 32 * MAX_VECTORS * 16


def softmax_(scores: Tensor, targets: Tensor, words: int, smoothing: float, errors: bool) -> Surprisals:
    """Return the surprisal of each row's target under the softmax of its first `words` scores. [C, P], [C]

    With `errors`, the scores are replaced by the gradients of the smoothed surprisals, and by zeros past the
    words. P is a multiple of 8. All is zero for a row whose target is `IGNORED`.
    """
    rows, pitch = scores.shape
    targets = targets.to(torch.int64).contiguous()
    result = Surprisals(*scores.new_empty(2, rows, dtype=torch.float32))
    arguments = _Softmax(
        scores.data_ptr(),
        targets.data_ptr(),
        result.surprisals.data_ptr(),
        result.at_target.data_ptr(),
        pitch,
        words,
        IGNORED,
        smoothing / words,
        1 - smoothing,
    )
    _prepare_kernel(KINDS[scores.dtype], pitch, errors, scores.get_device())(rows, arguments)
    return result


@functools.cache
def _prepare_kernel(kind: ElementKind, pitch: int, errors: bool, device: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    vectors = pitch * kind.size // 16
    warps = next(some for some in WARPS if vectors <= some * 32 * MAX_VECTORS)
    constants = {
        "KIND": kind,
        "WARPS": warps,
        "VECTORS": -(-vectors // (32 * warps)),
        "ERRORS": int(errors),
        "SHARED_BYTES": 4 * warps,
    }
    return driver.build("softmax", FILES, constants, device)


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
        result = softmax_(scores, targets, len(self.words), self.smoothing, self.learns)
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
    if not (weight.is_cuda and fits(len(weight), product_dtype(weight))):
        return None
    from throughtime.gpu import driver

    return CudaSoftmax if driver.unavailable(weight.get_device()) is None else None
