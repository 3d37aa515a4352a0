"""What search needs of a model: counted, recurrent, or several together. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from throughtime.search.generate import Memory, SearchState, Step

    SearchStart = tuple[Tensor, SearchState, Memory]
    """The first input token of each row, the state before it and the memory."""


class StepModel:
    """A model that search runs token by token: `prepare`, `read` and `step`; the rest has defaults.

    `prepare` turns prompts into tensors on the host, and `read` reads these on the model's device. The two
    are separate because a GPU may replay what `read` does from a recording, as it does with `step`.
    """

    def prepare(self, prompts: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """Arrange the prompts in tensors on the host, the arguments of `read`."""
        raise NotImplementedError

    def read(self, *inputs: Any) -> SearchStart:
        """Read what `prepare` returned, on any device; return what `start` returns."""
        raise NotImplementedError

    def step(self, last: Tensor, state: SearchState, memory: Memory) -> Step:
        """Feed one token per row; return ln P of every next token, [rows, V]."""
        raise NotImplementedError

    def start(self, prompts: Sequence[Sequence[Any]]) -> SearchStart:
        """Read the prompts; return the first input token of each row, the state before it and the memory."""
        return self.read(*self.prepare(prompts))

    def step_scores(self, last: Tensor, state: SearchState, memory: Memory) -> Step:
        """Like `step`, but `log_probs` up to a constant in each row: the search computes the softmax."""
        return self.step(last, state, memory)

    @property
    def attends(self) -> bool:
        """Whether the extras of each step have attention."""
        return False

    @property
    def recorded_modules(self) -> Sequence[nn.Module]:
        """The modules whose weights, with its arguments, decide what `step` returns; none: not recorded."""
        return ()

    @property
    def reading_modules(self) -> Sequence[nn.Module]:
        """The modules that `read` reads or writes; none if it cannot be recorded."""
        return ()


class ScoringModel(StepModel):
    """A step model that also scores whole sequences at once."""

    def log_probs(self, sequences: Sequence[Sequence[int]]) -> list[NDArray[np.float64]]:
        """ln P of every id given the ids before it."""
        raise NotImplementedError


class WrappedModel(StepModel):
    """A step model that runs another one, `model`; a subclass changes what differs. It is not recorded."""

    def __init__(self, model: StepModel) -> None:
        self.model = model

    def start(self, prompts: Sequence[Sequence[Any]]) -> SearchStart:
        """Read the prompts."""
        return self.model.start(prompts)

    def step(self, last: Tensor, state: SearchState, memory: Memory) -> Step:
        """Feed one token per row."""
        return self.model.step(last, state, memory)
