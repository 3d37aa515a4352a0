"""Pairs of like lengths put together, so that little of a batch is padding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from throughtime.data.batching.draws import permutation, uniform
from throughtime.data.batching.position import at_least
from throughtime.data.batching.ragged import RaggedIds
from throughtime.errors import InputError

Lengths = NDArray[np.int64]

_WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16)


class Buckets:
    """Cuts pairs into batches by the lengths of both sides.

    The pairs are cut into strips by source length, a strip `width` lengths wide, and a strip is sorted by
    target length, upwards and downwards in turn so that neighbours stay alike where two strips meet. The
    width that pads least is found once: narrow for many pairs, wide for few.

    A batch holds at most `batch_size` pairs, and at most `max_tokens` positions on its larger side, padding
    included.

    >>> lengths = np.array([3, 9, 3, 8, 4, 9])
    >>> [batch.tolist() for batch in Buckets(lengths, lengths, batch_size=2).in_order()]
    [[0, 2], [4, 3], [1, 5]]
    """

    def __init__(
        self,
        sources: Lengths,
        targets: Lengths,
        *,
        batch_size: int | None = 64,
        max_tokens: int | None = None,
    ) -> None:
        self._sources, self._targets = sources, targets
        self._batch_size, self._max_tokens = batch_size, max_tokens
        if batch_size is None and max_tokens is None:
            raise InputError("batch_size", "and max_tokens are both None; give one of them")
        if batch_size is not None:
            at_least("batch_size", batch_size, 1)
        if max_tokens is not None:
            self._check_longest(max_tokens)
        self.width = self._best_width()

    def in_order(self) -> RaggedIds:
        """Batches of pair numbers by rising source length, always the same."""
        return self._cut(self._sorted(self.width, self._targets, np.arange(len(self._sources))))

    def shuffled(self, generator: np.random.Generator, jitter: float) -> RaggedIds:
        """Batches of pair numbers, themselves in random order.

        Equal lengths are drawn in random order. `jitter` also blurs the target lengths by so much, up or
        down: then more pairs can meet, and more is padding.
        """
        ties = permutation(len(self._sources), generator)
        blur = jitter * (2 * uniform(len(self._sources), generator) - 1)
        batches = self._cut(self._sorted(self.width, self._targets + blur, ties))
        order = permutation(len(batches), generator)
        starts, lengths = batches.offsets[order], batches.lengths[order]
        ends = np.cumsum(lengths)
        places = np.arange(len(ties)) + np.repeat(starts - ends + lengths, lengths)
        return RaggedIds(batches.flat[places], np.append(0, ends))

    def padding(self, batches: RaggedIds) -> float:
        """The share of all positions, sources and targets together, that is padding."""
        real = int(self._sources.sum() + self._targets.sum())
        return 1 - real / self._positions(batches)

    def _positions(self, batches: RaggedIds) -> int:
        first, rows = batches.offsets[:-1], batches.lengths
        sides = (self._sources[batches.flat], self._targets[batches.flat])
        return sum(int(np.maximum.reduceat(side, first) @ rows) for side in sides)

    def _sorted(self, width: int, targets: NDArray[np.number], ties: NDArray[np.int64]) -> NDArray[np.int64]:
        strips = self._sources // width
        return np.lexsort((ties, np.where(strips % 2 == 0, targets, -targets), strips))

    def _best_width(self) -> int:
        ties = np.arange(len(self._sources))
        return min(
            _WIDTHS, key=lambda width: self._positions(self._cut(self._sorted(width, self._targets, ties)))
        )

    def _cut(self, order: NDArray[np.int64]) -> RaggedIds:
        if self._max_tokens is None:
            assert self._batch_size is not None
            return RaggedIds.chunks(order, self._batch_size)
        most, offsets, rows, longest = self._batch_size or len(order), [0], 0, 0
        for length in np.maximum(self._sources, self._targets)[order].tolist():
            longest = max(longest, length)
            rows += 1
            if rows > most or rows * longest > self._max_tokens:
                offsets.append(offsets[-1] + rows - 1)
                rows, longest = 1, length
        return RaggedIds(order, np.array([*offsets, len(order)], dtype=np.int64))

    def _check_longest(self, max_tokens: int) -> None:
        longer = np.maximum(self._sources, self._targets)
        pair = int(longer.argmax())
        if longer[pair] > max_tokens:
            problem = f"is {max_tokens}, but pair {pair} alone has {longer[pair]} tokens"
            raise InputError("max_tokens", f"{problem}; raise it or set max_length")
