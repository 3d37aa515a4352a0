"""The interface of backends, and the reference that all are tested against: the equations in a loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.errors import ThroughtimeError


class Result(NamedTuple):
    """The outputs of all steps and the state after the last one of each row."""

    outputs: Tensor  # [T, B, H], zero past a row's length
    state: State  # each [B, ...], as it was at the row's last step


class Backend(Protocol):
    """One way of running a cell through time. Pure: no dropout, no randomness, no training flag."""

    name: str

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """Return why it cannot run this call, in words, or None if it can."""
        ...

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """Run all steps of x [T, B, I] from left to right."""
        ...


class LayersBackend(Backend, Protocol):
    """A backend that runs several layers in one call, from either end, and converts types under autocast."""

    def run_layers(
        self,
        layers: Sequence[Sequence[Cell]],
        x: Tensor,
        state: State | None,
        lengths: Tensor | None,
        carry: Tensor | None = None,
        *,
        dtype: torch.dtype | None = None,
        reverse: bool = False,
        weights: Sequence[Mapping[str, Tensor]] | None = None,
    ) -> Result:
        """Run layers that `choice.are_alike` accepts, and compute in `dtype`, if it is given.

        A layer is a cell that reads from the left, with or without a second one that reads from the right;
        `reverse` is for a single cell that reads from the right. The state is flat, cell after cell; None
        means zeros. `weights` are those of all cells, if the caller has listed them.
        """
        ...


def runs_layers(backend: Backend) -> TypeGuard[LayersBackend]:
    """Whether a backend is a `LayersBackend`."""
    return hasattr(backend, "run_layers")


Gradients = tuple[Tensor | None, ...]


def first_order(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Raise an error for second derivatives.

    torch's `once_differentiable` raises one only if the incoming gradient requires a gradient; otherwise it
    silently returns constants. A backward pass that will be differentiated (`create_graph=True`) runs with
    gradients enabled, so this is what is checked.
    """

    @functools.wraps(backward)
    def run(ctx: Any, *gradients: Tensor) -> Gradients:
        if torch.is_grad_enabled():
            raise ThroughtimeError(
                "this backend of scan gives first derivatives only; "
                "for create_graph=True pass backend='reference' to it"
            )
        return backward(ctx, *gradients)

    return run


class Reference:
    """Runs one step after another, as the equations are written."""

    name = "reference"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It runs every cell."""
        return None

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """Run step by step; past a row's length the state is kept and the output is zero."""
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


BACKEND = Reference()


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
    """Return the same state, with gradients through it multiplied by `factor`, one number per row: [B]."""
    scaled: State = tuple(_ScaleGradient.apply(value, factor) for value in state)  # type: ignore[no-untyped-call]
    return scaled
