"""A long text read through once, every token scored given all before it, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from throughtime.cells.base import State
from throughtime.models.language import NOTHING, RecurrentLanguageModel

STEPS = 512


class Reader(Protocol):
    """How a piece of the text is scored: by the model alone, or by one that learns from what it has read."""

    steps: int
    """How many tokens it takes at a time."""

    def read(
        self, model: RecurrentLanguageModel, inputs: Tensor, labels: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """Surprisals of the labels [T, B], in nats, and the state after them."""
        ...


class PlainReader:
    """The model as it is."""

    steps = STEPS

    @torch.inference_mode()
    def read(
        self, model: RecurrentLanguageModel, inputs: Tensor, labels: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """See `Reader`."""
        outputs, _, reached = model(inputs, state)
        return model.head.surprisals(outputs.flatten(0, 1), labels.flatten()).view_as(labels), reached


def surprisals(
    model: RecurrentLanguageModel,
    ids: np.ndarray[Any, Any],
    begin: int,
    *,
    reader: Reader | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Tensor]:
    """The surprisal of every id, in nats, piece by piece; `begin` is what stands before the first.

    They stay on the model's device, so that reading never waits for them.
    """
    reader = reader or PlainReader()
    device = model.embedding.weight.device
    state = model.initial_state(1)
    before, first = begin, 0
    while first < len(ids):
        # NOTHING leaves no trace in the state, so the token after it is a piece of its own.
        steps = 1 if before == NOTHING else reader.steps
        labels = torch.from_numpy(ids[first : first + steps].astype(np.int64))[:, None]
        inputs = torch.cat([torch.tensor([[before]]), labels[:-1]])
        found, reached = reader.read(model, inputs.to(device), labels.to(device), state)
        state = state if before == NOTHING else reached
        before, first = int(labels[-1]), first + len(labels)
        yield found[:, 0]
        if progress is not None:
            progress(first)
