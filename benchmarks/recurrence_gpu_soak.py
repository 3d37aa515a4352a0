"""Random shapes and plans of the persistent kernels: each equals the reference and is launched many times.

`python -m benchmarks.recurrence_gpu_soak [--seconds 60] [--seed 0]` ends with status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from benchmarks.recurrence_gpu_check import TOLERANCE, Plans, everything, lost, problem, worst_error
from throughtime.cells import GRU, LSTM, RNN, Cell
from throughtime.gpu import driver
from throughtime.gpu.elements import ElementKind, round_up_units
from throughtime.gpu.persistent import find_form
from throughtime.gpu.persistent_call import FILES
from throughtime.gpu.persistent_choice import candidates
from throughtime.gpu.persistent_plan import KernelTask

CELLS: dict[str, Callable[[int, int], Cell]] = {
    "rnn": RNN,
    "rnn-relu": partial(RNN, activation="relu"),
    "gru": GRU,
    "gru-before": partial(GRU, reset="before"),
    "lstm": LSTM,
}
KINDS = dict(zip(TOLERANCE, ElementKind, strict=True))
REPEATS = 40
"""How often a shape is launched again, forward and backward, to give the same bits."""


class SoakCase(NamedTuple):
    """One shape with plans of any speed, so that all of them are tried."""

    name: str
    precision: str
    shape: tuple[int, int, int]
    ragged: bool
    plans: Plans
    tasks: tuple[KernelTask, KernelTask]


def draw_case(seed: int, limits: tuple[int, int]) -> SoakCase:
    """Draw a cell, a precision, sizes from 1 on, and any plan that fits."""
    source = random.Random(seed)
    name, precision = source.choice([*CELLS]), source.choice([*TOLERANCE])
    if name == "rnn-relu":
        precision = "float32"  # rounded, a sum near its corner may fall on the other side
    batch, hidden = (round(math.exp(source.uniform(0, math.log(most)))) for most in (200, 1300))
    form = find_form(CELLS[name](1, 1))
    assert form is not None
    tasks = [KernelTask(form, KINDS[precision], round_up_units(hidden), batch, way) for way in (False, True)]
    forward, backward = (source.choice(candidates(task, *limits)) for task in tasks)
    shape = source.randint(1, 24), batch, hidden
    return SoakCase(name, precision, shape, source.random() < 0.5, (forward, backward), (tasks[0], tasks[1]))


def run_case(case: SoakCase, repeats: int = REPEATS) -> str | None:
    """Compare a case with the reference and repeat it among other work; return what is wrong, or None."""
    make = CELLS[case.name]
    part, error = worst_error(make, case.shape, case.precision, ragged=case.ragged, plans=case.plans)
    if not error < TOLERANCE[case.precision]:
        return f"{part} is off by {error:.2g}"
    dtype = torch.float32 if case.precision == "tf32" else getattr(torch, case.precision)
    with torch.backends.cudnn.flags(allow_tf32=case.precision != "float32"):
        cell, x, state, lengths = problem(make, case.shape, dtype, ragged=case.ragged)
        aside = torch.cuda.Stream()
        first = everything(cell, x, state, lengths, None, "persistent", case.plans)
        for _ in range(repeats):
            with torch.cuda.stream(aside):  # so that blocks start at different times
                torch.randn(1 << 16, device="cuda").sort()
            again = everything(cell, x, state, lengths, None, "persistent", case.plans)
            different = [name for name in first if not torch.equal(first[name], again[name])]
            if different:
                return f"{different} differ from run to run"
    return None


def soak(seconds: float, seed: int = 0) -> list[str]:
    """Run cases for this number of seconds; print and return what is wrong."""
    end, limits = time.monotonic() + seconds, driver.limits(torch.cuda.current_device())
    cases = [draw_case(seed * 1000 + number, limits) for number in range(max(4, int(seconds)))]
    capability = torch.cuda.get_device_capability()
    work = [(case, way, capability) for case in cases for way in (False, True)]
    with multiprocessing.get_context("spawn").Pool(min(14, os.cpu_count() or 1)) as pool:
        pool.starmap(_compile, work, chunksize=2)
    wrong, done = [], 0
    for case in cases:
        if time.monotonic() > end:
            break
        try:
            said = run_case(case)
        except Exception as error:  # the other cases run after any error
            said = f"{type(error).__name__}: {error}"
        done += 1
        if said is not None:
            wrong.append(f"{case}: {said}")
            print("WRONG", wrong[-1], flush=True)
        if lost():
            print("the GPU is lost to this process", flush=True)
            break
    launches = done * 2 * (REPEATS + 2)
    print(f"{done} of {len(cases)} cases, {launches:,} launches, {len(wrong)} wrong", flush=True)
    return wrong


def _compile(case: SoakCase, backward: bool, capability: tuple[int, int]) -> None:
    source = driver.text((*FILES, "backward.cu" if backward else "forward.cu"))
    driver.machine_code(source, case.plans[backward].constants(case.tasks[backward]), capability)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sys.exit(bool(soak(arguments.seconds, arguments.seed)))


if __name__ == "__main__":
    main()
