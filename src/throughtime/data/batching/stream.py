"""One long text as ids, and the batches that are cut from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from throughtime.data.batching.batch import Batch
from throughtime.data.batching.draws import random_offset
from throughtime.data.batching.position import at_least
from throughtime.errors import InputError

Ids = ArrayLike | Sequence[int]


@dataclass(frozen=True)
class LanguageBatch(Batch):
    """Inputs and labels, [time, batch]; the labels are the inputs shifted by one.

    Positions past a row's length hold 0 and are no targets. `continues` says that each row goes on where it
    stopped in the batch before, so that its state is carried over.
    """

    inputs: Tensor
    labels: Tensor
    lengths: Tensor
    continues: bool


class Stream:
    """The ids of one text; a memory-mapped file stays on disk and only what a batch needs is read.

    All tokens but the first can be predicted: a window of n steps needs n + 1 tokens.
    """

    def __init__(self, ids: Ids, batch_size: int, num_steps: int) -> None:
        self.batch_size = at_least("batch_size", batch_size, 1)
        self.num_steps = at_least("num_steps", num_steps, 1)
        self._ids = np.asarray(ids)
        if self._ids.ndim != 1 or self._ids.dtype.kind not in "iu":
            kind = f"{self._ids.ndim} axes of {self._ids.dtype}"
            raise InputError("ids", f"must be one row of whole numbers, got {kind}")
        self.predictions = len(self._ids) - 1

    def settings(self) -> dict[str, float | None]:
        """What a saved position depends on."""
        return {"tokens": len(self._ids), "batch_size": self.batch_size, "num_steps": self.num_steps}

    def spare(self, least: int) -> int:
        """How many predictions there are beyond the `least` that one epoch needs; fewer are an error."""
        if self.predictions < least:
            problem = f"has {len(self._ids)} tokens, but one batch needs {least + 1}"
            raise InputError(
                "text", f"{problem}; lower batch_size ({self.batch_size}) or num_steps ({self.num_steps})"
            )
        return self.predictions - least

    def offset(self, spare: int, generator: np.random.Generator) -> int:
        """d ~ U[0, num_steps), or less in a text so short that no batch would be left."""
        return random_offset(min(self.num_steps, spare + 1), generator)

    def tokens(self, places: NDArray[np.int64]) -> Tensor:
        """The tokens at these places of the text, [steps, batch]."""
        return torch.from_numpy(self._ids[places].astype(np.int64))
