"""Full back-propagation through 100,000 steps of a 256-unit LSTM: the peak memory of a whole fresh process.

The gradient reaches every weight and every input. Each way runs in a process of its own, whose peak resident
memory is what the kernel says: Python and torch themselves, inputs, outputs and gradients are all in it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

STEPS, UNITS = 100_000, 256
TARGET_MEGABYTES = 2000

CHILD = """
import json, pathlib, re, sys, time
import torch
from throughtime.cells import LSTM
from throughtime.recurrence.backpropagation import scan_in_chunks
from throughtime.recurrence.scan import named, scan

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024 / 1e6

way, steps, units, backend = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.manual_seed(0)
cell = LSTM(units, units)
before = peak()
x = torch.randn(steps, 1, units, requires_grad=True)
began = time.perf_counter()
outputs, _ = {"scan": scan, "scan_in_chunks": scan_in_chunks}[way](cell, x, backend=backend)
forward = time.perf_counter()
outputs.square().mean().backward()
print(json.dumps({
    "backend": named(backend, cell, x).name,
    "peak_rss_megabytes": round(peak()),
    "of_which_python_and_torch": round(before),
    "forward_seconds": round(forward - began, 2),
    "backward_seconds": round(time.perf_counter() - forward, 2),
    "gradient_norm": cell.weight_hh.grad.double().norm().item(),
    "first_input_gradient": x.grad[0].double().norm().item(),
}))
"""


def run(
    steps: int = STEPS, backend: str = "auto", ways: tuple[str, ...] = ("scan_in_chunks", "scan")
) -> dict[str, Any]:
    results: dict[str, Any] = {
        "steps": steps,
        "units": UNITS,
        "batch": 1,
        "target_megabytes": TARGET_MEGABYTES,
    }
    for way in ways:
        results[way] = measured(way, steps, backend)
        print(
            f"{way}: " + ", ".join(f"{name} {value}" for name, value in results[way].items()), file=sys.stderr
        )
    results["within_target"] = results["scan_in_chunks"]["peak_rss_megabytes"] <= TARGET_MEGABYTES
    if "scan" in results:
        one, other = (results[way]["gradient_norm"] for way in ("scan_in_chunks", "scan"))
        results["gradient_norms_differ_by"] = abs(one - other) / other
    return results


def measured(way: str, steps: int, backend: str) -> dict[str, Any]:
    """Run one way in a fresh process and read what it says of itself."""
    words = [sys.executable, "-c", CHILD, way, str(steps), str(UNITS), backend]
    finished = subprocess.run(words, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise RuntimeError(f"the measured process ended with {finished.returncode}: {finished.stderr[-500:]}")
    told: dict[str, Any] = json.loads(finished.stdout)
    return told


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--steps", type=int, default=STEPS)
    words.add_argument("--backend", default="auto")
    words.add_argument("--only-chunks", action="store_true", help="leave plain scan out")
    told = words.parse_args()
    ways = ("scan_in_chunks",) if told.only_chunks else ("scan_in_chunks", "scan")
    print(json.dumps(run(told.steps, told.backend, ways)))
