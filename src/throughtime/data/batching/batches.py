"""Batches, epoch after epoch: seeded, with a position that can be saved and taken up again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.errors import InputError


@dataclass(frozen=True)
class Batch:
    """Tensors, time-major, that move together.

    `count` is the number of real targets in the whole batch, over all processes: a gradient is the sum over
    the rows at hand divided by this count, and adding the processes' gradients gives that of one process.
    """

    count: int

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on another device."""
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=non_blocking) for name, value in self.tensors().items()
        }
        return replace(self, **moved)

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def pinned(self) -> Self:
        """The same in memory that a GPU can copy from while it computes."""
        pinned: dict[str, Any] = {name: value.pin_memory() for name, value in self.tensors().items()}
        return replace(self, **pinned)

    @property
    def rows(self) -> int:
        """How many rows this process has of it: axis 1, as everything is time-major."""
        return next(value.shape[1] for value in self.tensors().values() if value.dim() > 1)


def real_positions(steps: int, lengths: Tensor) -> Tensor:
    """Which positions [steps, batch] lie inside their row.

    >>> real_positions(3, torch.tensor([3, 1])).int()
    tensor([[1, 1],
            [1, 0],
            [1, 0]], dtype=torch.int32)
    """
    return torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths


def draws(seed: int, epoch: int) -> np.random.Generator:
    """The generator of one epoch, independent of those of all other epochs and seeds."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))


def permutation(n: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The numbers 0..n-1 in random order.

    >>> permutation(5, draws(seed=0, epoch=0))
    array([3, 2, 1, 0, 4])
    """
    return np.argsort(_bits(n, generator), kind="stable").astype(np.int64)


def uniform(n: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """`n` numbers from [0, 1)."""
    return (_bits(n, generator) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_offset(n: int, generator: np.random.Generator) -> int:
    """How many tokens an epoch leaves out at its start, d ~ U[0, n), so that its windows fall elsewhere.

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
    """The base of all batches: a subclass plans an epoch and collates one batch of the plan.

    `for batch in batches` gives what is left of the current epoch and then moves on to the next; a loop
    left early is taken up where it was left. `state()` inside the loop counts the batch in hand as done.

    With several processes the batches are formed as if there were one, and row i goes to rank i mod
    world_size: a rank always has the same rows of a sequential partition, so that its carried state fits,
    and rows sorted by length are shared out evenly. The plan does not depend on the number of processes, so
    a position saved by four can be taken up by two. In a batch with fewer rows than processes some ranks
    get a batch of no rows, which adds nothing to the gradient; they still have a batch for each batch of
    the others.
    """

    def __init__(self, settings: Mapping[str, float | None], *, rank: int, world_size: int) -> None:
        at_least("world_size", world_size, 1)
        if not 0 <= rank < world_size:
            raise InputError("rank", f"must be from 0 to {world_size - 1}, got {rank}")
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        self._settings = dict(settings)
        self._taken = 0
        self._planned: tuple[int, Plan] | None = None

    @abstractmethod
    def _plan(self, epoch: int) -> Plan:
        """What an epoch consists of; its length is the number of batches."""

    @abstractmethod
    def _collate(self, plan: Plan, index: int) -> BatchType:
        """This rank's rows of one batch."""

    def plan(self) -> Plan:
        """The plan of the current epoch, over all ranks."""
        if self._planned is None or self._planned[0] != self.epoch:
            self._planned = (self.epoch, self._plan(self.epoch))
        return self._planned[1]

    def __len__(self) -> int:
        """How many batches the current epoch has, those already taken included."""
        return len(self.plan())

    def __iter__(self) -> Iterator[BatchType]:
        """The rest of the current epoch."""
        while self._taken < len(self):
            batch = self._collate(self.plan(), self._taken)
            self._taken += 1
            yield batch
        self.epoch += 1
        self._taken = 0

    def state(self) -> dict[str, Any]:
        """The position, ready for JSON, with the settings that it depends on."""
        return {"epoch": self.epoch, "batch": self._taken, "settings": dict(self._settings)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a saved position: exactly the batches follow that would have followed it."""
        epoch, batch, settings = _count(state, "epoch"), _count(state, "batch"), state.get("settings")
        if epoch is None or batch is None or not isinstance(settings, Mapping):
            raise InputError("saved position", "needs 'epoch', 'batch' and 'settings'; it is damaged")
        for name, now in self._settings.items():
            if settings.get(name) != now:
                then = settings.get(name)
                raise InputError("saved position", f"has {name} {then}, but now it is {now}; use the same")
        before = self.epoch, self._taken
        self.epoch, self._taken = epoch, batch
        if batch > len(self):
            last = len(self)
            self.epoch, self._taken = before
            raise InputError("saved position", f"is at batch {batch}, but epoch {epoch} has only {last}")

    def _mine(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[self.rank :: self.world_size]


def at_least(name: str, value: Number, least: int) -> Number:
    """`value`, or an error that names the option.

    >>> at_least("batch_size", 0, 1)
    Traceback (most recent call last):
    throughtime.errors.InputError: batch_size: must be 1 or more, got 0
    """
    if value < least:
        raise InputError(name, f"must be {least} or more, got {value}")
    return value


def _count(state: Mapping[str, Any], key: str) -> int | None:
    value = state.get(key)
    return value if isinstance(value, int) and value >= 0 else None
