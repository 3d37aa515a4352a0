"""Weights in one piece of memory, as cuDNN needs them: others are copied at each call.

The parameters of a stack on a GPU become views of that piece when the stack is moved there, as those of
torch's own modules do. Their names and shapes stay. If something else replaces their memory, such as weight
drop, autocast or a transform, their addresses have changed, and torch copies them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from throughtime.cells.base import Cell
from throughtime.recurrence.choice import are_alike
from throughtime.recurrence.native import CellWeights, make_second_biases, order_weights

MODES = {"rnn": 1, "gru": 3, "lstm": 2, "lstm-projected": 2}
"""How cuDNN numbers the equations; an RNN with relu is 0."""
PLAIN = {nn.Parameter}
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class _Flat(NamedTuple):
    addresses: list[int]
    second_biases: list[Tensor]

    def holds(self, weights: Sequence[Tensor]) -> bool:
        """Return whether these weights are still where they were put."""
        return self.addresses == [weight.data_ptr() for weight in weights]


_FLAT: weakref.WeakKeyDictionary[Cell, _Flat] = weakref.WeakKeyDictionary()
"""By the first of the cells that run in one call."""


def find_second_biases(first: Cell, cell_weights: CellWeights) -> Sequence[Tensor] | None:
    """Return the second biases in the memory of the others, or None if that is not one piece."""
    flat = _FLAT.get(first)
    if flat is None or torch.compiler.is_compiling():
        return None
    weights = [weight for w in cell_weights for weight in w.values()]
    if {type(weight) for weight in weights} != PLAIN or not flat.holds(weights):
        return None
    if "bias_hn" not in cell_weights[0]:
        return flat.second_biases
    # The last part of each is the memory of `bias_hn`. This is the whole as a function of that part, whose
    # gradient is a part of the whole's. A function in Python would cost the host more than all the rest here.
    end, size = flat.second_biases[0].shape[0], first.hidden_size
    return [
        torch.slice_inverse(w["bias_hn"], second, 0, end - size, end, 1)
        for w, second in zip(cell_weights, flat.second_biases, strict=True)
    ]


def flatten(layers: Sequence[Sequence[Cell]], together: bool = True) -> None:
    """Put the weights of all cells that run in one call of cuDNN into one piece of memory.

    These are all layers, if they run `together` and are alike; otherwise those of a layer, or single cells.
    Call this only when a module is moved: a CUDA graph that was recorded before holds the old addresses.
    """
    cells = [cell for layer in layers for cell in layer]
    if len(layers) > 1 and not (together and are_alike(layers)):
        for layer in layers:
            flatten([layer])
        return
    if not are_alike(layers):
        for cell in cells:
            flatten([[cell]])
        return
    cell_weights = [cell.weights() for cell in cells]
    weights = [weight for w in cell_weights for weight in w.values()]
    flat = _FLAT.get(cells[0])
    if not _are_movable(cells[0], weights) or (flat is not None and flat.holds(weights)):
        return
    size = cells[0].hidden_size
    with torch.no_grad():
        data = [{name: weight.data for name, weight in w.items()} for w in cell_weights]
        seconds = [second.clone() for second in make_second_biases(data)]
        mode = 0 if getattr(cells[0], "activation", "") == "relu" else MODES[cells[0].equations]
        projected = cells[0].output_size if "weight_hr" in cell_weights[0] else 0
        listed = order_weights(data, seconds)
        _move(listed, len(listed) // len(cells), cells[0].input_size, mode, size, projected, layers)
        for w, moved, second in zip(cell_weights, data, seconds, strict=True):
            for name, weight in w.items():
                weight.data = second[-size:] if name == "bias_hn" else moved[name]
    _FLAT[cells[0]] = _Flat([weight.data_ptr() for weight in weights], seconds)


def _are_movable(first: Cell, weights: Sequence[Tensor]) -> bool:
    """Return whether cuDNN runs such cells and these are ordinary parameters on one GPU, none twice."""
    like = weights[0]
    return (
        like.is_cuda
        and first.equations in MODES
        and getattr(first, "activation", "tanh") in ("tanh", "relu")
        and getattr(first, "reset", "after") == "after"
        and not torch.is_inference_mode_enabled()
        and not torch.cuda.is_current_stream_capturing()
        and torch.backends.cudnn.enabled
        and torch.backends.cudnn.is_available()
        and like.dtype in TYPES
        and all(type(weight) is nn.Parameter and weight.dtype is like.dtype for weight in weights)
        and all(weight.device == like.device for weight in weights)
        and len({weight.data_ptr() for weight in weights}) == len(weights)
    )


def _move(
    listed: list[Tensor],
    per_cell: int,
    input_size: int,
    mode: int,
    hidden_size: int,
    projected: int,
    layers: Sequence[Sequence[Cell]],
) -> None:
    """Make these tensors views of one piece of memory in cuDNN's order."""
    both = len(layers[0]) > 1
    with torch.cuda.device(listed[0].device):
        torch._cudnn_rnn_flatten_weight(
            listed, per_cell, input_size, mode, hidden_size, projected, len(layers), False, both
        )
