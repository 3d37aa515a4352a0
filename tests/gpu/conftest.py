"""What tests of a GPU share: one that is none, and the tasks and the trainer of `tests/fit`."""

from __future__ import annotations

import pytest
import torch
from tests.emulated import machine
from tests.fit.conftest import language_task, text, trainer_of

from throughtime.gpu import batched_copies, driver, persistent_call, weight_gradients
from throughtime.gpu.persistent import forget_programs
from throughtime.gpu.persistent_choice import Arrangement

__all__ = ["language_task", "plan", "text", "trainer_of"]


@pytest.fixture
def plan(monkeypatch):
    """Run on the emulated GPU, with whichever plan the test chooses; perhaps another one backwards."""
    chosen = {}

    def choose(forward, backward=None, spans=1):
        chosen.update({False: forward, True: backward or forward, "spans": spans})

    def arrange(task, layers, steps, *limits):
        return Arrangement(chosen[task.backward], min(chosen["spans"], steps), task.directions)

    monkeypatch.setattr(driver, "build", machine.build)
    monkeypatch.setattr(persistent_call, "arrange", arrange)
    monkeypatch.setattr(driver, "limits", lambda device: (machine.MULTIPROCESSORS, machine.SHARED))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    monkeypatch.setattr(batched_copies, "WARPS", 1)  # a fiber is dearer than a thread
    forget_kernels()
    yield choose
    forget_kernels()


def forget_kernels():
    batched_copies._prepare_kernel.cache_clear()
    weight_gradients._prepare_kernel.cache_clear()
    forget_programs()
