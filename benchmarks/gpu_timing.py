"""Time recurrences on a GPU, ours and torch's."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from throughtime.cells import GRU, LSTM, RNN, Cell, MinGRU, MinLSTM
from throughtime.gpu.elements import round_up_units
from throughtime.gpu.persistent import find_form, find_kind
from throughtime.gpu.persistent_call import FILES
from throughtime.gpu.persistent_choice import candidates
from throughtime.gpu.persistent_plan import KernelTask

Step = Callable[[], Any]
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


@dataclass(frozen=True)
class TimingCase:
    """One configuration to time; the input is as wide as the state."""

    cell: str
    dtype: torch.dtype
    steps: int
    batch: int
    hidden: int
    layers: int = 1
    directions: int = 1
    trains: bool = True

    @property
    def title(self) -> str:
        """The case in a few words."""
        shape = f"T{self.steps} B{self.batch} H{self.hidden} L{self.layers} D{self.directions}"
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.cell} {dtype} {shape} {'trained' if self.trains else 'forward'}"

    def build_data(self) -> tuple[Tensor, Tensor]:
        """Return an input and the gradient of the outputs."""
        source = torch.Generator("cuda").manual_seed(0)
        shape = self.steps, self.batch
        x, gradient = (
            torch.randn(*shape, width, device="cuda", generator=source).to(self.dtype)
            for width in (self.hidden, self.hidden * self.directions)
        )
        return x.requires_grad_(self.trains), gradient

    def build_theirs(self) -> Step:
        """Return `build_step` of torch's module."""
        module = MODULES[self.cell](self.hidden, self.hidden, self.layers, bidirectional=self.directions > 1)
        return self.build_step(module, module)

    def build_step(self, owner: nn.Module, forward: Callable[[Tensor], tuple[Tensor, Any]]) -> Step:
        """Return a function that runs one forward pass, or one training step without the optimiser."""
        owner.to("cuda", self.dtype)
        x, gradient = self.build_data()
        inputs = [x, *owner.parameters()]

        def step() -> Any:
            if self.trains:
                return torch.autograd.grad(forward(x)[0], inputs, gradient)
            with torch.no_grad():
                return forward(x)[0]

        return step

    def list_tasks(self) -> list[KernelTask]:
        """Return the tasks of the kernels that such a case runs."""
        form, kind = find_form(MAKERS[self.cell](1, 1)), find_kind(torch.empty(0, dtype=self.dtype))
        assert form is not None
        assert kind is not None
        width, ways = round_up_units(self.hidden), (False, True)[: 1 + self.trains]
        return [KernelTask(form, kind, width, self.batch, way, self.directions) for way in ways]


def record_graph(call: Step) -> Step:
    """Record a call in a CUDA graph; return a function that replays it. Other threads may use the GPU."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        outputs = call()

    def replay() -> Any:
        graph.replay()
        return outputs

    return replay


def microseconds(call: Step, seconds: float = 0.1, least: int = 5) -> float:
    """Return the median microseconds of a call, measured by the GPU."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    once = _time_on_gpu(call)
    count = max(least, min(200, int(seconds * 1e6 / once)))
    return statistics.median(_time_on_gpu(call) for _ in range(count))


def _time_on_gpu(call: Step) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return max(1e-3, 1e3 * float(start.elapsed_time(end)))


WARM_UP, IN_A_ROW = 12, 3
"""Calls that are not measured, as the first ones prepare what later ones use, and calls between two
synchronisations: the GPU works while the host prepares the next call."""


def call_microseconds(call: Step, seconds: float = 0.1, least: int = 5) -> float:
    """Return the median microseconds of a call from Python, measured by the host."""
    start = time.perf_counter()
    for number in range(WARM_UP):
        call()
        if number > 1 and time.perf_counter() - start > seconds:
            break
    torch.cuda.synchronize()
    once = _time_on_host(call)
    count = max(least, min(60, int(seconds * 1e6 / once / IN_A_ROW)))
    return statistics.median(_time_on_host(call) for _ in range(count))


def _time_on_host(call: Step) -> float:
    start = time.perf_counter()
    for _ in range(IN_A_ROW):
        call()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - start) / IN_A_ROW


Kernel = tuple[str, tuple[tuple[str, int], ...], tuple[int, int]]
"""What a kernel is compiled from: its name, its constants and the compute capability."""


def list_kernels(tasks: Iterable[KernelTask], plans: int = 1) -> list[Kernel]:
    """Return the kernels of these tasks on the current GPU, each with the plans expected to be fastest."""
    from throughtime.gpu import driver

    limits = driver.limits(torch.cuda.current_device())
    capability = torch.cuda.get_device_capability()
    found: dict[Kernel, None] = {}
    for task in dict.fromkeys(tasks):
        halves = limits[0] // task.directions, limits[1]
        for plan in [*candidates(task, *limits)[:plans], *candidates(task, *halves)[:plans]]:
            constants = tuple(sorted(plan.constants(task).items()))
            found["backward" if task.backward else "forward", constants, capability] = None
    return list(found)


def compile_kernel(kernel: Kernel) -> None:
    """Compile a kernel into the cache, if it is not there."""
    from throughtime.gpu import driver

    name, constants, capability = kernel
    driver.machine_code(driver.text((*FILES, f"{name}.cu")), dict(constants), capability)


def compile_ahead(tasks: Iterable[KernelTask], plans: int = 1) -> None:
    """Compile the kernels of many tasks in several processes."""
    with multiprocessing.get_context("spawn").Pool(min(14, os.cpu_count() or 1)) as pool:
        pool.map(compile_kernel, list_kernels(tasks, plans), chunksize=2)
