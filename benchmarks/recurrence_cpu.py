"""Recurrences on a CPU beside torch's own modules: speed ratios, above 1 where ours is the faster.

`python -m benchmarks.recurrence_cpu` prints a table and the targets; `--quick` takes two shapes and little
time; `--table` prints the lines of `SPEED` in recurrence/choice.py. Ours and theirs take turns in one process
and the medians are compared, so that a busy machine disturbs both alike; still, let it be idle.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from throughtime.cells import GRU, LSTM, RNN, Cell, MinGRU
from throughtime.recurrence import scan

SHAPES = ((35, 32, 256), (256, 16, 256), (25, 128, 256), (35, 20, 650), (512, 1, 256), (64, 64, 512))
QUICK = ((35, 32, 256), (512, 1, 256))
CELLS: dict[str, tuple[Callable[[int, int], Cell], Callable[[int, int], nn.RNNBase]]] = {
    "lstm": (LSTM, nn.LSTM),
    "gru": (GRU, nn.GRU),
    "gru-before": (partial(GRU, reset="before"), nn.GRU),
    "rnn": (RNN, nn.RNN),
}
LONG = (4096, 8, 256)


class Case(NamedTuple):
    """What is measured."""

    cell: str
    trains: bool
    ragged: bool
    shape: tuple[int, int, int]  # T, B, H; the input is as wide as the state

    @property
    def name(self) -> str:
        """Everything but the shape."""
        words = (self.cell, "training" if self.trains else "inference", "ragged" if self.ragged else "full")
        return " ".join(words)


def run(*, quick: bool = False) -> dict[str, Any]:
    shapes, seconds = (QUICK, 0.5) if quick else (SHAPES, 1.5)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"the machine is busy (load {load:.1f}): these ratios are not to be trusted", file=sys.stderr)
    print(f"{'':26}" + "".join(f"{named(shape):>12}" for shape in shapes), file=sys.stderr)
    ratios: dict[Case, float] = {}
    for case in cases(shapes):
        if case.shape == shapes[0]:
            print(f"{case.name:26}", end="", file=sys.stderr)
        ratios[case] = ratio(case, seconds)
        end = "\n" if case.shape == shapes[-1] else ""
        print(f"{ratios[case]:12.2f}", end=end, file=sys.stderr, flush=True)
    checked = targets(ratios) + resets(shapes, seconds)
    if not quick:
        checked += long_sequence()
    for target in checked:
        sign = "met" if target["met"] else "MISSED"
        line = f"{target['name']:50} {target['value']:6.2f} >= {target['target']:.2f}  {sign}"
        print(line, file=sys.stderr)
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "load_before": load,
        "ratios": {f"{case.name} {named(case.shape)}": round(value, 3) for case, value in ratios.items()},
        "targets": checked,
    }


def named(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


def cases(shapes: Iterable[tuple[int, int, int]]) -> list[Case]:
    return [
        Case(cell, trains, ragged, shape)
        for cell in CELLS
        for trains in (True, False)
        for ragged in (False, True)
        for shape in shapes
    ]


def ratio(case: Case, seconds: float, backend: str = "auto") -> float:
    """How many times as fast as torch's module."""
    make_ours, make_theirs = CELLS[case.cell]
    steps, batch, hidden = case.shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(steps, batch, hidden, generator=generator).requires_grad_(case.trains)
    gradient = torch.randn(steps, batch, hidden, generator=generator)
    lengths = torch.randint(steps // 2, steps + 1, (batch,), generator=generator) if case.ragged else None
    cell, module = make_ours(hidden, hidden), make_theirs(hidden, hidden)

    def ours() -> Tensor:
        return scan(cell, x, lengths=lengths, backend=backend).outputs

    def theirs() -> Tensor:
        if lengths is None:
            return module(x)[0]
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        return pad_packed_sequence(module(packed)[0], total_length=steps)[0]

    def once(forward: Callable[[], Tensor], owner: nn.Module) -> None:
        if not case.trains:
            forward()
            return
        owner.zero_grad()
        x.grad = None
        forward().backward(gradient)

    with torch.set_grad_enabled(case.trains):
        mine, peer = medians([partial(once, ours, cell), partial(once, theirs, module)], seconds)
    return peer / mine


def medians(calls: list[Callable[[], None]], seconds: float, least: int = 5) -> list[float]:
    """The median time of each, taken in turns for so long."""
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < least:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def targets(ratios: dict[Case, float]) -> list[dict[str, Any]]:
    """What was promised, and what was measured."""

    def of(cell: str, *, trains: bool, ragged: bool, single: bool | None = None) -> list[float]:
        return [
            value
            for case, value in ratios.items()
            if (case.cell, case.trains, case.ragged) == (cell, trains, ragged)
            and single in (None, case.shape[1] == 1)
        ]

    found = []
    for trains, wanted in ((True, 1.5), (False, 1.25)):
        name = "lstm training" if trains else "lstm inference"
        many, single = (of("lstm", trains=trains, ragged=True, single=one) for one in (False, True))
        found += [
            (f"{name}, worst", min(of("lstm", trains=trains, ragged=False)), 0.95),
            (f"{name} ragged, mean of B > 1", mean(many), wanted),
            (f"{name} ragged, B = 1", min(single), 0.95),
        ]
    for cell in ("gru", "rnn"):
        full, ragged = (of(cell, trains=True, ragged=which) for which in (False, True))
        found += [
            (f"{cell} training, mean", mean(full), 1.3),
            (f"{cell} training, worst", min(full), 0.95),
            (f"{cell} training, B = 1", min(of(cell, trains=True, ragged=False, single=True)), 2.2),
            (f"{cell} training ragged, mean", mean(ragged), 1.3),
            (f"{cell} training ragged, worst", min(ragged), 1.0),
        ]
    return [_checked(*row) for row in found]


def resets(shapes: Iterable[tuple[int, int, int]], seconds: float) -> list[dict[str, Any]]:
    """Both forms of the GRU beside each other, in training."""
    speeds = []
    for steps, batch, hidden in shapes:
        x = torch.randn(steps, batch, hidden, requires_grad=True)
        gradient = torch.randn(steps, batch, hidden)

        def once(cell: Cell, x: Tensor = x, gradient: Tensor = gradient) -> None:
            cell.zero_grad()
            x.grad = None
            scan(cell, x).outputs.backward(gradient)

        forms = [GRU(hidden, hidden, reset) for reset in ("after", "before")]
        after, before = medians([partial(once, form) for form in forms], seconds)
        speeds.append(after / before)
    return [
        _checked("gru training, reset before against after, mean", mean(speeds), 0.85),
        _checked("gru training, reset before against after, worst", min(speeds), 0.85),
    ]


def long_sequence() -> list[dict[str, Any]]:
    """A cell that is linear in its state, on a long sequence."""
    steps, batch, hidden = LONG
    x = torch.randn(steps, batch, hidden, requires_grad=True)
    gradient = torch.randn(steps, batch, hidden)
    cell, module = MinGRU(hidden, hidden), nn.GRU(hidden, hidden)
    parallel, loop, peer = medians(
        [
            lambda: scan(cell, x).outputs.backward(gradient),
            lambda: scan(cell, x, backend="reference").outputs.backward(gradient),
            lambda: module(x)[0].backward(gradient),
        ],
        seconds=0.0,
        least=3,
    )
    return [
        _checked("mingru training 4096x8x256 against nn.GRU", peer / parallel, 5.0),
        _checked("mingru training 4096x8x256 against its own loop", loop / parallel, 1.3),
    ]


def _checked(name: str, value: float, target: float) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "target": target, "met": value >= target}


def table(seconds: float = 2.0) -> None:
    """Print the lines of SPEED: training and inference, many rows and one row, full and ragged."""
    for cell in ("gru", "rnn"):
        for backend in ("native", "fused"):
            row = [
                mean(
                    ratio(Case(cell, trains, ragged, shape), seconds, backend)
                    for shape in SHAPES
                    if (shape[1] == 1) == single
                )
                for trains in (True, False)
                for single in (False, True)
                for ragged in (False, True)
            ]
            print(cell, f'"{backend}":', f"({', '.join(f'{value:.2f}' for value in row)}),", flush=True)


if __name__ == "__main__":
    if "--table" in sys.argv:
        table()
    else:
        run(quick="--quick" in sys.argv)
