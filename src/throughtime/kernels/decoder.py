"""One step of a decoder on an NVIDIA GPU: additive attention, and the gates of a GRU; forward and backward.

Torch launches ten kernels for the attention of a step and four for its gates, each of which takes longer to
start than to run.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from throughtime.kernels.elements import KINDS, ElementKind

if TYPE_CHECKING:
    from throughtime.kernels import driver

HEADERS = ("primitives.cuh", "elements.cuh")
FORWARD_WARPS, BACKWARD_WARPS, GATE_WARPS = 16, 8, 4
FEWEST_PLACES, MOST_SHARED = 64, 48 * 1024
"""Positions of a sentence for which a block reserves shared memory, and bytes of it that every GPU has."""


class _Attend(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("query", "keys", "values", "energy", "hidden", "weights")),
        *((name, ctypes.c_void_p) for name in ("sums", "shown", "from_shown", "from_shown_too")),
        *((name, ctypes.c_void_p) for name in ("from_weights", "into_sums", "into_query")),
        *((name, ctypes.c_void_p) for name in ("into_keys", "into_energy")),
        *((name, ctypes.c_longlong) for name in ("places", "query_pitch", "sums_pitch", "gradients_pitch")),
    ]


class _Gates(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("gates", "before", "after", "into_sums", "into_state")),
        *((name, ctypes.c_longlong) for name in ("rows", "units", "gates_pitch", "gradients_pitch")),
    ]


def is_available(device: torch.device) -> bool:
    """Whether this is an NVIDIA GPU on which the kernels can be compiled."""
    if device.type != "cuda":
        return False
    from throughtime.kernels import driver

    return driver.unavailable(device.index) is None


def supports(dtype: torch.dtype, *sizes: int) -> bool:
    """Whether rows of these sizes are read in pairs of a known type."""
    return dtype in KINDS and all(size % 2 == 0 for size in sizes)


def fits(places: int, size: int, width: int) -> bool:
    """Whether a sentence of this length, with such keys and values, fits the memory of a block."""
    return _shared_bytes(_round_places(places), size, width) <= MOST_SHARED


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    energy: Tensor,
    hidden: Tensor,
    weights: Tensor,
    sums: Tensor,
    shown: Tensor | None,
) -> None:
    """Add sum_j a_j v_j to `sums` [B, V], where a is the softmax of e' sigmoid(q + k_j) + hidden_j.

    Queries [B, D], values [B, T, V] and sums are of one type; keys [B, T, D], energy [D] and hidden [B, T]
    are float32. Queries and sums may be columns of a wider matrix. Writes the weights a [B, T], which are 0
    where `hidden` is not, and tanh of the sums to `shown` [B, V].
    """
    arguments = _Attend(
        *(part.data_ptr() for part in (query, keys, values, energy, hidden, weights, sums)),
        0 if shown is None else shown.data_ptr(),
        *([0] * 7),
        *(keys.shape[1], query.stride(0), sums.stride(0), 0),
    )
    _prepare_attention("attend_forward", FORWARD_WARPS, keys, values, shown is not None)(len(keys), arguments)


def attend_backward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    energy: Tensor,
    weights: Tensor,
    from_shown: tuple[Tensor, Tensor | None] | None,
    from_weights: Tensor | None,
    into_sums: Tensor,
    into_query: Tensor,
    into_keys: Tensor,
    into_energy: Tensor,
) -> None:
    """Write the gradients of `attend`; add to `into_keys` [B, T, D] and `into_energy` [B, D].

    `from_shown` are gradients of what was shown, whose sum counts: `into_sums` [B, V] holds the slopes there
    and is multiplied by it. If nothing was shown, `into_sums` holds the gradients of the sums. It and
    `into_query` are columns of one matrix. `into_keys` still lacks the factor e. Gradients of the values are
    left to the caller: one product for all steps.
    """
    given = (*(from_shown or (None, None)), from_weights)
    arguments = _Attend(
        *(part.data_ptr() for part in (query, keys, values, energy)),
        *(0, weights.data_ptr(), 0, 0),
        *(0 if part is None else part.data_ptr() for part in given),
        *(part.data_ptr() for part in (into_sums, into_query, into_keys, into_energy)),
        *(keys.shape[1], query.stride(0), 0, into_sums.stride(0)),
    )
    kernel = _prepare_attention("attend_backward", BACKWARD_WARPS, keys, values, from_shown is not None)
    kernel(len(keys), arguments)


def advance_gru(gates: Tensor, before: Tensor, after: Tensor) -> None:
    """Turn the sums q, r, z, n [B, 4H] into gates, and write the next state [B, H]."""
    _launch_gates("gates_forward", before, (gates, before, after, None, None), gates.stride(0), 0)


def retreat_gru(gates: Tensor, before: Tensor, into_sums: Tensor, into_state: Tensor) -> None:
    """Write the gradients of the sums; that of the state becomes that of the state before, past the gates."""
    pitches = gates.stride(0), into_sums.stride(0)
    _launch_gates("gates_backward", before, (gates, before, None, into_sums, into_state), *pitches)


def _launch_gates(name: str, state: Tensor, tensors: tuple[Tensor | None, ...], *pitches: int) -> None:
    rows, units = state.shape
    addresses = (0 if part is None else part.data_ptr() for part in tensors)
    kernel = _prepare_gates(name, KINDS[state.dtype], GATE_WARPS, state.get_device())
    kernel(-(-rows * units // (64 * GATE_WARPS)), _Gates(*addresses, rows, units, *pitches))


def _prepare_attention(name: str, warps: int, keys: Tensor, values: Tensor, shown: bool) -> driver.Kernel:
    sizes = _round_places(keys.shape[1]), keys.shape[2], values.shape[2]
    return _build_attention(name, KINDS[values.dtype], warps, *sizes, shown, keys.get_device())


@functools.cache
def _build_attention(
    name: str, kind: ElementKind, warps: int, places: int, size: int, width: int, shown: bool, device: int
) -> driver.Kernel:
    from throughtime.kernels import driver

    constants = {
        "KIND": kind,
        "WARPS": warps,
        "PLACES": places,
        "SIZE": size,
        "WIDTH": width,
        "SHOWN": int(shown),
        "SHARED_BYTES": _shared_bytes(places, size, width),
    }
    return driver.build(name, (*HEADERS, "attention.cu"), constants, device)


@functools.cache
def _prepare_gates(name: str, kind: ElementKind, warps: int, device: int) -> driver.Kernel:
    from throughtime.kernels import driver

    return driver.build(name, (*HEADERS, "gates.cu"), {"KIND": kind, "WARPS": warps}, device)


def _round_places(places: int) -> int:
    """Round up to a power of two, so that few kernels serve sentences of all lengths."""
    return max(FEWEST_PLACES, 1 << (places - 1).bit_length())


def _shared_bytes(places: int, size: int, width: int) -> int:
    return 4 * (places + max(2 * size, width))
