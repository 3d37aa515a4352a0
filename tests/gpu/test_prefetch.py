"""Batches that are prepared for a GPU: all in order, each with its position."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import LabelledBatches
from throughtime.fit.learner import Learner
from throughtime.fit.trainer import Trainer
from throughtime.gpu.learner import RecordedLearner


class Numbered:
    """A batch that says how it was prepared."""

    def __init__(self, number, shapes=None, packed=False):
        self.number, self.padded, self.packed = number, shapes is not None, packed


class Source:
    """So many batches, and then the end or a failure."""

    def __init__(self, count, failure=None):
        self.count, self.failure, self.given = count, failure, 0

    def __iter__(self):
        return self.give()

    def pack_epoch(self, shapes, *, pin):
        assert pin
        return self.give(shapes, packed=True)

    def give(self, *how, **options):
        while self.given < self.count:
            self.given += 1
            yield Numbered(self.given, *how, **options)
        if self.failure is not None:
            raise self.failure

    def state(self):
        return {"given": self.given}


def prefetch(batches, device, shapes=None):
    learner = object.__new__(RecordedLearner if device == "cuda" else Learner)
    learner.shapes = shapes
    trainer = SimpleNamespace(learner=learner, batches=batches, config=SimpleNamespace(accumulate=1))
    return itertools.chain.from_iterable(Trainer.groups(trainer))


def prepare(count, failure=None, device="cuda", shapes=None):
    return prefetch(Source(count, failure), device, shapes)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_batch_comes_in_order_with_the_position_after_it(device):
    found = [(one.batch.number, one.position["given"]) for one in prepare(5, device=device)]
    assert found == [(number, number) for number in range(1, 6)]


def test_only_batches_for_a_gpu_are_padded_and_packed():
    assert [(one.batch.padded, one.batch.packed) for one in prepare(2, shapes=object())] == [(True, True)] * 2
    assert [(one.batch.padded, one.batch.packed) for one in prepare(1)] == [(False, True)]
    (one,) = prepare(1, device="cpu", shapes=object())
    assert (one.batch.padded, one.batch.packed) == (False, False)


def test_the_position_is_that_of_the_last_batch_that_was_taken(monkeypatch):
    """Although several batches are prepared at once."""
    batches = LabelledBatches(RaggedIds.of([[5, 6]] * 90), [0] * 90, batch_size=2)
    pack = batches.pack_epoch
    monkeypatch.setattr(batches, "pack_epoch", lambda shapes, pin: pack(shapes))  # only a GPU pins memory
    epoch = prefetch(batches, "cuda")
    for number in range(1, 20):
        assert next(epoch).position["batch"] == batches.state()["batch"] == number


def test_a_failure_reaches_who_asks_for_the_batch():
    epoch = prepare(2, OSError("the disk is gone"))
    assert [next(epoch).batch.number for _ in range(2)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(epoch)
