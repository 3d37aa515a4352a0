"""A batch: tensors that move between devices together, if they are packed in one copy."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ALIGNMENT = 16
"""Each tensor of a packed batch begins at a multiple of this number of bytes, as fast copies need."""
HEADER = 16
"""Number of bytes at the beginning of a packed batch; see `Header`."""
_HEADER = struct.Struct("=qff")


TensorKind = tuple[str, tuple[int, ...], torch.dtype]
"""The name, the shape and the type of a tensor."""


class Header(NamedTuple):
    """What an update needs beside the tensors of its batch, as tensors in the memory of the batch."""

    targets: Tensor  # their number
    rate: Tensor  # learning rate
    share: Tensor  # 1 / targets


@cache
def numpy_type(dtype: torch.dtype) -> np.dtype[Any]:
    """Return the type of numpy's arrays for a type of tensors."""
    return torch.empty(0, dtype=dtype).numpy().dtype


class Layout(NamedTuple):
    """Where the tensors of a packed batch lie in its memory: what they are, first bytes, size."""

    tensors: tuple[TensorKind, ...]
    starts: Mapping[str, int]
    size: int

    @classmethod
    def place(cls, tensors: Iterable[TensorKind]) -> Layout:
        """Lay out these tensors one after another."""
        tensors, starts, start = tuple(tensors), {}, HEADER
        for name, shape, dtype in tensors:
            starts[name] = start
            size = math.prod(shape) * dtype.itemsize
            start += size + -size % ALIGNMENT
        return cls(tensors, starts, start)

    def open(self, memory: Tensor) -> dict[str, NDArray[Any]]:
        """Return the tensors in this memory as arrays."""
        whole = memory.numpy()
        return {
            name: np.ndarray(shape, numpy_type(dtype), whole, self.starts[name])
            for name, shape, dtype in self.tensors
        }


@dataclass(frozen=True)
class Batch:
    """Time-major tensors, [time, batch, ...], that move between devices together.

    `batch.inputs.transpose(0, 1)` has the batch first.

    `count` is the number of real targets in the whole batch, over all processes. Each process divides the sum
    over its own rows by this count; the gradients of all processes then add up to that of a single process.

    A batch whose tensors have different shapes in each batch names their axes in `axes`, so that it can be
    padded to larger sizes. Padding adds steps past the end of each row, and rows without targets: the sum of
    the losses stays the same.
    """

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The names of the leading axes of each tensor; axes of one name have one size."""
    fillings: ClassVar[Mapping[str, int]] = {}
    """What fills the padding of a tensor, if it is not 0."""
    row_axes: ClassVar[tuple[str, ...]] = ("rows",)
    """Axes of rows that layers read side by side: GPU kernels are compiled for each number of them."""
    drawn_axes: ClassVar[tuple[str, ...]] = ()
    """Axes whose sizes are drawn anew in each epoch, so that a later one may have larger batches."""

    count: int

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """Return the same batch on another device."""
        if (memory := self.memory) is not None:
            if memory.device.type == torch.device(device).type == "cpu":
                return self
            return self.lay_out(memory.to(device, non_blocking=non_blocking))
        moved: dict[str, Any] = {
            name: tensor.to(device, non_blocking=non_blocking) for name, tensor in self.tensors().items()
        }
        return replace(self, **moved)

    def pack(self, sizes: Mapping[str, int] | None = None, *, pin: bool = False) -> Self:
        """Return the same batch with all tensors in one piece of memory, which is copied to a GPU at once.

        If `sizes` are given, its axes are padded to these; `count` stays that of the real targets. With
        `pin`, it is page-locked memory, from which a GPU copies while it computes. The batch must be on the
        CPU. numpy copies the tensors, as it takes half the time of torch for small ones.
        """
        batch = self if sizes is None else self._renumber(sizes)
        tensors, placed = batch.tensors(), list[TensorKind]()
        for name, tensor in tensors.items():
            padded = () if sizes is None else tuple(sizes[axis] for axis in self.axes.get(name, ()))
            placed.append((name, (*padded, *tensor.shape[len(padded) :]), tensor.dtype))
        layout = Layout.place(placed)
        memory = torch.empty(layout.size, dtype=torch.uint8, pin_memory=pin)
        packed = {}
        for name, room in layout.open(memory).items():
            array = tensors[name].numpy()
            if array.shape != room.shape:
                room.fill(batch._filling(name))
            room[tuple(map(slice, array.shape))] = array
            packed[name] = torch.from_numpy(room)
        ready = batch._put(memory, packed)
        ready.write_header(self.count, 0.0)
        return ready

    @property
    def memory(self) -> Tensor | None:
        """The bytes of a packed batch; None if its tensors are not in one piece of memory."""
        return vars(self).get("_memory")

    @classmethod
    def in_memory(cls, layout: Layout, memory: Tensor, count: int, header: memoryview) -> Self:
        """Return a packed batch whose tensors are looked up when they are needed: a replay needs none.

        `header` are the first bytes of its memory.
        """
        packed = object.__new__(cls)
        vars(packed).update(count=count, _memory=memory, _layout=layout, _header=header)
        return packed

    def __getattr__(self, name: str) -> Any:
        """Look up the tensors of a batch that is only memory so far."""
        layout: Layout | None = vars(self).get("_layout")
        if layout is None or name not in layout.starts:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        self._look_up()
        return vars(self)[name]

    def _look_up(self) -> None:
        if (layout := vars(self).pop("_layout", None)) is not None:
            for name, array in layout.open(vars(self)["_memory"]).items():
                vars(self)[name] = torch.from_numpy(array)

    def describe_tensors(self) -> tuple[TensorKind, ...]:
        """Return the names, shapes and types of its tensors, without looking them up."""
        if (layout := vars(self).get("_layout")) is not None:
            return cast(Layout, layout).tensors
        return tuple((name, tuple(tensor.shape), tensor.dtype) for name, tensor in self.tensors().items())

    def lay_out(self, memory: Tensor) -> Self:
        """Return a packed batch of these shapes whose tensors lie in this memory, one after another."""
        placed: dict[str, Any] = {}
        start, storage = memory.storage_offset() + HEADER, memory.untyped_storage()
        for name, tensor in self.tensors().items():
            empty = torch.empty(0, dtype=tensor.dtype, device=memory.device)
            placed[name] = empty.set_(storage, start // tensor.itemsize, tensor.shape)  # type: ignore[call-overload]
            start += tensor.nbytes + -tensor.nbytes % ALIGNMENT
        return self._put(memory, placed)

    @property
    def header(self) -> Header:
        """The numbers that `write_header` has written."""
        assert self.memory is not None
        rate, share = self.memory[8:16].view(torch.float32)
        return Header(self.memory[:8].view(torch.int64)[0], rate, share)

    def write_header(self, count: int, rate: float) -> None:
        """Write the number of targets of an update and its learning rate, which travel with the batch."""
        if (header := vars(self).get("_header")) is None:
            assert self.memory is not None
            header = self.memory.numpy().data
        _HEADER.pack_into(header, 0, count, rate, 1 / count if count else math.inf)

    def _put(self, memory: Tensor, tensors: Mapping[str, Tensor]) -> Self:
        """Return this batch with other tensors, which lie in this memory."""
        # As `dataclasses.replace`, which would take as long as all the rest; a copy by it is not packed.
        packed = object.__new__(type(self))
        vars(packed).update(vars(self), **tensors, _memory=memory, _header=None)
        return packed

    def tensors(self) -> dict[str, Tensor]:
        """Return its tensors by name."""
        self._look_up()
        # `dataclasses.fields` would take as long as to prepare a small batch.
        return {
            name: tensor
            for name, tensor in vars(self).items()
            if isinstance(tensor, Tensor) and name != "_memory"
        }

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each named axis."""
        return {
            axis: size
            for name, axes in self.axes.items()
            for axis, size in zip(axes, getattr(self, name).shape, strict=False)
        }

    def _filling(self, name: str) -> int:
        """Return what fills the padding of a tensor."""
        return self.fillings.get(name, 0)

    def _renumber(self, sizes: Mapping[str, int]) -> Self:
        """Return the batch with positions, if it holds any, as they are in a batch of these sizes."""
        return self

    @property
    def rows(self) -> int:
        """The number of rows that this process has: the size of axis 1, as tensors are time-major."""
        return next(value.shape[1] for value in self.tensors().values() if value.dim() > 1)
