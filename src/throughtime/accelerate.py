"""The only door to code that is faster than plain torch: kernels for a GPU, and short cuts on a CPU.

An `Operation` is something that the core computes with plain torch, and that other code may compute instead.
The core asks it once; without an answer, plain torch runs, which is the reference. Packages register answers
when they are imported: `recurrence` its steps on a CPU, `gpu` everything for an NVIDIA GPU. The latter is
imported here, when an operation is first asked on a machine that has one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from typing import Any

    import torch
    from torch import Tensor

    from throughtime.cells.base import Cell, State
    from throughtime.data.batching.batches import Batches
    from throughtime.fit.config import TrainingConfig
    from throughtime.fit.learner import Learner
    from throughtime.fit.objective import Objective
    from throughtime.fit.processes import Processes
    from throughtime.layers.attention import Attention
    from throughtime.models.attention_steps import TorchAttention
    from throughtime.models.gate_steps import Gates
    from throughtime.models.softmax_loss import ChunkSoftmax
    from throughtime.recurrence.backend import Backend
    from throughtime.recurrence.steps import AlikeRows
    from throughtime.search.generate import Constraint, Finished, Memory, StepModel, Strategy

P = ParamSpec("P")
Answer = TypeVar("Answer")

BLOCKED = "THROUGHTIME_NO_GPU_CODE"
"""An environment variable: unless it is empty, plain torch computes everything on a GPU."""
GPU_BACKENDS = {
    "persistent": "throughtime.gpu.persistent:BACKEND",
    "linear": "throughtime.gpu.linear_scan:BACKEND",
}
"""The backends of recurrences that need a GPU, for the table of all, the fastest first."""


class Operation(Generic[P, Answer]):
    """Something that plain torch computes, and that registered code may compute instead.

    >>> double: Operation[[int], int] = Operation()
    >>> print(double(2))
    None
    >>> @double.register
    ... def add_to_itself(number):
    ...     return number + number if number > 1 else None
    >>> print(double(2), double(1))
    4 None
    """

    def __init__(self) -> None:
        self._answers: list[Callable[P, Answer | None]] = []

    def register(self, answer: Callable[P, Answer | None]) -> Callable[P, Answer | None]:
        """Add a function that returns None for calls which it leaves to others; the newest is asked first."""
        self._answers.insert(0, answer)
        return answer

    def __call__(self, *arguments: P.args, **options: P.kwargs) -> Answer | None:
        """Return the first answer that is not None; None if nothing is faster than plain torch."""
        if not _wing.checked:
            _wing.open()
        for answer in self._answers:
            if _wing.blocked and answer.__module__.startswith(_wing.package):
                continue
            if (result := answer(*arguments, **options)) is not None:
                return result
        return None


class _Wing:
    """The package with code for GPUs, imported once, and only on a machine that has one."""

    package = "throughtime.gpu"
    checked = False
    blocked = bool(os.environ.get(BLOCKED))

    def open(self) -> None:
        import torch

        self.checked = True
        if torch.cuda.is_available():
            import throughtime.gpu  # noqa: F401 - its modules register what they can do


_wing = _Wing()


@contextlib.contextmanager
def block_gpu() -> Iterator[None]:
    """Leave everything to plain torch on a GPU inside this block, as the reference of a test."""
    before, _wing.blocked = _wing.blocked, True
    try:
        yield
    finally:
        _wing.blocked = before


step_cell: Operation[[Cell, Tensor, State, AlikeRows | None], State] = Operation()
"""The state after one step of a cell, without gradients, from x [B, I] and the state; rows may be alike."""

attend_rows: Operation[[Attention, Tensor, Memory, Tensor | None, bool], tuple[Tensor, Tensor]] = Operation()
"""What `layers.attention.attend` returns for one query per row, without gradients."""

find_attention_kernels: Operation[[torch.dtype, Tensor, int], type[TorchAttention]] = Operation()
"""The attention of all steps of a decoder: for queries of a type, keys [B, T, D] and values of a width."""

find_gate_kernels: Operation[[Cell, torch.device, torch.dtype], Gates] = Operation()
"""The gates of all steps of a decoder's cell."""

find_softmax_kernel: Operation[[Tensor], type[ChunkSoftmax]] = Operation()
"""The softmax of a loss with these weights [V, H]."""

chain_surprisals: Operation[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] = Operation()
"""-ln P of tags [T, B] in a chain: scores [T, B, S], tags, lengths, transitions, and scores of both ends."""

run_search: Operation[
    [StepModel, Sequence[Sequence[int]], Strategy, int, Sequence[Constraint]], list[list[Finished]]
] = Operation()
"""Run a whole search of at most this number of new tokens: what `search.generate.generate` returns."""

choose_gpu_backend: Operation[[Sequence[Sequence[Cell]], Tensor, Tensor | None, Tensor | None], Backend] = (
    Operation()
)
"""The backend of a call on a GPU, for the cells of all layers, x, lengths and carry."""

export_times: Operation[[], dict[str, list[float]]] = Operation()
"""The measured times by which this process has chosen backends."""

adopt_times: Operation[[Mapping[str, Sequence[float]]], None] = Operation()
"""Choose backends by these times, those of a run or of its first process, instead of measuring."""

describe_gpus: Operation[[bool, Callable[[str], None]], list[dict[str, Any]]] = Operation()
"""The times of a few calls on each GPU, perhaps measured again; what takes long is said before."""

lay_out_weights: Operation[[Sequence[Sequence[Cell]], bool], None] = Operation()
"""Put the weights of the cells of all layers, which may run together, into memory as kernels want them."""

find_second_biases: Operation[[Cell, Sequence[dict[str, Tensor]]], Sequence[Tensor]] = Operation()
"""The second biases of torch for cells whose weights were laid out: from the first cell and all weights."""

find_learner: Operation[
    [Objective, TrainingConfig, Processes, Batches[Any, Any], Callable[[str], None]], Learner
] = Operation()
"""What updates the weights of a model in a training on these batches; the last argument shows messages."""
