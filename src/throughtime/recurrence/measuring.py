"""Time recurrences on a GPU against torch's modules, for `doctor --measure` and the benchmarks."""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from throughtime.cells import GRU, LSTM, RNN, Cell, MinGRU, MinLSTM
from throughtime.errors import InputError
from throughtime.files import whole_file
from throughtime.recurrence import costs
from throughtime.recurrence.persistent import build_task, find_form, find_kind
from throughtime.recurrence.persistent_call import FILES
from throughtime.recurrence.persistent_plan import KernelTask, candidates
from throughtime.recurrence.scan import scan

Call = Callable[[], Any]
MAKERS: dict[str, Callable[[int, int], Cell]] = {
    "rnn": RNN,
    "gru": GRU,
    "gru-before": partial(GRU, reset="before"),
    "lstm": LSTM,
    "mingru": MinGRU,
    "minlstm": MinLSTM,
}
MODULES: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
"""The module of torch to compare with."""
OTHERWISE = {"gru-before": "reference", "mingru": "associative", "minlstm": "associative"}
"""The backend to compare with where torch has no module."""
SIZES, COARSE = (256, 512, 650, 768, 1024, 1150, 1152, 1500, 1536), (256, 768, 1152, 1536)
"""Hidden sizes to measure; fewer where torch has no module, as ours is nearly always faster there."""
BATCHES, STEPS = (8, 20, 64, 128), (35, 128, 1024)
LARGEST = 2**27
"""Maximum number of values of an input: what training keeps of it must fit in memory."""
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
SURVEYED = 0.02
"""Seconds for which each call is timed."""
CALLED = 1.03
"""Minimum speed-up over one layer of torch when called from the host; timings vary by as much."""
REPLAYED = (1.03, 1.35, 1.9)
"""The same replayed, in a stack of one layer, of two, and of three or more.

Torch runs the layers of a stack side by side, each some steps behind the one below, so that a layer of two
takes it 1/1.35 of a single layer's time, and one of three 1/1.9. Ours run one after the other. Called, torch
waits for the host and gains little from it.
"""


@dataclass(frozen=True)
class TimingCase:
    """One configuration to time; the input is as wide as the state."""

    cell: str
    dtype: torch.dtype
    steps: int
    batch: int
    hidden: int
    layers: int = 1
    trains: bool = True

    def data(self) -> tuple[Tensor, Tensor]:
        """Return an input and the gradient of the outputs."""
        source = torch.Generator("cuda").manual_seed(0)
        shape = (self.steps, self.batch, self.hidden)
        x, gradient = (torch.randn(shape, device="cuda", generator=source).to(self.dtype) for _ in range(2))
        return x.requires_grad_(self.trains), gradient

    def cells(self) -> list[Cell]:
        """Return new cells, the lowest first."""
        return [MAKERS[self.cell](self.hidden, self.hidden) for _ in range(self.layers)]

    def build_ours(self, backend: str) -> Call:
        """Return `step` of a single cell on this backend."""
        (cell,) = self.cells()
        return self.step(cell, partial(scan, cell, backend=backend))

    def build_theirs(self) -> Call:
        """Return `step` of torch's module, or of the backend to compare with."""
        if self.cell not in MODULES:
            return self.build_ours(OTHERWISE[self.cell])
        module = MODULES[self.cell](self.hidden, self.hidden, self.layers)
        return self.step(module, module)

    def step(self, owner: nn.Module, forward: Callable[[Tensor], tuple[Tensor, Any]]) -> Call:
        """Return a function that runs one forward pass, or one training step without the optimiser."""
        owner.to("cuda", self.dtype)
        x, gradient = self.data()
        inputs = [x, *owner.parameters()]

        def step() -> Any:
            if self.trains:
                return torch.autograd.grad(forward(x)[0], inputs, gradient)
            with torch.no_grad():
                return forward(x)[0]

        return step


def record_graph(call: Call) -> Call:
    """Record a call in a CUDA graph; return a function that replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call()

    def replay() -> Any:
        graph.replay()
        return outputs

    return replay


def microseconds(call: Call, seconds: float = 0.1, least: int = 5) -> float:
    """Return the median time of a call, measured by the GPU."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    once = _time_call(call)
    return statistics.median(_time_call(call) for _ in range(max(least, min(200, int(seconds * 1e6 / once)))))


def _time_call(call: Call) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return max(1e-3, 1e3 * float(start.elapsed_time(end)))


def measure_break_even(
    cell: str, dtype: torch.dtype, hidden: int, batch: int, trains: bool
) -> list[int | None]:
    """The fewest of the measured steps from which ours pays with one layer, with two, and with three or more.

    One layer of each is clocked, and what torch gains from several is asked for as a margin (`REPLAYED`).
    Where torch has no module, the layers take their turns on both sides.
    """
    margins = REPLAYED if cell in MODULES else REPLAYED[:1] * 3
    limits: list[int | None] = [None for _ in margins]
    pays_called = False
    for steps in (steps for steps in STEPS if steps * batch * hidden < LARGEST):
        case = TimingCase(cell, dtype, steps, batch, hidden, trains=trains)
        ours, theirs = case.build_ours(find_backend(cell)), case.build_theirs()
        # The host's share shrinks with the length: what pays called at fewer steps is not clocked again.
        pays_called = pays_called or _times_as_fast(ours, theirs) >= CALLED
        if not pays_called:
            continue
        ratio = _times_as_fast(record_graph(ours), record_graph(theirs))
        limits = [
            steps if known is None and ratio >= margin else known
            for known, margin in zip(limits, margins, strict=True)
        ]
        if None not in limits:
            break
    return limits


def _times_as_fast(ours: Call, theirs: Call) -> float:
    return microseconds(theirs, SURVEYED) / microseconds(ours, SURVEYED)


def find_backend(cell: str) -> str:
    """Return the backend of ours that runs a cell."""
    return "linear" if find_form(MAKERS[cell](1, 1)) is None else "persistent"


def choose_sizes(cell: str) -> tuple[int, ...]:
    """Return the hidden sizes at which to measure a cell."""
    return SIZES if cell in MODULES else COARSE


def survey() -> Iterator[tuple[str, str, list[Any]]]:
    """Yield backend, use and rows: hidden size, batch, and the steps from which it pays, by layers."""
    for name, make in MAKERS.items():
        for dtype in DTYPES:
            for trains in (True, False):
                rows = [
                    [hidden, batch, *measure_break_even(name, dtype, hidden, batch, trains)]
                    for hidden in choose_sizes(name)
                    for batch in BATCHES
                ]
                yield find_backend(name), costs.name_use(make(1, 1), dtype, trains), rows


def measure(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure the GPU of this machine and store the results where `auto` finds them."""
    if not torch.cuda.is_available():
        raise InputError("measure", "there is no GPU on this machine to measure")
    say("compiling ...")
    compile_ahead(
        build_task(form, kind, cell, batch, backward)
        for cell in (make(1, size) for name, make in MAKERS.items() for size in choose_sizes(name))
        if (form := find_form(cell)) is not None
        for kind in map(find_kind, (torch.empty(0, dtype=dtype) for dtype in DTYPES))
        if kind is not None
        for batch in BATCHES
        for backward in (False, True)
    )
    results: dict[str, Any] = {}
    for backend, name, rows in survey():
        results.setdefault(backend, {})[name] = rows
        won = [sum(steps is not None for steps in column) for column in list(zip(*rows, strict=True))[2:]]
        shapes = ", ".join(map(str, won))
        say(f"{name}: faster than torch at {shapes} of {len(rows)} shapes with 1, 2, 3 layers")
    gpu, path = torch.cuda.get_device_name(), costs.own_file()
    everything = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    everything[gpu] = {**everything.get(gpu, {}), **results}
    with whole_file(path) as file:
        json.dump(everything, file)
    costs.forget()
    return {"gpu": gpu, "file": str(path), **results}


Work = tuple[str, tuple[tuple[str, int], ...], tuple[int, int]]


def compile_ahead(tasks: Iterable[KernelTask], plans: int = 1) -> None:
    """Compile the kernels of these tasks, each with the plans expected to be fastest."""
    from throughtime.kernels import driver

    limits = driver.limits(torch.cuda.current_device())
    capability = torch.cuda.get_device_capability()
    work: dict[Work, None] = {}
    for task in dict.fromkeys(tasks):
        halves = limits[0] // task.directions, limits[1]
        for plan in [*candidates(task, *limits)[:plans], *candidates(task, *halves)[:plans]]:
            constants = tuple(sorted(plan.constants(task).items()))
            work["backward" if task.backward else "forward", constants, capability] = None
    with multiprocessing.get_context("spawn").Pool(min(14, os.cpu_count() or 1)) as pool:
        pool.map(_compile, work, chunksize=2)


def _compile(work: Work) -> None:
    from throughtime.kernels import driver

    name, constants, capability = work
    driver.machine_code(driver.text((*FILES, f"{name}.cu")), dict(constants), capability)
