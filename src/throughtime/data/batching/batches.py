"""Batches, epoch after epoch: seeded, with a position that can be saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from throughtime.errors import InputError

ALIGNMENT = 16
"""Each tensor of a packed batch begins at a multiple of this number of bytes, as fast copies need."""


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

    count: int

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """Return the same batch on another device."""
        if (memory := self.memory) is not None:
            return self._lay_out(memory.to(device, non_blocking=non_blocking))
        return self._map(lambda value: value.to(device, non_blocking=non_blocking))

    def pack(self, *, pin: bool = False) -> Self:
        """Return the same batch with all tensors in one piece of memory, which is copied to a GPU at once.

        With `pin`, it is page-locked memory, from which a GPU copies while it computes.
        """
        own = self.tensors()
        device = next(iter(own.values())).device
        memory = torch.empty(self._count_bytes(), dtype=torch.uint8, device=device, pin_memory=pin)
        packed = self._lay_out(memory)
        for name, tensor in packed.tensors().items():
            tensor.copy_(own[name])
        return packed

    @property
    def memory(self) -> Tensor | None:
        """The bytes of a packed batch; None if its tensors are not in one piece of memory."""
        start, storage = 0, next(iter(self.tensors().values())).untyped_storage()
        for tensor in self.tensors().values():
            own = tensor.untyped_storage().data_ptr() == storage.data_ptr() and tensor.is_contiguous()
            if not own or tensor.storage_offset() * tensor.itemsize != start:
                return None
            start += tensor.nbytes + -tensor.nbytes % ALIGNMENT
        if storage.nbytes() != start:
            return None
        return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)

    def _lay_out(self, memory: Tensor) -> Self:
        """Return a batch of these shapes whose tensors lie in this memory, one after another."""
        placed: dict[str, Any] = {}
        start, storage = 0, memory.untyped_storage()
        for name, tensor in self.tensors().items():
            empty = torch.empty(0, dtype=tensor.dtype, device=memory.device)
            placed[name] = empty.set_(storage, start // tensor.itemsize, tensor.shape)  # type: ignore[call-overload]
            start += tensor.nbytes + -tensor.nbytes % ALIGNMENT
        return replace(self, **placed)

    def _count_bytes(self) -> int:
        return sum(tensor.nbytes + -tensor.nbytes % ALIGNMENT for tensor in self.tensors().values())

    def pin_memory(self) -> Self:
        """Return the same batch in page-locked memory, from which a GPU copies while it computes."""
        return self._map(Tensor.pin_memory)

    def tensors(self) -> dict[str, Tensor]:
        """Return its tensors by name."""
        # `dataclasses.fields` would take as long as to prepare a small batch.
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each named axis."""
        return {
            axis: size
            for name, axes in self.axes.items()
            for axis, size in zip(axes, getattr(self, name).shape, strict=False)
        }

    def pad(self, sizes: Mapping[str, int]) -> Self:
        """Return the batch with its axes padded to these sizes; `count` stays that of the real targets."""
        padded: dict[str, Any] = {}
        for name, axes in self.axes.items():
            tensor: Tensor = getattr(self, name)
            added = [sizes[axis] - size for axis, size in zip(axes, tensor.shape, strict=False)]
            # torch counts from the last axis, and for each what to add before and after it.
            both = [0, 0] * (tensor.dim() - len(axes)) + [
                each for more in reversed(added) for each in (0, more)
            ]
            padded[name] = pad(tensor, both, value=self.fillings.get(name, 0)) if any(added) else tensor
        return replace(self, **padded)

    def _map(self, function: Callable[[Tensor], Tensor]) -> Self:
        changed: dict[str, Any] = {name: function(value) for name, value in self.tensors().items()}
        return replace(self, **changed)

    @property
    def rows(self) -> int:
        """The number of rows that this process has: the size of axis 1, as tensors are time-major."""
        return next(value.shape[1] for value in self.tensors().values() if value.dim() > 1)


def real_positions(steps: int, lengths: Tensor) -> Tensor:
    """Return a mask [steps, batch] of the positions that lie inside their row.

    >>> real_positions(3, torch.tensor([3, 1])).int()
    tensor([[1, 1],
            [1, 0],
            [1, 0]], dtype=torch.int32)
    """
    return torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths


def draws(seed: int, epoch: int) -> np.random.Generator:
    """Return the random generator of one epoch, independent of those of all other epochs and seeds."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))


def permutation(n: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the numbers 0..n-1 in random order.

    >>> permutation(5, draws(seed=0, epoch=0))
    array([3, 2, 1, 0, 4])
    """
    return np.argsort(_bits(n, generator), kind="stable").astype(np.int64)


def uniform(n: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return `n` random numbers from [0, 1)."""
    return (_bits(n, generator) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_offset(n: int, generator: np.random.Generator) -> int:
    """Return the number of tokens that an epoch skips at its start, d ~ U[0, n), to shift its windows.

    >>> sorted({random_offset(3, draws(0, epoch)) for epoch in range(20)})
    [0, 1, 2]
    """
    return int(_bits(1, generator)[0]) % n


def _bits(n: int, generator: np.random.Generator) -> NDArray[np.uint64]:
    return np.asarray(generator.bit_generator.random_raw(n), dtype=np.uint64)


Plan = TypeVar("Plan", bound=Sized)
BatchType = TypeVar("BatchType", bound=Batch)
Number = TypeVar("Number", int, float)


class Batches(ABC, Generic[Plan, BatchType]):
    """The base class of all batches: a subclass plans an epoch and collates one batch of the plan.

    `for batch in batches` yields the rest of the current epoch and then moves on to the next epoch; after a
    `break`, the next loop continues with the following batch. `state()` inside the loop counts the current
    batch as done.

    Batches are formed as if there were one process, and row i belongs to rank i mod world_size. A rank thus
    always has the same rows of a sequential partition, so that its carried state fits, and rows sorted by
    length are shared evenly. The plan does not depend on the number of processes, so a position saved by four
    processes can be restored by two. If a batch has fewer rows than there are processes, some ranks get a
    batch without rows, which adds nothing to the gradient.
    """

    def __init__(self, settings: Mapping[str, float | None], *, rank: int, world_size: int) -> None:
        check_at_least("world_size", world_size, 1)
        if not 0 <= rank < world_size:
            raise InputError("rank", f"must be from 0 to {world_size - 1}, got {rank}")
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        self._settings = dict(settings)
        self._position = 0
        self._planned: tuple[int, Plan] | None = None

    @abstractmethod
    def _plan(self, epoch: int) -> Plan:
        """Return the plan of an epoch; its length is the number of batches."""

    @abstractmethod
    def _collate(self, plan: Plan, index: int) -> BatchType:
        """Return this rank's rows of one batch."""

    def plan(self) -> Plan:
        """Return the plan of the current epoch, over all ranks."""
        if self._planned is None or self._planned[0] != self.epoch:
            self._planned = (self.epoch, self._plan(self.epoch))
        return self._planned[1]

    def __len__(self) -> int:
        """The number of batches in the current epoch, including those already taken."""
        return len(self.plan())

    def __iter__(self) -> Iterator[BatchType]:
        """Yield the rest of the current epoch."""
        while self._position < len(self):
            batch = self._collate(self.plan(), self._position)
            self._position += 1
            yield batch
        self.epoch += 1
        self._position = 0

    def sample(self, most: int) -> list[BatchType]:
        """Return at most this number of batches, spread over the current epoch, without advancing in it."""
        plan = self.plan()
        return [self._collate(plan, index) for index in range(0, len(plan), -(-len(plan) // most))]

    def state(self) -> dict[str, Any]:
        """Return the position and the settings that it depends on, ready for JSON."""
        return {"epoch": self.epoch, "batch": self._position, "settings": dict(self._settings)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a saved position: the same batches follow as would have followed it."""
        epoch, batch, settings = (state.get(key) for key in ("epoch", "batch", "settings"))
        counts = all(isinstance(count, int) and count >= 0 for count in (epoch, batch))
        if not counts or not isinstance(settings, Mapping):
            raise InputError("saved position", "needs 'epoch', 'batch' and 'settings'; it is damaged")
        for name, now in self._settings.items():
            if settings.get(name) != now:
                then = settings.get(name)
                raise InputError("saved position", f"has {name} {then}, but now it is {now}; use the same")
        before = self.epoch, self._position
        self.epoch, self._position = cast(int, epoch), cast(int, batch)
        if self._position > len(self):
            last = len(self)
            self.epoch, self._position = before
            raise InputError("saved position", f"is at batch {batch}, but epoch {epoch} has only {last}")

    def _mine(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a copy of the rows that belong to this rank."""
        return rows[self.rank :: self.world_size].copy()


def check_at_least(name: str, value: Number, least: int) -> Number:
    """Return `value`, or raise an error that names the option.

    >>> check_at_least("batch_size", 0, 1)
    Traceback (most recent call last):
    throughtime.errors.InputError: batch_size: must be 1 or more, got 0
    """
    if value < least:
        raise InputError(name, f"must be {least} or more, got {value}")
    return value
