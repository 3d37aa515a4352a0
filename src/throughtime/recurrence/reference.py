"""The truth: a cell's equations in a loop. Every other backend is tested against this one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.recurrence.backend import Result


class Reference:
    """One step after the other, as the equations are written."""

    name = "reference"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It serves every cell."""
        return None

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """Step by step; past a row's length the state freezes and the output is zero."""
        outputs = []
        # Not projected[t]: the gradient of each such index would be as large as all steps.
        for t, projected in enumerate(cell.project(x).unbind()):
            entered = state if carry is None else scale_gradient(state, carry[t])
            stepped = cell.step(projected, entered)
            if lengths is None:
                state = stepped
                outputs.append(state[0])
                continue
            inside = (t < lengths)[:, None]
            outputs.append(torch.where(inside, stepped[0], 0.0))
            state = tuple(torch.where(inside, new, old) for new, old in zip(stepped, state, strict=True))
        return Result(torch.stack(outputs), state)


class _ScaleGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied row by row."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return gradients[0] * factor[:, None], None


def scale_gradient(state: State, factor: Tensor) -> State:
    """The same state; gradients through it are multiplied by `factor`, one number a row. [B]"""
    scaled: State = tuple(_ScaleGradient.apply(value, factor) for value in state)  # type: ignore[no-untyped-call]
    return scaled
