"""Plans for a persistent recurrence on a GPU: which block holds which weights and which rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import IntEnum

from throughtime.gpu.elements import ElementKind

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

    @property
    def num_loaded(self) -> int:
        """Number of values per unit that a step needs from memory."""
        kept = {Form.TANH: 1, Form.RELU: 1, Form.GRU_BEFORE: 2}.get(self.form, 3) if self.backward else 0
        return self.form.gates + kept

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
    rows: int = 8  # rows of the batch in one pass, a multiple of 8; at most 8 if a block is alone
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
    alone: bool = False  # a block has all units: what a step gives goes to the next through shared memory
    groups: int = 1  # groups of warps, to which the rows of the weights are dealt

    @property
    def parts(self) -> int:
        """Number of parts into which the inner dimension is cut, one for each warp of a group."""
        return self.warps // self.groups

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
        """Number of instructions with 16 rows of weights that a warp needs for some gates."""
        return -(-gates * self.units // 16 // self.groups)

    @property
    def own_tiles(self) -> int:
        """The same for one gate of the units that a block finishes."""
        return -(-self.units // self.split // 16)

    @property
    def tasks(self) -> int:
        """Number of tasks of all warps, each a pair of units of a row for every lane."""
        if self.alone:
            return -(-self.rows * self.units // 2 // LANES)
        return self.own_tiles * (self.rows // 8) * 2

    def chunks_per_warp(self, depth: int) -> int:
        """Number of chunks of the inner dimension per warp."""
        return -(-depth // (CHUNK * self.parts))

    def chunk_bytes(self, gates: int) -> int:
        """Bytes of shared memory for one chunk of the weights of every warp."""
        return self.tiles(gates) * 2 * self.warps * LANES * 16

    def working_bytes(self, task: KernelTask) -> int:
        """Bytes of shared memory without weights.

        These are partial sums of the warps, running values and row lengths; if a block is alone, also rows to
        hand on and what the next steps need from memory.
        """
        ends, running = -(-self.passes * self.rows // 4) * 16, 2 * self.passes * self.tasks * LANES * 8
        tiles = self.tiles(task.tiles)
        if self.alone:
            shares = self.parts * self.rows * (tiles * self.groups * 8 + 2) * 8
            pitch = (-(-self.count_kept(task) * task.kind.size // CHUNK) | 1) * CHUNK
            later = STEPS_AHEAD * task.num_loaded * self.tasks * LANES * 2 * task.kind.size
            return shares + running + ends + self.rows * pitch + later
        return self.warps * tiles * (self.rows // 8) * 2 * LANES * 8 + running + ends

    def count_kept(self, task: KernelTask) -> int:
        """Return how many numbers a row has that a block with all units hands on to its next product."""
        if not self.alone:
            return 0
        return task.width * (task.form.gates if task.backward else 1 + (task.form is Form.GRU_BEFORE))

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
        """Return the constants that the source of the kernel needs."""
        own = {name.upper(): int(value) for name, value in asdict(self).items() if name != "pause"}
        values = {"CELL": int(task.form), "KIND": int(task.kind), "WIDTH": task.width}
        values |= {"DIRECTIONS": task.directions, "KEPT": self.count_kept(task), "LOADED": task.num_loaded}
        return {**values, **own, "SHARED_BYTES": self.shared_bytes(task)}


REGISTERS = 65536
WORKING, WORKING_PER_TILE, WORKING_ROLLED, WORKING_AHEAD = 56, 6, 8, 12
"""Registers a thread needs beside weights, sums and loads; for each 8 rows; for a loop over what registers do
not hold; for looking ahead with three passes or more. With these few plans spill, and some words only."""
LOADS = (48, 24, 12)
"""Registers for the part of the state that is being loaded: the fewer, the more weights can be held."""
STEPS_AHEAD = 4
"""Steps for which a block that has all units keeps what they need from memory."""
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
    groups: int | None = None,
) -> Plan | None:
    """Return a plan that keeps as many weights on the chip as fit, or None if nothing fits.

    With `groups` it is a plan for a block that has all units.
    """
    alone = groups is not None
    plan = Plan(units, rows, passes, warps, split=split, alone=alone, groups=groups or 1)
    chunks, chunks_n = (plan.chunks_per_warp(depth) for depth in plan.depths(task))
    tiles, tiles_n, row_tiles = plan.tiles(task.tiles), plan.tiles(1), -(-rows // 8)
    sums = max(16, tiles * row_tiles * 4)
    free = min(255, REGISTERS // (LANES * warps)) - WORKING - WORKING_PER_TILE * row_tiles - sums
    free -= WORKING_AHEAD if passes > 2 else 0
    batch = min(chunks, max(1, loads // (4 * row_tiles)))
    while (left := free - _loads(batch, row_tiles, 0 if alone else chunks)) < 0 and batch > 1:
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
        if alone:
            return None
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
