"""How long calls take in our kernels and in torch's: measured once for each bucket of shapes, and remembered.

The times of a GPU are stored in the user's cache folder, for its driver and the versions of torch, cuDNN and
throughtime. Those that a training has used are also in its checkpoints, so that a resumed run decides as
before; of several processes only the first measures, and the others take its times over. Nothing is measured
while a CUDA graph is recorded or a function is transformed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed

from throughtime.cells.base import Cell
from throughtime.errors import InputError, ThroughtimeError, ThroughtimeWarning, first_line
from throughtime.files import cache_entry, whole_file, writable_cache
from throughtime.gpu import driver
from throughtime.gpu.persistent import find_kind
from throughtime.gpu.persistent_replay import RECORDINGS
from throughtime.gpu.recording import record
from throughtime.recurrence import native
from throughtime.recurrence.backend import LayersBackend
from throughtime.recurrence.scan import find_autocast_dtype, is_convertible, run_narrow
from throughtime.version import __version__

REVISION = 3
"""Raise this when the meaning of a stored time changes, so that all are measured again."""
WARM_UPS, CALLS = 2, 3
"""Calls of each candidate that prepare what later ones use, and calls that are measured."""
MARGIN = 1.03
"""How many times as fast our kernels must be: times of a few calls are off by some percent."""


class Times(NamedTuple):
    """Microseconds of a call in our kernels and in torch's."""

    ours: float
    torch: float

    @property
    def ours_win(self) -> bool:
        """Whether our kernels are faster."""
        return MARGIN * self.ours < self.torch


FAILED = Times(math.inf, math.inf)
"""Of a bucket that cannot be measured, so that torch runs it."""


class TimedCall(NamedTuple):
    """A call of one or more layers that both our kernels and torch's can run."""

    layers: Sequence[Sequence[Cell]]
    x: Tensor
    lengths: Tensor | None
    trains: bool
    replayed: bool
    """Whether it is timed as replayed from a CUDA graph, where only the GPU counts, or as called."""

    @property
    def bucket(self) -> str:
        """What the times depend on; the numbers of steps and rows are rounded up."""
        cell, (steps, batch, inputs) = self.layers[-1][-1], self.x.shape
        kind, variant = find_kind(self.x), getattr(cell, "activation", "") or getattr(cell, "reset", "")
        assert kind is not None
        words = [
            *(cell.equations, *([variant] if variant else []), kind.name.lower()),
            *(f"T{round_up(steps)}", f"B{round_up(batch)}", f"I{inputs}", f"H{cell.hidden_size}"),
            *(f"L{len(self.layers)}", f"D{len(self.layers[0])}"),
            *(["ragged"] if self.lengths is not None else []),
            "trained" if self.trains else "forward",
            "replayed" if self.replayed else "called",
        ]
        return " ".join(words)


def round_up(number: int) -> int:
    """Round up to a power of two, or to one and a half times such a power.

    >>> [round_up(number) for number in (1, 2, 5, 6, 7, 33, 50)]
    [1, 2, 6, 6, 8, 48, 64]
    """
    power = 1 << (number - 1).bit_length()
    return power * 3 // 4 if number <= power * 3 // 4 and power > 2 else power


_lock = threading.Lock()
_used: dict[str, Times] = {}
"""The times that this process has used, by bucket."""


def find_times(call: TimedCall) -> Times | None:
    """Return the times of a call's bucket, if they were measured before."""
    bucket = call.bucket
    if bucket not in _used and (times := _read_stored(call.x.get_device()).get(bucket)) is not None:
        _used[bucket] = times
    return _used.get(bucket)


def may_measure() -> bool:
    """Return whether calls can be timed now and by this process."""
    if torch.cuda.is_current_stream_capturing() or torch._C._are_functorch_transforms_active():
        return False
    alone = not (distributed.is_available() and distributed.is_initialized())
    return alone or distributed.get_rank() == 0


def measure_times(call: TimedCall, ours: LayersBackend) -> Times:
    """Time a call in our kernels and in torch's, and store the result."""
    bucket, device = call.bucket, call.x.get_device()
    with _lock:
        if bucket in _used:  # another thread was faster
            return _used[bucket]
        try:
            with torch.cuda.device(device), torch.inference_mode(False), torch.set_grad_enabled(call.trains):
                steps = [build_step(call, backend) for backend in (ours, None)]
                times = Times(*(time_step(step, call.replayed) for step in steps))
        except (RuntimeError, ThroughtimeError, OSError) as error:
            problem = f"{bucket} cannot be timed, so torch's kernels run it"
            warnings.warn(f"{problem}: {first_line(error)}", ThroughtimeWarning, stacklevel=2)
            times = FAILED
        else:
            _store(device, bucket, times)
        torch.cuda.empty_cache()
        _used[bucket] = times
        return times


def build_step(call: TimedCall, ours: LayersBackend | None) -> Callable[[], Any]:
    """Return a function that runs a call on zeros: forward and, for training, backward."""
    layers, (steps, batch, _) = call.layers, call.x.shape
    lengths = None
    if call.lengths is not None:  # other ones, as the caller's are not checked yet
        lengths = steps - torch.arange(batch, device=call.x.device) % (steps // 2 + 1)
    cells = [cell for layer in layers for cell in layer]
    x = call.x.new_zeros(call.x.shape).requires_grad_(call.trains and call.x.requires_grad)
    # Gradients go no further than the weights, which may have a graph of their own, as weight drop has.
    weights = [weight for cell in cells for weight in cell.weights().values()]
    inputs = [tensor for tensor in (x, *weights) if tensor.requires_grad]
    narrow = find_autocast_dtype(x)
    converts = ours is not None and is_convertible(cells, x, narrow)

    def run_forward() -> Tensor:
        if ours is not None and converts:
            return ours.run_layers(layers, x, None, lengths, dtype=narrow).outputs
        run = partial(native.run_layers if ours is None else ours.run_layers, layers, lengths=lengths)
        return (run(x, None) if narrow is None else run_narrow(cells, x, None, narrow, run)).outputs

    def step() -> Any:
        with torch.set_grad_enabled(call.trains):
            outputs = run_forward()
            if call.trains:
                torch.autograd.grad(outputs, inputs, torch.ones_like(outputs), allow_unused=True)

    return step


def time_step(step: Callable[[], Any], replayed: bool) -> float:
    """Return the microseconds of a step, as called from Python or as replayed from a CUDA graph."""
    with contextlib.nullcontext() if replayed else RECORDINGS.recording_at_once():
        for _ in range(WARM_UPS):
            step()
    run = record_step(step) if replayed else step
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        run()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - start) / CALLS


def record_step(step: Callable[[], Any]) -> Callable[[], None]:
    """Record a step in a CUDA graph, and replay it once."""
    stream = _open_stream(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # which prepares what torch keeps for each stream
        step()
    torch.cuda.current_stream().wait_stream(stream)
    replay = record(step, stream, torch.cuda.graph_pool_handle())
    replay()
    return replay


@functools.cache
def _open_stream(device: int) -> Any:
    return torch.cuda.Stream(device)


def export_times() -> dict[str, list[float]]:
    """Return the times that this process has used, for the checkpoint of a run and for other processes."""
    return {bucket: list(times) for bucket, times in _used.items() if times != FAILED}


def adopt_times(times: Mapping[str, Sequence[float]]) -> bool:
    """Use these times instead of measuring, and return whether they change anything."""
    adopted = {bucket: Times(*pair) for bucket, pair in times.items()}
    changed = any(_used.get(bucket) != pair for bucket, pair in adopted.items())
    _used.update(adopted)
    return changed


def forget_times(*, stored: bool = False) -> None:
    """Read the stored times again at the next use; with `stored`, delete them, to measure all again."""
    _used.clear()
    _read_stored.cache_clear()
    if stored:
        for device in range(torch.cuda.device_count()):
            cache_entry(_name(device)).unlink(missing_ok=True)


@functools.cache
def _read_stored(device: int) -> Mapping[str, Times]:
    """Return the stored times of a GPU; none if there are none, or if they cannot be used."""
    try:
        stored = json.loads(cache_entry(_name(device)).read_text(encoding="utf-8"))
        times = {bucket: Times(*map(float, pair)) for bucket, pair in stored["microseconds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {bucket: pair for bucket, pair in times.items() if all(0 < part < math.inf for part in pair)}


def _store(device: int, bucket: str, times: Times) -> None:
    _read_stored.cache_clear()  # another process may have added to them
    stored = {**_read_stored(device), bucket: times}
    with contextlib.suppress(OSError, InputError), whole_file(writable_cache() / _name(device)) as file:
        json.dump({"gpu": _describe(device), "microseconds": stored}, file, indent=1)
    _read_stored.cache_clear()


def _name(device: int) -> str:
    """Return the name of the file: each GPU, driver and version has its own."""
    key = "\n".join(f"{name} {value}" for name, value in sorted(_describe(device).items()))
    return f"gpus/{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


@functools.cache
def _describe(device: int) -> dict[str, str]:
    """Return everything that the times depend on."""
    return {
        "name": torch.cuda.get_device_name(device),
        "multiprocessors": str(driver.limits(device)[0]),  # a part of a GPU has the name of the whole
        "driver": _find_driver(),
        "torch": torch.__version__,
        "cudnn": str(torch.backends.cudnn.version()),
        "throughtime": f"{__version__}, {REVISION}",
    }


def _find_driver(path: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Return the version of the driver, or that of its interface if the system does not report it."""
    try:
        return path.read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return driver.find_version()
