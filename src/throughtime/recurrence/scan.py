"""`scan` runs a cell through time; `scan_layers` runs several layers in one call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from throughtime.cells.base import Cell, State
from throughtime.errors import InputError, unknown
from throughtime.recurrence import native
from throughtime.recurrence.backend import Backend, Result, runs_layers
from throughtime.recurrence.choice import BACKENDS, choose_backend, choose_for_layers


def scan(
    cell: Cell,
    x: Tensor,
    state: State | Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    reverse: bool = False,
    carry: Tensor | None = None,
    batch_first: bool = False,
    backend: str = "auto",
) -> Result:
    """Run a cell through time; return the outputs [T, B, H] and the last state of each row.

    A single sequence [T, I], without a batch, gives outputs [T, H] and a state [H].

    `lengths` [B] are the lengths of the rows: past its length a row keeps its state and its outputs are zero.
    `reverse` reads each row from its own end and returns the outputs in the original order. `carry` [T, B]
    multiplies the gradient that flows from step t back into the state before it. `auto` uses the fastest
    backend that can run the call; a named backend that cannot raises an error with the reason.

    >>> from throughtime.cells import LSTM
    >>> y, (h, c) = scan(LSTM(16, 32), torch.zeros(7, 2, 16))
    >>> y.shape, h.shape, torch.equal(y[-1], h)
    (torch.Size([7, 2, 32]), torch.Size([2, 32]), True)
    """
    if isinstance(cell, torch.nn.RNNBase):
        raise InputError("cell", f"is torch's {type(cell).__name__}; convert it with `Stack.from_torch`")
    if not isinstance(x, Tensor):
        raise InputError("x", f"is of type {type(x).__name__}, expected a tensor; use torch.as_tensor")
    if x.dim() == 2 and x.shape[1] == cell.input_size:
        run = partial(scan, cell, reverse=reverse, backend=backend)
        return run_single(run, cell.state_sizes, x, state, lengths, carry)
    if batch_first:
        _check_shape(cell, x, "[batch, time, {}]")
        outputs, last = scan(
            cell, x.transpose(0, 1), state, lengths, reverse=reverse, carry=carry, backend=backend
        )
        return Result(outputs.transpose(0, 1), last)
    narrow = find_autocast_dtype(x)
    _check_shape(cell, x, "[time, batch, {}]", narrow)
    if state is not None:
        state = check_state(cell, x, state)
    elif len(cell.learned_state):
        state = cell.initial_state(x.shape[1])
    steps = x.shape[0]
    x, lengths, carry = _trim(x, check_lengths(x, lengths), check_carry(x, carry))
    chosen = get_backend(backend, cell, _stand_in(x, narrow), lengths, carry)
    if runs_layers(chosen) and is_convertible([cell], x, narrow):
        outputs, last = chosen.run_layers([[cell]], x, state, lengths, carry, dtype=narrow, reverse=reverse)
        return Result(_append_zeros(outputs, steps), last)
    entering = cell.initial_state(x.shape[1]) if state is None else state
    if narrow is None and not reverse:
        outputs, last = chosen.run(cell, x, entering, lengths, carry)
    elif narrow is None:
        outputs, last = _run_reversed(chosen, cell, x, entering, lengths, carry)
    else:
        factors = None if carry is None else carry.to(narrow)
        once = partial(_run_reversed, chosen) if reverse else chosen.run
        run = partial(once, cell, lengths=lengths, carry=factors)
        outputs, last = run_narrow([cell], x, entering, narrow, run)
    return Result(_append_zeros(outputs, steps), last)


def run_single(
    run: Callable[..., Result],
    sizes: Sequence[int],
    x: Tensor,
    state: State | Tensor | None,
    lengths: Tensor | None,
    carry: Tensor | None,
    axis: int = 1,
) -> Result:
    """Run a sequence [T, I] as a batch of one row, and return outputs and state without that batch.

    The state has tensors of these `sizes`, `lengths` is one number and `carry` [T]; `axis` is the batch's.
    """
    if state is not None:
        state = (state,) if isinstance(state, Tensor) else tuple(state)
        if (got := [list(getattr(part, "shape", ())) for part in state]) != (
            expected := [[size] for size in sizes]
        ):
            raise InputError("state", f"has shapes {got}, but x has no batch: expected a tuple of {expected}")
        state = tuple(part[None] for part in state)
    if lengths is not None:
        lengths = torch.as_tensor(lengths).reshape(-1)
    outputs, last = run(
        x.unsqueeze(axis), state, lengths, carry=None if carry is None else carry.unsqueeze(-1)
    )
    return Result(outputs.squeeze(axis), tuple(part[0] for part in last))


def _run_reversed(
    backend: Backend, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
) -> Result:
    """Run a cell on rows that are swapped inside their lengths, and swap the outputs back."""
    order = reversal(x, lengths)
    factors = None if carry is None else _reorder(carry, order)
    outputs, last = backend.run(cell, _reorder(x, order), state, lengths, factors)
    return Result(_reorder(outputs, order), last)


def scan_layers(
    layers: Sequence[Sequence[Cell]],
    x: Tensor,
    state: State | None = None,
    lengths: Tensor | None = None,
    carry: Tensor | None = None,
) -> Result | None:
    """Run all layers through all steps in one call; return None if one scan after another is faster.

    `are_alike` must hold for the layers. Each is a cell that reads from the left, with or without a second
    one that reads from the right. States are flat, cell after cell; without one, each cell starts from its
    own.
    """
    if not x.numel():
        return None
    narrow = find_autocast_dtype(x)
    chosen = choose_for_layers(layers, x if narrow is None else _stand_in(x, narrow), lengths, carry)
    if not runs_layers(chosen) and chosen.name != "native":
        return None
    cells = [cell for layer in layers for cell in layer]
    if state is None:
        for cell in cells:
            if len(cell.learned_state):
                state = tuple(part for each in cells for part in each.initial_state(x.shape[1]))
                break
    weights = [cell.weights() for cell in cells]
    _check_shape(cells[0], x, "[time, batch, {}]", narrow, weights[0])
    if state is not None:
        _check_like(x, state)
    inside, rows, factors = x, lengths, carry
    if lengths is not None or carry is not None:
        inside, rows, factors = _trim(x, check_lengths(x, lengths), check_carry(x, carry))
    if runs_layers(chosen) and is_convertible(cells, x, narrow):
        result = chosen.run_layers(layers, inside, state, rows, factors, dtype=narrow, weights=weights)
    elif carry is not None:
        return None
    elif narrow is None:
        result = native.run_layers(layers, inside, state, rows, weights)
    else:
        result = run_narrow(cells, inside, state, narrow, partial(native.run_layers, layers, lengths=rows))
    return result if inside is x else Result(_append_zeros(result.outputs, x.shape[0]), result.state)


def find_autocast_dtype(x: Tensor) -> torch.dtype | None:
    """Return the type in which autocast computes on the device of x, or None where it is disabled."""
    device = "cuda" if x.is_cuda else x.device.type  # the type of a device is slow to ask for
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


def _stand_in(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return a tensor of the shape of x and this type, to choose a backend by; its values mean nothing."""
    if dtype is None or x.dtype is dtype:
        return x
    return x.new_empty((), dtype=dtype).expand(x.shape).requires_grad_(x.requires_grad)


def is_convertible(cells: Sequence[Cell], x: Tensor, dtype: torch.dtype | None) -> bool:
    """Whether a backend for layers converts these tensors itself: from float32, if at all."""
    return dtype is None or all(
        tensor.dtype in (dtype, torch.float32)
        for tensor in (x, *cells[0]._parameters.values())
        if tensor is not None
    )


def run_narrow(
    cells: Sequence[Cell],
    x: Tensor,
    state: State | None,
    dtype: torch.dtype,
    run: Callable[..., Result],
) -> Result:
    """Run in the precision of autocast; the returned state has the precision of the weights."""
    kept = next(cells[0].parameters()).dtype
    with contextlib.ExitStack() as narrow:
        for cell in cells:
            weights = {name: weight.to(dtype) for name, weight in cell.weights().items()}
            narrow.enter_context(cell.replacing(weights))
        narrow.enter_context(torch.autocast(x.device.type, enabled=False))
        outputs, last = run(x.to(dtype), None if state is None else tuple(part.to(dtype) for part in state))
    return Result(outputs, tuple(part.to(kept) for part in last))


def get_backend(
    name: str, cell: Cell, x: Tensor, lengths: Tensor | None = None, carry: Tensor | None = None
) -> Backend:
    """Return the backend of this name, or for `auto` the fastest that can run the call."""
    if name == "auto":
        return choose_backend(cell, x, lengths, carry)
    if name not in BACKENDS:
        raise unknown("backend", name, ["auto", *BACKENDS])
    if (reason := BACKENDS[name].refuses(cell, x, lengths, carry)) is not None:
        raise InputError(f"backend {name!r}", f"cannot run this: {reason}; use 'auto' or 'reference'")
    return BACKENDS[name]


def reversal(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return for each position the one it changes places with: [T, B]; padding stays in place.

    >>> reversal(torch.zeros(4, 2, 1), torch.tensor([4, 2])).T.tolist()
    [[3, 2, 1, 0], [1, 0, 2, 3]]
    """
    steps = torch.arange(x.shape[0], device=x.device)[:, None]
    if lengths is None:
        return steps.flip(0).expand(-1, x.shape[1])
    return torch.where(steps < lengths, lengths - 1 - steps, steps)


def _reorder(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(0, order if x.dim() == 2 else order[:, :, None].expand(-1, -1, x.shape[2]))


def _trim(
    x: Tensor, lengths: Tensor | None, carry: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Drop the steps past the longest row, and the lengths if all rows are equally long."""
    if lengths is None:
        return x, None, carry
    if lengths.device.type != "cpu":  # reading them would make the host wait
        return x, lengths.to(x.device), carry
    longest = max(1, int(lengths.max()))
    ragged = None if bool((lengths == longest).all()) else lengths.to(x.device)
    return x[:longest], ragged, None if carry is None else carry[:longest]


def _append_zeros(outputs: Tensor, steps: int) -> Tensor:
    """Append zeros for the steps that were trimmed."""
    padding = steps - outputs.shape[0]
    return pad(outputs, (0, 0, 0, 0, 0, padding)) if padding else outputs


def _check_shape(
    cell: Cell,
    x: Tensor,
    layout: str,
    narrow: torch.dtype | None = None,
    weights: Mapping[str, Tensor] | None = None,
) -> None:
    if x.dim() != 3 or x.shape[2] != cell.input_size:
        expected = f"{layout.format(cell.input_size)} or, without a batch, [time, {cell.input_size}]"
        raise InputError("x", f"has shape {list(x.shape)}, this cell expects {expected}")
    if not x.numel():
        raise InputError("x", f"has shape {list(x.shape)}: there is no step or no row to run")
    weight = next(iter((weights or cell.weights()).values()))
    if narrow is None and x.dtype is not weight.dtype:
        raise InputError(
            "x", f"is {x.dtype} but the cell's weights are {weight.dtype}; convert one of them with .to()"
        )
    if x.device != weight.device:
        raise InputError(
            "x",
            f"is on {x.device} but the cell's weights are on {weight.device}; move one of them with .to()",
        )


def check_state(cell: Cell, x: Tensor, state: State | Tensor | None) -> State:
    """Return the initial state, or raise an error that names the expected shapes."""
    batch = x.shape[1]
    if state is None:
        return cell.initial_state(batch)
    expected = [[batch, size] for size in cell.state_sizes]
    parts = (state,) if isinstance(state, Tensor) else tuple(state)
    if not all(isinstance(part, Tensor) for part in parts):
        raise InputError("state", f"is of type {type(state).__name__}, expected a tuple of tensors")
    if [list(part.shape) for part in parts] != expected:
        got = [list(part.shape) for part in parts]
        raise InputError("state", f"has shapes {got}, this cell expects a tuple of {expected}")
    _check_like(x, parts)
    return parts


def _check_like(x: Tensor, state: State) -> None:
    """Refuse a state of another type or device than x; autocast converts types itself."""
    for part in state:
        if part.device != x.device:
            raise InputError("state", f"is on {part.device} but x is on {x.device}; move one with .to()")
        if part.dtype != x.dtype and not torch.is_autocast_enabled(x.device.type):
            raise InputError("state", f"is {part.dtype} but x is {x.dtype}; convert one with .to()")


def check_carry(x: Tensor, carry: Tensor | None) -> Tensor | None:
    """Return the factors on the recurrent gradient, or raise an error that names their shape."""
    if carry is not None and carry.shape != x.shape[:2]:
        expected = list(x.shape[:2])
        raise InputError("carry", f"has shape {list(carry.shape)}, expected [time, batch] = {expected}")
    return carry


def check_lengths(x: Tensor, lengths: Tensor | None) -> Tensor | None:
    """Return the lengths, or raise an error that says what is expected."""
    if lengths is None:
        return None
    expected = f"expected a tensor of shape [{x.shape[1]}] and type torch.int64: one length per row"
    if not isinstance(lengths, Tensor):
        raise InputError("lengths", f"is of type {type(lengths).__name__}, {expected}")
    if lengths.shape != x.shape[1:2] or lengths.dtype not in (torch.int32, torch.int64):
        raise InputError("lengths", f"has shape {list(lengths.shape)} of {lengths.dtype}, {expected}")
    # On another device, this check would make the host wait.
    if lengths.device.type == "cpu" and (int(lengths.min()) < 0 or int(lengths.max()) > x.shape[0]):
        wrong = next(length for length in lengths.tolist() if not 0 <= length <= x.shape[0])
        raise InputError("lengths", f"holds {wrong}, expected lengths from 0 to {x.shape[0]}")
    return lengths
