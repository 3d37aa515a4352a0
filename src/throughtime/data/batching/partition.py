"""One long text cut into rows that are read side by side, from left to right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from throughtime.data.batching.batch import real_positions
from throughtime.data.batching.draws import draws, uniform
from throughtime.data.batching.position import Batches
from throughtime.data.batching.stream import Ids, LanguageBatch, Stream


@dataclass(frozen=True)
class Rows:
    """Where each row lies in the text, how far on in itself it begins, and how many tokens it predicts."""

    starts: NDArray[np.int64]
    spans: NDArray[np.int64]
    turns: NDArray[np.int64]
    lengths: NDArray[np.int64]
    num_steps: int

    def __len__(self) -> int:
        """How many batches the longest row fills."""
        return (int(self.lengths.max()) + self.num_steps - 1) // self.num_steps

    def places(self, steps: range) -> NDArray[np.int64]:
        """Where the inputs of these steps stand, [steps, rows]; a row's end leads to its start."""
        within = (self.turns + np.arange(steps.start, steps.stop)[:, None]) % self.spans
        return np.asarray(self.starts + within, dtype=np.int64)


class SequentialPartition(Batches[Rows, LanguageBatch]):
    """Row r of each batch continues row r of the batch before.

    To train: the epoch leaves out d ~ U[0, num_steps) tokens first (`random_start`), the rows are equally
    long, and what does not fill a batch is left out too. To evaluate: `random_start=False, cover=True`
    predicts every token but the first exactly once; the last batch is shorter, and some of its rows shorter
    still, down to length 0. Each row starts without a past, so one row (`batch_size=1`) gives the
    perplexity of the text read in one go.

    `rotate` begins each row at a random place of its own and reads on from its start when its end is reached
    (Press, 2019): rows fall on other neighbours in every epoch, while all but one of their words keep what
    stood before them.

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
        self._stream = Stream(ids, batch_size, num_steps)
        self._seed, self._random_start, self._cover, self._rotate = seed, random_start, cover, rotate
        self._spare = self._stream.spare(1 if cover else batch_size * num_steps)
        own = {"seed": seed, "random_start": random_start, "cover": cover, "rotate": rotate}
        super().__init__({**self._stream.settings(), **own}, rank=rank, world_size=world_size)

    def _plan(self, epoch: int) -> Rows:
        stream, generator = self._stream, draws(self._seed, epoch)
        offset = stream.offset(self._spare, generator) if self._random_start else 0
        predictions = stream.predictions - offset
        rows = np.arange(min(stream.batch_size, predictions))
        length, more = divmod(predictions, len(rows))
        more = more if self._cover else 0
        starts, spans = offset + rows * length + np.minimum(rows, more), length + (rows < more)
        turns = np.zeros_like(spans)
        if self._rotate:
            turns = (uniform(len(rows), generator) * spans).astype(np.int64)
        lengths = spans if self._cover else spans - spans % stream.num_steps
        return Rows(starts, spans, turns, lengths, stream.num_steps)

    def _collate(self, plan: Rows, index: int) -> LanguageBatch:
        done = index * plan.num_steps
        lengths = np.clip(plan.lengths - done, 0, plan.num_steps)
        steps = int(lengths.max())
        mine = torch.from_numpy(self._mine(lengths).copy())
        places = plan.places(range(done, done + steps))[:, self.rank :: self.world_size]
        real = real_positions(steps, mine)
        return LanguageBatch(
            count=int(lengths.sum()),
            inputs=self._stream.tokens(places) * real,
            labels=self._stream.tokens(places + 1) * real,
            lengths=mine,
            continues=index > 0,
        )
