"""Copy weights to and from torch's nn.RNN, nn.GRU and nn.LSTM.

Torch keeps two biases, b_ih and b_hh, of which only the sum matters; cells keep the sum. The one exception is
the candidate of a GRU, where b_hn is inside the reset gate's product: it is `bias_hn` here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from throughtime.cells.base import Cell
from throughtime.cells.elman import ACTIVATIONS, RNN
from throughtime.cells.gru import GRU
from throughtime.cells.lstm import LSTM
from throughtime.cells.variants import ProjectedLSTM
from throughtime.errors import InputError, check_whole

TorchRecurrence = nn.RNN | nn.GRU | nn.LSTM


def counterpart(module: TorchRecurrence) -> Callable[..., Cell]:
    """Return the constructor of the cell with this module's equations, from input size and hidden size."""
    if isinstance(module, nn.RNN):
        return partial(RNN, activation=module.nonlinearity)
    if isinstance(module, nn.GRU):
        return GRU
    if isinstance(module, nn.LSTM):
        return partial(ProjectedLSTM, projection_size=module.proj_size) if module.proj_size else LSTM
    raise InputError("module", f"is a {type(module).__name__}, expected nn.RNN, nn.GRU or nn.LSTM")


def empty_module(
    cell: Cell,
    *,
    num_layers: int = 1,
    bidirectional: bool = False,
    dropout: float = 0.0,
    batch_first: bool = False,
) -> TorchRecurrence:
    """Return a new torch module of this cell's kind and sizes, with random weights."""
    _check_torch(cell)
    weight = cell.weights()["weight_ih"]
    build: Callable[..., TorchRecurrence]
    if isinstance(cell, RNN):
        build = partial(nn.RNN, nonlinearity=cell.activation)
    elif isinstance(cell, GRU):
        build = nn.GRU
    else:
        build = partial(nn.LSTM, proj_size=cell.output_size if isinstance(cell, ProjectedLSTM) else 0)
    return build(
        cell.input_size,
        cell.hidden_size,
        num_layers,
        bidirectional=bidirectional,
        dropout=dropout if num_layers > 1 else 0.0,  # torch warns if dropout would do nothing
        batch_first=batch_first,
        device=weight.device,
        dtype=weight.dtype,
    )


@torch.no_grad()
def load_torch(cell: Cell, module: TorchRecurrence, layer: int = 0, *, reverse: bool = False) -> None:
    """Copy the weights of one layer of a torch module into a cell; `reverse` takes the backward direction.

    >>> module, cell = nn.LSTM(4, 8), LSTM(4, 8)
    >>> load_torch(cell, module)
    >>> torch.equal(cell.bias, module.bias_ih_l0 + module.bias_hh_l0)
    True
    """
    theirs, ours = _match_weights(cell, module, layer, reverse)
    for name in ("weight_ih", "weight_hh", "weight_hr"):
        if name in ours:
            ours[name].copy_(theirs[name])
    if not module.bias:
        for name in ours.keys() & {"bias", "bias_hn"}:
            ours[name].zero_()
        return
    bias = theirs["bias_ih"] + theirs["bias_hh"]
    if "bias_hn" in ours:
        inside = slice(-cell.hidden_size, None)
        bias[inside] = theirs["bias_ih"][inside]
        ours["bias_hn"].copy_(theirs["bias_hh"][inside])
    ours["bias"].copy_(bias)


@torch.no_grad()
def store_torch(cell: Cell, module: TorchRecurrence, layer: int = 0, *, reverse: bool = False) -> None:
    """Copy a cell's weights into one layer of a torch module; b_hh becomes zero, except for a GRU's b_hn."""
    theirs, ours = _match_weights(cell, module, layer, reverse)
    if not module.bias:
        raise InputError("module", "has no biases, but the cell has; build it with bias=True")
    for name in ("weight_ih", "weight_hh", "weight_hr"):
        if name in ours:
            theirs[name].copy_(ours[name])
    theirs["bias_ih"].copy_(ours["bias"])
    theirs["bias_hh"].zero_()
    if "bias_hn" in ours:
        theirs["bias_hh"][-cell.hidden_size :] = ours["bias_hn"]


def _check_torch(cell: Cell) -> None:
    """Raise an error if torch has no module with the equations of this cell."""
    reason = None
    if type(cell) not in (RNN, GRU, LSTM, ProjectedLSTM):
        reason = "torch has no module with its equations"
    elif isinstance(cell, RNN) and cell.activation not in ACTIVATIONS:
        reason = "nn.RNN has only tanh and relu"
    elif isinstance(cell, GRU) and cell.reset != "after":
        reason = "nn.GRU resets after the product, this cell before it"
    if reason is not None:
        raise InputError(type(cell).__name__, reason)


def _match_weights(
    cell: Cell, module: TorchRecurrence, layer: int, reverse: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights of one layer and direction of a module, and those of the cell, alike in shape."""
    _check_torch(cell)
    expected = counterpart(module)
    kind = expected.func if isinstance(expected, partial) else expected
    if type(cell) is not kind:
        problem = f"does not have the equations of this nn.{type(module).__name__}"
        raise InputError(type(cell).__name__, problem)
    if isinstance(cell, RNN) and cell.activation != module.nonlinearity:
        raise InputError(
            "RNN",
            f"has the activation {cell.activation!r}, but the module has {module.nonlinearity!r}; build the "
            "cell with that one",
        )
    check_whole("layer", layer, 0, module.num_layers - 1)
    if reverse and not module.bidirectional:
        raise InputError("reverse", "is true, but the module reads in one direction only")
    suffix = f"_l{layer}{'_reverse' if reverse else ''}"
    theirs = {
        name.removesuffix(suffix): weight
        for name, weight in module.named_parameters()
        if name.endswith(suffix)
    }
    ours = cell.weights()
    for name in ours:
        if name in theirs and ours[name].shape != theirs[name].shape:
            shapes = f"{list(ours[name].shape)} in the cell, but {list(theirs[name].shape)} in the module"
            raise InputError(name, f"is {shapes}")
    return theirs, ours
