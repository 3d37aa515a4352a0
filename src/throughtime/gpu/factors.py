"""The factors of a product on an NVIDIA GPU: converted, padded and with columns for a bias, in one launch.

Products run at full speed only if each row begins on a boundary of 16 bytes. A bias becomes two more columns
of one factor, a part that products in tf32 and bf16 keep and the rest, and two columns of ones in the other.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from throughtime.gpu.elements import KINDS, ElementKind, round_up_units

if TYPE_CHECKING:
    from throughtime.gpu import driver

FILES = ("primitives.cuh", "elements.cuh", "vectors.cuh", "factors.cu")
WARPS = 4
VECTOR = 16
"""Number of bytes that a thread writes."""
BIAS_COLUMNS = 2


class _Factor(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("given", "bias", "made")),
        *((name, ctypes.c_longlong) for name in ("rows", "size", "added", "pitch", "vectors")),
    ]


def pad_weights(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return weights [N, H] as a factor of this type, with the bias [N] behind them; all sizes are padded."""
    added = 0 if bias is None else BIAS_COLUMNS
    shape = round_up_units(len(weight)), round_up_units(weight.shape[1] + added)
    return _pad(weight, bias, weight.new_empty(shape, dtype=dtype), added)


def pad_states(states: Tensor, added: bool, pitch: int) -> Tensor:
    """Return states [N, H] as the other factor, [N, pitch]; with ones behind them if a bias is `added`."""
    return _pad(states, None, states.new_empty(len(states), pitch), BIAS_COLUMNS if added else 0)


def is_whole(given: Tensor) -> bool:
    """Return whether each row of a contiguous matrix begins on a boundary of 16 bytes."""
    return not (given.shape[1] * given.itemsize | given.data_ptr()) % VECTOR


def _pad(given: Tensor, bias: Tensor | None, made: Tensor, added: int) -> Tensor:
    given = given.to(
        given.dtype if given.dtype in (torch.float32, made.dtype) else torch.float32
    ).contiguous()
    bias = None if bias is None else bias.to(torch.float32).contiguous()
    rows, size = given.shape
    vectors = made.nbytes // VECTOR
    arguments = _Factor(
        given.data_ptr(),
        None if bias is None else bias.data_ptr(),
        made.data_ptr(),
        rows,
        size,
        added,
        made.shape[1],
        vectors,
    )
    floats = given.dtype == torch.float32
    kernel = _prepare_kernel(KINDS[made.dtype], floats, is_whole(given), made.get_device())
    if vectors:
        kernel(-(-vectors // (32 * WARPS)), arguments)
    return made


@functools.cache
def _prepare_kernel(kind: ElementKind, floats: bool, whole: bool, device: int) -> driver.LaunchKernel:
    from throughtime.gpu import driver

    constants = {"KIND": kind, "WARPS": WARPS, "FLOATS": int(floats), "WHOLE": int(whole)}
    return driver.build("factor", FILES, constants, device)
