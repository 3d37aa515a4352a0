"""Where the time of the host goes in short recurrences on a GPU, and whole calls beside torch's modules.

    python -m benchmarks.recurrence_host            the parts of a call, then whole calls
    python -m benchmarks.recurrence_host --parts    the parts alone

Microseconds of the host for the parts: medians of loops that wait for the GPU only at their ends. Whole calls
are timed by the GPU, one at a time: *plain*, *called* (replayed if they recur), and from a CUDA graph.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from benchmarks.gpu_timing import MAKERS, MODULES, compile_ahead, microseconds, record_graph
from throughtime.gpu import persistent, persistent_replay
from throughtime.gpu.elements import ElementKind, round_up_units
from throughtime.gpu.persistent import find_form
from throughtime.gpu.persistent_plan import KernelTask
from throughtime.layers.stack import Stack
from throughtime.recurrence.backend import Backend
from throughtime.recurrence.choice import BACKENDS

Call = Callable[[], Any]
T, B, H = 35, 20, 200
SHAPES = (
    ("lstm", T, B, H, 1, False),
    ("lstm", T, B, H, 3, False),
    ("lstm", T, B, H, 1, True),
    ("lstm", T, B, H, 3, True),
    ("gru", 30, 64, 256, 1, False),
    ("rnn", 8, 32, 128, 2, True),
    ("lstm", 128, 64, 512, 1, True),
)
"""Cell, steps, rows, units, layers, and whether both directions."""
NATIVE_SHAPES = (
    ("lstm", 35, 20, 1500, 2, False),
    ("lstm", 8, 20, 1500, 1, True),
    ("rnn", 30, 64, 256, 1, False),
    ("gru", 30, 64, 256, 2, False),
)
"""Shapes to run in torch's kernels in float32, called through us."""
LOOPS, EACH = 9, 30


class EmptyFunction(torch.autograd.Function):
    """What torch itself takes for a function with as many inputs and outputs as an LSTM layer."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Tensor:
        """Return the first."""
        ctx.save_for_backward(*tensors)
        return tensors[0].view_as(tensors[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Return something of the right shapes."""
        saved: tuple[Tensor, ...] = ctx.saved_tensors
        return saved


def host_time(call: Call) -> float:
    """Microseconds of the host in one call."""
    found = []
    for _ in range(LOOPS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(EACH):
            call()
        found.append((time.perf_counter_ns() - start) / 1e3 / EACH)
    return statistics.median(found[1:])


@contextmanager
def without_replays() -> Iterator[None]:
    """Replay nothing in the block."""

    def refuse(device: int) -> bool:
        return False

    with mock.patch.object(persistent_replay, "is_replayable", refuse):
        yield


@contextmanager
def force_backend(backend: str) -> Iterator[None]:
    """Run all stacks on this backend in the block."""
    scan = importlib.import_module("throughtime.recurrence.scan")

    def choose(*given: Any) -> Backend:
        return BACKENDS[backend]

    with mock.patch.object(scan, "choose_for_layers", choose):
        yield


def build_step(module: nn.Module, x: Tensor, gradient: Tensor) -> Call:
    """A forward and a backward pass."""
    inputs = [x, *module.parameters()]
    return lambda: torch.autograd.grad(module(x)[0], inputs, gradient)


def measure_parts(dtype: torch.dtype) -> dict[str, float]:
    """Microseconds of the host for a trained LSTM layer and for what it consists of."""
    stack = Stack("lstm", H, H).to("cuda", dtype)
    x = torch.randn(T, B, H, device="cuda", dtype=dtype, requires_grad=True)
    gradient, rows = torch.randn_like(x), torch.randn(T * B, 4 * H, device="cuda", dtype=dtype)
    inputs = [x, *stack.parameters()]
    layers = [layer.cells for layer in stack._layers()]
    step = build_step(stack, x, gradient)
    parts = {
        "an allocation": lambda: x.new_empty(8),
        "a product": lambda: rows.t().mm(rows),
        "a sum": lambda: rows.sum(0),
        "an empty function, forward and backward": lambda: torch.autograd.grad(
            EmptyFunction.apply(*inputs),  # type: ignore[no-untyped-call]
            inputs,
            gradient,
        ),
    }
    found = {name: host_time(call) for name, call in parts.items()}
    with force_backend("persistent"):
        for name, context in (("plain", without_replays), ("replayed", nullcontext)):
            with context():
                found[f"{name}: the layers, forward"] = host_time(
                    lambda: persistent.run_layers(layers, x, None, None)
                )
                found[f"{name}: the stack, forward"] = host_time(lambda: stack(x))
                found[f"{name}: the stack, forward and backward"] = host_time(step)
    return found


def measure_call(shape: tuple[Any, ...], dtype: torch.dtype, backend: str) -> list[float]:
    """Microseconds of a trained call: plain, replayed, torch's; ours and torch's from a CUDA graph."""
    cell, steps, rows, units, layers, both = shape
    stack = Stack(cell, units, units, layers, bidirectional=both).to("cuda", dtype)
    module = MODULES[cell](units, units, layers, bidirectional=both).to("cuda", dtype)
    x = torch.randn(steps, rows, units, device="cuda", dtype=dtype, requires_grad=True)
    gradient = torch.randn(steps, rows, units * (1 + both), device="cuda", dtype=dtype)
    ours, theirs = build_step(stack, x, gradient), build_step(module, x, gradient)
    with force_backend(backend):
        with without_replays():
            plain = microseconds(ours, 0.04)
        return [
            plain,
            microseconds(ours, 0.08),
            microseconds(theirs, 0.04),
            microseconds(record_graph(ours), 0.03),
            microseconds(record_graph(theirs), 0.03),
        ]


def list_tasks() -> Iterator[KernelTask]:
    """The kernels of all shapes, which are compiled before."""
    for cell, _, rows, units, _, both in SHAPES:
        form = find_form(MAKERS[cell](1, 1))
        assert form is not None
        for kind in (ElementKind.BF16, ElementKind.TF32):
            for backward in (False, True):
                yield KernelTask(form, kind, round_up_units(units), rows, backward, 1 + both)


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", action="store_true")
    only_parts = parser.parse_args().parts
    compile_ahead(list_tasks())
    for dtype in (torch.bfloat16, torch.float32):
        for name, found in measure_parts(dtype).items():
            print(f"{str(dtype).removeprefix('torch.'):10}{name:44}{found:9.1f}", flush=True)
    if only_parts:
        return
    print(f"{'':52}{'plain':>8}{'called':>8}{'torch':>8}{'times':>7}{'graph':>8}{'torch':>8}{'times':>7}")
    cases = [(shape, dtype, "persistent") for dtype in (torch.bfloat16, torch.float32) for shape in SHAPES]
    cases += [(shape, torch.float32, "native") for shape in NATIVE_SHAPES]
    for shape, dtype, backend in cases:
        plain, called, torch_called, graph, torch_graph = measure_call(shape, dtype, backend)
        cell, steps, rows, units, layers, both = shape
        name = f"{cell} T{steps} B{rows} H{units}, {layers} layers{', both ways' if both else ''}"
        kind = f"{str(dtype).removeprefix('torch.')} {backend}"
        times = f"{plain:8.0f}{called:8.0f}{torch_called:8.0f}{torch_called / called:7.2f}"
        print(
            f"{name:32}{kind:20}{times}{graph:8.0f}{torch_graph:8.0f}{torch_graph / graph:7.2f}", flush=True
        )


if __name__ == "__main__":
    main()
