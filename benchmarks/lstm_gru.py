"""LSTM against GRU: parameters, speed, and how much of a gradient is left after 200 steps (R61).

Speed is a training step of one layer, medians of turns taken in one process. Memory is the norm of ds_T/ds_t
at lag 200 of 64 units, with the gates as they are drawn and with those that keep the state set to 0.98 (see
`throughtime inspect gradients`); what training makes of it is another matter, and measured by recipes.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

import torch

from throughtime.cells import CELLS
from throughtime.inspection.lag import lag_curve
from throughtime.recurrence import scan

STEPS, BATCH, HIDDEN = 35, 32, 256
TURNS = 15
NAMES = ("lstm", "gru", "gru-before")


def run() -> dict[str, Any]:
    torch.manual_seed(0)
    cells = {name: CELLS[name](HIDDEN, HIDDEN) for name in NAMES}
    x, gradient = torch.randn(STEPS, BATCH, HIDDEN), torch.randn(STEPS, BATCH, HIDDEN)
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(TURNS):
        for name, cell in cells.items():
            began = time.perf_counter()
            scan(cell, x).outputs.backward(gradient)
            seconds[name].append(time.perf_counter() - began)
    rows = {name: row(name, cell, median(seconds[name])) for name, cell in cells.items()}
    print(f"{'':12}{'weights':>10}{'biases':>8}{'ms':>8}{'lag 200':>10}{'keep .98':>10}", file=sys.stderr)
    for name, values in rows.items():
        drawn, kept = values["left_after_200_steps"], values["left_after_200_steps_keep_0.98"]
        print(
            f"{name:12}{values['weights']:>10,}{values['biases']:>8,}{values['milliseconds']:>8.2f}"
            f"{drawn:>10.1e}{kept:>10.1e}",
            file=sys.stderr,
        )
    return {"shape": [STEPS, BATCH, HIDDEN], "turns": TURNS, **rows}


def row(name: str, cell: torch.nn.Module, seconds: float) -> dict[str, Any]:
    sizes = {key: weight.numel() for key, weight in cell.named_parameters()}
    biases = sum(size for key, size in sizes.items() if key.startswith("bias"))
    drawn, kept = (lag_curve(name, gain=1.0, steps=200, hidden=64, keep=keep) for keep in (None, 0.98))
    return {
        "weights": sum(sizes.values()) - biases,
        "biases": biases,
        "milliseconds": round(1e3 * seconds, 2),
        "left_after_200_steps": drawn.norms[-1],
        "left_after_200_steps_keep_0.98": kept.norms[-1],
    }


if __name__ == "__main__":
    run()
