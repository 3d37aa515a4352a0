"""Plans for a persistent recurrence on a GPU: which block holds which weights and which rows."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from throughtime.kernels.elements import ElementKind

LANES = 32
CHUNK = 64
"""Bytes of the inner dimension of a product that one warp processes at once."""


class Form(IntEnum):
    """The equations that the kernels have."""

    TANH = 0
    RELU = 1
    GRU_AFTER = 2
    GRU_BEFORE = 3
    LSTM = 4

    @property
    def gates(self) -> int:
        """Number of sums per unit."""
        return (1, 1, 3, 3, 4)[self]

    @property
    def slots(self) -> int:
        """Number of gradients of sums per unit: a GRU with reset after the product has one more."""
        return 4 if self is Form.GRU_AFTER else self.gates

    @property
    def parts(self) -> int:
        """Number of tensors of the state: an LSTM has two."""
        return 2 if self is Form.LSTM else 1

    @property
    def num_fed_gates(self) -> int:
        """Number of gates that the state feeds in the first product."""
        return 2 if self is Form.GRU_BEFORE else self.gates


@dataclass(frozen=True)
class KernelTask:
    """What to run, forward or backward."""

    form: Form
    kind: ElementKind
    width: int  # hidden units, a multiple of 8
    batch: int
    backward: bool
    directions: int = 1  # of the layer; their rows lie side by side

    @property
    def tiles(self) -> int:
        """Number of gates per unit that one product yields."""
        return 1 if self.backward else self.form.num_fed_gates

    def depths(self) -> tuple[int, int]:
        """Bytes of the inner dimension of the product of a step, and of its second product (0 if none)."""
        state = self.width * self.kind.size
        return state * (self.form.num_fed_gates if self.backward else 1), state * (
            self.form is Form.GRU_BEFORE
        )


@dataclass(frozen=True)
class Plan:
    """The numbers a kernel is compiled with."""

    units: int = 16  # hidden units whose sums a block computes, an even number
    rows: int = 8  # rows of the batch in one pass, a multiple of 8
    passes: int = 1  # passes a block makes at each step
    warps: int = 8
    held: int = 0  # chunks of a warp's weights in registers
    staged: int = 0  # and in shared memory
    held_n: int = 0  # the same of a step's second product
    staged_n: int = 0
    ring: int = 0  # chunks in shared memory through which the remaining weights stream
    batch: int = 2  # chunks of the state under way at a time
    pause: int = 0  # clock cycles before a block first looks for what the others give
    split: int = 1  # blocks that share their units, each for some of the gates (backward only)

    def blocks(self, task: KernelTask) -> int:
        """Number of blocks of a launch."""
        return self.unit_blocks(task) * -(-task.batch // (self.rows * self.passes))

    def unit_blocks(self, task: KernelTask) -> int:
        """Number of blocks that share the units of one group of rows."""
        return -(-task.width // self.units) * self.split

    def depths(self, task: KernelTask) -> tuple[int, int]:
        """Bytes of the inner dimension of the product of a block, and of its second product (0 if none)."""
        first, second = task.depths()
        return first // self.split, second

    def tiles(self, gates: int) -> int:
        """Number of instructions with 16 rows of weights that the units of a block need for some gates."""
        return -(-gates * self.units // 16)

    @property
    def own_tiles(self) -> int:
        """The same for one gate of the units that a block finishes."""
        return -(-self.units // self.split // 16)

    def chunks_per_warp(self, depth: int) -> int:
        """Number of chunks of the inner dimension per warp."""
        return -(-depth // (CHUNK * self.warps))

    def chunk_bytes(self, gates: int) -> int:
        """Bytes of shared memory for one chunk of the weights of every warp."""
        return self.tiles(gates) * 2 * self.warps * LANES * 16

    def working_bytes(self, task: KernelTask) -> int:
        """Bytes of shared memory without weights: partial sums of the warps, running values, row lengths."""
        row_tiles = self.rows // 8
        shares = self.warps * self.tiles(task.tiles) * row_tiles * 2 * LANES * 8
        return (
            shares
            + 2 * self.passes * self.own_tiles * row_tiles * 2 * LANES * 8
            + self.passes * self.rows * 4
        )

    def shared_bytes(self, task: KernelTask) -> int:
        """Bytes of shared memory of a block."""
        first, second = self.depths(task)
        weights = self.chunk_bytes(task.tiles) * self._count_chunks(
            self.chunks_per_warp(first), self.held, self.staged
        )
        weights += self.chunk_bytes(1) * self._count_chunks(
            self.chunks_per_warp(second), self.held_n, self.staged_n
        )
        return self.working_bytes(task) + weights

    def _count_chunks(self, each: int, held: int, staged: int) -> int:
        """Number of chunks in shared memory, including the ring."""
        left = max(0, each - held)
        return left if left <= staged else staged + self.ring

    def constants(self, task: KernelTask) -> dict[str, int]:
        """The constants that the source of the kernel needs."""
        own = {name.upper(): value for name, value in asdict(self).items() if name != "pause"}
        values = {"CELL": int(task.form), "KIND": int(task.kind), "WIDTH": task.width}
        values["DIRECTIONS"] = task.directions
        return {**values, **own, "SHARED_BYTES": self.shared_bytes(task)}


REGISTERS = 65536
WORKING, WORKING_PER_TILE, WORKING_ROLLED, WORKING_AHEAD = 56, 6, 8, 12
"""Registers a thread needs beside weights, sums and loads; for each 8 rows; for a loop over what registers do
not hold; for looking ahead with three passes or more. With these few plans spill, and some words only."""
LOADS = (48, 24, 12)
"""Registers for the part of the state that is being loaded: the fewer, the more weights can be held."""
RING_BYTES = 32768
"""Bytes of shared memory through which weights stream that do not fit on the chip."""


def fit_plan(
    task: KernelTask,
    units: int,
    rows: int,
    passes: int,
    warps: int,
    shared_limit: int,
    *,
    split: int = 1,
    loads: int = LOADS[0],
) -> Plan | None:
    """Return a plan that keeps as many weights on the chip as fit, or None if nothing fits."""
    plan = Plan(units, rows, passes, warps, split=split)
    chunks, chunks_n = (plan.chunks_per_warp(depth) for depth in plan.depths(task))
    tiles, tiles_n, row_tiles = plan.tiles(task.tiles), plan.tiles(1), rows // 8
    sums = max(16, tiles * row_tiles * 4)
    free = min(255, REGISTERS // (LANES * warps)) - WORKING - WORKING_PER_TILE * row_tiles - sums
    free -= WORKING_AHEAD if passes > 2 else 0
    batch = min(chunks, max(1, loads // (4 * row_tiles)))
    while (left := free - _loads(batch, row_tiles, chunks)) < 0 and batch > 1:
        batch -= 1
    room = shared_limit - plan.working_bytes(task)
    if left < 0 or room < 0:
        return None
    if chunks * tiles * 8 > left:
        left -= WORKING_ROLLED
    held = min(chunks, max(0, left) // (tiles * 8))
    left -= held * tiles * 8
    held_n = min(chunks_n, max(0, left) // (tiles_n * 8))
    wanted, wanted_n = chunks - held, chunks_n - held_n
    ring, chunk, chunk_n = 0, plan.chunk_bytes(task.tiles), plan.chunk_bytes(1)
    staged, staged_n = wanted, wanted_n
    if wanted * chunk + wanted_n * chunk_n > room:
        ring = max(2, RING_BYTES // chunk)
        room -= ring * (chunk + (chunk_n if wanted_n else 0))
        staged = min(wanted, room // chunk)
        staged_n = min(wanted_n, (room - staged * chunk) // chunk_n)
        if room < 0:
            return None
    return replace(plan, held=held, staged=staged, held_n=held_n, staged_n=staged_n, ring=ring, batch=batch)


def _loads(batch: int, row_tiles: int, each: int) -> int:
    """Return the registers for loading the state: one batch loads while another is multiplied."""
    return batch * row_tiles * 4 * (2 if each > batch else 1)


def candidates(task: KernelTask, multiprocessors: int, shared_limit: int) -> list[Plan]:
    """Return all plans with one multiprocessor per block, those expected to be fastest first."""
    plans: dict[Plan, None] = {}
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
PAUSES = ((1.7, 200), (3.0, 400), (math.inf, 700))
"""Clock cycles to pause, by the upper bound on the microseconds of a step."""


def estimate_step(task: KernelTask, plan: Plan) -> StepCost:
    """Return the expected time of a step: first it waits, then it multiplies."""
    latency, traffic = SPLITTING * (plan.split > 1) + UNFILLED * (plan.units % 16 > 0), 0.0
    tasks = -(-(plan.own_tiles * plan.rows // 8 * 2) // plan.warps)
    for gates, depth, held, staged in zip(
        (task.tiles, 1),
        plan.depths(task),
        (plan.held, plan.held_n),
        (plan.staged, plan.staged_n),
        strict=True,
    ):
        if not depth:
            continue
        each, tiles, row_tiles = plan.chunks_per_warp(depth), plan.tiles(gates), plan.rows // 8
        chunk = plan.chunk_bytes(gates)
        thrice = 3 if task.kind is ElementKind.FLOAT else 1
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
