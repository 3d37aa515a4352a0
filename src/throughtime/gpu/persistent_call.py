"""What one call of the persistent kernels is, apart from its tensors, and the kernels that it launches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch

from throughtime.gpu.batched_copies import FROM_FLOAT, NO_CONVERSION, TO_FLOAT, At
from throughtime.gpu.elements import ElementKind, round_up_units
from throughtime.gpu.persistent_choice import Arrangement, arrange
from throughtime.gpu.persistent_plan import Form, KernelTask, Plan

if TYPE_CHECKING:
    from throughtime.gpu import driver


FILES = ("primitives.cuh", "elements.cuh", "product.cuh", "tasks.cuh")
AS_IT_IS = contextlib.nullcontext()


class Call(NamedTuple):
    """Everything that programs depend on. All layers are alike; one of two directions reads both ways."""

    form: Form
    kind: ElementKind
    device: int
    size: int  # hidden units
    inputs: int  # of the first layer
    steps: int
    batch: int
    layers: int
    directions: int
    reads_back: bool  # a single direction that reads from the right
    keeps: bool  # whether to keep what a backward pass needs
    stateful: bool  # whether a first state is given
    float_x: bool  # given in float32 though it is computed in 16 bits
    float_weights: bool  # and likewise the state
    plans: tuple[Plan, Plan] | None = None  # forward and backward, in place of the best known

    @property
    def width(self) -> int:
        """Hidden units, padded with zeros."""
        return round_up_units(self.size)

    @property
    def row(self) -> int:
        """Numbers in a row of states: those of both directions lie side by side."""
        return self.directions * self.width

    @property
    def cells(self) -> int:
        """Number of cells of all layers."""
        return self.layers * self.directions

    @property
    def reads_weights(self) -> bool:
        """Whether kernels read the weights and the first state themselves; otherwise copies of them."""
        return self.size == self.width and not self.float_weights

    def reads_backwards(self, direction: int) -> bool:
        """Return whether this direction of a layer reads from the right."""
        return direction == 1 or self.reads_back

    def convert_weights(self, back: bool = False) -> int:
        """Convert weights and the first state, or back their gradients and the last state."""
        return (TO_FLOAT if back else FROM_FLOAT) if self.float_weights else NO_CONVERSION

    def convert_x(self, back: bool = False) -> int:
        """Return the conversion of the input, or back of its gradient."""
        return (TO_FLOAT if back else FROM_FLOAT) if self.float_x else NO_CONVERSION

    def input_blocks(self, layer: int) -> tuple[int, int, int]:
        """Return, of the input of a layer, the blocks of a row, and their numbers as given and padded."""
        if layer:
            return self.directions, self.size, self.width
        return 1, self.inputs, round_up_units(self.inputs)


class StateLayout(NamedTuple):
    """Where the states of a layer lie: those after each step, between those before the first.

    What reads from the left begins with the first row block, what reads from the right with the last.
    """

    blocks: int  # of a batch of rows each
    first_output: int  # the block that holds the state after step 0
    steps: int
    rows: int
    width: int
    pitch: int  # numbers from one row to the next
    element: int

    @classmethod
    def of(cls, call: Call) -> StateLayout:
        """Return the layout of each layer of a call."""
        both = call.directions > 1
        first_output = 0 if call.reads_back and not both else 1
        return cls(
            call.steps + call.directions,
            first_output,
            call.steps,
            call.batch,
            call.width,
            call.row,
            call.kind.size,
        )

    def outputs(self, tensor: int, direction: int = 0, step: int = 0) -> At:
        """Return the address of the state after a step."""
        return At(tensor, self.offset(self.first_output + step, direction) * self.element)

    def first(self, tensor: int, direction: int, reads_back: bool, step: int = 0) -> At:
        """Return the address of the state before the first step; from the left it may begin elsewhere."""
        return At(tensor, self.offset(self.blocks - 1 if reads_back else step, direction) * self.element)

    def offset(self, block: int, direction: int = 0) -> int:
        """Numbers before the rows of this block and direction."""
        return block * self.rows * self.pitch + direction * self.width

    def offset_before(self, direction: int, reads_back: bool) -> int:
        """Numbers before the states that enter the steps, that of step 0 first."""
        return self.offset(self.first_output + (1 if reads_back else -1), direction)


class Kernel(NamedTuple):
    """A compiled kernel and how it is launched: once for all directions of a layer, or for one at a time."""

    launch: driver.LaunchKernel
    blocks: int
    pause: int
    split: int  # blocks that share their units
    alone: bool  # a block has all units, so that blocks exchange nothing
    first_directions: tuple[int, ...]  # of each launch
    spans: tuple[range, ...]  # the steps of each launch of a layer, from the first on


def prepare_kernel(call: Call, backward: bool) -> Kernel:
    """Return the kernel of a call, compiled."""
    from throughtime.gpu import driver

    task = KernelTask(call.form, call.kind, call.width, call.batch, backward, call.directions)
    arrangement = (
        arrange(task, call.layers, call.steps, *driver.limits(call.device))
        if call.plans is None
        else Arrangement(call.plans[backward])
    )
    assert arrangement is not None
    plan, beside = arrangement.plan, arrangement.beside
    name = "backward" if backward else "forward"
    files, constants = (*FILES, f"{name}.cu"), plan.constants(task)
    kernel = driver.build(name, files, constants, call.device, together=not plan.alone)
    each = -(-call.steps // arrangement.spans)
    spans = [range(first, min(first + each, call.steps)) for first in range(0, call.steps, each)]
    directions = tuple(range(0, call.directions, beside))
    blocks = plan.blocks(task) * beside
    return Kernel(kernel, blocks, plan.pause, plan.split, plan.alone, directions, tuple(spans))


def set_precision(kind: ElementKind) -> contextlib.AbstractContextManager[None]:
    """Use the precision of the recurrence for torch's products too."""
    if kind > ElementKind.TF32 or torch.backends.cuda.matmul.allow_tf32 == (kind is ElementKind.TF32):
        return AS_IT_IS
    return _set_tf32(kind is ElementKind.TF32)


@contextlib.contextmanager
def _set_tf32(allow_tf32: bool) -> Iterator[None]:
    torch.backends.cuda.matmul.allow_tf32 = allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = not allow_tf32
