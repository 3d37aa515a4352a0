"""Plan a training of some minutes: measure how fast the model trains here, and choose its size for that."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from throughtime.fit.progress import Reporter
from throughtime.fit.time_plan import Speed
from throughtime.fit.trainer import Trainer

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.fit.processes import Processes
    from throughtime.tasks.base import Predictor

MEASURING = 0.02
"""Share of the time that measuring the speed may take, within the bounds below."""
SECONDS = (0.5, 5.0)
GPU_PASSES = 20
"""Minimum number of epochs for which a GPU run with a limit of time uses the GPU's default sizes."""

MORE_THREADS = 1.15
"""How much faster training must be with more threads for them to be used."""


def plan_training(
    model: Predictor,
    asked: Any,
    dataset: Dataset,
    seconds: float,
    *,
    processes: Processes,
    say: Callable[[str], None],
) -> tuple[Predictor, Speed]:
    """Return a model of a size that `seconds` suit, and how fast it trains.

    `asked` are the settings before they were completed from the data: what the user chose is not changed.
    Afterwards torch has the number of threads that is best for the model.
    """
    device = model.device
    threads = torch.get_num_threads()
    speed = choose_threads(model, dataset, seconds, processes, threads)
    # A network that is not the task's own was built with the settings that it has.
    chosen = {}
    if model.config.network is None:
        chosen = choose_settings(asked, seconds / speed.per_epoch, seconds / speed.per_update, device.type)
    changes = {key: value for key, value in chosen.items() if getattr(model.config, key) != value}
    if changes:
        config = model.config.model_copy(update=changes)
        model = type(model).initialise(config, model.assets)
        model.adapt_to(dataset)
        model.model.to(device)
        if (config.fields_with_role("architecture") | {"batch_size"}) & changes.keys():
            speed = choose_threads(model, dataset, seconds, processes, threads)
    if (used := torch.get_num_threads()) < threads:
        say(f"Training uses {used} of {threads} threads, as more are not faster now.")
    if chosen:
        reasons = dict.fromkeys(asked.REASONS[key] for key in chosen if key in asked.REASONS)
        why = f" ({'; '.join(reasons)})" if reasons else ""
        say(f"Settings chosen for this time: {show_settings(chosen)}{why}.")
    return model, speed


def choose_settings(asked: Any, passes: float, updates: float, device: str) -> dict[str, Any]:
    """The settings that suit a number of epochs and updates on a type of device, of those not given."""
    chosen: dict[str, Any] = asked.settings_for(passes)
    if passes >= GPU_PASSES:
        chosen |= asked.settings_on(device)
    return chosen | asked.batches_for(updates) if device == "cpu" else chosen


def show_settings(settings: Mapping[str, Any]) -> str:
    """Settings as they are written on the command line.

    >>> show_settings({"hidden_size": 512, "lr": 3e-3, "structure": "beside"})
    'hidden_size=512, lr=0.003, structure=beside'
    """
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def choose_threads(
    model: Predictor, dataset: Dataset, seconds: float, processes: Processes, most: int | None = None
) -> Speed:
    """Let torch use the smallest number of threads with which a CPU trains fast, and return the speed.

    At most `most` are used, by default those that torch has now. The number that the variable OMP_NUM_THREADS
    gives is not changed.
    """
    most = most or torch.get_num_threads()
    if model.device.type != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return measure_speed(model, dataset, seconds, processes)
    best = Speed(math.inf, math.inf)
    for number in (*(2**power for power in range(most.bit_length()) if 2**power < most), most):
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        found = measure_speed(model, dataset, seconds, processes)
        if found.per_update * MORE_THREADS > best.per_update:
            torch.set_num_threads(before)
            break
        best = found._replace(single=found.per_update if number == 1 else best.single)
    return best


@contextlib.contextmanager
def restored_threads() -> Iterator[None]:
    """Restore the number of threads after the block."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure_speed(model: Predictor, dataset: Dataset, seconds: float, processes: Processes) -> Speed:
    """Train the model for a moment, in all processes together, and restore its weights."""
    low, high = SECONDS
    limit = min(max(MEASURING * seconds, low), high)
    objective = model.build_objective(dataset)
    device = next(objective.model.parameters()).device
    before = {name: value.clone() for name, value in objective.model.state_dict().items()}
    done, began = 0, time.perf_counter()

    def read_clock() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"improved": lambda measured: None, "processes": processes}
        trainer = Trainer(objective, model.config, Path(folder), Reporter(), **options)
        steps, warm_up = trainer.steps_per_epoch, trainer.learner.warm_up
        objective.model.train()
        with trainer.learner.computing():
            for group in itertools.chain.from_iterable(trainer.groups() for _ in itertools.count()):
                trainer.update(group)
                done += 1
                if done == warm_up:
                    read_clock()  # wait for a GPU
                    began = time.perf_counter()
                if done > warm_up:
                    # Processes wait for each other in each update, so all must stop after the same one.
                    elapsed = processes.sum([read_clock()], device)[0] / processes.world_size
                    if elapsed >= limit:
                        break
        per_update = elapsed / (done - warm_up)
    objective.model.load_state_dict(before)
    if device.type == "cuda":
        del trainer  # it refers to itself: its recorded graphs would keep their memory
        gc.collect()
    return Speed(per_update, per_update * steps)
