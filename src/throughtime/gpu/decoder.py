"""One step of a decoder on an NVIDIA GPU: attention, and the gates of a GRU or an LSTM.

torch launches ten kernels for the attention of a step and four or more for its gates, each of which takes
longer to start than to run.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from throughtime.gpu.elements import KINDS, ElementKind

if TYPE_CHECKING:
    from throughtime.cells.base import State
    from throughtime.gpu import driver


HEADERS = ("primitives.cuh", "elements.cuh")
FORWARD_WARPS, BACKWARD_WARPS, GATE_WARPS = 16, 8, 4
MIN_POSITIONS, MAX_SHARED = 64, 48 * 1024
"""Minimum number of positions that a kernel is compiled for, and bytes of shared memory on every GPU."""


class _Attend(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("query", "keys", "values", "energy", "hidden", "padding")),
        ("weights", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in ("sums", "shown", "from_shown", "from_shown_too")),
        *((name, ctypes.c_void_p) for name in ("from_weights", "into_sums", "into_query")),
        *((name, ctypes.c_void_p) for name in ("into_scores", "into_keys", "into_energy", "owner")),
        *((name, ctypes.c_longlong) for name in ("places", "query_pitch", "sums_pitch")),
        *((name, ctypes.c_longlong) for name in ("into_sums_pitch", "into_query_pitch")),
        *((name, ctypes.c_float) for name in ("query_factor", "energy_factor")),
    ]


class _Gates(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("gates", "before", "memory_before", "after", "memory_after")),
        *((name, ctypes.c_void_p) for name in ("into_sums", "into_state", "into_memory", "more")),
        *((name, ctypes.c_longlong) for name in ("rows", "units", "gates_pitch", "gradients_pitch")),
    ]


def is_available(device: torch.device) -> bool:
    """Return whether this is an NVIDIA GPU for which the kernels compile."""
    return device.type == "cuda" and _compiles(device.index)


@functools.cache
def _compiles(device: int) -> bool:
    """Compile small kernels, to find out whether the others will compile."""
    from throughtime.gpu import driver

    if driver.unavailable(device) is not None:
        return False

    def build() -> None:
        for way, warps in (("forward", FORWARD_WARPS), ("backward", BACKWARD_WARPS)):
            _prepare_gates(f"gates_{way}", ElementKind.FLOAT, GATE_WARPS, False, device)
            sizes = MIN_POSITIONS, 2, 2
            _build_attention(f"attend_{way}", ElementKind.FLOAT, warps, sizes, (True, True), device)

    return driver.try_build(build, "decoders run without their GPU kernels")


def supports(dtype: torch.dtype, *sizes: int) -> bool:
    """Return whether the kernels support this type and rows of these sizes, which they read in pairs."""
    return dtype in KINDS and all(size % 2 == 0 for size in sizes)


def fits(places: int, size: int, width: int) -> bool:
    """Return whether a sentence of this length, with such keys and values, fits the memory of a block."""
    return _shared_bytes(_round_places(places), size, width) <= MAX_SHARED


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    energy: Tensor | None,
    hidden: Tensor,
    weights: Tensor,
    sums: Tensor,
    shown: Tensor | None,
    owner: Tensor | None = None,
    factors: tuple[float, float] = (1.0, 1.0),
) -> None:
    """Add sum_j a_j v_j to `sums` [B, V], where a is the softmax of scores plus `hidden` [B, T].

    The score of position j is e' sigmoid(q + k_j) or, without an energy e, q' k_j. Queries [B, D], values
    [B, T, V] and sums are of one type; keys [B, T, D], energy [D] and hidden are float32, or `hidden` is true
    where there is padding. Queries and sums may be columns of a wider matrix. Writes the weights a [B, T],
    which are 0 where `hidden` is not, and tanh of the sums to `shown` [B, V]. With an `owner` [B], rows share
    sentences: row i has the keys, values and hidden positions of sentence `owner[i]`. The `factors` multiply
    queries and energy.
    """
    hiding = (None, hidden) if hidden.dtype == torch.bool else (hidden, None)
    tensors = (query, keys, values, energy, *hiding, weights, sums, shown)
    pitches = query.stride(0), sums.stride(0), 0, 0
    addresses = (*map(_address, tensors), *([0] * 8), _address(owner))
    arguments = _Attend(*addresses, keys.shape[1], *pitches, *factors)
    _prepare_attention("attend_forward", FORWARD_WARPS, keys, values, energy, shown)(len(query), arguments)


def attend_backward(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    energy: Tensor | None,
    weights: Tensor,
    from_shown: tuple[Tensor, Tensor | None] | None,
    from_weights: Tensor | None,
    into_sums: Tensor,
    into_query: Tensor,
    into_scores: Tensor,
    into_keys: Tensor | None,
    into_energy: Tensor | None,
) -> None:
    """Write the gradients of `attend`.

    `from_shown` are two gradients of what was shown, which are added up: `into_sums` [B, V] holds the slopes
    there and is multiplied by the sum. If nothing was shown, `into_sums` holds the gradients of the sums.
    With an energy, `into_query` [B, D] is written, and `into_keys` [B, T, D], which still lacks the factor e,
    and `into_energy` [B, D] are added to. Without one, `into_query` is added to. The gradients of the values
    and, if scores are products, of the keys are left to the caller: each is one product for all steps.
    """
    first, second = from_shown or (None, None)
    tensors = (query, keys, values, energy, None, None, weights, None, None, first, second, from_weights)
    results = (into_sums, into_query, into_scores, into_keys, into_energy)
    pitches = query.stride(0), 0, into_sums.stride(0), into_query.stride(0)
    arguments = _Attend(*map(_address, tensors), *map(_address, results), 0, keys.shape[1], *pitches)
    kernel = _prepare_attention("attend_backward", BACKWARD_WARPS, keys, values, energy, first)
    kernel(len(keys), arguments)


def activate_gates(gates: Tensor, before: State, after: State) -> None:
    """Turn the sums [B, 4H] into gates, and write the next state: of a GRU (h), or of an LSTM (h, c)."""
    _launch_gates("gates_forward", gates, before, after, None, (), None)


def retreat_gates(
    gates: Tensor,
    before: State,
    after: State,
    into_sums: Tensor,
    into_state: State,
    more: Tensor | None = None,
) -> None:
    """Write the gradients of the sums; `into_state` becomes that of the state before, past the gates.

    `more` is added to the gradient of h first.
    """
    _launch_gates("gates_backward", gates, before, after, into_sums, into_state, more)


def _launch_gates(
    name: str,
    gates: Tensor,
    before: State,
    after: State,
    into_sums: Tensor | None,
    into_state: State,
    more: Tensor | None,
) -> None:
    rows, units = before[0].shape
    kernel = _prepare_gates(name, KINDS[gates.dtype], GATE_WARPS, len(before) == 2, gates.get_device())
    tensors = (gates, *_both(before), *_both(after), into_sums, *_both(into_state), more)
    pitches = gates.stride(0), 0 if into_sums is None else into_sums.stride(0)
    kernel(-(-rows * units // (64 * GATE_WARPS)), _Gates(*map(_address, tensors), rows, units, *pitches))


def _both(state: State) -> Sequence[Tensor | None]:
    """Return the state and the memory; None for what is missing."""
    return (*state, None, None)[:2]


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _prepare_attention(
    name: str, warps: int, keys: Tensor, values: Tensor, energy: Tensor | None, shown: Tensor | None
) -> driver.LaunchKernel:
    sizes = _round_places(keys.shape[1]), keys.shape[2], values.shape[2]
    kinds = energy is not None, shown is not None
    return _build_attention(name, KINDS[values.dtype], warps, sizes, kinds, keys.get_device())


@functools.cache
def _build_attention(
    name: str,
    kind: ElementKind,
    warps: int,
    sizes: tuple[int, int, int],
    kinds: tuple[bool, bool],
    device: int,
) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    constants = {
        "KIND": kind,
        "WARPS": warps,
        **dict(zip(("PLACES", "SIZE", "WIDTH"), sizes, strict=True)),
        **dict(zip(("ADDITIVE", "SHOWN"), map(int, kinds), strict=True)),
        "SHARED_BYTES": _shared_bytes(*sizes),
    }
    return driver.build(name, (*HEADERS, "attention.cu"), constants, device)


@functools.cache
def _prepare_gates(name: str, kind: ElementKind, warps: int, lstm: bool, device: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    constants = {"KIND": kind, "WARPS": warps, "LSTM": int(lstm)}
    return driver.build(name, (*HEADERS, "gates.cu"), constants, device)


def _round_places(places: int) -> int:
    """Round up to a power of two, so that few kernels serve sentences of all lengths."""
    return max(MIN_POSITIONS, 1 << (places - 1).bit_length())


def _shared_bytes(places: int, size: int, width: int) -> int:
    return 4 * (places + max(2 * size, width))
