"""Copies from pinned memory by a kernel: on the emulated GPU, and on a real one if there is one."""

from __future__ import annotations

import gc
import weakref
from typing import ClassVar

import pytest
import torch

from throughtime.gpu import upload
from throughtime.gpu.upload import MAX_BYTES, TOGETHER, VECTOR, Uploads


def numbers(size, seed=0):
    return torch.randint(256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", [16, 32, 2032, 2048, 2064, 9600])
def test_all_bytes_are_copied_and_none_past_them(size, emulated):
    source, into = numbers(size), torch.full((size + 2048,), 7, dtype=torch.uint8)
    upload.upload(into, source)
    assert torch.equal(into[:size], source)
    assert into[size:].eq(7).all()


class Pinned:
    """Memory that says that it is pinned, as only that of a machine with a GPU does."""

    def __init__(self, nbytes, address=0, pinned=True):
        self.nbytes, self._address, self._pinned = nbytes, address, pinned

    def data_ptr(self):
        return self._address

    def is_pinned(self):
        return self._pinned


def test_only_small_pinned_memory_on_a_boundary_is_read_by_a_kernel():
    assert upload.can_upload(Pinned(MAX_BYTES))
    assert not upload.can_upload(Pinned(MAX_BYTES + VECTOR))
    assert not upload.can_upload(Pinned(24))
    assert not upload.can_upload(Pinned(32, address=8))
    assert not upload.can_upload(Pinned(32, pinned=False))
    assert not upload.can_upload(torch.zeros(32))  # a kernel that read it would fail


class Event:
    """An event that a GPU reaches when the test says so."""

    reached: ClassVar[list[Event]] = []

    def record(self):
        pass

    def query(self):
        return self in self.reached


@pytest.fixture
def pretended(emulated, monkeypatch):
    """Copies run on the emulated GPU; the test decides when it has done them."""
    gc.collect()  # those of other tests have waited before
    reached: list[Event] = []
    waits: list[int] = []
    monkeypatch.setattr(Event, "reached", reached)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: waits.append(1))
    monkeypatch.setattr(upload, "is_available", lambda device: True)
    monkeypatch.setattr(upload, "can_upload", lambda memory: True)
    return reached, waits


def test_memory_is_kept_until_it_has_been_read(pretended):
    reached, waits = pretended
    uploads, into, sources = Uploads(), torch.zeros(64, dtype=torch.uint8), []
    for number in range(3 * TOGETHER):
        source = numbers(64, number)
        uploads.copy(into, source)
        assert torch.equal(into, source)
        sources.append(weakref.ref(source))
        if number == 2 * TOGETHER:
            reached.append(uploads._marked[0][0])
    del source
    gc.collect()
    alive = [one() is not None for one in sources]
    assert alive == [False] * TOGETHER + [True] * 2 * TOGETHER
    assert not waits
    del uploads
    assert waits  # before anybody else may write there


def test_other_memory_is_copied_by_torch(pretended, monkeypatch):
    monkeypatch.setattr(upload, "can_upload", lambda memory: False)
    uploads, into = Uploads(), torch.zeros(24, dtype=torch.uint8)
    uploads.copy(into, numbers(24))
    assert torch.equal(into, numbers(24))
    del uploads
    assert not pretended[1]  # torch keeps what it copies


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_a_real_gpu_reads_what_was_written_although_it_is_late():
    """Pinned memory is dropped at once and asked for again, while the GPU is busy with something else."""
    uploads, found, wanted = Uploads(), [], []
    into = torch.zeros(4096, dtype=torch.uint8, device="cuda")
    busy = torch.randn(4096, 4096, device="cuda")
    for number in range(5 * TOGETHER):
        memory = torch.empty(4096, dtype=torch.uint8, pin_memory=True).copy_(numbers(4096, number))
        assert upload.can_upload(memory)
        busy = busy @ busy / 64
        uploads.copy(into, memory)
        found.append(into.clone())
        wanted.append(numbers(4096, number))
        del memory
    assert all(torch.equal(one.cpu(), other) for one, other in zip(found, wanted, strict=True))
