"""The native backend: torch's own kernels, oneDNN's on a CPU and cuDNN's on a GPU."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from throughtime.accelerate import find_second_biases
from throughtime.cells.base import Cell, State
from throughtime.recurrence.backend import Result

FAR = 1e4
"""A sum at which every sigmoid is exactly 0 or 1, in every floating type, and which float16 still holds."""


FUNCTIONS: dict[str, Callable[..., tuple[Tensor, ...]]] = {
    "rnn": torch.rnn_tanh,
    "gru": torch.gru,
    "lstm": torch.lstm,
    "lstm-projected": torch.lstm,
}


class Native:
    """Runs the cells that torch has kernels for: RNN, GRU with reset after the product, and LSTM."""

    name = "native"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """torch has kernels for few cells, and its backward pass cannot be changed."""
        if carry is not None:
            return "torch's kernels cannot multiply the gradient between steps (carry)"
        if cell.equations not in FUNCTIONS:
            return "torch has no kernel for this cell"
        options = vars(cell)  # without the lookups of `nn.Module`, which are slow for what is not there
        if options.get("activation", "tanh") not in ("tanh", "relu"):
            return "torch's plain network knows the activations tanh and relu only"
        if options.get("reset", "after") != "after":
            return "torch's GRU resets after the product only"
        if lengths is not None and lengths.is_cuda and torch.cuda.is_current_stream_capturing():
            return "torch's packing reads the lengths on the host, which a CUDA graph cannot do"
        return None

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """Run one call of torch's kernel."""
        return run_layers([[cell]], x, state, lengths)


BACKEND = Native()


def run_layers(
    layers: Sequence[Sequence[Cell]],
    x: Tensor,
    state: State | None,
    lengths: Tensor | None,
    weights: CellWeights | None = None,
) -> Result:
    """Run a stack of layers that `are_alike` accepts in one call of torch's kernel.

    A layer is a cell that reads from the left, with or without a second one that reads from the right. The
    state is flat, cell after cell; None means zeros. `weights` are those of all cells, if the caller has
    asked for them.
    """
    cells = [cell for layer in layers for cell in layer]
    kernel = _kernel(cells[0], len(layers), len(layers[0]) > 1)
    entering = _zeros(cells, x) if state is None else _stack_state(cells, state)
    listed = list_weights(cells, weights)
    if lengths is None:
        outputs, *last = kernel(x, entering, listed)
        return Result(outputs, _flat(last))
    if x.device.type == "cpu" and len(cells) == 1 and FUNCTIONS[cells[0].equations] is torch.lstm:
        return _frozen(kernel, listed, x, entering, lengths)
    return _run_packed(kernel, listed, x, entering, lengths)


CellWeights = Sequence[dict[str, Tensor]]
"""The weights of each cell by name."""


def list_weights(cells: Sequence[Cell], weights: CellWeights | None = None) -> list[Tensor]:
    """List the weights in torch's order: ih, hh, both biases, the projection; cell after cell.

    `weights` are those of all cells, if the caller has asked for them.
    """
    if weights is None:
        weights = [cell.weights() for cell in cells]
    return order_weights(weights, find_second_biases(cells[0], weights) or make_second_biases(weights))


def order_weights(weights: CellWeights, second_biases: Sequence[Tensor]) -> list[Tensor]:
    """List the weights in torch's order, with these second biases."""
    listed: list[Tensor] = []
    for w, second in zip(weights, second_biases, strict=True):
        listed += (w["weight_ih"], w["weight_hh"], w["bias"], second)
        if "weight_hr" in w:
            listed.append(w["weight_hr"])
    return listed


def make_second_biases(weights: CellWeights) -> Sequence[Tensor]:
    """Make the second bias of torch, where ours is one: zero, except for the part that a GRU resets.

    The zeros are made in each call, once for all cells. Cached ones must not come from inference mode, from a
    CUDA graph's memory, from another stream or from a transform: too much to check for one small tensor.
    """
    bias = weights[0]["bias"]
    if "bias_hn" not in weights[0]:
        return [torch.zeros_like(bias)] * len(weights)
    zeros = bias.new_zeros(bias.shape[0] - weights[0]["bias_hn"].shape[0])
    joined = torch.cat([part for w in weights for part in (zeros, w["bias_hn"])])
    return joined.view(len(weights), -1).unbind() if len(weights) > 1 else [joined]


Stacked = list[Tensor]
"""A state as torch has it: one tensor for each kind of part (h, or h and c), all cells' parts in it."""

Kernel = Callable[[Tensor | PackedSequence, Stacked, list[Tensor]], tuple[Tensor, ...]]
"""From the input, the state and the weights to the outputs and the last state, each of it [cells, B, ...]."""


def _kernel(cell: Cell, layers: int, bidirectional: bool) -> Kernel:
    """Return torch's function for this number of layers of such cells."""
    relu = vars(cell).get("activation") == "relu"
    function = torch.rnn_relu if relu else FUNCTIONS[cell.equations]
    projected = cell.equations == "lstm-projected"

    def call(x: Tensor | PackedSequence, state: Stacked, weights: list[Tensor]) -> tuple[Tensor, ...]:
        hidden: Any = state if len(state) > 1 else state[0]
        # has_biases, num_layers, dropout, train, bidirectional; without packing, batch_first
        shape = (True, layers, 0.0, torch.is_grad_enabled(), bidirectional)
        if projected or weights[0].is_cuda:
            _hush()
        if isinstance(x, PackedSequence):
            return function(x.data, x.batch_sizes, hidden, weights, *shape)
        return function(x, hidden, weights, *shape, False)

    return call


# cuDNN wants all weights in one piece (`flat_weights`) and copies them where they are not; oneDNN knows no
# projections, and torch's own loop is still the faster one.
MESSAGES = re.compile("RNN module weights are not part of single|LSTM with projections", re.IGNORECASE)
# Calls from here, or from code that torch puts in between, such as that of a default device. Warnings about
# torch's own modules stay visible.
CALLERS = re.compile(rf"{re.escape(__name__)}$|torch\.(utils|overrides)\b")
HUSHED = ("ignore", MESSAGES, UserWarning, CALLERS, 0)
"""The filter of warnings for what torch says of the calls made here."""


def _hush() -> None:
    """Put the filter before all others, where it is not there already: one that was set later may precede it.

    It stays there: to set filters back after each call costs every call, and undoes what other threads set
    meanwhile.
    """
    if not warnings.filters or warnings.filters[0] != HUSHED:
        warnings.filterwarnings("ignore", MESSAGES.pattern, UserWarning, CALLERS.pattern)


def _zeros(cells: Sequence[Cell], x: Tensor) -> Stacked:
    """Return a zero state. Nothing writes into it, so parts of equal size share one tensor."""
    first, *others = cells[0].state_sizes
    h = x.new_zeros(len(cells), x.shape[1], first)
    return [h, *(h if size == first else x.new_zeros(len(cells), x.shape[1], size) for size in others)]


def _stack_state(cells: Sequence[Cell], state: State) -> Stacked:
    """Convert a flat state to torch's form; for one cell without a copy."""
    if len(cells) == 1:
        return [part.unsqueeze(0).contiguous() for part in state]
    kinds = len(cells[0].state_sizes)
    return [torch.stack(state[kind::kinds]) for kind in range(kinds)]


def _flat(stacked: Sequence[Tensor]) -> State:
    """Convert a state in torch's form to a flat one."""
    if stacked[0].shape[0] == 1:
        return tuple([kind.squeeze(0) for kind in stacked])
    return tuple(chain.from_iterable(zip(*[kind.unbind() for kind in stacked], strict=True)))


def _frozen(kernel: Kernel, weights: list[Tensor], x: Tensor, state: Stacked, lengths: Tensor) -> Result:
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
    return Result(outputs, (torch.where(lengths[:, None] > 0, h, state[0][0]), c[0]))


def _run_packed(kernel: Kernel, weights: list[Tensor], x: Tensor, state: Stacked, lengths: Tensor) -> Result:
    """A ragged batch by torch's packing, which has no empty rows: an empty row takes one unused step."""
    packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    assert order is not None
    assert back is not None
    outputs, *last = kernel(packed, [part.index_select(1, order) for part in state], weights)
    rows = PackedSequence(outputs, packed.batch_sizes, order, back)
    padded, _ = pad_packed_sequence(rows, total_length=len(x))
    stepped = lengths[:, None] > 0
    return Result(
        torch.where(stepped, padded, 0.0),
        tuple(
            torch.where(stepped, part, old)
            for part, old in zip(
                _flat([part.index_select(1, back) for part in last]), _flat(state), strict=True
            )
        ),
    )
