"""Batches, epoch after epoch: seeded, with a position that can be saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batch import Batch as Batch
from throughtime.errors import InputError, check_whole

if TYPE_CHECKING:
    from throughtime.data.batching.packing import PaddedShapes

CHUNK = 16
"""Number of batches that are prepared at once: a GPU may have to wait for all of them."""


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
    return np.argsort(_bits(n, generator), kind="stable")


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
    # numpy promises the same bits in all its versions, but not the same permutations or draws.
    return np.asarray(generator.bit_generator.random_raw(n), dtype=np.uint64)


Plan = TypeVar("Plan", bound=Sized)
BatchType = TypeVar("BatchType", bound=Batch)


class Batches(ABC, Generic[Plan, BatchType]):
    """The base class of all batches: a subclass plans an epoch and writes batches of the plan.

    It writes one batch (`_collate`), or several at a time straight into packed memory (`_pack_chunk`, see
    `packing.py`).

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
        check_whole("world_size", world_size)
        check_whole("rank", rank, 0, world_size - 1)
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        self._settings = dict(settings)
        self._position = 0
        self._planned: tuple[int, Plan] | None = None

    @abstractmethod
    def _plan(self, epoch: int) -> Plan:
        """Return the plan of an epoch; its length is the number of batches."""

    def _collate(self, plan: Plan, index: int) -> BatchType:
        """Return this rank's rows of one batch."""
        return next(iter(self._pack_chunk(plan, range(index, index + 1), None, False)))

    def _pack_chunk(
        self, plan: Plan, indices: range, shapes: PaddedShapes | None, pin: bool
    ) -> Iterable[BatchType]:
        """Return this rank's rows of some adjacent batches; for a GPU, padded and in pinned memory."""
        for index in indices:
            batch = self._collate(plan, index)
            sizes = None if shapes is None else shapes.find(batch)
            yield batch.pack(sizes, pin=pin) if pin or sizes else batch

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
        return self.pack_epoch()

    def pack_epoch(self, shapes: PaddedShapes | None = None, *, pin: bool = False) -> Iterator[BatchType]:
        """Yield the rest of the current epoch padded to `shapes` and packed; see `Batch.pack`."""
        while self._position < len(self):
            plan = self.plan()
            indices = range(self._position, min(self._position + CHUNK, len(plan)))
            for batch in self._pack_chunk(plan, indices, shapes, pin):
                self._position += 1
                yield batch
        self.epoch += 1
        self._position = 0

    def sample(self, most: int) -> list[BatchType]:
        """Return at most this number of batches, spread over the current epoch, without advancing in it.

        Those of `_find_unusual` are among them if there is room for more than one batch.
        """
        plan = self.plan()
        unusual = [*dict.fromkeys(self._find_unusual(plan))][: max(0, most - 1)]
        spread = range(0, len(plan), max(1, -(-len(plan) // (most - len(unusual)))))
        return [self._collate(plan, index) for index in sorted({*spread, *unusual})]

    def _find_unusual(self, plan: Plan) -> Iterable[int]:
        """Return batches that others do not resemble: the last, which may be smaller."""
        return [len(plan) - 1] if len(plan) else []

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
