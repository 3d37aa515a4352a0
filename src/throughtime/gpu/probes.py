"""The measurements that calibrate the model of costs on a GPU: one for each constant, in about a second."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from throughtime.gpu import calibration
from throughtime.gpu.comparison import wins
from throughtime.gpu.costs import DEFAULTS, H200, CostRates, Gpu, predict_ours
from throughtime.gpu.measuring import (
    Step,
    TimingCase,
    call_microseconds,
    compile_kernel,
    list_kernels,
    microseconds,
    record_graph,
)
from throughtime.gpu.torch_costs import predict_torch

SECONDS = 0.02
"""Time for which each call is measured."""


class Probe(NamedTuple):
    """A call whose time yields a constant, if those of the probes before it are known."""

    constant: str
    case: TimingCase
    ours: bool  # or torch's
    replayed: bool  # or called
    fitted: float | None = None  # microseconds on the H200 to which the model was fitted

    def measure(self) -> float:
        """Return the microseconds of the call."""
        step = self.case.build_ours() if self.ours else self.case.build_theirs()
        if self.replayed:
            return _replay(step)
        return min(call_microseconds(step, SECONDS) for _ in range(2))  # the first may find the host busy

    def predict(self, gpu: Gpu, rates: CostRates) -> float:
        """Return what the model says."""
        call = self.case.describe()
        times = predict_ours(call, gpu, rates) if self.ours else predict_torch(call, gpu, rates)
        assert times is not None
        return times.replayed if self.replayed else times.called

    def solve(self, gpu: Gpu, rates: CostRates, measured: float) -> CostRates:
        """Return the constants with this one such that the prediction, linear in it, is what was measured.

        The model has a small error for every call. To keep it out of the constants, the time is taken
        relative to that of the same call on the H200 to which the model was fitted.
        """
        if self.fitted is not None:
            measured *= self.predict(H200, DEFAULTS) / self.fitted
        usual = getattr(rates, self.constant)
        without = self.predict(gpu, replace(rates, **{self.constant: 0.0}))
        share = self.predict(gpu, rates) - without
        if share <= 0.0:  # something else takes all the time
            return rates
        return replace(rates, **{self.constant: usual * (measured - without) / share})


TINY = TimingCase("lstm", torch.bfloat16, 2, 8, 128)
PROBES = (
    Probe("exchange", TimingCase("lstm", torch.bfloat16, 128, 8, 256, trains=False), True, True, 141.5),
    Probe("traffic", TimingCase("lstm", torch.bfloat16, 32, 64, 1024, trains=False), True, True, 157.4),
    Probe("host", TINY, True, False),
    Probe("host_layer", replace(TINY, layers=3), True, False),
    Probe("torch_latency", TimingCase("lstm", torch.bfloat16, 32, 8, 256), False, True, 353.0),
    Probe("torch_traffic", TimingCase("lstm", torch.bfloat16, 16, 64, 1024), False, True, 388.0),
    Probe("torch_small", TimingCase("lstm", torch.float32, 64, 8, 64), False, True, 112.4),
    Probe("torch_host", TINY, False, False),
    Probe("torch_host_step", replace(TINY, steps=16), False, False),
)
ROWS, SIZE, COPIED, LAUNCHES = 4096, 1024, 1 << 26, 32
"""Sizes of the other measurements: a product of ROWS x SIZE and SIZE x 4 SIZE, a copy, small kernels."""
HALF_RATE, TF32_RATE, MEMORY_RATE = 655.0, 323.0, 3.6e6
"""What they yield on an H200: millions of operations per microsecond, and bytes per microsecond."""


def measure_rates(device: int, derived: CostRates) -> CostRates:
    """Measure all constants of a GPU, starting from those that its properties imply."""
    gpu = calibration.find_gpu(device)
    with _alone(device):
        kernels = list_kernels(task for probe in PROBES if probe.ours for task in probe.case.list_tasks())
        with ThreadPoolExecutor() as pool:
            list(pool.map(compile_kernel, kernels))
        rates = calibration.bound_rates(_measure_parts(derived), derived)
        measured = {probe: probe.measure() for probe in PROBES}
        # Inside the block, because predictions build layers, which draw random numbers.
        return fit_rates(gpu, rates, derived, measured)


def fit_rates(gpu: Gpu, rates: CostRates, derived: CostRates, measured: Mapping[Probe, float]) -> CostRates:
    """Return the constants that explain what was measured, each within its bounds."""
    for _ in range(3):  # a probe depends a little on the constants of those after it
        for probe, time in measured.items():
            rates = calibration.bound_rates(probe.solve(gpu, rates, time), derived)
    return rates


SHOWN_CASES = (
    TimingCase("lstm", torch.bfloat16, 35, 20, 200),
    TimingCase("gru", torch.float32, 30, 64, 256),
    TimingCase("lstm", torch.bfloat16, 70, 20, 1150, layers=3),
    TimingCase("rnn", torch.float32, 4, 1, 40),
    TimingCase("lstm", torch.float32, 35, 20, 1500),
    TimingCase("gru", torch.bfloat16, 8, 1, 512, trains=False),
)


def compare_predictions(cases: Iterable[TimingCase] = SHOWN_CASES) -> list[dict[str, Any]]:
    """Return the predicted and the measured times of these calls on the current GPU, ours and torch's."""
    device = torch.cuda.current_device()
    gpu, rates, rows = calibration.find_gpu(device), calibration.get_rates(device), []
    for case in cases:
        call, times = case.describe(), {}
        ours, theirs = predict_ours(call, gpu, rates), predict_torch(call, gpu, rates)
        for whose, expected in (("ours", ours), ("torch", theirs)):
            if expected is None:
                continue
            with _alone(device):
                for way, time in expected._asdict().items():
                    probe = Probe("", case, ours=whose == "ours", replayed=way == "replayed")
                    times[f"{whose}, {way}"] = {"predicted": time, "measured": probe.measure()}
        chosen = {
            use: "persistent" if wins(ours, theirs, recorded) else "native"
            for use, recorded in (("called", not case.trains), ("recorded", True))
        }
        rows.append({"shape": case.title, "times": times, "auto": chosen})
    return rows


def _measure_parts(derived: CostRates) -> CostRates:
    """Measure what both sides use: products, copies and small kernels."""
    operations = 2e-6 * ROWS * SIZE * 4 * SIZE
    small, copied = torch.zeros(64, 64, device="cuda"), torch.zeros(COPIED, dtype=torch.uint8, device="cuda")
    into = torch.empty_like(copied)

    def launch_many() -> None:
        for _ in range(LAUNCHES):
            small.add_(1.0)

    return replace(
        derived,
        product=_replay(_build_product(torch.bfloat16)) * HALF_RATE / operations,
        product32=_replay(_build_product(torch.float32)) * TF32_RATE / operations,
        memory=_replay(lambda: into.copy_(copied)) * MEMORY_RATE / (2 * COPIED),
        launch=_replay(launch_many) / LAUNCHES,
    )


def _build_product(dtype: torch.dtype) -> Step:
    a, b = (torch.zeros(shape, dtype=dtype, device="cuda") for shape in ((ROWS, SIZE), (SIZE, 4 * SIZE)))
    return lambda: a @ b


def _replay(step: Step) -> float:
    return microseconds(record_graph(step), SECONDS)


@contextlib.contextmanager
def _alone(device: int) -> Iterator[None]:
    """Use our own settings inside this block; restore those of the program and its random state."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.cuda.device(device))
        stack.enter_context(torch.random.fork_rng([device]))
        stack.enter_context(torch.inference_mode(False))  # which enables gradients too
        stack.enter_context(torch.autocast("cuda", enabled=False))
        stack.enter_context(torch.device("cpu"))  # instead of a default device of the program's
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # torch's own modules in bf16 are not flat, of which it warns
        allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = allowed
            torch.cuda.empty_cache()
