"""Batches of one long text: rows that continue from batch to batch, or windows, overlapping or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from throughtime.data.batching import batches
from throughtime.data.batching.batches import Batch, Batches
from throughtime.data.batching.buckets import RaggedIds, ShuffledWindows, WindowOptions
from throughtime.errors import InputError, check_whole

Ids = ArrayLike | Sequence[int]


@dataclass(frozen=True)
class LanguageBatch(Batch):
    """Inputs and labels, [time, batch]; the labels are the inputs shifted by one.

    Positions past a row's length hold 0 and are not targets. `continues` is True if each row continues where
    it stopped in the previous batch, so that its state can be carried over.
    """

    inputs: Tensor
    labels: Tensor
    lengths: Tensor
    continues: bool


class Stream:
    """The ids of one text; a memory-mapped file stays on disk and only what a batch needs is read.

    All tokens but the first can be predicted: a window of n steps needs n + 1 tokens. An error is raised if
    fewer than `least` tokens can be predicted.
    """

    def __init__(self, ids: Ids, batch_size: int, num_steps: int, *, least: int) -> None:
        self.batch_size = check_whole("batch_size", batch_size)
        self.num_steps = check_whole("num_steps", num_steps)
        self._ids = np.asarray(ids)
        if not self._ids.size:
            raise InputError("ids", "are empty; give the ids of a text")
        if self._ids.ndim != 1 or self._ids.dtype.kind not in "iu":
            kind = f"{self._ids.ndim} axes of {self._ids.dtype}"
            raise InputError("ids", f"must be one row of whole numbers, got {kind}")
        self.predictions = len(self._ids) - 1
        self.spare = self.predictions - least
        if self.spare < 0:
            problem = f"has {len(self._ids):,} tokens, but one batch needs {least + 1:,}"
            lower = f"lower batch_size ({batch_size}) or num_steps ({num_steps})"
            raise InputError("text", f"{problem}; {lower if least > 1 else 'give a longer text'}")

    def settings(self) -> dict[str, float | None]:
        """Return the settings that a saved position depends on."""
        return {"tokens": len(self._ids), "batch_size": self.batch_size, "num_steps": self.num_steps}

    def offset(self, generator: np.random.Generator) -> int:
        """Draw d ~ U[0, num_steps), or less if the text is so short that no batch would be left."""
        return batches.random_offset(min(self.num_steps, self.spare + 1), generator)

    def tokens(self, places: NDArray[np.int64]) -> Tensor:
        """Return the tokens at these positions of the text, [steps, batch]."""
        return torch.from_numpy(self._ids[places].astype(np.int64))


@dataclass(frozen=True)
class Rows:
    """Where each row lies in the text, where in itself it begins, and the number of tokens it predicts."""

    starts: NDArray[np.int64]
    spans: NDArray[np.int64]
    turns: NDArray[np.int64]
    lengths: NDArray[np.int64]
    num_steps: int

    def __len__(self) -> int:
        """The number of batches that the longest row fills."""
        return (int(self.lengths.max()) + self.num_steps - 1) // self.num_steps

    def places(self, steps: range) -> NDArray[np.int64]:
        """Return the positions of the inputs of these steps, [steps, rows]; rows wrap around at their end."""
        within = (self.turns + np.arange(steps.start, steps.stop)[:, None]) % self.spans
        return np.asarray(self.starts + within, dtype=np.int64)


class SequentialPartition(Batches[Rows, LanguageBatch]):
    """Row r of each batch continues row r of the previous batch.

    For training, an epoch skips d ~ U[0, num_steps) tokens first (`random_start`), all rows have the same
    length, and tokens that do not fill a batch are left out. For evaluation, `random_start=False, cover=True`
    predicts every token but the first exactly once; rows of the last batch may then be shorter, down to
    length 0. Each row starts without context, so `batch_size=1` gives the perplexity of the text read as one.

    `rotate` starts each row at a random position and wraps around at its end (Press, 2019): rows meet other
    neighbours in every epoch, while all but one of their tokens keep the token before them.

    >>> for batch in SequentialPartition(range(12), 2, 3, random_start=False, cover=True):
    ...     print(batch.inputs.T.tolist(), batch.lengths.tolist(), batch.continues)
    [[0, 1, 2], [6, 7, 8]] [3, 3] False
    [[3, 4, 5], [9, 10, 0]] [3, 2] True
    """

    def __init__(
        self,
        ids: Ids,
        batch_size: int,
        num_steps: int,
        *,
        seed: int = 0,
        random_start: bool = True,
        cover: bool = False,
        rotate: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._stream = Stream(ids, batch_size, num_steps, least=1 if cover else batch_size * num_steps)
        self._seed, self._random_start, self._cover, self._rotate = seed, random_start, cover, rotate
        more = {"seed": seed, "random_start": random_start, "cover": cover, "rotate": rotate}
        super().__init__({**self._stream.settings(), **more}, rank=rank, world_size=world_size)

    def _plan(self, epoch: int) -> Rows:
        stream, generator = self._stream, batches.draws(self._seed, epoch)
        offset = stream.offset(generator) if self._random_start else 0
        predictions = stream.predictions - offset
        rows = np.arange(min(stream.batch_size, predictions))
        length, more = divmod(predictions, len(rows))
        more = more if self._cover else 0
        starts, spans = offset + rows * length + np.minimum(rows, more), length + (rows < more)
        turns = np.zeros_like(spans)
        if self._rotate:
            turns = (batches.uniform(len(rows), generator) * spans).astype(np.int64)
        lengths = spans if self._cover else spans - spans % stream.num_steps
        return Rows(starts, spans, turns, lengths, stream.num_steps)

    def _collate(self, plan: Rows, index: int) -> LanguageBatch:
        done = index * plan.num_steps
        lengths = np.clip(plan.lengths - done, 0, plan.num_steps)
        steps = int(lengths.max())
        mine = torch.from_numpy(self._mine(lengths))
        places = plan.places(range(done, done + steps))[:, self.rank :: self.world_size]
        real = batches.real_positions(steps, mine)
        return LanguageBatch(
            count=int(lengths.sum()),
            inputs=self._stream.tokens(places) * real,
            labels=self._stream.tokens(places + 1) * real,
            lengths=mine,
            continues=index > 0,
        )


class OverlappingWindows(ShuffledWindows[LanguageBatch]):
    """Window i starts at token i * stride; `windows` selects some of them, all by default.

    The first 10,000 for training and the next 5,000 for validation are `range(10_000)` and `range(10_000,
    15_000)`; at the boundary, windows of both share up to num_steps tokens.

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
        **options: Unpack[WindowOptions],
    ) -> None:
        self._stream = stream = Stream(ids, batch_size, num_steps, least=num_steps)
        present = stream.spare // check_whole("stride", stride) + 1
        windows = range(present) if windows is None else windows
        if not windows or min(windows) < 0 or max(windows) >= present:
            asked = f"{windows[0]} to {windows[-1]}" if windows else "none"
            raise InputError("windows", f"are {asked}, but the text has windows 0 to {present - 1}")
        self._starts = np.array(windows, dtype=np.int64) * stride
        more = {"first_window": windows[0], "last_window": windows[-1], "stride": stride}
        settings = {"windows": len(windows), **stream.settings(), **more}
        super().__init__(settings, batch_size, **options)

    def _windows(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the first token of each window."""
        return self._starts

    def _collate(self, plan: RaggedIds, index: int) -> LanguageBatch:
        mine, steps = self._mine(plan[index]), self._stream.num_steps
        tokens = self._stream.tokens(mine + np.arange(steps + 1)[:, None])
        lengths = torch.full((len(mine),), steps)
        return LanguageBatch(len(plan[index]) * steps, tokens[:-1], tokens[1:], lengths, continues=False)


class RandomWindows(OverlappingWindows):
    """Windows that do not overlap, each once per epoch, in random order.

    Each epoch first skips d ~ U[0, num_steps) tokens, unless `random_start` is off.

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
        random_start: bool = True,
        **options: Unpack[WindowOptions],
    ) -> None:
        super().__init__(ids, batch_size, num_steps, stride=num_steps, **options)
        self._random_start = random_start
        self._settings = {**self._stream.settings(), "random_start": random_start, "seed": self._seed}

    def _windows(self, generator: np.random.Generator) -> NDArray[np.int64]:
        starts = self._starts + (self._stream.offset(generator) if self._random_start else 0)
        return starts[starts <= self._stream.spare]


SAMPLINGS: Mapping[str, Callable[..., Batches[Any, LanguageBatch]]] = {
    "random": RandomWindows,
    "sequential": SequentialPartition,
    "rotated": partial(SequentialPartition, rotate=True),
}
