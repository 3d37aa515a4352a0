"""Recording work on a GPU, with a GPU that only writes down what it is told."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import ClassVar

import pytest
import torch

from throughtime.gpu import recording


class Graph:
    """Begins, ends and replays nothing."""

    told: ClassVar[list[str]] = []

    def capture_begin(self, pool, capture_error_mode):
        self.told.append(f"begin {pool} {capture_error_mode}")

    def capture_end(self):
        self.told.append("end")

    def replay(self):
        self.told.append("replay")


@contextlib.contextmanager
def spare():
    Graph.told.append("spare")
    try:
        yield
    finally:
        Graph.told.append("own")


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(Graph, "told", [])
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(recording, "_spare_generator", spare)
    monkeypatch.setattr(recording, "_end_use", lambda pool: Graph.told.append(f"release {pool}"))
    return Graph.told


def test_work_is_done_once_without_gradients_and_replayed(told):
    modes = []
    replay = recording.record(lambda: modes.append(torch.is_grad_enabled()), None, "pool")
    replay()
    replay()
    assert modes == [False]
    assert told == ["spare", "begin pool thread_local", "end", "own", "replay", "replay"]


def test_what_it_works_with_stays_alive_with_the_recording(told):
    memory = torch.zeros(3)
    seen = weakref.ref(memory)
    replay = recording.record(lambda memory=memory: memory.add_(1), None, None)
    del memory
    gc.collect()
    assert seen() is not None
    del replay
    gc.collect()
    assert seen() is None


def fail(*given, **options):
    raise RuntimeError("no")


def test_work_that_fails_ends_the_recording(told):
    with pytest.raises(RuntimeError, match="no"):
        recording.record(fail, None, "pool")
    assert told[2:] == ["end", "release pool", "own"]


@pytest.mark.parametrize("part", ["capture_begin", "capture_end"])
def test_a_recording_that_fails_releases_its_pool_and_leaves_the_generator_alone(part, told, monkeypatch):
    monkeypatch.setattr(Graph, part, fail)
    with pytest.raises(RuntimeError, match="no"):
        recording.record(lambda: None, None, None)
    assert told[0] == "spare"
    assert told[-2:] == ["release None", "own"]


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_meanwhile(collects, told):
    seen, before = [], gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        recording.record(lambda: seen.append(gc.isenabled()), None, None)
        with pytest.raises(RuntimeError):
            recording.record(fail, None, None)
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recording_that_fails_spoils_no_random_numbers():
    stream, pool, drawn = torch.cuda.Stream(), torch.cuda.graph_pool_handle(), []
    for fails in (False, True):
        torch.cuda.manual_seed(3)
        torch.rand(2, device="cuda")
        if fails:
            with pytest.raises(recording.FAILURES):
                recording.record(lambda: torch.ones(1, device="cuda").item(), stream, pool)
        drawn.append(torch.rand(2, device="cuda"))
    assert torch.equal(*drawn)
