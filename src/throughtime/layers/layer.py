"""One layer of a stack, of one cell or two, how cells are built, and dropout for sequences."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from throughtime.cells import CELLS
from throughtime.cells.base import Cell, Ops, State
from throughtime.errors import InputError, check_number
from throughtime.recurrence.backend import Result
from throughtime.recurrence.choice import are_alike, prefers_one_call
from throughtime.recurrence.scan import scan_layers
from throughtime.recurrence.steps import AlikeRows

Builder = str | Callable[..., Cell]
"""The name of a cell, its class, or a function that takes an input size and a hidden size."""


def build_cell(builder: Builder, input_size: int, hidden_size: int, *, initial: str = "zero") -> Cell:
    """Build a cell with these sizes; a name is looked up in `CELLS`.

    The initial state of a cell is zero by default. Any other is passed on as `initial`, a parameter that your
    own cell does not have to accept.
    """
    if isinstance(builder, Cell):
        raise InputError("cell", "is already built; give its name or class, or use Stack.of([cell])")
    if isinstance(builder, str):
        builder = CELLS[builder]
    if not callable(builder):
        raise InputError("cell", f"is {builder!r}, expected a name, a class or a function")
    name = getattr(builder, "__name__", type(builder).__name__)
    signature = inspect.signature(builder)
    try:
        signature.bind(1, 1, **({"initial": initial} if "initial" in signature.parameters else {}))
    except TypeError as error:
        problem = f"{name} cannot be built from an input size and a hidden size: {error}"
        raise InputError("cell", problem) from None
    takes_any = any(option.kind is option.VAR_KEYWORD for option in signature.parameters.values())
    if "initial" in signature.parameters or (takes_any and initial != "zero"):
        cell = builder(input_size, hidden_size, initial=initial)
    elif initial == "zero":
        cell = builder(input_size, hidden_size)
    else:
        raise InputError(
            "initial",
            f"is {initial!r}, but {name} has no parameter `initial`; leave it out, or add it to its __init__ "
            "and pass it on to Cell.__init__",
        )
    if not isinstance(cell, Cell):
        raise InputError(
            "cell",
            f"{name} returns a {type(cell).__name__}, expected a throughtime.Cell; "
            "for a module of torch, use Stack.from_torch",
        )
    return cell


class Layer(nn.Module):
    """One or two cells that read the same input; the outputs of two are concatenated.

    The state is that of the cell from the left, then that of the cell from the right. `weight_drop` is the
    share of recurrent weights that one scan drops, in training.
    """

    def __init__(self, from_left: Cell, from_right: Cell | None = None, *, weight_drop: float = 0.0) -> None:
        super().__init__()
        if from_right is not None and from_right.input_size != from_left.input_size:
            raise InputError(
                "cells",
                f"read inputs of {from_left.input_size} and {from_right.input_size}, expected the same",
            )
        self.from_left, self.from_right = from_left, from_right
        self.weight_drop = check_probability("weight_drop", weight_drop)
        for cell in self.cells:
            if weight_drop and "weight_hh" not in cell.weights():
                raise InputError("weight_drop", f"{type(cell).__name__} has no recurrent weights to drop")

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cell from the left and, if there is one, the cell from the right."""
        # Without the lookups of `nn.Module`, which are slow for a short scan.
        modules = self._modules
        left, right = modules["from_left"], modules.get("from_right")
        return cast(tuple[Cell, ...], (left,) if right is None else (left, right))

    @property
    def input_size(self) -> int:
        """The width of x."""
        return self.from_left.input_size

    @property
    def output_size(self) -> int:
        """The width of y, both directions together."""
        return sum(cell.output_size for cell in self.cells)

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of each tensor of the state."""
        return tuple(size for cell in self.cells for size in cell.state_sizes)

    def initial_state(self, batch: int) -> State:
        """The state before the first step."""
        return tuple(part for cell in self.cells for part in cell.initial_state(batch))

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        lengths: Tensor | None = None,
        carry: Tensor | None = None,
        backend: str = "auto",
    ) -> Result:
        """Run all steps, each direction from its own end. [T, B, I] -> [T, B, H]"""
        if not (self.training and self.weight_drop):
            return self._run(x, state, lengths, carry, backend)
        with contextlib.ExitStack() as dropped:
            for cell in self.cells:
                dropped.enter_context(weight_drop(cell, self.weight_drop))
            return self._run(x, state, lengths, carry, backend)

    def _run(
        self, x: Tensor, state: State | None, lengths: Tensor | None, carry: Tensor | None, backend: str
    ) -> Result:
        from_left, *others = self.cells
        parts = len(from_left.state_sizes)
        first, second = (None, None) if state is None else (state[:parts], state[parts:])
        at_once: Result | None = None
        if others and backend == "auto" and carry is None and prefers_one_call(x) and self._runs_at_once():
            at_once = scan_layers([self.cells], x, state, lengths)
        if at_once is not None:
            return at_once
        ahead: Result = from_left(x, first, lengths, carry=carry, backend=backend)
        if not others:
            return ahead
        back: Result = others[0](x, second, lengths, reverse=True, carry=carry, backend=backend)
        return Result(torch.cat([ahead.outputs, back.outputs], dim=-1), ahead.state + back.state)

    def _runs_at_once(self) -> bool:
        """Whether both cells can run in one call: they are of one kind, and no hook watches them."""
        return are_alike([self.cells]) and are_unwatched(self.cells)

    def step(self, x: Tensor, state: State, alike: AlikeRows | None = None) -> State:
        """One step of the cell from the left; the output is the first tensor of the state. [B, I]"""
        cell = self.from_left
        return cell.step_from(x, state, alike) if cell.equations else cell.step_from(x, state)

    def extra_repr(self) -> str:
        """What `print(layer)` shows."""
        return f"weight_drop={self.weight_drop}"


def list_bare_cells(layers: Sequence[Layer]) -> list[tuple[Cell, ...]] | None:
    """Return the cells of each layer if calling the layers only scans these cells.

    Otherwise, if weights are dropped or a hook watches, return None.
    """
    rows = []
    for layer in layers:
        if type(layer) is not Layer or (layer.weight_drop and layer.training):
            return None
        cells = layer.cells
        if not are_unwatched((layer, *cells)):
            return None
        rows.append(cells)
    return rows


def are_unwatched(modules: Sequence[nn.Module]) -> bool:
    """Whether no hook watches these modules."""
    for module in modules:  # a loop, as `any` with a generator is slower
        if (
            module._forward_pre_hooks
            or module._forward_hooks
            or module._backward_pre_hooks
            or module._backward_hooks
        ):
            return False
    return not nn.modules.module._has_any_global_hook()


def check_probability(name: str, p: float) -> float:
    """Return p, or raise an error that names the option."""
    if check_number(name, p, 0, 1) == 1:
        raise InputError(name, f"is {p}, expected less than 1")
    return p


def variational_dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Drop the same units of a row at every step (Gal and Ghahramani, 2016): x [T, B, H], mask [1, B, H].

    >>> y = variational_dropout(torch.ones(4, 3, 50), 0.5)
    >>> bool((y == y[0]).all()), sorted(set(y.flatten().tolist()))
    (True, [0.0, 2.0])
    """
    check_probability("dropout", p)
    if not training or p == 0:
        return x
    return x * dropout(x.new_ones(1, *x.shape[1:]), p)


def sequence_dropout(x: Tensor, p: float, training: bool, variational: bool) -> Tensor:
    """Drop units in training, with one mask over time if `variational`."""
    if not training or p == 0:
        return x
    return variational_dropout(x, p) if variational else dropout(x, p)


def embedding_dropout(embedded: Tensor, ids: Tensor, words: int, p: float, training: bool = True) -> Tensor:
    """Drop whole words: a word of the vocabulary is zero everywhere in the batch, or nowhere.

    One number is drawn for each of the `words` of the vocabulary, and `embedded` [T, B, E] is scaled by the
    number of its id. The embedding table is not touched, so that its gradient can stay sparse.

    >>> ids = torch.tensor([[3], [7], [3]])
    >>> y = embedding_dropout(torch.ones(3, 1, 2), ids, words=10, p=0.5)
    >>> torch.equal(y[0], y[2]), bool((y == y[..., :1]).all())
    (True, True)
    """
    check_probability("embedding dropout", p)
    if not training or p == 0:
        return embedded
    return embedded * dropout(embedded.new_ones(words), p)[ids][..., None]


def weight_drop(cell: Cell, p: float) -> contextlib.AbstractContextManager[None]:
    """Inside the block, some recurrent weights are zero, the same ones at every step (Merity et al., 2018).

    The cell's own weights do not change and receive the gradient of those that were kept.
    """
    check_probability("weight_drop", p)
    return cell.replacing({"weight_hh": dropout(cell.weights()["weight_hh"], p)})


def graph_norm(ops: Ops, norm: nn.LayerNorm | None, x: str) -> str:
    """Add a layer normalisation to a graph; without one, return x itself."""
    return x if norm is None else ops.layer_norm(x, norm.weight, norm.bias, norm.eps)
