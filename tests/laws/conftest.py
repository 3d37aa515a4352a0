"""On a machine with a GPU every law runs twice: with the code for GPUs, and with plain torch alone."""

from __future__ import annotations

import pytest
import torch

from throughtime import accelerate

WINGS = ["open", "blocked"] if torch.cuda.is_available() else ["open"]


@pytest.fixture(params=WINGS, autouse=True)
def wing(request):
    """Block the wing in the second of two runs."""
    if request.param == "open":
        yield
        return
    with accelerate.block_gpu():
        yield
