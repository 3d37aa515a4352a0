"""Whether our kernels are predicted to be faster on a GPU than the backends that would run a call instead.

Work that is recorded in a CUDA graph, or will be, runs on ours where they are faster both called and
replayed. The trainer says so of all its updates (`choice.expecting_graphs`), so that a training run computes
the same before and after they are recorded. Other training calls run on ours where they are faster called
from Python: for small layers the host is slower than the GPU, and a recurring call of ours keeps it busy for
half the time. Calls without a backward pass are compared as recorded ones.
"""

from __future__ import annotations

import functools
import math

from torch import Tensor

from throughtime.cells.base import Cell
from throughtime.gpu import calibration, choice
from throughtime.gpu.costs import CostRates, Gpu, TimedCall, Times, predict_ours
from throughtime.gpu.persistent import find_form, find_kind
from throughtime.gpu.torch_costs import predict_loop, predict_torch
from throughtime.recurrence import native

MARGIN = 1.15
"""How many times as fast our kernels must be predicted to be: predictions are off by 10 to 20 %."""
MAX_RATIO = 2.0
"""Maximum time of our kernels on the GPU, relative to torch's, for calls that are chosen by their time as
called: the program may need the GPU for other work."""


def is_faster(
    cell: Cell,
    x: Tensor,
    lengths: Tensor | None,
    carry: Tensor | None,
    trains: bool,
    layers: int = 1,
    directions: int = 1,
) -> bool:
    """Return whether our kernels are predicted to be faster than the backend that would run this call."""
    form, kind = find_form(cell), find_kind(x)
    if form is None or kind is None:
        return True  # minGRU and minLSTM take one launch each way, where others take several per step
    steps, batch, inputs = x.shape
    call = TimedCall(
        form, kind, steps, batch, cell.hidden_size, inputs, layers, directions, trains, lengths is not None
    )
    loops = native.BACKEND.refuses(cell, x, lengths, carry) is not None
    device = x.get_device()
    recorded = choice.is_recorded() or not trains
    return _compare(call, calibration.find_gpu(device), calibration.get_rates(device), loops, recorded)


@functools.lru_cache(maxsize=4096)
def _compare(call: TimedCall, gpu: Gpu, rates: CostRates, loops: bool, recorded: bool) -> bool:
    others = predict_loop(call, rates) if loops else predict_torch(call, gpu, rates)
    if call.ragged and not loops:
        # To pack a ragged batch, the host looks at its lengths, which no CUDA graph can replay.
        others = others._replace(replayed=math.inf)
    return wins(predict_ours(call, gpu, rates), others, recorded)


def wins(ours: Times | None, others: Times, recorded: bool = True) -> bool:
    """Return whether ours is predicted to be faster called, and if it is recorded, also replayed."""
    if ours is None:
        return False
    replayed = MARGIN if recorded else 1 / MAX_RATIO
    return MARGIN * ours.called < others.called and replayed * ours.replayed < others.replayed
