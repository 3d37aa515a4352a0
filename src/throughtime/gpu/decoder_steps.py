"""The steps of decoders with kernels: one of a search, and all of training, forward and backward."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu import decoder
from throughtime.layers.attention import Additive, Attention, Dot, General
from throughtime.models.attention_steps import (
    SavedAttention,
    ShownGradients,
    TorchAttention,
    TorchAttentionGradients,
    key_gradients,
    value_gradients,
)
from throughtime.models.gate_steps import Gates, GRUGates, LSTMGates
from throughtime.recurrence.layout import scratch
from throughtime.search.generate import Memory

_WITHOUT_KERNEL: set[torch.device] = set()
"""GPUs on which the kernel did not compile."""


def attend_rows(
    attention: Attention, query: Tensor, memory: Memory, addend: Tensor | None, show: bool
) -> tuple[Tensor, Tensor] | None:
    """`attend` in one kernel, without gradients; None if it does not fit."""
    device = query.device
    if torch.is_grad_enabled() or not decoder.is_available(device) or device in _WITHOUT_KERNEL:
        return None
    keys, values, padding = memory.kept
    sizes = keys.shape[2], values.shape[2]
    known = decoder.supports(values.dtype, *sizes) and decoder.fits(keys.shape[1], *sizes)
    dense = keys.dtype == torch.float32 and keys.is_contiguous() and values.is_contiguous()
    asked = _ask(attention, query) if known and dense and not attention._forward_hooks else None
    if asked is None:
        return None
    begun = values.new_zeros(len(query), values.shape[2]) if addend is None else addend
    context = begun.to(values.dtype).contiguous()
    weights = keys.new_empty(len(query), keys.shape[1])
    shown = torch.empty_like(context) if show else None
    parts = asked.query.to(values.dtype), keys, values, asked.energy, padding.contiguous()
    try:
        decoder.attend(*parts, weights, context, shown, memory.owner, asked.factors)
    except ThroughtimeError as error:
        _WITHOUT_KERNEL.add(device)
        warnings.warn(f"attention runs without its kernel: {error}", ThroughtimeWarning, stacklevel=2)
        return None
    return context if shown is None else shown, weights


class Asked(NamedTuple):
    """What a kernel computes scores from: e' sigmoid(q + key), or q' key without an energy e."""

    query: Tensor  # [rows, D], q less its factor
    energy: Tensor | None  # [D], e less its factor
    factors: tuple[float, float]  # of both


def _ask(attention: Attention, query: Tensor) -> Asked | None:
    """Return what the kernel computes scores from; None for an attention with scores of its own.

    They may differ from `scores` by a number that is the same for all keys.
    """
    if type(attention) is Additive:
        return Asked(attention.query(query), attention.energy.float(), (2.0, 2 * attention.scale))
    return Asked(query, None, (attention.scale, 1.0)) if type(attention) in (Dot, General) else None


class KernelAttentionGradients(TorchAttentionGradients):
    """See `TorchAttentionGradients`."""

    def __init__(self, saved: SavedAttention, queries: Tensor) -> None:
        keys, _, energy, weights, _ = self._saved = saved
        self._queries, self._into_scores = queries, scratch(tuple(weights.shape), like=keys)
        self._into_keys = None if energy is None else torch.zeros_like(keys)
        self._into_energy = None if energy is None else keys.new_zeros(len(keys), len(energy))

    def retreat(
        self,
        t: int,
        into_sums: Tensor,
        given: ShownGradients | None,
        from_weights: Tensor | None,
        into_query: Tensor,
        into_state: Tensor,
    ) -> None:
        """See `TorchAttentionGradients`."""
        keys, values, energy, weights, _ = self._saved
        asked = (self._queries[t], keys, values, energy, weights[t])
        into_query = into_state if energy is None else into_query
        results = (into_query, self._into_scores[t], self._into_keys, self._into_energy)
        decoder.attend_backward(*asked, given, from_weights, into_sums, *results)

    def result(self, into_sums: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """See `TorchAttentionGradients`."""
        energy, into_values = self._saved.energy, value_gradients(self._saved.weights, into_sums)
        if energy is None or self._into_keys is None or self._into_energy is None:
            return key_gradients(self._into_scores, self._queries), into_values, None
        return self._into_keys * energy, into_values, self._into_energy.sum(0)


class KernelAttention(TorchAttention):
    """The same as `TorchAttention`, with one launch for each step; only the weights are kept."""

    gradients = KernelAttentionGradients
    narrow_values = True

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        energy: Tensor | None,
        hidden: Tensor,
        steps: int,
        differentiable: bool,
    ) -> None:
        self._hidden = hidden.contiguous()
        weights = scratch((steps, *keys.shape[:2]), like=keys)
        nothing = scratch((0,), like=keys)
        self.saved = SavedAttention(keys.contiguous(), values.contiguous(), energy, weights, nothing)

    def look(self, t: int, query: Tensor, sums: Tensor, shown: Tensor | None) -> None:
        """See `TorchAttention`."""
        keys, values, energy, weights, _ = self.saved
        decoder.attend(query, keys, values, energy, self._hidden, weights[t], sums, shown)


def find_attention(dtype: torch.dtype, keys: Tensor, width: int) -> type[KernelAttention] | None:
    """Return `KernelAttention` if the kernels support these keys [B, T, D], and values of this width."""
    _, places, size = keys.shape
    kernels = decoder.is_available(keys.device) and decoder.supports(dtype, size, width)
    return KernelAttention if kernels and decoder.fits(places, size, width) else None


class _KernelGates:
    """The same on an NVIDIA GPU, one launch for each step; slopes are computed where they are used."""

    @staticmethod
    def activate(gates: Tensor, before: State, after: State) -> None:
        """See `GRUGates` and `LSTMGates`."""
        decoder.activate_gates(gates, before, after)

    @staticmethod
    def slopes(gates: Tensor, before: State, after: State, into: Tensor) -> State:
        """Return what `retreat` computes the slopes from: the gates, and the states before and after."""
        return gates, *before, *after

    @staticmethod
    def retreat(slopes: Tensor, rest: State, gradient: State, more: Tensor | None = None) -> None:
        """Write the gradients of the sums to `slopes`."""
        gates, *states = rest
        parts = len(gradient)
        decoder.retreat_gates(gates, tuple(states[:parts]), tuple(states[parts:]), slopes, gradient, more)


class KernelGRUGates(_KernelGates, GRUGates):
    """See `GRUGates`."""


class KernelLSTMGates(_KernelGates, LSTMGates):
    """See `LSTMGates`."""


def find_gates(cell: Cell, device: torch.device, dtype: torch.dtype) -> Gates | None:
    """Return the kernels of the gates of a cell, if there are any for its equations and this type."""
    if not (decoder.is_available(device) and decoder.supports(dtype, cell.hidden_size)):
        return None
    if cell.equations == "gru" and getattr(cell, "reset", "") == "after":
        return KernelGRUGates
    return KernelLSTMGates if cell.equations == "lstm" else None
