"""The step interface: all that search knows of a model, be it counted, recurrent, or several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

State = tuple[Tensor, ...]
"""What changes from token to token: flat, each tensor [rows, ...]; selected per hypothesis at every step."""


@dataclass(frozen=True)
class Memory:
    """What stays the same while a sentence is decoded: kept once per sentence, not once per hypothesis.

    `kept` holds tensors [sentences, ...] (an encoder's outputs, their lengths); `owner` says whose sentence
    each row is. Rows of a sentence lie side by side; `rows_each` is their number where all have the same.
    """

    kept: tuple[Tensor, ...]
    owner: Tensor  # [rows], into the sentences that are kept
    rows_each: int | None = 1

    @classmethod
    def empty(cls, sentences: int, device: torch.device | None = None) -> Memory:
        """For models that remember nothing per sentence."""
        return cls((), torch.arange(sentences, device=device))

    @property
    def places(self) -> tuple[Tensor, int]:
        """Where each row lies in a table [sentences, the most rows of one], and that most."""
        rows = torch.bincount(self.owner)
        most = int(rows.max()) if len(rows) else 0
        within = torch.arange(len(self.owner), device=self.owner.device) - (rows.cumsum(0) - rows)[self.owner]
        return self.owner * most + within, most

    def follow(self, owner: Tensor) -> Memory:
        """The memory for rows that belong to these sentences; a sentence without a row is forgotten."""
        if torch.equal(owner, self.owner):
            return self
        alive, renumbered, each = torch.unique_consecutive(owner, return_inverse=True, return_counts=True)
        whole = len(alive) == (int(self.owner[-1]) + 1 if len(self.owner) else 0)
        kept = self.kept if whole else tuple(tensor.index_select(0, alive) for tensor in self.kept)
        uniform = len(each) > 0 and bool((each == each[0]).all())
        return Memory(kept, renumbered, int(each[0]) if uniform else None)


class Step(NamedTuple):
    """One step of a model for every row."""

    log_probs: Tensor  # [rows, V], ln P(next); given away: a search may write on it
    state: State
    extras: Mapping[str, Tensor] = {}  # [rows, ...], attention for one; search carries them along


class StepModel(Protocol):
    """What search needs of any model."""

    def start(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, State, Memory]:
        """Read the prompts: the first input of each row, the state to enter with it, the memory."""
        ...

    def step(self, last: Tensor, state: State, memory: Memory) -> Step:
        """Feed one token a row."""
        ...


def select(state: State, rows: Tensor) -> State:
    """The state of the hypotheses that go on."""
    return tuple(tensor.index_select(0, rows) for tensor in state)
