"""Training on a GPU, task by task: ours beside a plain PyTorch loop of the same size, in one run.

    python -m benchmarks.tasks_gpu --tasks tag,fill --seconds 3

Ours is the trainer itself: its batches, updates, clipping and optimiser. The plain loop (`tasks_plain.py`)
has torch's modules, the same batches, ready in pinned memory, and the same bf16. A row has the targets per
second of both, the share of time in which no kernel runs, and the peaks of memory. If a corpus is not on this
machine, an embedded one takes its place, and the row says so.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.device_time import profile_kernels
from benchmarks.tasks_cases import CASES, Case, create
from benchmarks.tasks_plain import PlainTraining, build_plain
from throughtime.fit.progress import Reporter
from throughtime.fit.trainer import Trainer
from throughtime.gpu.learner import own_stream
from throughtime.layers.devices import matmul_precision

SPEED, IDLE, MEMORY = 3.0, 0.15, 1.25
"""The aims: times the speed of the plain loop, at most this idle, and at most this much more memory."""
PLAIN_BATCHES = 500
MAX_LENGTH = 15
"""Seconds after which a measurement begins at the latest."""
WAIT_EVERY = 50
"""Updates after which the host waits for the device, as for the reports of the trainer."""
PROFILED_UPDATES = 20
MEGABYTE = 2**20


class Listener(Reporter):
    """Keeps what a training says."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, message: str) -> None:
        """Keep a message."""
        self.messages.append(message)


class OurTraining:
    """The trainer of a task, update by update."""

    def __init__(self, objective: Any, config: Any, folder: Path) -> None:
        self.objective, listener = objective, Listener()
        self.model, self.messages = objective.model, listener.messages
        self.trainer = Trainer(objective, config, folder, listener, improved=lambda best: None)
        self.model.train()
        self.groups = itertools.chain.from_iterable(self.trainer.groups() for _ in itertools.count())

    @property
    def records(self) -> bool:
        """Whether updates are recorded."""
        return getattr(self.trainer.learner, "cuda_graphs", None) is not None

    @property
    def graphs(self) -> int:
        """The number of recorded CUDA graphs."""
        return len(self.trainer.learner.cuda_graphs) if self.records else 0

    @property
    def warm_up_updates(self) -> int:
        """The number of updates after which all are recorded.

        Those that pass on a state are recorded when they recur, the first one of an epoch in the next epoch.
        """
        return 2 * self.trainer.steps_per_epoch if self.records else 0

    def update(self) -> int:
        """Take one step; returns the number of its targets."""
        group = next(self.groups)
        self.trainer.update(group)
        return sum(self.objective.count(one.batch) for one in group)


def measure(case: Case, device: torch.device, seconds: float, *, tiny: bool = False) -> dict[str, Any]:
    """One row: both sides of a case."""
    with tempfile.TemporaryDirectory() as folder:
        predictor, dataset, source = create(case, device, tiny=tiny)
        objective = predictor.build_objective(dataset)
        hosts = list(itertools.islice(objective.batches(0, 1), PLAIN_BATCHES))
        if device.type == "cuda":
            hosts = [
                replace(one, **{name: part.pin_memory() for name, part in one.tensors().items()})
                for one in hosts
            ]
        row: dict[str, Any] = {"task": case.name, "data": source, "unit": objective.unit}

        def start_ours() -> OurTraining:
            predictor.model.to(device)
            return OurTraining(objective, predictor.config, Path(folder))

        def start_plain() -> PlainTraining:
            return PlainTraining(build_plain(case.task, predictor), hosts, predictor.config, device)

        with matmul_precision("bf16"), own_stream(device):
            row["plain"] = measure_side(start_plain, device, seconds)
            row["ours"] = measure_side(start_ours, device, seconds)
    return row | compare_sides(row["ours"], row["plain"])


def measure_side(start: Callable[[], Any], device: torch.device, seconds: float) -> dict[str, Any]:
    """Train for a while, and again with a clock; then profile some updates, and read the peaks of memory."""
    with measure_memory(device) as memory:
        training = start()
        warm_up(training, device, seconds)
        speed = time_updates(training.update, device, seconds)
    found: dict[str, Any] = {"speed": speed, **memory}
    if device.type == "cuda":
        counts: list[int] = []

        def work() -> None:
            counts.extend(training.update() for _ in range(PROFILED_UPDATES))

        kernels = profile_kernels(work)
        # Profiling slows the host down, but not the kernels: the clock is that of the updates before.
        found["idle"] = 1 - min(1.0, kernels * speed / sum(counts))
        found["kernel_milliseconds"] = 1e3 * kernels / PROFILED_UPDATES
        found["targets"] = sum(counts) / PROFILED_UPDATES
    trained = [weight for weight in training.model.parameters() if weight.requires_grad]
    found |= {"graphs": training.graphs, "messages": training.messages}
    return found | {"weights": sum(weight.numel() for weight in trained)}


def warm_up(training: Any, device: torch.device, seconds: float) -> None:
    """Train for this time, and until all updates of ours are recorded."""
    updates, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds or updates < training.warm_up_updates:
        if spent > MAX_LENGTH:
            break
        training.update()
        updates += 1
        if updates % WAIT_EVERY == 0:
            _wait(device)


def time_updates(update: Callable[[], int], device: torch.device, seconds: float) -> float:
    """The targets per second of as many updates as fit into this time, at least one."""
    _wait(device)
    targets, began = 0, time.perf_counter()
    for number in itertools.count(1):
        targets += update()
        if number % WAIT_EVERY == 0:
            _wait(device)
        if time.perf_counter() - began >= seconds:
            break
    _wait(device)
    return targets / (time.perf_counter() - began)


@contextlib.contextmanager
def measure_memory(device: torch.device) -> Iterator[dict[str, float]]:
    """Fill in the most megabytes that tensors and the allocator take in the block, beyond those before it."""
    found: dict[str, float] = {}
    if device.type != "cuda":
        yield found
        return
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    yield found
    peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    found["allocated"], found["reserved"] = (
        (peak - base) / MEGABYTE for peak, base in zip(peaks, before, strict=True)
    )


def compare_sides(ours: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """The ratios of a row, and whether they meet the aims; without a GPU there is only the speed."""
    ratios = {"speed_ratio": ours["speed"] / plain["speed"]}
    met = {"speed": ratios["speed_ratio"] >= SPEED}
    if "idle" in ours:
        met["idle"] = ours["idle"] <= IDLE
    for name in ("allocated", "reserved"):
        if name in ours:
            ratios[f"{name}_ratio"] = ours[name] / plain[name]
            met[name] = ratios[f"{name}_ratio"] <= MEMORY
    return {**ratios, "met": met}


def describe(row: Mapping[str, Any]) -> str:
    """A row as a line of the table; `!` marks what misses its aim."""
    ours, plain, met = row["ours"], row["plain"], row["met"]
    cells = [f"{row['task']:22}{ours['speed']:11,.0f}{plain['speed']:11,.0f} {row['unit'] + '/s':9}"]
    cells.append(f"{row['speed_ratio']:6.2f}{' ' if met['speed'] else '!'}")
    if "idle" in ours:
        cells.append(f"{ours['idle']:6.0%}{' ' if met['idle'] else '!'}{plain['idle']:6.0%}")
        cells += [
            f"{ours[name]:7.0f}{plain[name]:7.0f}{row[f'{name}_ratio']:6.2f}{' ' if met[name] else '!'}"
            for name in ("allocated", "reserved")
        ]
        cells.append(f"{ours['kernel_milliseconds']:7.2f}{plain['kernel_milliseconds']:7.2f}")
        cells.append(f"{ours['graphs']:4}")
    return "".join(cells) + f"  {row['data']}"


HEADER = (
    f"{'':22}{'ours':>11}{'plain':>11}{'':10}{'ratio':>6} {'idle':>6} {'plain':>6}"
    f"{'MB':>7}{'plain':>7}{'ratio':>6} {'held':>7}{'plain':>7}{'ratio':>6} {'kernels':>7}{'plain':>7} graphs"
)


def run(names: tuple[str, ...] = (), seconds: float = 3.0) -> dict[str, Any]:
    """The whole benchmark, or the named tasks, where there is a GPU."""
    if not torch.cuda.is_available():
        print("no GPU on this machine: nothing to clock", file=sys.stderr)
        return {"skipped": "no GPU"}
    device = torch.device("cuda", torch.cuda.current_device())
    profile_kernels(lambda: torch.zeros(1, device=device))  # the profiler starts before any graph is recorded
    print(HEADER, file=sys.stderr, flush=True)
    rows = []
    for case in CASES:
        if names and not {case.name, case.task} & {*names}:
            continue
        try:
            rows.append(measure(case, device, seconds))
        except Exception:  # the other tasks are still measured
            print(f"{case.name}: failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            continue
        print(describe(rows[-1]), file=sys.stderr, flush=True)
        for message in rows[-1]["ours"]["messages"]:
            print(f"  {message}", file=sys.stderr, flush=True)
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", default="", help="names of tasks, joined by commas; default: all")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON object")
    given = parser.parse_args()
    names = tuple(name for name in given.tasks.split(",") if name)
    known = {*(case.name for case in CASES), *(case.task for case in CASES)}
    if wrong := [name for name in names if name not in known]:
        parser.error(f"unknown task {wrong[0]!r}; known: {', '.join(sorted(known))}")
    found = run(names, given.seconds)
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
