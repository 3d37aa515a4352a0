"""The clock of a training on a GPU, with a GPU that works off its stream when the test says so."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch

from throughtime.gpu.clock import DeviceClock


class Device:
    """Reaches events in their order; `work` takes time, and what is recorded behind it is reached later."""

    def __init__(self):
        self.free_at = self.now = 0.0  # milliseconds
        self.records = self.reads = 0

    def work(self, milliseconds):
        self.free_at = max(self.free_at, self.now) + milliseconds

    def event(device, enable_timing):  # noqa: N805 - an event has a self of its own
        class Event:
            def record(self, stream):
                device.records += 1
                self.at = max(device.free_at, device.now)

            def query(self):
                return self.at <= device.now

            def synchronize(self):
                device.now = max(device.now, self.at)

            def elapsed_time(self, end):
                device.reads += 1
                assert end.query()
                return end.at - self.at

        return Event()


@pytest.fixture
def device(monkeypatch):
    device, streams = Device(), itertools.count()
    monkeypatch.setattr(torch.cuda, "Event", device.event)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 5, raising=False)
    device.streams = []

    def current_stream(given):
        device.streams.append(next(streams))
        return SimpleNamespace(cuda_stream=5)

    monkeypatch.setattr(torch.cuda, "current_stream", current_stream)
    return device


def update(clock, device, work):
    with clock.inside():
        device.work(work)


def test_time_inside_is_that_of_the_device_without_its_pauses(device):
    clock = DeviceClock(torch.device("cuda", 0))
    for late in (0.0, 0.0, 7.0, 0.5, 0.0, 20.0, 1.0):  # of the host, before each update of 3 ms
        clock.count_unfinished()
        device.now += late
        update(clock, device, 3.0)
    assert clock.state()[1] == pytest.approx(7 * 0.003)
    assert clock.state()[1] == pytest.approx(7 * 0.003)
    device.now += 50
    update(clock, device, 2.0)
    assert clock.state()[1] == pytest.approx(7 * 0.003 + 0.002)
    clock.lap()
    update(clock, device, 2.0)
    assert clock.state()[1] == pytest.approx(0.002)


def test_updates_are_unfinished_until_the_device_is_there(device):
    clock = DeviceClock(torch.device("cuda", 0))
    for _ in range(4):
        update(clock, device, 3.0)
    unfinished = []
    for device.now in (0.0, 2.9, 3.0, 8.0, 9.1, 12.0):
        unfinished.append(clock.count_unfinished())
    assert unfinished == [4, 4, 3, 2, 1, 0]


def test_a_busy_device_needs_one_event_per_update_and_few_in_all(device):
    clock = DeviceClock(torch.device("cuda", 0))
    for _ in range(100):
        update(clock, device, 3.0)
        device.now = max(0.0, device.free_at - 10)
        clock.count_unfinished()
    assert device.records == 101
    assert not device.reads
    assert len(clock._unused) + len(clock._events) < 10
    assert clock.state()[1] == pytest.approx(0.3)
    assert len(device.streams) == 1


def test_an_event_is_not_used_again_before_its_time_was_read(device):
    clock = DeviceClock(torch.device("cuda", 0))
    for number in range(30):
        update(clock, device, 1.0 + number % 3)
        device.now += number % 5
        clock.count_unfinished()
        held = [one for pair in clock._events for one in pair if one is not None] + [*(clock._finished or ())]
        assert len({*map(id, held)} & {*map(id, clock._unused)}) == 0
        assert len(clock._unused) == len({*map(id, clock._unused)})
    assert clock.state()[1] == pytest.approx(30 * 0.002)
