"""Batches whose tensors lie in one piece of memory, which moves to a GPU in one copy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch


@dataclass(frozen=True)
class Mixed(Batch):
    ids: Tensor
    values: Tensor
    nothing: Tensor
    flags: Tensor
    continues: bool


@pytest.fixture
def batch():
    ids = torch.arange(15).view(3, 5)
    flags = torch.tensor([True, False, True])
    return Mixed(7, ids.t(), torch.randn(5, 3), torch.zeros(0, 0, 3), flags, continues=True)


def same(one, other):
    assert (one.count, one.continues) == (other.count, other.continues)
    for name, tensor in one.tensors().items():
        assert tensor.dtype == getattr(other, name).dtype
        assert torch.equal(tensor, getattr(other, name))


def test_a_packed_batch_is_the_same_batch_in_one_piece(batch):
    packed = batch.pack()
    same(batch, packed)
    assert batch.memory is None
    memory = packed.memory
    assert memory.dtype == torch.uint8
    places = {tensor.data_ptr() - memory.data_ptr() for tensor in packed.tensors().values() if tensor.numel()}
    assert all(place % 16 == 0 and 0 <= place < len(memory) for place in places)
    assert len(places) == 3
    memory.zero_()
    assert not any(tensor.any() for tensor in packed.tensors().values())
    assert batch.ids.any(), "the batch itself is not changed"


def test_a_packed_batch_stays_packed_on_its_way(batch):
    moved = batch.pack().to("meta")
    assert moved.memory is not None
    assert [tensor.shape for tensor in moved.tensors().values()] == [
        tensor.shape for tensor in batch.tensors().values()
    ]
    same(batch.pack().to("cpu"), batch)


def test_what_lies_apart_is_not_packed(batch):
    packed = batch.pack()
    assert replace(packed, values=packed.values.clone()).memory is None
    assert replace(packed, ids=packed.ids.t()).memory is None
    assert replace(packed, flags=packed.flags[1:]).memory is None
    assert replace(packed, values=packed.ids.view(-1)[:8].view(2, 4)).memory is None
    alone = replace(batch, **dict.fromkeys(("values", "nothing", "flags")))
    assert replace(alone, ids=torch.arange(30)[:8]).memory is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU needs pinned memory")
def test_a_pinned_batch_moves_to_the_gpu(batch):
    packed = batch.pack(pin=True)
    assert all(tensor.is_pinned() for tensor in packed.tensors().values() if tensor.numel())
    moved = packed.to("cuda", non_blocking=True)
    assert moved.memory.is_cuda
    torch.cuda.synchronize()
    same(batch, moved.to("cpu"))
