"""One step of a beam search on an NVIDIA GPU: from scores to the next rows and their states in three kernels.

In torch these are about sixty small operations, which take longer than the network itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from throughtime.gpu.elements import KINDS

if TYPE_CHECKING:
    from throughtime.gpu import driver

MAX_ROWS = 32
"""Maximum number of rows of a sentence."""
MAX_STATES = 8
"""Maximum number of tensors that the states of a model have."""
LIKELIEST_WARPS, BEAM_WARPS, FOLLOW_WARPS = 16, 4, 4
KEPT = 256
"""Words that the first kernel collects at once."""
FILES = ("primitives.cuh", "elements.cuh", "block.cuh", "likeliest.cu")
ALWAYS = 2**31 - 1


class Reach(IntEnum):
    """The highest score that a row may still reach."""

    NEXT = 0  # what it would score if its next token ended it at no cost
    BOUND = 1  # what it would score at the greatest length
    ITSELF = 2  # its log-probability
    ANY = 3


class BeamOptions(NamedTuple):
    """The options of a beam search; see `throughtime.search.beam.Beam`."""

    end_id: int | None
    width: int
    results: int
    length_penalty: float
    reach: Reach
    bound: float  # the divisor of scores at the greatest length
    alone: bool


class BeamTensors(NamedTuple):
    """The tensors that a step reads and writes in place; see `FixedSearch`.

    The five of the history have one distance in bytes from step to step; all others are contiguous.
    """

    length: Tensor  # [], int64
    log_prob: Tensor  # [rows], float64
    live: Tensor  # [rows]
    last: Tensor  # [rows], int64
    came_from: Tensor  # [rows], int64
    best: Tensor  # [sentences, 1, results], float64
    tokens: Tensor  # [steps, rows], int64, like the next one
    parents: Tensor
    log_probs: Tensor  # [steps, rows], float64
    ended: Tensor  # [steps, rows], like the next one
    lived: Tensor
    reached: Tensor  # [], int64, pinned on the host: the number of tokens after which a row lived


class _Likeliest(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("scores", "length", "barred", "aside", "values", "ids")),
        *((name, ctypes.c_longlong) for name in ("pitch", "words")),
        *((name, ctypes.c_int) for name in ("count", "bars", "end", "normalise")),
        ("smallest", ctypes.c_float),
    ]


class _Beam(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("values", "ids", *BeamTensors._fields)),
        *((name, ctypes.c_double) for name in ("penalty", "bound")),
        *((name, ctypes.c_longlong) for name in ("pitch", "end")),
        *((name, ctypes.c_int) for name in ("width", "count", "results", "reach", "alone")),
    ]


_Addresses, _Sizes = ctypes.c_void_p * MAX_STATES, ctypes.c_longlong * MAX_STATES


class _Follow(ctypes.Structure):
    _fields_ = [
        ("from", _Addresses),
        ("into", _Addresses),
        ("bytes", _Sizes),
        *((name, ctypes.c_void_p) for name in ("came_from", "length")),
        ("states", ctypes.c_longlong),
    ]


def fits(options: BeamOptions, log_probs: Tensor) -> bool:
    """Return whether the kernels can run these options on the device of these log-probabilities."""
    if not log_probs.is_cuda or log_probs.dtype != torch.float32:
        return False
    from throughtime.gpu import driver

    return options.results <= options.width <= MAX_ROWS and not driver.unavailable(log_probs.get_device())


class BeamStep:
    """One step of a search over these tensors.

    `barred` lists tokens, each with the length from which it is allowed, or None if it never is. If all
    tokens of a row are barred, the row takes the end token, with a log-probability of at least `smallest`.
    Without barred tokens, a row that has no possible token takes none.
    """

    def __init__(
        self,
        options: BeamOptions,
        tensors: BeamTensors,
        words: int,
        barred: Sequence[tuple[int, int | None]],
        smallest: float,
    ) -> None:
        from throughtime.gpu import driver

        rows, device = len(tensors.last), tensors.last.device
        count, end = min(options.width, words), -1 if options.end_id is None else options.end_id
        until_when: dict[int, int] = {}
        for token, until in barred:
            until_when[token] = max(until_when.get(token, 0), ALWAYS if until is None else until)
        pairs = list(until_when.items())
        self._barred = torch.tensor(pairs, dtype=torch.int32).to(device)
        self._aside = torch.empty(rows, len(pairs), dtype=torch.float32, device=device)
        self._values = torch.empty(rows, count, dtype=torch.float32, device=device)
        self._ids = torch.empty(rows, count, dtype=torch.int32, device=device)
        self._tensors = tensors  # kept alive, as the kernels have their addresses
        self._rows, self._sentences = rows, rows // options.width
        own = self._values.data_ptr(), self._ids.data_ptr()
        self._likeliest_arguments = _Likeliest(
            None,
            tensors.length.data_ptr(),
            self._barred.data_ptr(),
            self._aside.data_ptr(),
            *own,
            words,
            words,
            count,
            len(pairs),
            end if pairs else -1,
            False,
            smallest,
        )
        self._beam_arguments = _Beam(
            *own,
            *(tensor.data_ptr() for tensor in tensors),
            options.length_penalty,
            options.bound,
            tensors.ended.stride(0),
            end,
            options.width,
            count,
            options.results,
            options.reach,
            options.alone,
        )
        self._device = device.index or 0
        self._build_likeliest(torch.float32)
        sizes = {"WARPS": BEAM_WARPS, "SHARED_BYTES": 8 * MAX_ROWS * (MAX_ROWS + 3) + 16 + 4 * MAX_ROWS}
        self._beam = driver.build("beam", ("primitives.cuh", "beam.cu"), sizes, self._device)
        sizes = {"WARPS": FOLLOW_WARPS}
        self._follow = driver.build("follow", ("primitives.cuh", "follow.cu"), sizes, self._device)

    def _build_likeliest(self, dtype: torch.dtype) -> driver.LaunchKernel:
        """Return the first kernel for scores of this type; it is compiled once."""
        from throughtime.gpu import driver

        shared = 8 * (KEPT + MAX_ROWS) + 4 * (LIKELIEST_WARPS + 2)
        constants = {"KIND": KINDS[dtype], "WARPS": LIKELIEST_WARPS, "SHARED_BYTES": shared}
        return driver.build("likeliest", FILES, constants, self._device)

    def __call__(self, scores: Tensor, *, normalise: bool = False) -> None:
        """Choose among the continuations of all rows; scores [rows, V] may be overwritten.

        They are log-probabilities or, with `normalise`, these less some number in each row.
        """
        scores = scores if scores.dtype in KINDS else scores.float()
        scores = scores if scores.stride(1) == 1 else scores.contiguous()
        self._likeliest_arguments.scores = scores.data_ptr()
        self._likeliest_arguments.pitch = scores.stride(0)
        self._likeliest_arguments.normalise = normalise
        self._build_likeliest(scores.dtype)(self._rows, self._likeliest_arguments)
        self._beam(self._sentences, self._beam_arguments)

    def follow(self, reached: Sequence[Tensor], state: Sequence[Tensor]) -> bool:
        """Copy the states that were `reached` to the rows that continue them, and count the step.

        Return False, and do neither, if the kernel does not fit.
        """
        pairs = [*zip(reached, state, strict=True)]
        known = all(
            one.is_contiguous()
            and other.is_contiguous()
            and one.dtype == other.dtype
            and one.data_ptr() % 16 == 0
            for one, other in pairs
        )
        if not known or len(pairs) > MAX_STATES:
            return False
        froms, intos = (_Addresses(*(part.data_ptr() for part in parts)) for parts in (reached, state))
        sizes = _Sizes(*(part[0].numel() * part.itemsize for part in state))
        rows = self._tensors.came_from.data_ptr(), self._tensors.length.data_ptr()
        self._follow(self._rows, _Follow(froms, intos, sizes, *rows, len(pairs)))
        return True
