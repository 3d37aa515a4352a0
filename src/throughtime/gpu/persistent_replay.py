"""Short calls of the persistent kernels, replayed from CUDA graphs.

A call with short sequences keeps the host busy for longer than the GPU. One that recurs is therefore
recorded, forward and backward, with memory of its own: its inputs are copied there, and its results from
there, with one launch each. The recording reads weights where they lie, so it serves every call with weights
at these addresses. Its memory belongs to one call at a time: from the forward pass until the backward pass
has run, or can no longer run. Meanwhile, other calls of the same shape run without it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from throughtime.gpu.batched_copies import TILE, At, Copies, Matrix
from throughtime.gpu.persistent_backward import build_backward
from throughtime.gpu.persistent_call import Call
from throughtime.gpu.persistent_choice import MAX_REPLAYED_BYTES
from throughtime.gpu.persistent_forward import CARRY, FIRST_OWN, LENGTHS, OWN, X, build_forward
from throughtime.gpu.persistent_memory import allocate
from throughtime.gpu.recording import FAILURES, record
from throughtime.recurrence.backend import first_order

SEEN_BEFORE = 8
"""Calls before one is recorded; the trainer records its updates as a whole after fewer."""
MAX_REPLAYS = 16
MAX_BYTES = 256 << 20
"""Bytes of memory of all recordings."""
STATE = OWN.index("h")
"""Where the weights of a cell end and its state begins."""


class Transfer:
    """One launch that copies tensors to the memory of a recording, or from there to others like them."""

    def __init__(self, call: Call, memory: Sequence[Tensor], *, out: bool = False) -> None:
        copies, element = Copies(call.kind, call.device), call.kind.size
        for number, tensor in enumerate(memory):
            rows, columns = _flatten(tensor.shape)
            columns = columns * tensor.element_size() // element
            fixed, open_end = (Matrix(at, rows, columns, columns) for at in (tensor.data_ptr(), At(number)))
            copies.copy(*((open_end, fixed) if out else (fixed, open_end)))
        # The memory that they copy to or from belongs to one call at a time, and so do they.
        self._launches = [launch.bind() for launch in copies.prepare()]

    def __call__(self, tensors: Sequence[Tensor]) -> None:
        """Copy all of them."""
        addresses = [tensor.data_ptr() for tensor in tensors]
        for launch in self._launches:
            launch(addresses)


def _flatten(shape: Sequence[int]) -> tuple[int, int]:
    """Return a matrix of as many numbers; its rows fill a tile of the copy, if there are enough of them."""
    columns, *others = reversed(shape)
    while others and columns < TILE:
        columns *= others.pop(0)
    return math.prod(others), columns


class Replay:
    """A recorded call, forward and backward, and the memory it works in."""

    def __init__(
        self,
        call: Call,
        arguments: Sequence[Tensor | None],
        stream: Any,
        pool: Any,
        drop_place: Callable[[], None],
    ) -> None:
        """Record a call; `arguments` are lengths, carry, x, and the tensors named in `OWN` of each cell.

        `drop_place` is called if the backward pass cannot be recorded, after which the pool records nothing.
        """
        self.call, self.busy = call, threading.Lock()
        self._stream, self._pool, self._drop_place = stream, pool, drop_place
        program = build_forward(call)
        tensors: list[Any] = list(arguments)
        self.moved = [
            number
            for number, tensor in enumerate(arguments)
            if tensor is not None and (number < FIRST_OWN or (number - FIRST_OWN) % len(OWN) >= STATE)
        ]
        self._weights = [
            number
            for number, tensor in enumerate(arguments)
            if tensor is not None and number >= FIRST_OWN and number not in self.moved
        ]
        for number in self.moved:
            tensors[number] = tensors[number].new_empty(tensors[number].shape)
        self._inputs = [tensors[number] for number in self.moved]
        tensors[X] = self._like = tensors[X].view(-1, call.inputs)
        tensors += allocate(program.shapes, self._like, call.kind)
        self._outputs = [program.outputs.of(tensors), *[tensors[end] for end in program.ends]]
        self._saved = [None if number is None else tensors[number] for number in program.saved]
        self._enter, self._leave = Transfer(call, self._inputs), Transfer(call, self._outputs, out=True)
        self._forward = record(lambda: program.run(tensors), stream, pool)
        self._backward: dict[Hashable, Callable[..., list[Tensor | None]]] = {}

    def run_forward(self, arguments: Sequence[Any]) -> list[Tensor]:
        """Run the forward pass; return the outputs and ends."""
        self._enter([arguments[number].contiguous() for number in self.moved])
        self._forward()
        results = [torch.empty_like(output) for output in self._outputs]
        self._leave(results)
        return results

    def select_weights(self, arguments: Sequence[Any]) -> list[Tensor]:
        """Return the weights among the tensors of a call, which are read where they lie."""
        return [arguments[number] for number in self._weights]

    def run_backward(
        self, gradients: Sequence[Tensor | None], wanted: tuple[bool, ...]
    ) -> list[Tensor | None]:
        """Run the backward pass; return the gradients of x and of all of `OWN`."""
        key = tuple([gradient is not None for gradient in gradients]), wanted
        run = self._backward.get(key)
        if run is None:
            run = self._backward[key] = self._record_backward(gradients, *key)
        return run([gradient for gradient in gradients if gradient is not None])

    def _record_backward(
        self, gradients: Sequence[Tensor | None], present: tuple[bool, ...], wanted: tuple[bool, ...]
    ) -> Callable[..., list[Tensor | None]]:
        call, program = self.call, build_backward(self.call, present, wanted)
        incoming = [
            None if gradient is None else gradient.new_empty(gradient.shape) for gradient in gradients
        ]
        tensors: list[Any] = [*self._saved, *incoming, *allocate(program.shapes, self._like, call.kind)]
        inputs = [gradient for gradient in incoming if gradient is not None]
        results = [None if view is None else view.of(tensors) for view in program.results]
        outputs = [result for result in results if result is not None]
        enter, leave = Transfer(call, inputs), Transfer(call, outputs, out=True)

        def replay() -> None:
            program.run(tensors)

        try:
            replay = record(replay, self._stream, self._pool)
        except FAILURES:  # it runs without a recording
            self._drop_place()

        def run(arrived: Sequence[Tensor]) -> list[Tensor | None]:
            enter(arrived)
            replay()
            fresh = [None if result is None else torch.empty_like(result) for result in results]
            leave([result for result in fresh if result is not None])
            return fresh

        return run


class Lease:
    """The right to use a recording, until it is given back or forgotten."""

    __slots__ = ("replay",)

    def __init__(self, replay: Replay) -> None:
        self.replay: Replay | None = replay

    def end(self) -> None:
        """Give it back."""
        replay, self.replay = self.replay, None
        if replay is not None:
            replay.busy.release()

    def __del__(self) -> None:
        """Give it back where no backward pass has run, and none will."""
        self.end()


class ReplayedRecurrence(torch.autograd.Function):
    """The same function as `Recurrence`, replayed."""

    @staticmethod
    def forward(ctx: Any, lease: Lease, *arguments: Tensor | None) -> tuple[Tensor, ...]:
        """Return the outputs, and the last state of each cell."""
        replay = lease.replay
        assert replay is not None
        results = replay.run_forward(arguments)
        if replay.call.keeps:
            ctx.lease = lease
            # Not for their values, but so that torch notices weights that change before the backward pass.
            ctx.save_for_backward(*replay.select_weights(arguments))
            ctx.set_materialize_grads(False)
        else:
            lease.end()
        return tuple(results)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Replay the backward pass."""
        _ = ctx.saved_tensors  # raises an error where the graph has been freed
        replay = ctx.lease.replay
        arrived = [None if gradient is None else gradient.contiguous() for gradient in gradients]
        results = replay.run_backward(arrived, ctx.needs_input_grad[3:])
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx.lease.end()
        return None, None, None, *results


_apply: Callable[..., tuple[Tensor, ...]] = super(torch.autograd.Function, ReplayedRecurrence).apply


def run_replay(lease: Lease, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
    """Return `ReplayedRecurrence.apply(lease, *given)`.

    That method looks in Python for tensors of function transforms (`torch.func`), which takes as long as all
    else that it does. Without transforms there are none, except for inputs that were taken out of one.
    """
    replay = lease.replay
    assert replay is not None
    plain = not torch._C._are_functorch_transforms_active()
    for number in replay.moved:  # not the weights: their addresses are known, and wrapped tensors have none
        plain = plain and not torch._C._functorch.is_functorch_wrapped_tensor(arguments[number])
    if plain:
        return _apply(lease, *arguments)
    results: tuple[Tensor, ...] = ReplayedRecurrence.apply(lease, *arguments)  # type: ignore[no-untyped-call]
    return results


class Recordings:
    """The recordings of a process, the most recently used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: Counter[Hashable] = Counter()
        self._replays: OrderedDict[Hashable, Replay] = OrderedDict()
        self._places: dict[Hashable, tuple[Any, Any]] = {}
        self._at_once = False

    @contextlib.contextmanager
    def recording_at_once(self) -> Iterator[None]:
        """Record calls inside this block when they are seen for the second time."""
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def borrow(self, call: Call, arguments: Sequence[Tensor | None]) -> Lease | None:
        """Return the right to use the recording of a call; None if there is none yet, or it is in use."""
        if call.plans is not None or not is_replayable(call.device):
            return None
        addresses = []
        for first in range(FIRST_OWN, len(arguments), len(OWN)):
            for weight in arguments[first : first + STATE]:
                if weight is not None:
                    if not weight.is_contiguous():
                        return None
                    addresses.append(weight.data_ptr())
        key = call, arguments[LENGTHS] is None, arguments[CARRY] is None, get_stream(call.device), *addresses
        with self._lock:
            replay = self._replays.get(key)
            if replay is not None:
                self._replays.move_to_end(key)
            else:
                replay = self._add(key, call, arguments, addresses)
        return Lease(replay) if replay is not None and replay.busy.acquire(blocking=False) else None

    def _add(
        self, key: Hashable, call: Call, arguments: Sequence[Tensor | None], addresses: Sequence[int]
    ) -> Replay | None:
        """Record a call that has been seen often enough."""
        self._seen[key] += 1
        before = 1 if self._at_once else SEEN_BEFORE
        if self._seen[key] != before + 1:  # a call that could not be recorded then is not tried again
            if len(self._seen) > 64 * MAX_REPLAYS:
                self._seen.clear()
            return None
        size = count_bytes(call)
        misplaced = call.reads_weights and any(address % 16 for address in addresses)
        if misplaced or size > MAX_REPLAYED_BYTES:
            return None
        where = call.device, get_stream(call.device)
        if where not in self._places:
            self._places[where] = make_place(call.device)
        slot = self._places[where]
        drop_place = functools.partial(self._drop_place, where, slot)
        try:
            replay = Replay(call, arguments, *slot, drop_place)
        except FAILURES:  # recording runs nothing, so the call can run without one
            drop_place()
            return None
        while self._replays and (len(self._replays) >= MAX_REPLAYS or size + self._count_bytes() > MAX_BYTES):
            self._replays.popitem(last=False)
        self._replays[key] = replay
        return replay

    def _drop_place(self, where: Hashable, slot: tuple[Any, Any]) -> None:
        """Take another place next time: torch records nothing more with the pool of one that failed."""
        if self._places.get(where) is slot:  # not one that has replaced it already
            self._places.pop(where, None)

    def _count_bytes(self) -> int:
        return sum(count_bytes(replay.call) for replay in self._replays.values())

    def forget(self) -> None:
        """Forget all recordings; the memory of a call that is still running is freed after it."""
        with self._lock:
            self._seen.clear()
            self._replays.clear()
            self._places.clear()  # torch records nothing more with a pool whose recordings are all gone


RECORDINGS = Recordings()


def is_replayable(device: int) -> bool:
    """Return whether calls on this device can be recorded now: not inside another recording."""
    return device >= 0 and not torch.cuda.is_current_stream_capturing()


def get_stream(device: int) -> int:
    """Return the number of the current stream."""
    stream: int = torch._C._cuda_getCurrentRawStream(device)
    return stream


def make_place(device: int) -> tuple[Any, Any]:
    """Return a stream to record on and a pool of memory, which all recordings for one stream share."""
    with torch.cuda.device(device):
        return torch.cuda.Stream(), torch.cuda.graph_pool_handle()


def count_bytes(call: Call) -> int:
    """Return the memory of a recording, roughly: the programs' tensors and the inputs."""
    shapes = [*build_forward(call).shapes]
    if call.keeps:
        present = (True,) * (1 + call.cells * call.form.parts)
        wanted = (True,) * (1 + call.cells * len(OWN))
        shapes += build_backward(call, present, wanted).shapes
    sizes = (math.prod(shape) * (4 if float32 else call.kind.size) for shape, float32 in shapes)
    return sum(sizes) + call.steps * call.batch * call.inputs * call.kind.size
