"""Which decoders with input feeding the fused loop knows, and how their parts enter it."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from throughtime.cells.base import State
from throughtime.errors import InputError
from throughtime.layers.attention import Additive, Attention, Dot, General
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack
from throughtime.models.input_feeding_attention import FedAttention, Weights
from throughtime.models.input_feeding_gates import gates_of


def refuses(stack: Stack, attention: Attention, norm: nn.Module | None) -> str | None:
    """Why the fused loop does not know a decoder of these parts, or None where it does."""
    if stack.num_layers > 1 or stack.norms or stack.residual or norm is not None:
        return "it knows one layer, without normalisation or a residual sum"
    layer = cast(Layer, stack.layers[0])
    if gates_of(layer.from_left) is None:
        return "it knows the equations of GRU (reset after) and LSTM only"
    if type(attention) not in (Additive, Dot, General):
        return "it knows additive attention and products only"
    return "recurrent weights are dropped" if layer.weight_drop and layer.training else None


def fed_attention(
    x: Tensor, state: State, stack: Stack, attention: Attention, output: nn.Linear, kept: State
) -> tuple[Tensor, Tensor, State]:
    """Outputs [L, B, O], weights [L, B, T] and the last state with o_L, for embedded inputs [L, B, E].

    `state` ends with o_0; `kept` are keys, values that passed the output's weights, and padding. Under
    autocast products are in its precision, the comparison with the keys and the softmax in float32.
    """
    cell = cast(Layer, stack.layers[0]).from_left
    gates = gates_of(cell)
    if gates is None:
        raise InputError("fused", f"does not know the equations of {type(cell).__name__}")
    keys, values, padding = kept
    *first, fed = state
    own, device = next(cell.parameters()).dtype, x.device.type
    narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else own
    wide = torch.promote_types(narrow, torch.float32)
    with torch.autocast(device, enabled=False):
        query = energy = None
        if isinstance(attention, Additive):
            # The keys are doubled already; a shift of all scores makes no difference to their softmax.
            query, energy = 2 * attention.query.weight, 2 * attention.scale * attention.energy.to(wide)
        elif attention.scaled:
            keys = keys * attention.scale
        w = cell.weights()
        inputs = (x, fed, first[0], first[1] if len(first) > 1 else None)
        weights = Weights(
            *(w["weight_ih"], w["weight_hh"], w["bias"], w.get("bias_hn")),
            *(query, energy, output.weight, output.bias),
        )
        outputs, looks, *last = FedAttention.apply(  # type: ignore[no-untyped-call]
            gates,
            torch.is_grad_enabled(),
            padding.to(wide) * torch.finfo(wide).min,
            *(None if part is None else part.to(narrow) for part in inputs),
            *(keys.to(wide), values.to(wide)),
            *(part if part is None or part is energy else part.to(narrow) for part in weights),
        )
    return outputs, looks, (*(part.to(own) for part in last if part is not None), outputs[-1])
