"""Build a cell from its name, its class or a function, as stacks and models do."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from throughtime.cells import CELLS
from throughtime.cells.base import Cell
from throughtime.errors import InputError

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
    options = _options(builder, initial)
    cell = builder(input_size, hidden_size, **options)
    if not isinstance(cell, Cell):
        raise InputError(
            "cell",
            f"{_name(builder)} returns a {type(cell).__name__}, expected a throughtime.Cell; "
            "for a module of torch, use Stack.from_torch",
        )
    return cell


def _options(builder: Callable[..., Cell], initial: str) -> dict[str, str]:
    """The keyword arguments for the builder; raise a clear error where it does not accept them."""
    if not callable(builder):
        raise InputError("cell", f"is {builder!r}, expected a name, a class or a function")
    signature = inspect.signature(builder)
    wanted = initial != "zero" or "initial" in signature.parameters
    options = {"initial": initial} if wanted else {}
    try:
        signature.bind(1, 1, **options)
    except TypeError as error:
        if initial != "zero" and _takes_sizes(signature):
            raise InputError(
                "initial",
                f"is {initial!r}, but {_name(builder)} has no parameter `initial`; leave it out, or add it "
                "to its __init__ and pass it on to Cell.__init__",
            ) from None
        raise InputError(
            "cell", f"{_name(builder)} cannot be built from an input size and a hidden size: {error}"
        ) from None
    return options


def _takes_sizes(signature: inspect.Signature) -> bool:
    try:
        signature.bind(1, 1)
    except TypeError:
        return False
    return True


def _name(builder: Callable[..., Cell]) -> str:
    return getattr(builder, "__name__", type(builder).__name__)
