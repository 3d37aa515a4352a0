"""Recurrences on a GPU beside torch's own modules, called and replayed from a CUDA graph, in one run.

    python -m benchmarks.recurrence_gpu --shapes 120 --seed 7    shapes drawn at random, and a summary
    python -m benchmarks.recurrence_gpu --named                  the shapes of docs/gpu-notes.md
    python -m benchmarks.recurrence_gpu --check                  equality with the reference
    python -m benchmarks.recurrence_gpu --plans 60               how good the chosen plans are, for 60 seconds
    python -m benchmarks.recurrence_gpu --json FILE              all figures as JSON as well

"Ours" is a `Stack` with the backend that `auto` chooses. Figures are the median microseconds of a training
step without the optimiser, per step and layer, including the product with the input. A shape that fails is
recorded, and the next one runs, in a new process if need be.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_timing import (
    MAKERS,
    TimingCase,
    call_microseconds,
    compile_ahead,
    microseconds,
    record_graph,
)
from benchmarks.linear_scan_gpu import over_bytes
from throughtime.gpu.choice import expecting_graphs
from throughtime.layers.stack import Stack
from throughtime.recurrence.choice import choose_for_layers

CELLS = ("lstm", "gru", "rnn")
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
STEPS, BATCHES, HIDDEN = (4, 512), (1, 256), (32, 1550)
"""Smallest and largest; their logarithms are drawn uniformly. An input has less than 2^28 values."""
LONG = TimingCase("lstm", torch.bfloat16, 1024, 16, 768)
NAMED = (
    LONG,
    replace(LONG, trains=False),
    TimingCase("lstm", torch.bfloat16, 35, 20, 200),
    TimingCase("lstm", torch.bfloat16, 70, 20, 1150, layers=3),
    TimingCase("lstm", torch.bfloat16, 128, 64, 512),
    TimingCase("lstm", torch.bfloat16, 128, 64, 1024),
    TimingCase("gru", torch.bfloat16, 512, 8, 1024),
    TimingCase("gru", torch.bfloat16, 30, 64, 256, directions=2),
    TimingCase("lstm", torch.float32, 128, 64, 512),
    TimingCase("lstm", torch.float32, 35, 20, 1500, layers=2),
)
AIMS = {"called": 5.0, "replayed": 3.0}
"""Geometric means of torch's time divided by ours."""
SLOWER, LEFT_TO_TORCH = 0.95, 0.98
"""No shape may be slower than this share of torch's speed; the median of those that torch's kernels run."""
PEAK, TF32_PEAK = 780e12, 390e12
"""Operations a second of an H200 in bf16 and tf32, which `benchmarks.softmax_gpu` compares with."""
SILENCE = 90.0
"""Seconds without a line of output after which a worker is taken to hang."""

Row = dict[str, Any]


def draw_cases(seed: int, count: int) -> list[TimingCase]:
    """Draw shapes of trained stacks, in bf16 and float32 in turn."""
    source = random.Random(seed)

    def between(bounds: tuple[int, int]) -> int:
        low, high = bounds
        return int(low * ((high + 1) / low) ** source.random())

    return [
        TimingCase(
            source.choice(CELLS),
            list(DTYPES.values())[number % len(DTYPES)],
            between(STEPS),
            between(BATCHES),
            between(HIDDEN),
            layers=source.choice((1, 2, 3)),
            directions=source.choice((1, 2)),
        )
        for number in range(count)
    ]


def time_case(case: TimingCase) -> Row:
    """Time a `Stack` with what `auto` chooses, and torch's module."""
    stack = Stack(MAKERS[case.cell], case.hidden, case.hidden, case.layers, bidirectional=case.directions > 1)
    figures: Row = {}
    per = case.steps * case.layers
    for name, call in (("ours", case.build_step(stack, stack)), ("theirs", case.build_theirs())):
        figures[name] = call_microseconds(call, least=3) / per
        figures[f"{name}_replayed"] = microseconds(record_graph(call)) / per
        torch.cuda.empty_cache()  # what one of them keeps may not leave room for the other
    layers, x = [layer.cells for layer in stack._layers()], case.build_data()[0]
    with torch.set_grad_enabled(case.trains):
        figures["backend"] = choose_for_layers(layers, x).name
        with expecting_graphs():
            figures["backend_replayed"] = choose_for_layers(layers, x).name
    return figures


def write_case(case: TimingCase) -> Row:
    return {**asdict(case), "dtype": str(case.dtype).removeprefix("torch.")}


def read_case(numbers: Row) -> TimingCase:
    return TimingCase(**{**numbers, "dtype": getattr(torch, numbers["dtype"])})


def work() -> None:
    """Run as the worker: a case per line on stdin, its figures or its error per line on stdout."""
    for line in sys.stdin:
        try:
            found: Row = time_case(read_case(json.loads(line)))
        except Exception as error:  # recorded; an error of the GPU ends the worker below
            found = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        print(json.dumps(found), flush=True)
        torch.cuda.empty_cache()


class Worker:
    """A process that times cases, so that an error of the GPU ends with it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def time_case(self, case: TimingCase) -> Row:
        """Return the figures of a case, or an error; after an error the next case has a new process."""
        if self.process is None:
            command = [sys.executable, "-m", "benchmarks.recurrence_gpu", "--worker"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(write_case(case)) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SILENCE)
        line = self.process.stdout.readline() if ready else ""
        if line:
            found = json.loads(line)
        else:
            found = {"error": "the process died" if ready else f"no answer for {SILENCE:.0f} s"}
        if "error" in found:
            self.end()
        return dict(found)

    def end(self) -> None:
        """Stop the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


def time_cases(cases: Iterable[TimingCase], budget: float) -> list[Row]:
    """Time these cases, and print each result, until this number of seconds has passed."""
    cases, start, worker, rows = list(cases), time.monotonic(), Worker(), []
    compile_ahead(task for case in cases for task in case.list_tasks())
    print(
        f"{'':52}{'ours':>8}{'replay':>8}{'torch':>8}{'replay':>8}{'times':>7}{'replay':>7}", file=sys.stderr
    )
    for case in cases:
        if time.monotonic() - start > budget:
            print(f"stopped after {budget:.0f} s", file=sys.stderr)
            break
        rows.append({**write_case(case), **worker.time_case(case)})
        print(_describe(case, rows[-1]), file=sys.stderr, flush=True)
    worker.end()
    return rows


def _describe(case: TimingCase, row: Row) -> str:
    if "error" in row:
        return f"{case.title:52} FAILED: {row['error']}"
    figures = [row[key] for key in ("ours", "ours_replayed", "theirs", "theirs_replayed")]
    return (
        f"{case.title:52}"
        + "".join(f"{figure:8.2f}" for figure in figures)
        + "".join(f"{ratio:7.2f}" for ratio in compute_ratios(row).values())
        + f"  {' / '.join(dict.fromkeys((row['backend'], row['backend_replayed'])))}"
    )


def compute_ratios(row: Row) -> dict[str, float]:
    """Return how many times as fast as torch ours is, called and replayed."""
    return {
        "called": row["theirs"] / row["ours"],
        "replayed": row["theirs_replayed"] / row["ours_replayed"],
    }


def summarise(rows: list[Row]) -> list[Row]:
    """Return the aims and what was measured, for each precision, called and replayed."""
    found = []
    for dtype in DTYPES:
        some = [row for row in rows if row["dtype"] == dtype and row["trains"] and "error" not in row]
        for way, aim in AIMS.items():
            ratios = [compute_ratios(row)[way] for row in some]
            chosen = "backend" if way == "called" else "backend_replayed"
            torch_s = [compute_ratios(row)[way] for row in some if row[chosen] == "native"]
            name = f"{dtype} {way}, {len(some)} shapes:"
            found += [
                _judge(f"{name} geometric mean", compute_mean(ratios), at_least=aim),
                _judge(f"{name} worst", min(ratios, default=math.nan), at_least=SLOWER),
                _judge(
                    f"{name} share below {SLOWER}",
                    sum(ratio < SLOWER for ratio in ratios) / max(1, len(ratios)),
                    at_most=0.0,
                ),
            ]
            if torch_s:
                median = statistics.median(torch_s)
                found.append(_judge(f"{name} median of {len(torch_s)} left to torch", median, LEFT_TO_TORCH))
    return found


def compute_mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def _judge(name: str, value: float, at_least: float | None = None, at_most: float | None = None) -> Row:
    met = value >= at_least if at_least is not None else value <= (at_most or 0.0)
    return {"name": name, "value": round(value, 3), "target": at_least or at_most, "met": met}


def find_worst(rows: list[Row], count: int = 6) -> list[Row]:
    """Return the shapes at which ours is slowest compared with torch, called or replayed."""
    good = [row for row in rows if "error" not in row]
    return sorted(good, key=lambda row: min(compute_ratios(row).values()))[:count]


def run(
    seed: int = 0, shapes: int = 120, budget: float = 500.0, cases: Iterable[TimingCase] | None = None
) -> Row:
    """Run the whole benchmark, where there is a GPU."""
    if not torch.cuda.is_available():
        print("no GPU on this machine: nothing to time", file=sys.stderr)
        return {"skipped": "no GPU"}
    rows = time_cases(draw_cases(seed, shapes) if cases is None else cases, budget)
    targets = summarise(rows) if cases is None else over_bytes()
    for target in targets:
        verdict = "met" if target["met"] else "MISSED"
        line = f"{target['name']:58} {target['value']:8.3f}  {target.get('target', '')}  {verdict}"
        print(line, file=sys.stderr)
    print("slowest compared with torch:", file=sys.stderr)
    for row in find_worst(rows):
        case = read_case({key: row[key] for key in asdict(LONG)})
        print(f"  {_describe(case, row)}", file=sys.stderr)
    gpu = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    return {**gpu, "seed": seed, "rows": rows, "targets": targets}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shapes", type=int, default=120, metavar="N")
    parser.add_argument("--budget", type=float, default=500.0, metavar="SECONDS", help="stop after these")
    parser.add_argument("--named", action="store_true", help="time the shapes of docs/gpu-notes.md instead")
    parser.add_argument("--check", action="store_true", help="compare with the reference instead")
    parser.add_argument("--plans", type=float, default=0.0, metavar="SECONDS", help="compare plans instead")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    found: Row = {}
    if options.check or options.plans:
        from benchmarks import recurrence_gpu_check

        if options.check:
            found["failures"] = recurrence_gpu_check.check()
        if options.plans:
            found["plans"] = recurrence_gpu_check.compare_plans(options.plans)
    else:
        found = run(options.seed, options.shapes, options.budget, NAMED if options.named else None)
    if options.json:
        options.json.write_text(json.dumps(found), encoding="utf-8")
    return 1 if found.get("failures") else 0


if __name__ == "__main__":
    sys.exit(main())
