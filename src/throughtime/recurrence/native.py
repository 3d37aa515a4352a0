"""The native backend: torch's own kernels, oneDNN's on a CPU and cuDNN's on a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from throughtime.cells.base import Cell, State
from throughtime.cells.elman import RNN
from throughtime.cells.gru import GRU
from throughtime.cells.lstm import LSTM
from throughtime.cells.variants import ProjectedLSTM
from throughtime.recurrence.backend import Result

FAR = 1e4
"""A sum at which every sigmoid is exactly 0 or 1, in every floating type, and which float16 still holds."""


class Native:
    """What torch has a kernel for: the plain network, the GRU that resets after the product, the LSTM."""

    name = "native"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """torch has kernels for few cells, and lets no one into its backward pass."""
        if carry is not None:
            return "torch's kernels cannot multiply the gradient between steps (carry)"
        if type(cell) is RNN:
            known = cell.activation in ("tanh", "relu")
            return None if known else "torch's plain network knows the activations tanh and relu only"
        if type(cell) is GRU:
            return None if cell.reset == "after" else "torch's GRU resets after the product only"
        if type(cell) in (LSTM, ProjectedLSTM):
            return None
        return "torch has no kernel for this cell"

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """One call of torch's kernel, whichever the lengths."""
        return run_layers([[cell]], x, state, lengths)


def run_layers(layers: Sequence[Sequence[Cell]], x: Tensor, state: State, lengths: Tensor | None) -> Result:
    """Layers that are `alike`, each reading what the one below wrote, in one call of torch's kernel.

    A layer is a cell that reads from the left, and perhaps one beside it that reads from the right. The state
    is flat, cell after cell.
    """
    cells = [cell for layer in layers for cell in layer]
    kernel = _kernel(cells[0], len(layers), bidirectional=len(layers[0]) > 1)
    weights = [weight for cell in cells for weight in _weights(cell)]
    if lengths is None:
        outputs, *last = kernel(x, state, weights)
        return Result(outputs, tuple(last))
    if x.device.type == "cpu" and len(cells) == 1 and isinstance(cells[0], LSTM | ProjectedLSTM):
        return _frozen(kernel, weights, x, state, lengths)
    return _packed(kernel, weights, x, state, lengths)


def alike(layers: Sequence[Sequence[Cell]]) -> bool:
    """Whether all cells are of one kind and size, as the layers of one module of torch's are.

    >>> alike([[LSTM(3, 4)], [LSTM(4, 4)]]), alike([[LSTM(3, 4)], [LSTM(4, 5)]])
    (True, False)
    """
    first, *others = (cell for layer in layers for cell in layer)
    return all(
        type(cell) is type(first) and getattr(cell, option, None) == getattr(first, option, None)
        for cell in others
        for option in ("hidden_size", "state_sizes", "activation", "reset")
    )


Kernel = Callable[[Tensor | PackedSequence, State, list[Tensor]], tuple[Tensor, ...]]
"""From the input, the state and the weights to the outputs and the last state, its parts [B, ...]."""


def _kernel(cell: Cell, layers: int, bidirectional: bool) -> Kernel:
    """Torch's function for so many layers of such cells."""
    function: Callable[..., tuple[Tensor, ...]]
    if isinstance(cell, ProjectedLSTM):
        function = _projected_lstm
    elif isinstance(cell, LSTM):
        function = torch.lstm
    elif isinstance(cell, GRU):
        function = torch.gru
    else:
        function = torch.rnn_relu if getattr(cell, "activation", "") == "relu" else torch.rnn_tanh
    kinds = len(cell.state_sizes)

    def call(x: Tensor | PackedSequence, state: State, weights: list[Tensor]) -> tuple[Tensor, ...]:
        parts = (state[kind::kinds] for kind in range(kinds))
        # Of one layer nothing need be copied.
        stacked = [torch.stack(part) if len(part) > 1 else part[0][None].contiguous() for part in parts]
        hidden: Any = stacked if kinds > 1 else stacked[0]
        # has_biases, num_layers, dropout, train, bidirectional; without packing, batch_first
        shape = (True, layers, 0.0, torch.is_grad_enabled(), bidirectional)
        with warnings.catch_warnings():
            # cuDNN wants all weights in one piece and copies them where they are not: small beside the scan.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
            if isinstance(x, PackedSequence):
                outputs, *last = function(x.data, x.batch_sizes, hidden, weights, *shape)
            else:
                outputs, *last = function(x, hidden, weights, *shape, False)
        return (outputs, *(part for cell_parts in zip(*last, strict=True) for part in cell_parts))

    return call


def _projected_lstm(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """torch.lstm, silent about oneDNN's not knowing projections: torch's own loop is still the faster one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="LSTM with projections")
        return torch.lstm(*arguments)


def _weights(cell: Cell) -> list[Tensor]:
    """In torch's order: ih, hh, both biases, the projection. Ours is one bias, so torch's second is zero."""
    w = cell.weights()
    bias_hh = torch.zeros_like(w["bias"])
    if "bias_hn" in w:
        bias_hh = torch.cat([bias_hh[: 2 * cell.hidden_size], w["bias_hn"]])
    projection = [w["weight_hr"]] if "weight_hr" in w else []
    return [w["weight_ih"], w["weight_hh"], w["bias"], bias_hh, *projection]


def _frozen(kernel: Kernel, weights: list[Tensor], x: Tensor, state: State, lengths: Tensor) -> Result:
    """A ragged LSTM without packing, which oneDNN does not know.

    One more input channel is 1 on padding. There its weights drive the input and output gates to exactly 0
    and the forget gate to exactly 1: the memory stays, the outputs are zero, no gradient passes the gates.
    """
    (past,) = (torch.arange(len(x))[:, None] >= lengths).flatten().nonzero(as_tuple=True)
    widened = nn.functional.pad(x, (0, 1))
    # Autograd need not know what is written here: with gates at exactly 0 or 1 no gradient comes back to it.
    rows = widened.detach().view(-1, widened.shape[2]).index_fill_(0, past, 0.0)
    rows[:, -1].index_fill_(0, past, 1.0)
    weight_ih = weights[0]
    push = weight_ih.new_tensor([-FAR, FAR, 0.0, -FAR]).repeat_interleave(len(weight_ih) // 4)  # i, f, g, o
    outputs, _, c = kernel(widened, state, [torch.cat([weight_ih, push[:, None]], dim=1), *weights[1:]])
    h = outputs[(lengths.clamp(min=1) - 1).long(), torch.arange(len(lengths))]
    return Result(outputs, (torch.where(lengths[:, None] > 0, h, state[0]), c))


def _packed(kernel: Kernel, weights: list[Tensor], x: Tensor, state: State, lengths: Tensor) -> Result:
    """A ragged batch by torch's packing. That knows no empty row, so an empty row takes one step in vain."""
    packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    assert order is not None
    assert back is not None
    outputs, *last = kernel(packed, tuple(part.index_select(0, order) for part in state), weights)
    rows = PackedSequence(outputs, packed.batch_sizes, order, back)
    padded, _ = pad_packed_sequence(rows, total_length=len(x))
    stepped = lengths[:, None] > 0
    return Result(
        torch.where(stepped, padded, 0.0),
        tuple(
            torch.where(stepped, part.index_select(0, back), old)
            for part, old in zip(last, state, strict=True)
        ),
    )
