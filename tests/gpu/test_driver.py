"""How a kernel is launched, with a driver that only writes down what it is told."""

from __future__ import annotations

import ctypes
import threading
import warnings
from contextlib import contextmanager

import pytest
import torch

from throughtime.errors import ThroughtimeError
from throughtime.gpu import chain, driver, tally

STREAM = 1 << 40


class Recorder:
    """A driver in whose threads no context is current until one is entered."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, arguments))
            return 0

        setattr(self, name, call)
        return call

    def named(self, name):
        return [arguments for called, arguments in self.calls if called == name]


@pytest.fixture
def recorder(monkeypatch):
    found, current = Recorder(), [0]

    @contextmanager
    def on(device):
        before, current[0] = current[0], device
        yield
        current[0] = before

    monkeypatch.setattr(driver, "_driver", lambda: found)
    monkeypatch.setattr(driver, "_thread", threading.local())
    monkeypatch.setattr(driver, "machine_code", lambda *given: b"")
    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[0], raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: STREAM + device, raising=False)
    driver._build_once.cache_clear()
    yield found
    driver._build_once.cache_clear()


def built(device, together):
    return driver.build("k", (), {"WARPS": 4, "SHARED_BYTES": 48}, device, together=together)


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("together", [False, True])
def test_the_driver_is_told_shape_stream_and_where_the_arguments_are(recorder, device, together):
    arguments = (ctypes.c_longlong * 2)(3, 4)
    built(device, together)(7, arguments)
    (told,) = recorder.named("cuLaunchCooperativeKernel" if together else "cuLaunchKernel")
    _, *shape, stream, given = told[:10]
    assert [shape[0], *[part.value for part in shape[1:]]] == [7, 1, 1, 128, 1, 1, 48]
    assert stream == STREAM + device
    assert given[0] == ctypes.addressof(arguments)
    assert told[10:] == (() if together else (None,))
    assert torch._C._cuda_getDevice() == 0


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("together", [False, True])
def test_a_bound_launch_tells_the_driver_the_same(recorder, device, together):
    kernel, arguments = built(device, together), (ctypes.c_longlong * 2)(3, 4)
    kernel(7, arguments)
    bound = kernel.bind(7, arguments)
    bound()
    bound()

    def read(told):
        return [
            list(part) if isinstance(part, ctypes.Array) else getattr(part, "value", part) for part in told
        ]

    first, *others = recorder.named("cuLaunchCooperativeKernel" if together else "cuLaunchKernel")
    assert [read(other) for other in others] == [read(first)] * 2


def test_every_thread_enters_a_context_once(recorder):
    kernel, arguments = built(0, False), (ctypes.c_longlong * 1)()
    entered = len(recorder.named("cuCtxSetCurrent"))

    def launch_twice():
        kernel(1, arguments)
        kernel(1, arguments)

    launch_twice()
    assert len(recorder.named("cuCtxSetCurrent")) == entered == 1
    thread = threading.Thread(target=launch_twice)
    thread.start()
    thread.join()
    assert len(recorder.named("cuCtxSetCurrent")) == 2
    assert len(recorder.named("cuLaunchKernel")) == 4


@pytest.mark.parametrize("ask", [lambda: chain.is_available(0, 5), lambda: tally.is_available(0)])
@pytest.mark.parametrize("fails", [False, True])
def test_kernels_that_do_not_compile_are_left_out_with_one_warning(ask, fails, monkeypatch):
    def build(name, *rest):
        if fails:
            raise ThroughtimeError("a GPU kernel did not compile: too new\nand more")

    caches = [part for one in (chain, tally) for part in (one.is_available, one._prepare_kernel)]
    monkeypatch.setattr(driver, "unavailable", lambda device: None)
    monkeypatch.setattr(driver, "build", build)
    for cache in caches:
        cache.cache_clear()
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        assert [ask(), ask()] == [not fails] * 2
    for cache in caches:
        cache.cache_clear()
    assert [str(one.message).endswith("too new") for one in given] == [True] * fails


def test_no_kernel_has_room_for_very_many_tags(monkeypatch):
    monkeypatch.setattr(driver, "unavailable", lambda device: None)
    assert not chain.is_available(0, chain.MAX_TAGS + 1)
