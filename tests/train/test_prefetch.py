"""Batches that a thread prepares for a GPU: all in order, and none that holds up who leaves early."""

from __future__ import annotations

import threading

import pytest
import torch

from throughtime.train.prefetch import DEPTH, prefetch


class Numbered:
    """A batch that pretends to be packed."""

    def __init__(self, number):
        self.number = number

    def pack(self, pin):
        assert pin
        return self


class Source:
    """So many batches, and then the end or a failure."""

    def __init__(self, count, failure=None):
        self.count, self.failure, self.given = count, failure, 0

    def __iter__(self):
        while self.given < self.count:
            self.given += 1
            yield Numbered(self.given)
        if self.failure is not None:
            raise self.failure

    def state(self):
        return {"given": self.given}


def ahead(count, failure=None):
    prepared_ones = prefetch(Source(count, failure), torch.device("cuda"))
    return ((one.batch.number, one.position["given"]) for one in prepared_ones), prepared_ones


def test_every_batch_comes_in_order_with_the_position_after_it():
    found, _ = ahead(3 * DEPTH)
    assert list(found) == [(number, number) for number in range(1, 3 * DEPTH + 1)]


@pytest.mark.parametrize("failure", [None, OSError("gone")])
@pytest.mark.parametrize("taken", range(1, DEPTH + 3))
def test_an_epoch_may_be_left_at_any_batch(taken, failure):
    """With as many batches outstanding as the queue holds, the end or the failure finds no place in it."""
    before = threading.active_count()
    found, epoch = ahead(DEPTH + 2, failure)
    for _ in range(taken):
        next(found)
    leaving = threading.Thread(target=epoch.close, daemon=True)
    leaving.start()
    leaving.join(10)
    assert not leaving.is_alive()
    assert threading.active_count() == before


def test_a_failure_reaches_who_waits_for_the_batch():
    found, _ = ahead(2, OSError("the disk is gone"))
    assert [next(found) for _ in range(2)] == [(1, 1), (2, 2)]
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)
