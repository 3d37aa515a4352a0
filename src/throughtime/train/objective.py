"""What the trainer minimises: a model, its batches, a loss that is a sum, and a measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from torch import Tensor, nn

if TYPE_CHECKING:
    from throughtime.data.batching.batches import Batch, Batches


State = tuple[Tensor, ...]
"""What one batch hands to the next: each tensor [rows, ...], empty where nothing is handed on."""


class Loss(NamedTuple):
    """Sums over the rows at hand, never means: the trainer divides by the count of the whole batch.

    `total` is what is measured (nats, squared errors), `penalty` what is minimised besides and not measured.
    A total without a gradient is measured only: so label smoothing minimises something in its place.
    """

    total: Tensor
    penalty: Tensor | None = None


class Objective(Protocol):
    """A model with its data. `measure` names the validation value that decides, `better` which way.

    `fixed_shapes` says that a loss runs the same kernels whatever its batch holds, as a CUDA graph needs.
    If there is a method `begin_update(progress)`, it is called before each update with the share of the
    training that is done, from 0 to 1.
    `unit` is the word for what `count` counts: tokens, words, texts, values.
    """

    unit: str
    measure: str
    better: Literal["less", "more"]
    fixed_shapes: bool

    @property
    def model(self) -> nn.Module:
        """What is trained."""
        ...

    def batches(self, rank: int, world_size: int) -> Batches[Any, Any]:
        """The training batches, epoch after epoch, with a position that can be saved."""
        ...

    def count(self, batch: Batch) -> int:
        """How many targets the batch has over all processes."""
        ...

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """The loss of a batch with at least one row; `carried` is empty or what the last batch handed on."""
        ...

    def validate(self, rank: int, world_size: int) -> Mapping[str, float]:
        """Sums over this process's share of the validation data; empty where there is none."""
        ...

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Turn these sums, added over all processes, into measures; `measure` is one of them."""
        ...

    def training_measures(self, mean: float) -> dict[str, float]:
        """What people read in a mean training loss: a perplexity, a squared error."""
        ...

    def sample(self) -> str | None:
        """Something that the model produces with its present weights, to show after each validation."""
        ...
