"""What the core asks the door for is done without the wing, too."""

from __future__ import annotations

import pytest
import torch
from tests.laws.conftest import WINGS

from throughtime import accelerate


def test_a_blocked_wing_is_not_asked(monkeypatch):
    double = accelerate.Operation()

    def answer(number):
        return 2 * number

    answer.__module__ = "throughtime.gpu.example"
    double.register(answer)
    with accelerate.block_gpu():
        assert double(2) is None
    monkeypatch.setattr(accelerate._wing, "blocked", False)
    assert double(2) == 4


def test_every_law_runs_with_the_wing_and_without_it():
    if not torch.cuda.is_available():
        pytest.skip("no GPU on this machine: the laws run once, without the wing")
    assert WINGS == ["open", "blocked"]
