"""The queue of a model: what is computed together, what is refused, and that nobody gets another's answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.interrupt import check_interrupt
from throughtime.serve.batching import Batcher
from throughtime.serve.requests import RefusalError


class Gate:
    """Computes only when it is opened, and keeps the batches that came."""

    def __init__(self):
        self.open, self.begun, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, items):
        self.begun.set()
        assert self.open.wait(10)
        self.batches.append(list(items))
        return [item * 2 for item in items]


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def batcher():
    found = Batcher("model", wait=0.0, most=4, queue=6)
    yield found
    found.close()


def held(batcher, gate):
    """A job that keeps the model busy."""
    first = batcher.submit("first", gate, [0])
    assert gate.begun.wait(10)
    return first


def test_what_waits_with_equal_keys_is_computed_together_in_order(batcher, gate):
    first = held(batcher, gate)
    jobs = [batcher.submit(key, gate, [number]) for number, key in enumerate("abab", 1)]
    gate.open.set()
    assert [job.future.result(10) for job in (first, *jobs)] == [[0], [2], [4], [6], [8]]
    assert gate.batches == [[0], [1, 3], [2, 4]]


def test_a_batch_is_no_larger_than_asked_unless_one_request_is(batcher, gate):
    held(batcher, gate)
    jobs = [batcher.submit("same", gate, items) for items in ([1, 2], [3, 4, 5], [6])]
    gate.open.set()
    for job in jobs:
        job.future.result(10)
    assert gate.batches[1:] == [[1, 2, 6], [3, 4, 5]]
    alone = batcher.submit("same", gate, list(range(20)))
    assert len(alone.future.result(10)) == 20


def test_a_full_queue_refuses_and_says_when_to_come_again(batcher, gate):
    held(batcher, gate)
    batcher.submit("same", gate, [1, 2, 3, 4])
    with refuses("model", error=RefusalError) as caught:
        batcher.submit("same", gate, [5, 6, 7])
    assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})
    batcher.submit("same", gate, [5, 6])
    assert batcher.waiting == 6
    gate.open.set()


def test_a_model_that_answers_too_little_is_an_error_not_a_mix_up(batcher):
    job = batcher.submit("same", lambda items: items[1:], [1, 2])
    with refuses("model", "1", "2", error=RuntimeError):
        job.future.result(10)


def test_who_left_before_is_not_computed_and_who_leaves_is_told(batcher, gate):
    held(batcher, gate)
    gone = batcher.submit("same", gate, [1])
    gone.left = True
    stays = batcher.submit("same", gate, [2])
    gate.open.set()
    stays.future.result(10)
    assert gate.batches == [[0], [2]]

    def endless(items):
        while True:
            check_interrupt()

    job = batcher.submit("other", endless, [1])
    job.left = True
    assert batcher.submit("same", gate, [7]).future.result(10) == [14]


def test_closing_finishes_what_waits_and_takes_nothing_new(gate):
    batcher = Batcher("model", wait=10.0)
    jobs = [batcher.submit(key, gate, [key]) for key in (1, 2)]
    gate.open.set()
    batcher.close()
    assert [job.future.result(0) for job in jobs] == [[2], [4]]
    with pytest.raises(RefusalError) as caught:
        batcher.submit(1, gate, [1])
    assert caught.value.status == 503


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(), max_size=5)), max_size=40))
def test_answers_belong_to_those_who_asked_whatever_is_batched(requests):
    batcher = Batcher("model", wait=0.001, most=7, queue=1_000)
    with ThreadPoolExecutor(8) as threads:

        def asked(request):
            key, items = request
            job = batcher.submit(key, lambda own: [(key, item) for item in own], items)
            return job.future.result(10)

        found = list(threads.map(asked, requests))
    batcher.close()
    assert found == [[(key, item) for item in items] for key, items in requests]


def test_who_has_left_takes_no_place_in_the_queue(batcher, gate):
    held(batcher, gate)
    gone = batcher.submit("same", gate, [1, 2, 3, 4, 5, 6])
    with pytest.raises(RefusalError):
        batcher.submit("same", gate, [7])
    gone.left = True
    assert batcher.waiting == 0
    kept = batcher.submit("same", gate, [7])
    assert batcher.waiting == 1
    gate.open.set()
    assert kept.future.result(10) == [14]
    assert gate.batches == [[0], [7]]
