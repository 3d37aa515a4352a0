"""The constants of `costs` for a GPU: derived from its properties, then measured once and stored.

The first call on a GPU measures it, in at most two seconds and the time to compile a few kernels, and stores
the result in the user's cache folder. A new driver, torch, cuDNN or throughtime measures again, as does
`throughtime doctor --measure`. Nothing is measured while a CUDA graph is recorded; until there are
measurements, and where they fail, the constants of an H200 are scaled by the properties of the GPU.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import threading
import warnings
from dataclasses import asdict, fields, replace
from pathlib import Path

import torch

from throughtime.errors import InputError, ThroughtimeError, ThroughtimeWarning, first_line
from throughtime.files import cache_entry, whole_file, writable_cache
from throughtime.gpu import choice, driver
from throughtime.gpu.costs import DEFAULTS, H200, CostRates, Gpu
from throughtime.version import __version__

REVISION = 2
"""Raise this when the meaning of a constant changes, so that stored constants are measured again."""
FARTHEST = 4.0
"""A measured constant is at most this number of times larger or smaller than the derived one: on a GPU that
others use at the same time, measurements can be far off."""

HALF_TENSOR_CORES = {8: (6, 7, 9), 12: (0, 1)}
"""Minor versions of the compute capability, by major ones, whose multiprocessors multiply half as fast."""

_lock = threading.Lock()
_known: dict[int, CostRates] = {}


def get_rates(device: int) -> CostRates:
    """Return the constants of a GPU, measured at its first use."""
    found = _known.get(device)
    if found is not None:
        return found
    if torch.cuda.is_current_stream_capturing():
        return derive_rates(find_gpu(device))
    with _lock:
        if device not in _known:
            _known[device] = _load(device) or _measure_and_store(device)
        return _known[device]


def measure_again(device: int) -> CostRates:
    """Measure a GPU now, even if there are stored measurements."""
    with _lock:
        _known[device] = _measure_and_store(device)
        choice.forget()
        return _known[device]


def forget() -> None:
    """Read the stored constants again at the next use."""
    _known.clear()
    choice.forget()


@functools.cache
def find_gpu(device: int) -> Gpu:
    """Return the properties of a GPU, as its driver reports them."""
    multiprocessors, shared = driver.limits(device)
    clock, memory_clock, bus, l2 = driver.read_attributes(
        device, 13, 36, 37, 38
    )  # as the driver numbers them
    return Gpu(
        torch.cuda.get_device_capability(device),
        multiprocessors,
        shared,
        clock=clock / 1e3 or H200.clock,
        memory=2 * memory_clock / 1e3 * bus / 8 or H200.memory,
        l2=l2 or H200.l2,
    )


def derive_rates(gpu: Gpu) -> CostRates:
    """Return the constants of an H200, scaled by the properties of another GPU.

    Only an H200 was measured; what the properties of other GPUs imply is an estimate that the first
    measurement replaces.
    """
    cycles = H200.clock / gpu.clock
    core = cycles * (2.0 if gpu.capability[1] in HALF_TENSOR_CORES.get(gpu.capability[0], ()) else 1.0)
    width = H200.multiprocessors / gpu.multiprocessors
    memory = H200.memory / gpu.memory
    return replace(
        DEFAULTS,
        exchange=DEFAULTS.exchange * cycles,
        traffic=DEFAULTS.traffic * core,
        product=DEFAULTS.product * core * width * (1.0 if gpu.capability[0] >= 9 else 2.0),
        product32=DEFAULTS.product32 * core * width * (1.0 if gpu.capability[0] >= 9 else 2.0),
        memory=DEFAULTS.memory * memory,
        torch_latency=DEFAULTS.torch_latency * cycles,
        torch_traffic=DEFAULTS.torch_traffic * cycles * width,
        torch_small=DEFAULTS.torch_small * cycles,
    )


def bound_rates(measured: CostRates, derived: CostRates) -> CostRates:
    """Return the measured constants, none of them farther than `FARTHEST` from the derived ones."""
    bounded = {}
    for field in fields(CostRates):
        value, usual = getattr(measured, field.name), getattr(derived, field.name)
        value = value if math.isfinite(value) and value > 0 else usual
        bounded[field.name] = min(max(value, usual / FARTHEST), usual * FARTHEST)
    return CostRates(**bounded)


def _measure_and_store(device: int) -> CostRates:
    derived = derive_rates(find_gpu(device))
    if driver.unavailable(device) is not None:
        return derived
    from throughtime.gpu.persistent_replay import RECORDINGS
    from throughtime.gpu.probes import measure_rates

    try:
        measured = bound_rates(measure_rates(device, derived), derived)
    except (RuntimeError, ThroughtimeError, OSError) as error:
        problem = f"GPU {device} cannot be measured ({first_line(error)})"
        warnings.warn(
            f"{problem}; `auto` uses estimates from its properties", ThroughtimeWarning, stacklevel=2
        )
        return derived
    finally:
        RECORDINGS.forget()  # what was recorded to be measured is of no further use
        torch.cuda.empty_cache()
    with contextlib.suppress(OSError, InputError), whole_file(writable_cache() / _name(device)) as file:
        json.dump({"gpu": _describe(device), "rates": asdict(measured)}, file, indent=1)
    return measured


def _load(device: int) -> CostRates | None:
    """Return the stored constants; None if there are none, or if they cannot be used."""
    try:
        stored = json.loads(cache_entry(_name(device)).read_text(encoding="utf-8"))
        if stored["gpu"] != _describe(device):
            return None
        rates = CostRates(**{name: float(value) for name, value in stored["rates"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return rates if all(0 < value < math.inf for value in asdict(rates).values()) else None


def _name(device: int) -> str:
    """Return the name of the file: each GPU, driver and version has its own."""
    key = "\n".join(f"{name} {value}" for name, value in sorted(_describe(device).items()))
    return f"gpus/{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


@functools.cache
def _describe(device: int) -> dict[str, str]:
    """Return everything that the constants depend on."""
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
