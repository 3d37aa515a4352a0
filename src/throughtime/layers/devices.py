"""Devices and precisions."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from throughtime.errors import InputError


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` is a GPU where there is one, `cuda` each process's own GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type == "meta":  # torch has it, but it holds no numbers
        raise InputError("device", f"is {name!r}; expected auto, cpu, cuda or cuda:1")
    if device.type == "cuda" and (
        not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count()
    ):
        raise InputError("device", f"is {name!r}, but torch sees {torch.cuda.device_count()} GPUs here")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    return device


def choose_precision(name: str, device: torch.device) -> str:
    """The precision of products; `auto` is bf16 if the hardware multiplies it faster, else float32."""
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bf16" if device.type == "cpu" and torch.cpu._is_avx512_bf16_supported() else "float32"


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Run products in bf16 inside the block, if `precision` is bf16."""
    if precision != "bf16":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def seed_generators(device: torch.device, seed: int) -> None:
    """Seed the random generators of the CPU and of this device.

    torch.manual_seed would seed those of all kinds of devices, which takes a tenth of a millisecond.
    """
    if device.type not in ("cpu", "cuda"):
        torch.manual_seed(seed)
        return
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def trim_memory() -> None:
    """Return freed memory to the system; does nothing without glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Inside the block, allow float32 products on a GPU to round their factors to tf32, or not.

    By default torch allows it for cuDNN's recurrences but not for plain products; here it is the same for
    both.
    """
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    allowed = precision != "float32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
