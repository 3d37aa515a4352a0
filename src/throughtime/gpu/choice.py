"""Which backend runs a call on a GPU: our kernels, where they work and were measured to be faster.

Work that is recorded in a CUDA graph, or will be, is compared as replayed. The trainer says so of all its
updates (`expecting_graphs`), so that a training run computes the same before and after they are recorded. So
are calls without a backward pass, which searches record. Other calls are compared as called from Python: for
small layers the host is slower than the GPU. If such a call is recorded after all, what it ran on before is
recorded. Where torch has no kernel, or none that a graph can replay, ours run without a comparison; where
nothing is known yet and nothing can be measured, torch's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from throughtime.accelerate import GPU_BACKENDS
from throughtime.cells import CELLS
from throughtime.cells.base import Cell
from throughtime.gpu import driver, timing, trials
from throughtime.gpu.flat_weights import flatten
from throughtime.gpu.timing import TimedCall, Times
from throughtime.recurrence.backend import Backend, runs_layers
from throughtime.recurrence.choice import BACKENDS, choose_portable_backend, needs_gradient

MAX_CHOICES = 4096
"""Maximum number of choices that are remembered."""
_chosen: dict[Hashable, Backend] = {}
"""The choices made by shape: to make one takes the host longer than to launch a kernel."""


def choose_backend(
    layers: Sequence[Sequence[Cell]], x: Tensor, lengths: Tensor | None, carry: Tensor | None
) -> Backend:
    """Return the fastest backend for layers on a GPU.

    A kernel of ours that does not compile or start is passed over, with a warning.
    """
    # The top cell decides: where some cells are frozen and some are trained, those on top are trained.
    cell = layers[-1][-1]
    trains = needs_gradient(cell, x)
    if lengths is not None:  # whether torch can pack a ragged batch depends on more than the shape
        return _choose(layers, x, lengths, carry, trains)[0]
    options = vars(cell)  # without the lookups of `nn.Module`, which are slow for what is not there
    key = (
        type(cell),
        options.get("activation"),
        options.get("reset"),
        cell.hidden_size,
        x.shape,
        x.dtype,
        torch._C._get_cudnn_allow_tf32(),  # `torch.backends.cudnn.allow_tf32` takes four times as long
        x.get_device(),
        carry is None,
        trains,
        is_recorded(),
        len(layers),
        len(layers[0]),
    )
    backend = _chosen.get(key)
    if backend is None:
        backend, settled = _choose(layers, x, lengths, carry, trains)
        if settled and not torch.cuda.is_current_stream_capturing():
            if len(_chosen) >= MAX_CHOICES:
                _chosen.clear()
            _chosen[key] = backend
    return backend


def forget() -> None:
    """Make every choice again, as after a new measurement."""
    _chosen.clear()


_expecting: list[None] = []
"""One entry for each block that expects graphs. All threads share it: a backward pass, which may run layers
again, has a thread of its own."""


@contextlib.contextmanager
def expecting_graphs() -> Iterator[None]:
    """Choose inside this block as while a CUDA graph is recorded, so that recording changes no result."""
    _expecting.append(None)
    try:
        yield
    finally:
        _expecting.pop()


def is_recorded() -> bool:
    """Return whether what runs on the GPU now is recorded in a CUDA graph, or will be when it recurs."""
    return bool(_expecting) or torch.cuda.is_current_stream_capturing()


def _choose(
    layers: Sequence[Sequence[Cell]],
    x: Tensor,
    lengths: Tensor | None,
    carry: Tensor | None,
    trains: bool,
) -> tuple[Backend, bool]:
    """Return a backend, and whether the choice is settled: all that it depends on is known."""
    cell = layers[-1][-1]
    portable = choose_portable_backend(cell, x, lengths, carry)
    candidates = (BACKENDS[name] for name in GPU_BACKENDS)
    ours = next((backend for backend in candidates if not backend.refuses(cell, x, lengths, carry)), None)
    if ours is None:
        return portable, True
    replayed = is_recorded() or not trains
    # To pack a ragged batch, torch's kernels wait for its lengths on the host, which no graph can replay.
    if portable.name == "native" and not (replayed and lengths is not None):
        times = compare(ours, TimedCall(layers, x, lengths, trains, replayed))
        if times is None or not times.ours_win:
            return portable, times is not None
    works = trials.works(ours, cell, x, carry, trains)
    return (portable, True) if works is False else (ours, works is True)


def compare(ours: Backend, call: TimedCall) -> Times | None:
    """Return the times of a call; None if they are not known and cannot be measured now."""
    times = timing.find_times(call)
    if times is None and torch.cuda.is_current_stream_capturing():
        times = timing.find_times(call._replace(replayed=False))
    if times is not None or not (runs_layers(ours) and timing.may_measure()):
        return times
    if not trials.works(ours, call.layers[-1][-1], call.x, None, call.trains):
        return timing.FAILED
    return timing.measure_times(call, ours)


def adopt_times(times: Mapping[str, Sequence[float]]) -> None:
    """Use these times, those of a run or of its first process, in all choices to come."""
    if timing.adopt_times(times):
        forget()


SHOWN = (
    ("lstm", torch.bfloat16, (35, 20, 200), 1, True),
    ("gru", torch.float32, (30, 64, 256), 1, True),
    ("lstm", torch.bfloat16, (70, 20, 1150), 3, True),
    ("rnn", torch.float32, (4, 1, 40), 1, True),
    ("lstm", torch.float32, (35, 20, 1500), 1, True),
    ("gru", torch.bfloat16, (8, 1, 512), 1, False),
)
"""The calls that are described: cell, type, steps, rows and units, number of layers, and whether to train."""


def describe(measure: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the times of a few calls on each GPU; with `measure`, forget all that was measured before."""
    if measure:
        timing.forget_times(stored=True)
        forget()
    rows = []
    for device in range(torch.cuda.device_count()):
        if driver.unavailable(device) is None:
            say(f"measuring GPU {device} ({torch.cuda.get_device_name(device)}) ...")
            rows += [_describe_call(device, *case) for case in SHOWN]
    return rows


def _describe_call(
    device: int, name: str, dtype: torch.dtype, shape: tuple[int, int, int], count: int, trains: bool
) -> dict[str, Any]:
    layers, x = _build_call(device, name, dtype, shape, count, trains)
    ours = BACKENDS["persistent"]
    fits = ours.refuses(layers[0][0], x, None, None) is None
    times: dict[str, float] = {}
    chosen = {"called": "native", "recorded": "native"}
    for use in chosen:
        replayed = use == "recorded" or not trains  # calls without a backward pass are compared as replayed
        pair = compare(ours, TimedCall(layers, x, None, trains, replayed)) if fits else None
        if pair is None or pair == timing.FAILED:
            continue
        way = "replayed" if replayed else "called"
        times.update({f"ours, {way}": pair.ours, f"torch, {way}": pair.torch})
        chosen[use] = ours.name if pair.ours_win else "native"
    steps, batch, size = shape
    title = f"{name} {str(dtype).removeprefix('torch.')} T{steps} B{batch} H{size} L{count}"
    return {"shape": f"{title} {'trained' if trains else 'forward'}", "times": times, "auto": chosen}


def _build_call(
    device: int, name: str, dtype: torch.dtype, shape: tuple[int, int, int], count: int, trains: bool
) -> tuple[list[list[Cell]], Tensor]:
    """Return the cells of all layers and their input."""
    with torch.random.fork_rng([device]), torch.device("cpu"):
        layers = [[CELLS[name](shape[2], shape[2]).to(f"cuda:{device}", dtype)] for _ in range(count)]
    flatten(layers)
    return layers, torch.zeros(shape, dtype=dtype, device=f"cuda:{device}", requires_grad=trains)
