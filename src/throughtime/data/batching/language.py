"""One long text in windows of equal length: side by side and sampled at random, or overlapping."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from throughtime.data.batching.draws import draws, permutation
from throughtime.data.batching.position import Batches, at_least
from throughtime.data.batching.ragged import RaggedIds
from throughtime.data.batching.stream import Ids, LanguageBatch, Stream
from throughtime.errors import InputError


class _TextWindows(Batches[RaggedIds, LanguageBatch]):
    """Whole windows of the text in any order; a plan says where they start."""

    def __init__(self, stream: Stream, own: Mapping[str, float | None], rank: int, world_size: int) -> None:
        super().__init__({**stream.settings(), **own}, rank=rank, world_size=world_size)
        self._stream = stream

    def _collate(self, plan: RaggedIds, index: int) -> LanguageBatch:
        starts, steps = plan[index], self._stream.num_steps
        mine = self._mine(starts)
        tokens = self._stream.tokens(mine + np.arange(steps + 1)[:, None])
        return LanguageBatch(
            count=len(starts) * steps,
            inputs=tokens[:-1],
            labels=tokens[1:],
            lengths=torch.full((len(mine),), steps),
            continues=False,
        )


class RandomWindows(_TextWindows):
    """Windows that do not overlap, every one once an epoch, in random order.

    Each epoch first leaves out d ~ U[0, num_steps) tokens, unless `random_start` is off. A last batch with
    fewer rows is dropped where `keep_last` is off.

    >>> batches = RandomWindows(range(10), batch_size=3, num_steps=3, random_start=False)
    >>> batch = next(iter(batches))
    >>> batch.inputs
    tensor([[6, 3, 0],
            [7, 4, 1],
            [8, 5, 2]])
    >>> batch.labels
    tensor([[7, 4, 1],
            [8, 5, 2],
            [9, 6, 3]])
    """

    def __init__(
        self,
        ids: Ids,
        batch_size: int,
        num_steps: int,
        *,
        seed: int = 0,
        random_start: bool = True,
        keep_last: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        stream = Stream(ids, batch_size, num_steps)
        own = {"seed": seed, "random_start": random_start, "keep_last": keep_last}
        super().__init__(stream, own, rank, world_size)
        self._seed, self._random_start, self._keep_last = seed, random_start, keep_last
        self._spare = stream.spare(num_steps if keep_last else num_steps * batch_size)

    def _plan(self, epoch: int) -> RaggedIds:
        stream, generator = self._stream, draws(self._seed, epoch)
        offset = stream.offset(self._spare, generator) if self._random_start else 0
        windows = (stream.predictions - offset) // stream.num_steps
        starts = offset + stream.num_steps * permutation(windows, generator)
        return RaggedIds.chunks(starts, stream.batch_size, self._keep_last)


class OverlappingWindows(_TextWindows):
    """Window i starts at token i * stride; `windows` picks some of them, all by default.

    The first 10,000 to train and the next 5,000 to validate are `range(10_000)` and `range(10_000,
    15_000)`; where the two meet they share up to num_steps tokens.

    >>> batches = OverlappingWindows(range(9), 2, 3, windows=range(2, 4), shuffle=False)
    >>> next(iter(batches)).inputs
    tensor([[2, 3],
            [3, 4],
            [4, 5]])
    """

    def __init__(
        self,
        ids: Ids,
        batch_size: int,
        num_steps: int,
        *,
        windows: range | None = None,
        stride: int = 1,
        seed: int = 0,
        shuffle: bool = True,
        keep_last: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        stream = Stream(ids, batch_size, num_steps)
        present = stream.spare(num_steps) // at_least("stride", stride, 1) + 1
        windows = range(present) if windows is None else windows
        if not windows or min(windows) < 0 or max(windows) >= present:
            asked = f"{windows[0]} to {windows[-1]}" if windows else "none"
            raise InputError("windows", f"are {asked}, but the text has windows 0 to {present - 1}")
        if not keep_last and len(windows) < batch_size:
            raise InputError("batch_size", f"is {batch_size}, more than the {len(windows)} windows; lower it")
        own = {
            "first_window": windows[0],
            "last_window": windows[-1],
            "windows": len(windows),
            "stride": stride,
            "seed": seed,
            "shuffle": shuffle,
            "keep_last": keep_last,
        }
        super().__init__(stream, own, rank, world_size)
        self._starts = np.array(windows, dtype=np.int64) * stride
        self._seed, self._shuffle, self._keep_last = seed, shuffle, keep_last

    def _plan(self, epoch: int) -> RaggedIds:
        starts = self._starts
        if self._shuffle:
            starts = starts[permutation(len(starts), draws(self._seed, epoch))]
        return RaggedIds.chunks(starts, self._stream.batch_size, self._keep_last)
