"""The memory layout of a ragged batch: no step and no product works on padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


def scratch(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return uninitialised memory. Every buffer comes from here, so that tests can fill it with NaN."""
    return like.new_empty(shape)


class StepBlock(NamedTuple):
    """Consecutive steps, and the rows that enter them."""

    steps: slice
    rows: slice

    @property
    def extent(self) -> int:
        """The number of rows."""
        return int(self.rows.stop - self.rows.start)

    def backwards(self) -> list[tuple[int, int]]:
        """Return the steps, the last first: their index in the part and in the sequence."""
        return list(enumerate(range(self.steps.start, self.steps.stop)))[::-1]


@dataclass(frozen=True)
class RowLayout:
    """The rows of each step, longest first, one step's block after another.

    Step t works on the first `living[t]` rows. Its block has as many rows as *enter* it, that is, as lived
    before; a row that has just ended lies there once more, dead, so that gates and the state entering them
    stand side by side and their product over all steps is one product. The states, with one block more, are
    the initial one and those after each step; a row's last state is found where the row lies dead.

    Rows of lengths 3, 1 and 2, with the dead ones in brackets:

    >>> layout = RowLayout.for_lengths(torch.tensor([3, 1, 2]), steps=5)
    >>> layout.living, layout.entering_counts
    ([3, 2, 1], [3, 3, 2])
    >>> layout.enter(torch.arange(15.0).view(5, 3, 1)).flatten().tolist()  # 0 2 1 | 3 5 (4) | 6 (8)
    [0.0, 2.0, 1.0, 3.0, 5.0, 0.0, 6.0, 0.0]
    """

    shape: tuple[int, int]
    living: list[int]
    order: Tensor | None = None  # [B]: which row of the batch is the longest, the second longest, ...
    origin: Tensor | None = None  # [entering rows]: the position of each in the flattened batch
    written: Tensor | None = None  # [living rows]: likewise, of those that give an output
    ended: Tensor | None = None  # [B]: where among the states each row of the batch has its last
    dead: Tensor | None = None  # where among the entering rows the dead ones lie

    @classmethod
    def dense(cls, steps: int, batch: int) -> RowLayout:
        """The layout of rows of equal length, where nothing moves."""
        return cls((steps, batch), [batch] * steps)

    @classmethod
    def for_lengths(cls, lengths: Tensor, steps: int) -> RowLayout:
        """The layout of rows of these lengths. Steps after the longest row are ignored."""
        batch, device = len(lengths), lengths.device
        length, order = lengths.clamp(0, steps).sort(descending=True)
        longest = max(1, int(length[0]))
        step = torch.arange(longest, device=device)[:, None]
        position = step * batch + order
        alive = step < length
        counts = alive.sum(1)
        living: list[int] = counts.tolist()
        # States lie in blocks of B, living[0], living[1], ... rows.
        start = torch.cat([counts.new_tensor([0, batch]), batch + counts.cumsum(0)])
        sorted_end = start[length] + torch.arange(batch, device=device)
        return cls(
            (steps, batch),
            living,
            order=order,
            origin=position[step <= length],
            written=position[alive],
            ended=torch.empty_like(sorted_end).scatter_(0, order, sorted_end),
            dead=sorted_end[length < longest],
        )

    @property
    def entering_counts(self) -> list[int]:
        """The number of rows in the block of each step."""
        return [self.shape[1], *self.living[:-1]]

    @property
    def rows(self) -> int:
        """The number of rows that enter all steps."""
        return sum(self.entering_counts)

    def enter(self, x: Tensor) -> Tensor:
        """Gather the rows that enter each step: [T, B, I] -> [rows, I]. Dead rows are zero."""
        flat = x.reshape(-1, x.shape[2])
        return flat if self.origin is None else self.bury(flat.index_select(0, self.origin))

    def leave(self, rows: Tensor) -> Tensor:
        """The inverse of `enter`, for gradients: [rows, I] -> [T, B, I]."""
        return self._scatter(rows, self.origin)

    def outputs(self, states: Tensor) -> Tensor:
        """The outputs of all steps, zero on padding: [B + living rows, H] -> [T, B, H]."""
        return self._scatter(states[self.shape[1] :], self.written)

    def _scatter(self, rows: Tensor, at: Tensor | None) -> Tensor:
        steps, batch = self.shape
        if at is None:
            return rows.view(steps, batch, -1)
        flat = rows.new_zeros(steps * batch, rows.shape[1]).index_copy_(0, at, rows)
        return flat.view(steps, batch, -1)

    def last(self, states: Tensor) -> Tensor:
        """The last state of each row of the batch: [B + living rows, H] -> [B, H]."""
        return states[-self.shape[1] :].clone() if self.ended is None else states.index_select(0, self.ended)

    def states(self, initial: Tensor) -> Tensor:
        """Allocate the states before and after all steps and fill in the first: [B + living rows, H]."""
        batch, size = initial.shape
        states = scratch((batch + sum(self.living), size), like=initial)
        states[:batch] = initial if self.order is None else initial.index_select(0, self.order)
        return states

    def gradients(self, outputs: Tensor, last: Tensor) -> Tensor:
        """The gradients of all states, from the outputs' and the last state's: [B + living rows, H]."""
        batch = self.shape[1]
        states = scratch((batch + sum(self.living), outputs.shape[2]), like=outputs)
        states[:batch].zero_()
        flat = outputs.reshape(-1, outputs.shape[2])
        if self.written is None or self.ended is None:
            states[batch:].copy_(flat)
            states[-batch:].add_(last)
            return states
        torch.index_select(flat, 0, self.written, out=states[batch:])
        return states.index_add_(0, self.ended, last)

    def initial_gradient(self, gradients: Tensor) -> Tensor:
        """The initial state's gradient, in the batch's order. [B, H]"""
        first = gradients[: self.shape[1]]
        if self.order is None:
            return first.clone()  # a view would hold the memory of all steps
        return torch.empty_like(first).index_copy_(0, self.order, first)

    def bury(self, rows: Tensor, start: int = 0) -> Tensor:
        """Set the dead among entering rows to zero in place; `start` is the index of the first of `rows`."""
        if self.dead is None:
            return rows
        at = self.dead - start
        return rows.index_fill_(0, at[(at >= 0) & (at < len(rows))], 0.0)

    def parts(self, least: int) -> list[StepBlock]:
        """Split the steps into parts of at least `least` rows; the last part may have fewer."""
        parts, first, start, stop = [], 0, 0, 0
        for step, count in enumerate(self.entering_counts):
            stop += count
            if stop - start >= least or step == len(self.living) - 1:
                parts.append(StepBlock(slice(first, step + 1), slice(start, stop)))
                first, start = step + 1, stop
        return parts

    def blocks(self, rows: Tensor, part: StepBlock | None = None) -> list[Tensor]:
        """Return for each step, of all or of a part, its living rows of a tensor of entering rows."""
        steps = slice(None) if part is None else part.steps
        return [
            block if len(block) == count else block[:count]
            for block, count in zip(rows.split(self.entering_counts[steps]), self.living[steps], strict=True)
        ]

    def split_before(self, states: Tensor) -> list[Tensor]:
        """Return for each step the state before it, of its living rows."""
        return self.blocks(states[: self.rows])

    def split_after(self, states: Tensor) -> list[Tensor]:
        """Return for each step the state after it."""
        return list(states[self.shape[1] :].split(self.living))

    def factors(self, carry: Tensor | None) -> list[Tensor | None]:
        """Return for each step its living rows of `carry` [T, B] as columns, or None without `carry`."""
        if carry is None:
            return [None] * len(self.living)
        column = (carry if self.order is None else carry.index_select(1, self.order))[:, :, None]
        return [factor[:count] for factor, count in zip(column, self.living, strict=False)]


class InputGradients:
    """Accumulates the gradients of x, weight_ih and bias from the gradients of the sums of the gates."""

    def __init__(self, layout: RowLayout, entering: Tensor, weight: Tensor, wanted: bool) -> None:
        self.layout, self.entering_counts, self.weight = layout, entering, weight
        self.into_rows = scratch(tuple(entering.shape), like=entering) if wanted else None
        self.into_weight, self.into_bias = torch.zeros_like(weight), weight.new_zeros(len(weight))

    def add(self, sums: Tensor, start: int = 0) -> None:
        """Add the gradients of the sums of rows from `start` on: [rows, G*H]."""
        rows = slice(start, start + len(sums))
        if self.into_rows is not None:
            torch.mm(sums, self.weight, out=self.into_rows[rows])
        self.into_weight.addmm_(sums.t(), self.entering_counts[rows])
        self.into_bias += sums.sum(0)

    def result(self) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return the gradients of x, weight_ih and bias."""
        x = None if self.into_rows is None else self.layout.leave(self.into_rows)
        return x, self.into_weight, self.into_bias
