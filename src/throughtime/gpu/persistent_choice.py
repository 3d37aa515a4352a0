"""Which plan of a persistent recurrence is expected to be fastest, and how the layers of a stack run.

They run one after the other, or side by side in spans: a layer needs only what the layer below has reached,
so that while it runs one span of steps, the layer above can run the span before it. Layers then share the
multiprocessors; a step is limited by latency, so that with fewer of them it takes little longer, as long as
the weights fit.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from typing import NamedTuple

from throughtime.gpu.elements import ElementKind
from throughtime.gpu.persistent_plan import LOADS, Form, KernelTask, Plan, fit_plan


def _list_alone(task: KernelTask, multiprocessors: int, shared_limit: int) -> list[Plan]:
    """Return the plans for blocks that have all units, each for as few rows as possible."""
    rows = -(-task.batch // multiprocessors) if multiprocessors else 9
    if rows > 8:
        return []
    found = [
        fit_plan(task, task.width, rows, 1, warps, shared_limit, loads=LOADS[1], groups=groups)
        for warps in (4, 6, 8, 10)
        for groups in range(2, warps + 1)
        if warps % groups == 0
    ]
    return [plan for plan in found if plan is not None]


def candidates(task: KernelTask, multiprocessors: int, shared_limit: int) -> list[Plan]:
    """Return all plans with one multiprocessor per block, those expected to be fastest first."""
    plans: dict[Plan, None] = dict.fromkeys(_list_alone(task, multiprocessors, shared_limit))
    for units, split in _choose_units(task):
        groups = multiprocessors // (-(-task.width // units) * split)
        for rows in (8, 16, 24, 32):
            if not groups or (rows > 8 and rows - 8 >= task.batch):
                continue
            passes = -(-task.batch // (rows * groups))
            for warps, loads in itertools.product((8, 16), LOADS):
                plan = fit_plan(task, units, rows, passes, warps, shared_limit, split=split, loads=loads)
                if plan is not None:
                    plans[replace(plan, pause=_pause(task, plan))] = None
    return sorted(plans, key=lambda plan: microseconds(task, plan))


def _choose_units(task: KernelTask) -> list[tuple[int, int]]:
    """Return how many units a block may have, and how many blocks may share them.

    Their gates must fill the 16 rows of each instruction, or nearly so. Blocks can split a product between
    gates; a second product, as a GRU with reset before has, would have to be split too.
    """
    gates, most = task.tiles, 64 if task.backward else 32
    pairs = [units for units in range(4, most + 1, 2) if -gates * units % 16 * 8 <= gates * units]
    splits = (
        [1] if task.form is Form.GRU_BEFORE or not task.backward else range(1, task.form.num_fed_gates + 1)
    )
    return [
        (units, split)
        for split in splits
        for units in pairs
        if task.form.num_fed_gates % split == 0 and units % (2 * split) == 0 and (split > 1 or units <= 32)
    ]


def _pause(task: KernelTask, plan: Plan) -> int:
    """Return the pause before a block first looks for the state; with several passes it needs none."""
    if plan.passes > 1:
        return 0
    return next(pause for most, pause in PAUSES if microseconds(task, plan) < most)


@functools.cache
def best(task: KernelTask, multiprocessors: int, shared_limit: int) -> Plan | None:
    """Return the plan expected to be fastest, or None if no plan fits the GPU."""
    plans = candidates(task, multiprocessors, shared_limit)
    return plans[0] if plans else None


class StepCost(NamedTuple):
    """Expected microseconds of a step on an H200."""

    latency: float  # exchanges, and what waits for what
    traffic: float  # bytes and products


PASS, GATE, ROUNDING, SPLITTING, UNFILLED = 0.097, 0.0305, 0.015, 0.98, 0.15
"""Microseconds of a pass, of a gate that a thread computes, of rounding 8 rows of a chunk to tf32, of what
blocks that share their units give each other, and of units that are no multiple of 16."""
WAITING = {1: 0.58, 2: 0.30}
"""Microseconds until the next step sees what a pass leaves, by the number of passes; more fill this time."""
OWN_BYTE, STREAMED_BYTE, STAGED_BYTE, SHARED_BYTE = 1.72e-5, 1.46e-5, 2.59e-6, 5.5e-6
INSTRUCTION, MEMORY_BYTE = 5.66e-3, 2.03e-7
"""Microseconds of a byte that a block takes from L2, that it streams, of staged weights and of the warps'
shares; of a matrix instruction of a quarter of a multiprocessor; of a byte that all blocks read or write."""
LAUNCH, OWN_WEIGHT, ALL_WEIGHTS = 1.53, 2.1e-6, 4.3e-7
"""Microseconds of a launch, and of a byte of weights that a block and that all blocks read at the start.

All of them are fitted to 770 kernels measured on an H200, but for SPLITTING and UNFILLED: those make the
plans that are chosen for 249 of these kernels the fastest. The time of a kernel is predicted within 11 % (one
standard deviation), and the plan that would be chosen among the first few is 3 % slower than the fastest.
"""
ALONE_PRODUCT, ALONE_LOADED, ALONE_INSTRUCTION, ALONE_STAGED_BYTE = 0.232, 0.0431, 4.02e-3, 3.07e-6
"""Microseconds in a block that has all units: of a product and what follows it, of a value that a lane
needs from memory, of a matrix instruction of a quarter of a multiprocessor, and of a byte of staged weights.

They are fitted to 330 kernels measured on an H200, with a standard deviation of 9 %; the chosen plans are 1 %
slower than the fastest.
"""
PAUSES = ((1.7, 200), (3.0, 400), (math.inf, 700))
"""Clock cycles to pause, by the upper bound on the microseconds of a step."""


def estimate_step(task: KernelTask, plan: Plan) -> StepCost:
    """Return the expected time of a step: first it waits, then it multiplies."""
    tasks, traffic = -(-plan.tasks // plan.warps), 0.0
    if plan.alone:
        latency = ALONE_LOADED * task.num_loaded * tasks
    else:
        latency = SPLITTING * (plan.split > 1) + UNFILLED * (plan.units % 16 > 0)
    for gates, depth, held, staged in zip(
        (task.tiles, 1),
        plan.depths(task),
        (plan.held, plan.held_n),
        (plan.staged, plan.staged_n),
        strict=True,
    ):
        if not depth:
            continue
        each, tiles, row_tiles = plan.chunks_per_warp(depth), plan.tiles(gates), -(-plan.rows // 8)
        chunk = plan.chunk_bytes(gates)
        thrice = 3 if task.kind is ElementKind.FLOAT else 1
        if plan.alone:
            latency += ALONE_PRODUCT
            traffic += ALONE_INSTRUCTION * thrice * each * tiles * plan.warps / 2
            traffic += ALONE_STAGED_BYTE * chunk * min(staged, each - held)
            continue
        latency += PASS + WAITING.get(plan.passes, 0.0) + GATE * tasks * task.form.gates
        latency += ROUNDING * each * row_tiles if task.kind <= ElementKind.TF32 else 0.0
        traffic += OWN_BYTE * min(plan.rows, task.batch) * depth
        traffic += STREAMED_BYTE * max(0, each - held - staged) * chunk
        traffic += INSTRUCTION * thrice * each * tiles * row_tiles * plan.warps / 2
        traffic += STAGED_BYTE * chunk * min(staged, each - held)
        traffic += SHARED_BYTE * plan.warps * tiles * row_tiles * 512
    moved = task.batch * task.width * task.kind.size * (2 * task.form.gates + 2)
    return StepCost(latency * plan.passes, traffic * plan.passes + MEMORY_BYTE * moved)


def microseconds(task: KernelTask, plan: Plan) -> float:
    """Return the expected time of a step, by which `candidates` sorts."""
    return sum(estimate_step(task, plan))


def estimate_start(task: KernelTask, plan: Plan) -> float:
    """Return the expected time of a launch and of what its blocks do before the first step, on an H200."""
    first, second = plan.depths(task)
    own = plan.units * (task.tiles * first + second)
    return LAUNCH + OWN_WEIGHT * own + ALL_WEIGHTS * own * plan.unit_blocks(task)


SPANS = (1, 2, 3, 4, 6, 8, 12, 16)
"""The numbers of spans that are compared."""
MIN_STEPS, MIN_MICROSECONDS_OF_LARGE = 4, 60.0
"""Minimum number of steps of a span; and its minimum time, in microseconds on an H200, in a call that is not
replayed when it is called: there the host launches each span."""
MAX_REPLAYED_BYTES = 128 << 20
"""Bytes of memory of a call that is replayed: those that need more keep the GPU busy for longer."""
FOR_PRODUCTS = 8
"""One multiprocessor in this number is left to the products between the layers."""
BESIDE = 1.1
"""How many times as long steps take if directions or layers run side by side and share the cache."""
NEXT_SPAN = 6.0
"""Microseconds of the product of a span, and until a launch on another stream sees it, on an H200."""


class Arrangement(NamedTuple):
    """How all layers of a pass run."""

    plan: Plan
    spans: int = 1  # of a layer
    beside: int = 1  # directions of a layer that one launch runs side by side

    def estimate(self, task: KernelTask, layers: int, steps: int) -> float:
        """Return the expected microseconds on an H200."""
        each = -(-steps // self.spans) * microseconds(task, self.plan)
        each *= BESIDE if self.spans > 1 or self.beside > 1 else 1.0
        each += estimate_start(task, self.plan)
        if self.spans > 1:
            return (self.spans + layers - 1) * (each + NEXT_SPAN)
        return layers * (task.directions // self.beside) * each


@functools.cache
def arrange(
    task: KernelTask, layers: int, steps: int, multiprocessors: int, shared: int
) -> Arrangement | None:
    """Return the arrangement that is expected to be fastest; None if no plan fits the GPU.

    Both directions of a layer can run side by side. The layers of a stack can only if it has one direction:
    otherwise a layer begins where the one below ends.
    """
    found = []
    for beside in range(1, 1 + task.directions):
        plan = best(task, multiprocessors // beside, shared)
        if plan is not None:
            found.append(Arrangement(plan, beside=beside))
    if layers > 1 and task.directions == 1:
        plan = best(task, multiprocessors * (FOR_PRODUCTS - 1) // FOR_PRODUCTS // layers, shared)
        if plan is not None:
            time = steps * microseconds(task, plan)
            large = 2 * _count_bytes(task, layers, steps) > MAX_REPLAYED_BYTES
            most = time / MIN_MICROSECONDS_OF_LARGE if large else steps / MIN_STEPS
            found += [Arrangement(plan, spans) for spans in SPANS if 1 < spans <= most]
    return min(found, key=lambda one: one.estimate(task, layers, steps), default=None)


def _count_bytes(task: KernelTask, layers: int, steps: int) -> int:
    """Return the memory of a training call, roughly: what it keeps of each step, weights and gradients."""
    kept, copies = task.form.gates + task.form.slots + 3, 8 * task.form.gates
    return layers * task.width * task.kind.size * (steps * task.batch * kept + copies * task.width)
