"""The surprisals of tags under a linear-chain CRF and their gradients on an NVIDIA GPU, one launch each way.

torch launches about two dozen tiny kernels for each step.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from throughtime.gpu import driver

FILES = ("primitives.cuh", "chain.cu")
MAX_WARPS = 32
MAX_TAGS = 4096
"""Maximum number of tags: two rows of sums must fit into the shared memory of a block."""
MAX_COUNTS = 2**22
"""Maximum number of values in the sums of transitions of all blocks together: 16 MB."""


class _Chain(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_longlong) for name in ("steps", "batch", "tags", "blocks")),
        *(
            (name, ctypes.c_void_p)
            for name in "scores path lengths transitions turned ends reached partitions surprisals "
            "outer d_scores d_weights".split()
        ),
    ]


class ChainInputs(NamedTuple):
    """What the kernels read: contiguous tensors, in float32 or, for tags and lengths, in int64."""

    scores: Tensor  # [T, B, S]
    path: Tensor  # [T, B]
    lengths: Tensor  # [B]
    transitions: Tensor  # [S, S]
    turned: Tensor  # its transpose
    ends: Tensor  # [2, S]

    @classmethod
    def prepare(
        cls, scores: Tensor, tags: Tensor, lengths: Tensor, transitions: Tensor, ends: Tensor
    ) -> ChainInputs:
        """Arrange scores, tags, lengths, the scores of transitions and those of the first and last tag."""
        whole = tags.to(torch.int64), lengths.to(torch.int64)
        parts = scores, *whole, transitions, transitions.t(), ends
        return cls(*(tensor.contiguous() for tensor in parts))


class ChainSums(NamedTuple):
    """What the backward pass needs: log-sums to each tag [T, B, S] and of whole sequences [B]."""

    reached: Tensor
    partitions: Tensor


class ChainGradients(NamedTuple):
    """The gradients of the scores, the transitions and both ends."""

    scores: Tensor
    transitions: Tensor
    ends: Tensor


def surprisals(inputs: ChainInputs) -> tuple[Tensor, ChainSums]:
    """Return -ln P of the tags of each row, 0 for an empty row, and what `gradients` needs."""
    sums = ChainSums(torch.empty_like(inputs.scores), inputs.scores.new_empty(inputs.scores.shape[1]))
    values = torch.empty_like(sums.partitions)
    _launch("chain_forward", inputs, sums, surprisals=values)
    return values, sums


def gradients(inputs: ChainInputs, sums: ChainSums, outer: Tensor) -> ChainGradients:
    """Return the gradients, if `outer` [B] are those of the surprisals."""
    _, batch, tags = inputs.scores.shape
    scores = torch.empty_like(inputs.scores)
    weights = scores.new_zeros(_count_blocks(batch, tags), tags + 2, tags)
    _launch("chain_backward", inputs, sums, outer=outer.contiguous(), d_scores=scores, d_weights=weights)
    summed = weights.sum(0)
    return ChainGradients(scores, summed[:tags].t(), summed[tags:])


def chain_surprisals(
    scores: Tensor, tags: Tensor, lengths: Tensor, transitions: Tensor, first: Tensor, last: Tensor
) -> Tensor | None:
    """Return -ln P of the tags of each row with its gradients in our kernels; None if they do not fit."""
    if not has_kernels(scores):
        return None
    precise = scores.to(torch.promote_types(scores.dtype, torch.float32))
    ends = torch.stack([first, last])
    values: Tensor = ChainSurprisals.apply(precise, tags, lengths, transitions, ends)  # type: ignore[no-untyped-call]
    return values


def has_kernels(scores: Tensor) -> bool:
    """Return whether the kernels support these scores: neither float64 nor thousands of tags."""
    if not scores.is_cuda or scores.dtype == torch.float64:
        return False
    return is_available(scores.get_device(), scores.shape[2])


class ChainSurprisals(torch.autograd.Function):
    """The surprisals of a chain by our own kernels, with first derivatives."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, tags: Tensor, lengths: Tensor, transitions: Tensor, ends: Tensor
    ) -> Tensor:
        """-ln P of the tags of each row; `ends` [2, S] are the scores of the first and the last tag."""
        inputs = ChainInputs.prepare(scores, tags, lengths, transitions, ends)
        values, sums = surprisals(inputs)
        ctx.save_for_backward(*inputs, *sums)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the scores, the transitions and the ends."""
        saved = ctx.saved_tensors
        count = len(ChainInputs._fields)
        into = gradients(ChainInputs(*saved[:count]), ChainSums(*saved[count:]), outer)
        return into.scores, None, None, into.transitions, into.ends


@functools.cache
def is_available(device: int, tags: int) -> bool:
    """Return whether the kernels for this number of tags compile for a GPU."""
    from throughtime.gpu import driver

    if tags > MAX_TAGS or driver.unavailable(device) is not None:
        return False

    def build() -> None:
        for name in ("chain_forward", "chain_backward"):
            _prepare_kernel(name, tags, device)

    return driver.try_build(build, "the CRF runs without its GPU kernels")


def _launch(name: str, inputs: ChainInputs, sums: ChainSums, **others: Tensor) -> None:
    steps, batch, tags = inputs.scores.shape
    blocks = _count_blocks(batch, tags)
    tensors = {**inputs._asdict(), **sums._asdict(), **others}
    addresses = {key: tensor.data_ptr() for key, tensor in tensors.items()}
    _prepare_kernel(name, tags, inputs.scores.get_device())(
        blocks, _Chain(steps, batch, tags, blocks, **addresses)
    )


def _count_blocks(batch: int, tags: int) -> int:
    return max(1, min(batch, MAX_COUNTS // tags**2))


@functools.cache
def _prepare_kernel(name: str, tags: int, device: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    warps = min(MAX_WARPS, -(-tags // 32))
    return driver.build(name, FILES, {"WARPS": warps, "SHARED_BYTES": 2 * 4 * tags}, device)
