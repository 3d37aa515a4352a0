"""Compile GPU kernels on all processors at once, into the cache on disk."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable

import torch

from throughtime.recurrence.persistent_function import FILES
from throughtime.recurrence.persistent_plan import Task, candidates

Work = tuple[str, tuple[tuple[str, int], ...], tuple[int, int]]


def compile_ahead(tasks: Iterable[Task], plans: int = 1) -> None:
    """The kernels of these tasks, each with so many of the plans that are expected to be fastest."""
    from throughtime.kernels import driver

    limits = driver.limits(torch.cuda.current_device())
    capability = torch.cuda.get_device_capability()
    wanted: dict[Work, None] = {}
    for task in dict.fromkeys(tasks):
        for plan in candidates(task, *limits)[:plans]:
            constants = tuple(sorted(plan.constants(task).items()))
            wanted["backward" if task.backward else "forward", constants, capability] = None
    with multiprocessing.get_context("spawn").Pool(min(14, os.cpu_count() or 1)) as pool:
        pool.map(_compile, wanted, chunksize=2)


def _compile(work: Work) -> None:
    from throughtime.kernels import driver

    name, constants, capability = work
    driver.machine_code(driver.text((*FILES, f"{name}.cu")), dict(constants), capability)
