"""minGRU's kernels on a GPU against the bytes they must move; `benchmarks.recurrence_gpu` runs it."""

from __future__ import annotations

from typing import Any

import torch

from throughtime.recurrence.linear_scan import KINDS, Scan, Settings
from throughtime.recurrence.measuring import microseconds

BANDWIDTH, TARGET = 4.3e12, 1.5
"""Bytes a second that a copy moves on an H200, and how many times their time the kernels may take."""
SHAPE = (4096, 8, 1024)


def over_bytes() -> list[dict[str, Any]]:
    """The time of each kernel over that of its bytes, for some ways of dealing out the steps."""
    found = []
    for dtype in (torch.bfloat16, torch.float32):
        for warps, taken in ((16, 8), (8, 8), (8, 16), (16, 4)):
            name = f"minGRU {str(dtype).removeprefix('torch.')}, {warps} warps, {taken} steps"
            for way, value in zip(("forward", "backward"), ratios(dtype, warps, taken), strict=True):
                met = value <= TARGET
                found.append(
                    {"name": f"{name} {way}", "value": round(value, 3), "target": TARGET, "met": met}
                )
    return found


def ratios(dtype: torch.dtype, warps: int, taken: int) -> tuple[float, float]:
    """Forward reads gate and candidate and writes the state; backward moves twice as much."""
    steps, batch, size = SHAPE
    projected = torch.randn(steps, batch, 2 * size, device="cuda").to(dtype).requires_grad_()
    initial, gradient = torch.zeros(batch, size, device="cuda"), torch.randn(SHAPE, device="cuda").to(dtype)
    settings = Settings(0, KINDS[dtype], projected.get_device(), (warps, warps), (taken, taken))
    unit = 1e6 * steps * batch * size * dtype.itemsize / BANDWIDTH

    def forward() -> Any:
        return Scan.apply(projected, initial, None, None, settings)[0]

    with torch.no_grad():
        there = microseconds(forward)
    outputs = forward()
    back = microseconds(lambda: torch.autograd.grad(outputs, projected, gradient, retain_graph=True))
    return there / (3 * unit), back / (6 * unit)
