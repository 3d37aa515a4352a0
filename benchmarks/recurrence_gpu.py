"""Recurrences on a GPU beside torch's own modules, called and replayed from a CUDA graph, in one run.

    python -m benchmarks.recurrence_gpu --check --tune 60     equality with the reference, then the best plans
    python -m benchmarks.recurrence_gpu --budget 500          the table, evenly sampled to fit so many seconds
    python -m benchmarks.recurrence_gpu --json FILE           all figures as JSON as well

Ours is what `auto` takes: a GPU that is not in `recurrence/costs.json` wants `throughtime doctor --measure`
first.
Microseconds a step and layer, the input's product inside. A shape that fails is recorded, and the next one
goes on, in a new process if need be.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import select
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.linear_scan_gpu import over_bytes
from throughtime.kernels import driver
from throughtime.kernels.elements import ElementKind, round_up_units
from throughtime.layers.stack import Stack
from throughtime.recurrence.choice import choose_backend
from throughtime.recurrence.measuring import MAKERS, TimingCase, compile_ahead, microseconds, record_graph
from throughtime.recurrence.persistent import find_form
from throughtime.recurrence.persistent_plan import KernelTask, best
from throughtime.recurrence.persistent_plan import microseconds as expected

CELLS = ("lstm", "gru", "rnn")
FORMS = {name: form for name in CELLS if (form := find_form(MAKERS[name](1, 1))) is not None}
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
HIDDEN, BATCHES, STEPS, LAYERS = (
    (200, 256, 512, 650, 768, 1024, 1150, 1500),
    (8, 16, 20, 64, 128),
    (35, 128, 1024),
    (1, 2, 3),
)
LONG = TimingCase("lstm", torch.bfloat16, 1024, 16, 768)
AWD = TimingCase("lstm", torch.bfloat16, 70, 20, 1150, layers=3)
NAMED = (
    LONG,
    replace(LONG, trains=False),
    AWD,
    TimingCase("lstm", torch.bfloat16, 128, 64, 512),
    TimingCase("lstm", torch.bfloat16, 128, 64, 1024),
    TimingCase("gru", torch.bfloat16, 512, 8, 1024),
    TimingCase("lstm", torch.float32, 128, 64, 512),
)
SILENCE = 90.0
"""Seconds without a word after which a worker is taken to hang."""
PEAK, TF32_PEAK, L2, ROUND = 780e12, 390e12, 5.5e12, 0.55
"""Operations a second in bf16 and tf32, bytes a second from L2, microseconds of an exchange."""


def table() -> list[TimingCase]:
    """Every case, in an order of which any beginning is an even sample; training before inference."""
    grid = [
        TimingCase(cell, dtype, steps, batch, hidden, layers, trains)
        for cell in CELLS
        for dtype in DTYPES.values()
        for hidden in HIDDEN
        for batch in BATCHES
        for steps in STEPS
        for layers in LAYERS
        for trains in (True, False)
        if steps * layers * batch * hidden < 2**28  # what nn modules keep for a backward pass must fit
    ]
    random.Random(0).shuffle(grid)
    trained, forward = ([case for case in grid if case.trains == trains] for trains in (True, False))
    mixed = [case for pair in zip(*[iter(trained)] * 2, forward, strict=False) for case in pair]
    return [*NAMED, *(case for case in mixed if case not in NAMED)]


def floor(case: TimingCase) -> float:
    """Microseconds a step that no version can beat: an exchange, the bytes through L2, the products."""
    products = 2 * case.batch * case.hidden**2 * FORMS[case.cell].gates
    rate = PEAK if case.dtype is torch.bfloat16 else TF32_PEAK
    total = 0.0
    for task in tasks_of(case):
        plan = best(task, *_limits())
        assert plan is not None
        came = sum(task.depths()) * task.batch * plan.unit_blocks(task)
        total += ROUND + 1e6 * max(came / L2, products / rate)
    return total + 1e6 * products * (4 if case.trains else 1) / rate


def tasks_of(case: TimingCase) -> list[KernelTask]:
    kind = ElementKind.BF16 if case.dtype is torch.bfloat16 else ElementKind.TF32
    ways = (False, True) if case.trains else (False,)
    return [KernelTask(FORMS[case.cell], kind, round_up_units(case.hidden), case.batch, way) for way in ways]


def _limits() -> tuple[int, int]:
    return driver.limits(0) if torch.cuda.is_available() else (132, 227 * 1024)


def clock(case: TimingCase) -> dict[str, Any]:
    """Microseconds a step and layer, called and replayed: a `Stack` by what `auto` takes, and theirs."""
    per = case.steps * case.layers
    stack = Stack.of(cells := case.cells())
    ours, theirs = case.step(stack, stack), case.build_theirs()
    with torch.set_grad_enabled(case.trains):
        backend = choose_backend(cells[-1], case.data()[0], None, None, case.layers).name
    return {
        "backend": backend,
        "ours": microseconds(ours) / per,
        "theirs": microseconds(theirs) / per,
        "ours_replayed": microseconds(record_graph(ours)) / per,
        "theirs_replayed": microseconds(record_graph(theirs)) / per,
    }


def plain(case: TimingCase) -> dict[str, Any]:
    return {**asdict(case), "dtype": str(case.dtype).removeprefix("torch.")}


def case_of(numbers: dict[str, Any]) -> TimingCase:
    return TimingCase(**{**numbers, "dtype": getattr(torch, numbers["dtype"])})


def work() -> None:
    """The worker: a case a line on stdin, its figures or its fault a line on stdout."""
    for line in sys.stdin:
        try:
            found: dict[str, Any] = clock(case_of(json.loads(line)))
        except Exception as fault:  # recorded; a fault of the GPU ends the worker below
            found = {"error": f"{type(fault).__name__}: {str(fault).splitlines()[0] if str(fault) else ''}"}
        print(json.dumps(found), flush=True)
        torch.cuda.empty_cache()


class Worker:
    """A process that clocks, so that what goes wrong in it is gone with it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def clock(self, case: TimingCase) -> dict[str, Any]:
        """Its figures, or an error; after an error the next case has a new process."""
        if self.process is None:
            command = [sys.executable, "-m", "benchmarks.recurrence_gpu", "--worker"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(plain(case)) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SILENCE)
        line = self.process.stdout.readline() if ready else ""
        found = (
            json.loads(line)
            if line
            else {"error": "the process died" if ready else f"no word for {SILENCE:.0f} s"}
        )
        if "error" in found:
            self.end()
        return dict(found)

    def end(self) -> None:
        """Stop the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


def clocked(budget: float) -> list[dict[str, Any]]:
    """As much of the table as fits the budget, each case said as it is found."""
    start, cases, worker, rows = time.monotonic(), table(), Worker(), []
    compile_ahead(task for case in cases[: int(budget)] for task in tasks_of(case))
    print(
        f"{'':36}{'ours':>8}{'replay':>8}{'torch':>8}{'replay':>8}{'times':>7}{'replay':>7}{'model':>8}{'floor':>7}",
        file=sys.stderr,
    )
    for case in cases:
        if time.monotonic() - start > budget:
            break
        row = {**plain(case), **worker.clock(case), "floor": floor(case)}
        row["model"] = sum(
            expected(task, plan) for task in tasks_of(case) if (plan := best(task, *_limits()))
        )
        rows.append(row)
        print(_shown(case, row), file=sys.stderr, flush=True)
    worker.end()
    return rows


def _shown(case: TimingCase, row: dict[str, Any]) -> str:
    shape = f"T{case.steps} B{case.batch} H{case.hidden} L{case.layers}"
    name = f"{case.cell} {row['dtype']:8} {shape} {'trained' if case.trains else 'forward'}"
    if "error" in row:
        return f"{name:36} FAILED: {row['error']}"
    figures = [row[key] for key in ("ours", "ours_replayed", "theirs", "theirs_replayed")]
    ratios = figures[2] / figures[0], figures[3] / figures[1]
    return (
        f"{name:44}"
        + "".join(f"{figure:8.2f}" for figure in figures)
        + "".join(f"{ratio:7.2f}" for ratio in ratios)
        + f"{row['model']:8.2f}{row['floor']:7.2f}  {row['backend']}"
    )


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was promised and what was measured."""
    good, found = [row for row in rows if "error" not in row], []
    for dtype in DTYPES:
        for trains in (True, False):
            some = [row for row in good if row["dtype"] == dtype and row["trains"] == trains]
            called = [row["theirs"] / row["ours"] for row in some]
            again = [row["theirs_replayed"] / row["ours_replayed"] for row in some]
            name = f"{dtype} {'trained' if trains else 'forward'}, {len(some)} shapes"
            wanted = (4.0, 2.0, 1.0) if trains else (1.0, 1.0, 1.0)
            found += [
                _target(f"{name}: times nn modules called", mean(called), at_least=wanted[0]),
                _target(f"{name}: times nn modules replayed", mean(again), at_least=wanted[1]),
                _target(f"{name}: worst", min([*called, *again], default=math.nan), at_least=wanted[2]),
            ]
    by_case = {case_of({key: row[key] for key in plain(LONG)}): row for row in good}
    if LONG in by_case:
        found.append(_target("LSTM B16 H768 T1024 trained, us", by_case[LONG]["ours_replayed"], at_most=7.0))
    if (forward := replace(LONG, trains=False)) in by_case:
        found.append(
            _target("LSTM B16 H768 T1024 forward, us", by_case[forward]["ours_replayed"], at_most=2.5)
        )
    if AWD in by_case:
        ratio = by_case[AWD]["theirs_replayed"] / by_case[AWD]["ours_replayed"]
        found.append(_target("AWD-LSTM's shape, times replayed", ratio, at_least=2.5))
    found.append(
        {"name": "shapes that failed", "value": len(rows) - len(good), "met": len(rows) == len(good)}
    )
    return found


def _target(
    name: str, value: float, *, at_least: float | None = None, at_most: float | None = None
) -> dict[str, Any]:
    met = value >= at_least if at_least is not None else value <= (at_most or 0.0)
    return {"name": name, "value": round(value, 3), "target": at_least or at_most, "met": met}


def run(budget: float = 500.0) -> dict[str, Any]:
    """The whole benchmark, where there is a GPU."""
    if not torch.cuda.is_available():
        print("no GPU on this machine: nothing to clock", file=sys.stderr)
        return {"skipped": "no GPU"}
    rows = clocked(budget)
    targets = [*summary(rows), *over_bytes()]
    for target in targets:
        sign = "met" if target["met"] else "MISSED"
        line = f"{target['name']:58} {target['value']:8.3f}  {target.get('target', '')}  {sign}"
        print(line, file=sys.stderr)
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows, "targets": targets}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the reference instead of clocking")
    parser.add_argument("--tune", type=float, default=0.0, metavar="SECONDS", help="look for better plans")
    parser.add_argument("--budget", type=float, default=500.0, metavar="SECONDS")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    found: dict[str, Any] = {}
    if options.check or options.tune:
        from benchmarks import recurrence_gpu_check

        if options.check:
            found["failures"] = recurrence_gpu_check.check()
        if options.tune:
            found["plans"] = recurrence_gpu_check.tune(options.tune)
            print(json.dumps(found["plans"]))
    else:
        found = run(options.budget)
    if options.json:
        options.json.write_text(json.dumps(found), encoding="utf-8")
    return 1 if found.get("failures") else 0


if __name__ == "__main__":
    sys.exit(main())
