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
    if not callable(builder):
        raise InputError("cell", f"is {builder!r}, expected a name, a class or a function")
    name = getattr(builder, "__name__", type(builder).__name__)
    signature = inspect.signature(builder)
    try:
        signature.bind(1, 1, **({"initial": initial} if "initial" in signature.parameters else {}))
    except TypeError as error:
        problem = f"{name} cannot be built from an input size and a hidden size: {error}"
        raise InputError("cell", problem) from None
    takes_any = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
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
