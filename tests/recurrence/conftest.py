"""What tests of recurrences share: a GPU that is none."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tests.emulated import machine

from throughtime.kernels import driver
from throughtime.recurrence import batched_copies as moves
from throughtime.recurrence import persistent as persistent_function


@pytest.fixture
def plan(monkeypatch):
    """Run on the emulated GPU, with whichever plan the test chooses."""
    chosen = {}
    monkeypatch.setattr(driver, "build", machine.build)
    monkeypatch.setattr(persistent_function, "best", lambda task, *limits: chosen["plan"])
    monkeypatch.setattr(driver, "limits", lambda device: (machine.MULTIPROCESSORS, machine.SHARED))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(moves, "WARPS", 1)  # a fiber is dearer than a thread
    for module in (persistent_function, moves):
        module._prepare_kernel.cache_clear()
    yield partial(chosen.__setitem__, "plan")
    for module in (persistent_function, moves):
        module._prepare_kernel.cache_clear()
