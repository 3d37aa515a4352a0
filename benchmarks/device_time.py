"""How busy a GPU is: the time of its kernels in a trace of torch's profiler, beside the time by the clock."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import torch


def profile_kernels(work: Callable[[], object]) -> float:
    """The seconds in which at least one kernel ran while `work` did."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            work()
            torch.cuda.synchronize()
        profiler.export_chrome_trace(str(path))
        return read_kernel_seconds(path)


def read_kernel_seconds(trace: Path) -> float:
    """The seconds in which at least one kernel ran, from a trace in Chrome's format; copies do not count."""
    events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    kernels = (event for event in events if event.get("cat") == "kernel")
    return add_intervals((event["ts"], event["ts"] + event["dur"]) for event in kernels) / 1e6


def add_intervals(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of some intervals.

    >>> add_intervals([(0, 2), (5, 6), (1, 3)])
    4.0
    """
    total, end = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
