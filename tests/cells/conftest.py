"""Every test here draws the same numbers each time."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
