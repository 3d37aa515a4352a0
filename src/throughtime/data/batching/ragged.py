"""Rows of unequal length in one flat array."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.errors import InputError


@dataclass(frozen=True, eq=False)
class RaggedIds:
    """Rows of ids, compact and quick to gather from: row i is `flat[offsets[i]:offsets[i + 1]]`.

    >>> rows = RaggedIds.of([[5, 6, 7], [8], [9, 4]])
    >>> len(rows), rows[2], rows.lengths
    (3, array([9, 4], dtype=int32), array([3, 1, 2]))
    """

    flat: NDArray[np.integer[Any]]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Refuse offsets that do not cover the ids."""
        ends = self.offsets
        if ends[0] != 0 or ends[-1] != len(self.flat) or (ends[1:] < ends[:-1]).any():
            raise InputError("offsets", f"must rise from 0 to the number of ids, {len(self.flat)}")

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> RaggedIds:
        """Gather rows of ids, read once and one at a time."""
        flat, ends = array("i"), array("q", [0])
        for number, row in enumerate(rows):
            try:
                flat.extend(row)
            except (TypeError, OverflowError) as error:
                raise InputError(f"row {number}", "holds something that is not an id of 32 bits") from error
            ends.append(len(flat))
        return cls(np.array(flat, dtype=np.int32), np.array(ends, dtype=np.int64))

    @classmethod
    def chunks(cls, items: NDArray[np.int64], size: int, keep_last: bool = True) -> RaggedIds:
        """Items in rows of `size`; a short last row is kept or dropped.

        >>> RaggedIds.chunks(np.arange(5), 2).lengths
        array([2, 2, 1])
        """
        offsets = np.arange(0, len(items) + 1, size, dtype=np.int64)
        if keep_last and offsets[-1] < len(items):
            offsets = np.append(offsets, len(items))
        return cls(items[: offsets[-1]], offsets)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each row."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The lengths of some rows."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        """One row, as a view."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    def cut(self, length: int) -> RaggedIds:
        """The first `length` ids of each row."""
        kept = np.minimum(self.lengths, length)
        place = np.arange(len(self.flat)) - np.repeat(self.offsets[:-1], self.lengths)
        return RaggedIds(self.flat[place < length], np.append(0, np.cumsum(kept)))

    def ended(self, eos_id: int) -> RaggedIds:
        """Each row with an end token after it.

        >>> RaggedIds.of([[5, 6], []]).ended(3).flat
        array([5, 6, 3, 3], dtype=int32)
        """
        flat = np.insert(self.flat, self.offsets[1:], eos_id)
        return RaggedIds(flat, self.offsets + np.arange(len(self.offsets)))

    def padded(self, rows: NDArray[np.int64], pad_id: int = 0) -> tuple[Tensor, Tensor]:
        """Some rows side by side, [time, batch], and their lengths, [batch].

        >>> ids, lengths = RaggedIds.of([[5, 6, 7], [8], [9, 4]]).padded(np.array([0, 1]))
        >>> ids
        tensor([[5, 8],
                [6, 0],
                [7, 0]])
        """
        starts = self.offsets[rows]
        lengths = self.lengths_of(rows)
        time = np.arange(lengths.max(initial=0))[:, None]
        real = time < lengths
        ids = np.full(real.shape, pad_id, dtype=np.int64)
        ids[real] = self.flat[(starts + time)[real]]
        return torch.from_numpy(ids), torch.from_numpy(lengths)
