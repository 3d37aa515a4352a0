"""The GPU kernels against the loop of the equations in float64, and how good the chosen plans are.

`python -m benchmarks.recurrence_gpu --check` and `--plans SECONDS` run them.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import astuple, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu_timing import MAKERS, compile_ahead
from throughtime.cells import Cell
from throughtime.gpu import driver
from throughtime.gpu.elements import ElementKind, round_up_units
from throughtime.gpu.persistent import find_form, forget_programs, run_layers
from throughtime.gpu.persistent_choice import best, candidates, microseconds
from throughtime.gpu.persistent_plan import KernelTask, Plan
from throughtime.recurrence import scan

TOLERANCE = {"float32": 2e-5, "tf32": 5e-3, "bfloat16": 4e-2, "float16": 6e-3}
"""Of the norm of the difference, relative to float64, where numbers are not near zero altogether; the half
types round what is exchanged at each step."""
LOSSES = 6
"""Random functions whose gradients show how large a gradient usually is. With few units, the gradient of a
weight is a sum of many terms of both signs that may cancel by chance, though each of them is rounded."""
SHAPES = ((1, 1, 1), (9, 3, 5), (7, 17, 40), (33, 16, 256), (11, 20, 650), (5, 64, 1024), (3, 20, 2056))
FORMS = {name: form for name, make in MAKERS.items() if (form := find_form(make(1, 1))) is not None}

Everything = dict[str, Tensor]
Plans = tuple[Plan, Plan]  # forward and backward


def everything(
    cell: Cell,
    x: Tensor,
    state: tuple[Tensor, ...],
    lengths: Tensor | None,
    carry: Tensor | None,
    backend: str,
    plans: Plans | None = None,
) -> Everything:
    """Outputs, last state, and the gradients of a random function of both."""
    return _several(cell, x, state, lengths, carry, backend, 1, plans)[0]


def _several(
    cell: Cell,
    x: Tensor,
    state: tuple[Tensor, ...],
    lengths: Tensor | None,
    carry: Tensor | None,
    backend: str,
    losses: int,
    plans: Plans | None = None,
) -> list[Everything]:
    """The same for several random functions; `plans` are for the persistent kernels."""
    if plans is None:
        outputs, last = scan(cell, x, state, lengths, carry=carry, backend=backend)
    else:
        rows = None if lengths is None else lengths.to(x.device)
        outputs, last = run_layers([[cell]], x, state, rows, carry, plans=plans)
    source = torch.Generator(x.device).manual_seed(5)
    wanted = {"x": x, **{f"state{i}": part for i, part in enumerate(state)}, **cell.weights()}
    found = {"outputs": outputs, **{f"last{i}": part for i, part in enumerate(last)}}
    results = []
    for number in range(losses):
        loss = torch.zeros((), device=x.device, dtype=torch.float64)
        for part in (outputs, *last):
            loss = loss + (part.double() * torch.randn(part.shape, device=x.device, generator=source)).sum()
        gradients = torch.autograd.grad(loss, list(wanted.values()), retain_graph=number + 1 < losses)
        results.append({**found, **{f"d {name}": part for name, part in zip(wanted, gradients, strict=True)}})
    return results


def problem(
    make: Callable[[int, int], Cell],
    shape: tuple[int, int, int],
    dtype: torch.dtype,
    *,
    inputs: int = 24,
    ragged: bool = False,
    seed: int = 0,
    device: str = "cuda",
) -> tuple[Cell, Tensor, tuple[Tensor, ...], Tensor | None]:
    """A cell, its input, a state to begin with, and lengths, all drawn anew."""
    steps, batch, hidden = shape
    torch.manual_seed(seed)
    cell = make(inputs, hidden).to(device, dtype)
    draw = partial(torch.randn, device=device)
    x = draw(steps, batch, inputs).to(dtype).requires_grad_()
    state = tuple(draw(batch, size).to(dtype).requires_grad_() for size in cell.state_sizes)
    return cell, x, state, torch.randint(0, steps + 1, (batch,)) if ragged else None


def worst_error(
    make: Callable[[int, int], Cell],
    shape: tuple[int, int, int],
    precision: str,
    *,
    ragged: bool = False,
    backend: str = "persistent",
    seed: int = 0,
    device: str = "cuda",
    plans: Plans | None = None,
) -> tuple[str, float]:
    """Which output or gradient is worst, and its relative error against the reference in float64."""
    dtype = torch.float32 if precision == "tf32" else getattr(torch, precision)
    before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, precision == "tf32"
    try:
        cell, x, state, lengths = problem(make, shape, dtype, ragged=ragged, seed=seed, device=device)
        carry = torch.rand(shape[:2], device=device).to(dtype) + 0.5 if ragged else None
        ours = everything(cell, x, state, lengths, carry, backend, plans)
    finally:
        torch.backends.cudnn.allow_tf32 = before
    exact = make(cell.input_size, cell.hidden_size).to(device, torch.float64)
    exact.load_state_dict(cell.state_dict())
    double = [part.detach().double().requires_grad_() for part in (x, *state)]
    factors = None if carry is None else carry.double()
    truths = _several(exact, double[0], tuple(double[1:]), lengths, factors, "reference", LOSSES)
    errors = {
        name: float((ours[name].double() - value).detach().norm() / _size([truth[name] for truth in truths]))
        for name, value in truths[0].items()
    }
    wrong = [name for name, error in errors.items() if not error < float("inf")]
    name = wrong[0] if wrong else max(errors, key=errors.__getitem__)
    return name, errors[name]


def _size(values: list[Tensor]) -> Tensor:
    """The norm of such a value, in the root mean square; at least that of numbers of 0.2."""
    squares = torch.stack([value.detach().square().sum() for value in values])
    return squares.mean().sqrt().clamp(min=0.2 * values[0].numel() ** 0.5)


def check() -> list[dict[str, Any]]:
    """Every cell, precision and shape, full and ragged; what is wrong or fails is said and returned."""
    compile_ahead(
        KernelTask(form, kind, round_up_units(hidden), batch, backward)
        for form in FORMS.values()
        for kind in ElementKind
        for _, batch, hidden in SHAPES
        for backward in (False, True)
    )
    failures, count = [], 0
    for name, precision, shape, ragged in itertools.product(MAKERS, TOLERANCE, SHAPES, (False, True)):
        backend = "persistent" if name in FORMS else "linear"
        if backend == "linear" and (precision == "tf32" or shape[2] % 2):
            continue
        count += 1
        try:
            part, error = worst_error(MAKERS[name], shape, precision, ragged=ragged, backend=backend)
            said = "" if error < TOLERANCE[precision] else f"{part} is off by {error:.2g}"
        except Exception as fault:  # whatever it is, the others are to be checked too
            said = f"{type(fault).__name__}: {str(fault).splitlines()[0] if str(fault) else ''}"
        if said:
            failures.append(
                {"cell": name, "precision": precision, "shape": shape, "ragged": ragged, "said": said}
            )
            print("WRONG", failures[-1], file=sys.stderr, flush=True)
            if lost():
                print("the GPU is lost to this process: the rest goes unchecked", file=sys.stderr)
                break
    print(f"{count - len(failures)} of {count} equal the reference", file=sys.stderr, flush=True)
    return failures


def lost() -> bool:
    """Whether the GPU answers no more, as after a trap: every later call would fail."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def time_kernel(task: KernelTask, plans: tuple[Plan, Plan], steps: int = 128, times: int = 7) -> float:
    """Microseconds a step of the kernel alone."""
    make = next(MAKERS[name] for name, form in FORMS.items() if form is task.form)
    dtype = {ElementKind.BF16: torch.bfloat16, ElementKind.F16: torch.float16}.get(task.kind, torch.float32)
    cell, x, state, _ = problem(make, (steps, task.batch, task.width), dtype)
    taken: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
    build = driver.build

    def watched(name: str, *others: Any, **options: Any) -> driver.LaunchKernel:
        kernel = build(name, *others, **options)
        if name != ("backward" if task.backward else "forward"):
            return kernel

        def launch(count: int, arguments: Any, stream: int | None = None) -> None:
            events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(300_000)  # so that the launch is queued before the clock starts
            events[0].record()
            kernel(count, arguments, stream)
            events[1].record()
            taken.append(events)

        return launch

    driver.build = watched
    forget_programs()
    try:
        with torch.backends.cudnn.flags(allow_tf32=task.kind is not ElementKind.FLOAT):
            for _ in range(times):
                outputs, _ = run_layers([[cell]], x, state, None, plans=plans)
                if task.backward:
                    torch.autograd.grad(outputs.float().sum(), x)
        torch.cuda.synchronize()
    finally:
        driver.build = build
        forget_programs()
    return statistics.median(1e3 * float(start.elapsed_time(end)) / steps for start, end in taken[2:])


def compare_plans(seconds: float, tried: int = 4, seed: int = 0) -> list[dict[str, Any]]:
    """Time the first plans of random tasks for some seconds; compare the first with the fastest."""
    from benchmarks.recurrence_gpu import draw_cases

    tasks = list(dict.fromkeys(task for case in draw_cases(seed, 200) for task in case.list_tasks()))
    tasks = tasks[: max(4, int(seconds))]
    compile_ahead(tasks, plans=tried)
    limits, end = driver.limits(torch.cuda.current_device()), time.monotonic() + seconds
    rows: list[dict[str, Any]] = []
    for task in tasks:
        if time.monotonic() > end or lost():
            break
        usual = [best(replace(task, backward=way), *limits) for way in (False, True)]
        if None in usual:
            continue
        for rank, plan in enumerate(candidates(task, *limits)[:tried]):
            both = (usual[False], plan) if task.backward else (plan, usual[True])
            try:
                step = time_kernel(task, both, steps=64, times=5)  # type: ignore[arg-type]
            except Exception as error:
                print(f"{task} {plan}: {error}", file=sys.stderr, flush=True)
                break
            rows.append(
                {
                    "task": [int(part) for part in astuple(task)],
                    "rank": rank,
                    "plan": astuple(plan),
                    "microseconds": step,
                    "expected": microseconds(task, plan),
                }
            )
    times: dict[tuple[int, ...], list[float]] = {}
    for row in rows:
        times.setdefault(tuple(row["task"]), []).append(row["microseconds"])
    losses = [found[0] / min(found) for found in times.values()]
    errors = [math.log(row["expected"] / row["microseconds"]) for row in rows]
    if rows:
        print(
            f"{len(losses)} tasks: the chosen plan takes {statistics.mean(losses):.3f} times as long as the "
            f"fastest of {tried} (at most {max(losses):.2f}); the expected time of {len(rows)} plans is "
            f"{math.exp(statistics.mean(errors)):.2f} of the measured, with a spread of "
            f"{statistics.pstdev(errors):.0%}",
            file=sys.stderr,
        )
    return rows
