"""minGRU's kernels on a GPU against the bytes they must move; `benchmarks.recurrence_gpu` runs it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.gpu_timing import Step, microseconds, record_graph
from throughtime.gpu.elements import KINDS
from throughtime.gpu.linear_scan import Scan, ScanSettings

BANDWIDTH, TARGET = 4.3e12, 1.5
"""Bytes a second that a copy moves on an H200, and how many times their time the kernels may take."""
SHAPE = (4096, 8, 1024)
DEALT = ((16, 8, 3), (16, 8, 2), (16, 4, 3), (8, 16, 3), (8, 8, 3))
"""Warps, steps that each takes at a time, and stages; the host takes less where shared memory is short."""
LAUNCHES = 10
"""In one graph, so that its own start does not count."""


def over_bytes() -> list[dict[str, Any]]:
    """The time of each kernel over that of its bytes, for some ways of dealing out the steps."""
    found = []
    for dtype in (torch.bfloat16, torch.float32):
        for warps, taken, stages in DEALT:
            kind = str(dtype).removeprefix("torch.")
            name = f"minGRU {kind}, {warps} warps, {taken} steps, {stages} stages"
            for way, value in zip(("forward", "backward"), ratios(dtype, warps, taken, stages), strict=True):
                met = value <= TARGET
                found.append(
                    {"name": f"{name} {way}", "value": round(value, 3), "target": TARGET, "met": met}
                )
    return found


@torch.no_grad()
def ratios(dtype: torch.dtype, warps: int, taken: int, stages: int) -> tuple[float, float]:
    """Forward reads gate and candidate and writes the state; backward moves twice as much."""
    steps, batch, size = SHAPE
    projected = torch.randn(steps, batch, 2 * size, device="cuda").to(dtype)
    initial, gradient = torch.zeros(batch, size, device="cuda"), torch.randn(SHAPE, device="cuda").to(dtype)
    settings = ScanSettings(0, KINDS[dtype], projected.get_device(), (warps, warps), (taken, taken), stages)
    unit = 1e6 * steps * batch * size * dtype.itemsize / BANDWIDTH

    def forward() -> Any:
        return Scan.apply(projected, initial, None, None, settings)[0]  # type: ignore[no-untyped-call]

    saved = SimpleNamespace(saved_tensors=(projected, initial, forward(), None, None), settings=settings)
    there, back = _alone(forward), _alone(lambda: Scan.backward(saved, gradient, initial))
    return there / (3 * unit), back / (6 * unit)


def _alone(call: Step) -> float:
    """Microseconds of a call's kernel, without the Python around it."""

    def launch_all() -> None:
        for _ in range(LAUNCHES):
            call()

    return microseconds(record_graph(launch_all)) / LAUNCHES
