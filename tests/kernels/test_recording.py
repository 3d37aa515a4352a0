"""Recording work on a GPU, with a GPU that only writes down what it is told."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import ClassVar

import pytest
import torch

from throughtime.kernels import recording


class Graph:
    """Begins, ends and replays nothing."""

    told: ClassVar[list[str]] = []

    def capture_begin(self, pool, capture_error_mode):
        self.told.append(f"begin {pool} {capture_error_mode}")

    def capture_end(self):
        self.told.append("end")

    def replay(self):
        self.told.append("replay")


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(Graph, "told", [])
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(recording, "release_generator", lambda: Graph.told.append("release"))
    return Graph.told


def test_work_is_done_once_without_gradients_and_replayed(told):
    modes = []
    replay = recording.record(lambda: modes.append(torch.is_grad_enabled()), None, "pool")
    replay()
    replay()
    assert modes == [False]
    assert told == ["begin pool thread_local", "end", "replay", "replay"]


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


def fail(*given):
    raise RuntimeError("no")


def test_work_that_fails_ends_the_recording(told):
    with pytest.raises(RuntimeError, match="no"):
        recording.record(fail, None, None)
    assert told[1:] == ["end"]


def test_a_recording_that_cannot_be_ended_frees_the_generator(told, monkeypatch):
    monkeypatch.setattr(Graph, "capture_end", fail)
    with pytest.raises(RuntimeError, match="no"):
        recording.record(lambda: None, None, None)
    assert told[1:] == ["release"]
