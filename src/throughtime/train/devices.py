"""Where a model is trained, and in what precision."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from throughtime.errors import InputError


def device_of(name: str) -> torch.device:
    """The device of this name; `auto` is a GPU where there is one, each process of a machine its own."""
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError("device", f"is {name!r}; expected auto, cpu, cuda or cuda:1") from None
    if device.type == "cuda" and (
        not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()
    ):
        raise InputError("device", f"is {name!r}, but torch sees {torch.cuda.device_count()} GPUs here")
    return device


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """The block in which products run in bf16, where that was asked for."""
    if precision != "bf16":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Let float32 products on a GPU round their factors to tf32, or not, for the length of the block.

    torch's defaults let cuDNN's recurrences round and plain products not; here one word rules both.
    """
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    allowed = precision != "float32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
