"""The interface between the trainer and a task: a model, its batches, a summed loss, and a measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from torch import Tensor, nn

if TYPE_CHECKING:
    from throughtime.data.batching.batches import Batch, Batches


Carried = tuple[Tensor, ...]
"""What one batch passes to the next: tensors [rows, ...]; empty if nothing is passed."""


class Loss(NamedTuple):
    """Sums over the rows of this process, never means: the trainer divides by the count of the whole batch.

    `total` is reported (nats, squared errors) and minimised; `penalty` is minimised but not reported. A total
    without a gradient is only reported: with label smoothing, the penalty is minimised in its place.
    """

    total: Tensor
    penalty: Tensor | None = None


class Objective(Protocol):
    """A model with its data. `measure` names the validation value that decides, `better` which way.

    `fixed_shapes` says that a loss runs the same kernels for all batches of a shape, whatever they hold, and
    never makes the host wait for the device: then a GPU replays whole updates from CUDA graphs. Batches that
    name their axes (`Batch.axes`) are padded to a few shapes for it. Such a loss does not read `batch.count`.
    If there is an attribute `variant`, it is a hashable value: what else a loss depends on besides tensors.
    If there is a method `begin_update(progress)`, it is called before each update with the share of the
    training that is done, from 0 to 1.
    If there is an attribute `settled`, not None, it says why there is nothing to train: the model is measured
    and saved as it is.
    `unit` is the word for what `count` counts: tokens, words, texts, values.
    """

    unit: str
    measure: str
    better: Literal["less", "more"]
    fixed_shapes: bool

    @property
    def model(self) -> nn.Module:
        """The network to train."""
        ...

    def batches(self, rank: int, world_size: int) -> Batches[Any, Any]:
        """Return the training batches, epoch after epoch, with a position that can be saved."""
        ...

    def count(self, batch: Batch) -> int:
        """Return the number of targets of the batch over all processes."""
        ...

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """Return the loss of a batch with at least one row, and what to carry to the next batch."""
        ...

    def validate(self, rank: int, world_size: int) -> Mapping[str, float]:
        """Return sums over the validation data of this process; empty without such data."""
        ...

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Turn these sums, added over all processes, into measures; `measure` is one of them."""
        ...

    def training_measures(self, mean: float) -> dict[str, float]:
        """Return what to report for a mean training loss, such as a perplexity."""
        ...

    def sample(self) -> str | None:
        """Return an example of what the model produces now, to show after each validation."""
        ...
