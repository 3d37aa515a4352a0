"""Freed memory goes back to the system, where there is much of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from throughtime.fit.learner import LARGE, build_memory_trimmer


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_was_freed_below_a_living_piece_goes_back():
    pieces = [torch.ones(20_000) for _ in range(1_500)]  # 80 kB each: below what is mapped on its own
    keeper = torch.ones(20_000)  # on top of them, so that the heap cannot shrink by itself
    full = resident()
    del pieces
    build_memory_trimmer(LARGE, torch.device("cpu"))()
    assert (full - resident()) * 4096 > 60e6
    assert float(keeper.sum()) == 20_000


def test_small_models_keep_what_they_will_use_again():
    assert build_memory_trimmer(LARGE - 1, torch.device("cpu"))() is None
