"""`throughtime doctor`: what this machine can do, and which backend runs which cell on it."""

from __future__ import annotations

import platform
from typing import Annotated, Any

from throughtime.cli.options import option
from throughtime.cli.output import BOLD, Outcome, as_command, build_table, say

SIZE, STEPS, BATCH = 8, 64, 3
Measure = Annotated[
    bool, option("Measure the GPUs again; backend `auto` chooses by the result.", "--measure")
]


@as_command
def doctor(measure: Measure = False) -> Outcome:
    """Show what this machine can do, which backend runs each cell on it, and why others cannot.

    A backend is a way to run a cell through time; the table shows the one that `auto` chooses. The rows of a
    ragged batch have different lengths. With carry, gradients are cut or scaled between steps, as in
    truncated back-propagation. On a GPU, `auto` measures our kernels and torch's once for each bucket of
    shapes; a second table shows the times of a few calls. Its column `auto` shows the backend of a plain call
    and, if it differs, that inside a CUDA graph: `called / recorded`.

    [bold]Example[/bold]

      throughtime doctor
    """
    calls = _measure(measure)
    machine, cells = _machine(), _cells()
    facts = [
        (name.replace("_", " "), ", ".join(value) if isinstance(value, list) else str(value))
        for name, value in machine.items()
    ]
    about = build_table("", "", rows=facts, show_header=False, **BOLD)
    uses = list(cells[0]["backends"])
    rows = [(cell["cell"], *(cell["backends"][use] for use in uses)) for cell in cells]
    served = build_table("cell", *(use.replace(", ", "\n") for use in uses), rows=rows, **BOLD)
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for refusal in cell["refusals"].items():
            reasons.setdefault(refusal, []).append(cell["cell"])
    refusals = [(backend, ", ".join(names), reason) for (backend, reason), names in sorted(reasons.items())]
    refused = build_table("backend", "refuses", "because", rows=refusals, **BOLD)
    shown: list[Any] = [about, "", served, "", refused]
    if calls:
        # A call without a backward pass is compared as replayed only.
        ways = list(dict.fromkeys(way for row in calls for way in row["times"]))
        headings = [way.replace(", ", ",\n") for way in ways]
        table = build_table("microseconds", *headings, "auto", **BOLD)
        for row in calls:
            times = (f"{row['times'][way]:,.0f}" if way in row["times"] else "" for way in ways)
            auto = " / ".join(dict.fromkeys((row["auto"]["called"], row["auto"]["recorded"])))
            table.add_row(row["shape"], *times, auto)
        shown += ["", table]
    return Outcome({**machine, "cells": cells, "calls": calls}, shown)


def _measure(again: bool) -> list[dict[str, Any]]:
    """The times of a few calls on each GPU; none without a GPU that runs our kernels."""
    import torch

    from throughtime.accelerate import describe_gpus
    from throughtime.errors import InputError, ThroughtimeError, first_line

    if not torch.cuda.is_available():
        if again:
            raise InputError("measure", "there is no GPU on this machine to measure")
        return []
    try:
        return describe_gpus(again, say) or []
    except (RuntimeError, ThroughtimeError) as error:
        say(f"the GPU cannot be measured: {first_line(error)}")
        return []


def _machine() -> dict[str, Any]:
    """Versions, threads, instruction sets of the processor, and GPUs."""
    import torch

    from throughtime.version import __version__

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "throughtime": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(terse=True),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "onednn": torch.backends.mkldnn.is_available(),
        "gpu": gpus or "none",
    }


def _cells() -> list[dict[str, Any]]:
    """For each registered cell the backend that `auto` chooses, by use, and why others cannot."""
    import torch

    from throughtime.cells import CELLS
    from throughtime.recurrence import BACKENDS
    from throughtime.recurrence.choice import choose_backend

    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.zeros(STEPS, BATCH, SIZE, device=device)
    lengths = torch.arange(1, BATCH + 1, device=device)
    carry = torch.ones(STEPS, BATCH, device=device)
    calls = {"": (None, None), ", ragged": (lengths, None), ", carry": (None, carry)}
    rows = []
    for name, make in CELLS.available().items():
        cell = make(SIZE, SIZE).to(device)
        backends = {f"training{how}": choose_backend(cell, x, *call).name for how, call in calls.items()}
        with torch.no_grad():
            for how in ("", ", ragged"):
                backends[f"inference{how}"] = choose_backend(cell, x, *calls[how]).name
        answers = {other: backend.refuses(cell, x, None, None) for other, backend in BACKENDS.items()}
        refusals = {other: reason for other, reason in answers.items() if reason is not None}
        rows.append({"cell": name, "backends": backends, "refusals": refusals})
    return rows
