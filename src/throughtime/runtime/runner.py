"""What the runners of text models have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from throughtime.results import Progress
from throughtime.runtime.session import ExportedModel, ExportFolder
from throughtime.runtime.vectors import open_codec
from throughtime.text.input_warnings import ReadsTexts

Ids = NDArray[np.int64]


class TextRunner(ReadsTexts, ExportedModel):
    """A model with one graph and one codec."""

    codec: Any  # of texts or of vectors

    def __init__(self, folder: ExportFolder) -> None:
        super().__init__(folder)
        self.session, self.codec = folder.session("model"), open_codec(folder.path)


def pad(sequences: Sequence[Any]) -> tuple[NDArray[Any], Ids]:
    """One sequence per column [T, B], padded with zeros, and the lengths [B]; T is at least 1.

    Sequences of vectors are [T, B, size].

    >>> ids, lengths = pad([[5, 6, 7], [8]])
    >>> ids.tolist(), lengths.tolist()
    ([[5, 8], [6, 0], [7, 0]], [3, 1])
    """
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    shape = (max(1, int(lengths.max(initial=0))), len(sequences))
    vectors = isinstance(sequences[0], np.ndarray) if len(sequences) else False
    ids = np.zeros((*shape, *sequences[0].shape[1:]), np.float32) if vectors else np.zeros(shape, np.int64)
    for column, one in enumerate(sequences):
        ids[: len(one), column] = one
    return ids, lengths


def batches(
    sequences: Sequence[Sized], size: int, *, empty: bool = False, progress: Progress | None = None
) -> Iterator[list[int]]:
    """Batches of at most `size` sequence numbers, short sequences first; `empty` includes empty ones.

    >>> list(batches(["four", "", "three", "ab"], 2))
    [[3, 0], [2]]
    """
    order = sorted((len(one), number) for number, one in enumerate(sequences) if empty or len(one))
    for first in range(0, len(order), size):
        yield [number for _, number in order[first : first + size]]
        if progress is not None:
            progress(min(first + size, len(order)), len(order))


def normalise(log_probs: NDArray[Any]) -> NDArray[np.float64]:
    """ln P [rows, V] in float64, with probabilities that sum to 1 in each row."""
    wide = log_probs.astype(np.float64)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide
