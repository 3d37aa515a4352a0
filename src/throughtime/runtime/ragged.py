"""Sequences of different lengths side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


def padded(sequences: Sequence[Sequence[int]], *, least: int = 1) -> tuple[Ids, Ids]:
    """One sequence a column [T, B], zeros past its end, and the lengths [B]; T is `least` or more.

    >>> ids, lengths = padded([[5, 6, 7], [8]])
    >>> ids.tolist(), lengths.tolist()
    ([[5, 8], [6, 0], [7, 0]], [3, 1])
    """
    lengths = np.array([len(one) for one in sequences], dtype=np.int64)
    ids = np.zeros((max(least, int(lengths.max(initial=0))), len(sequences)), dtype=np.int64)
    for column, one in enumerate(sequences):
        ids[: len(one), column] = one
    return ids, lengths
