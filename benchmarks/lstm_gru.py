"""LSTM against GRU: parameters, speed, and how much of a gradient is left after 200 steps.

Speed is a training step of one layer, medians of turns taken in one process. Memory is the norm of ds_T/ds_t
at lag 200 of 64 units, with the gates as they are drawn and with those that keep the state set to 0.98 (see
`throughtime inspect gradients`); what training makes of it is another matter, and measured by recipes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch

from throughtime.cells import CELLS
from throughtime.inspection.gradients import lag_curve
from throughtime.recurrence import scan

STEPS, BATCH, HIDDEN, TURNS = 35, 32, 256, 15
LAG, REMEMBERING = 200, 64  # steps and units of the cells whose memory is measured
NAMES = ("lstm", "gru", "gru-before")


def run(
    steps: int = STEPS,
    batch: int = BATCH,
    hidden: int = HIDDEN,
    turns: int = TURNS,
    remembering: int = REMEMBERING,
) -> dict[str, Any]:
    torch.manual_seed(0)
    cells = {name: CELLS[name](hidden, hidden) for name in NAMES}
    x, gradient = torch.randn(steps, batch, hidden), torch.randn(steps, batch, hidden)
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(turns):
        for name, cell in cells.items():
            began = time.perf_counter()
            scan(cell, x).outputs.backward(gradient)
            seconds[name].append(time.perf_counter() - began)
    rows = {name: row(name, cell, median(seconds[name]), remembering) for name, cell in cells.items()}
    for line in table(rows):
        print(line, file=sys.stderr)
    return {"shape": [steps, batch, hidden], "turns": turns, **rows}


def row(name: str, cell: torch.nn.Module, seconds: float, remembering: int) -> dict[str, Any]:
    sizes = {key: weight.numel() for key, weight in cell.named_parameters()}
    biases = sum(size for key, size in sizes.items() if key.startswith("bias"))
    drawn, kept = (
        lag_curve(name, gain=1.0, steps=LAG, hidden=remembering, keep=keep) for keep in (None, 0.98)
    )
    return {
        "weights": sum(sizes.values()) - biases,
        "biases": biases,
        "milliseconds": round(1e3 * seconds, 2),
        "left_after_200_steps": drawn.norms[-1],
        "left_after_200_steps_keep_0.98": kept.norms[-1],
    }


def table(rows: dict[str, dict[str, Any]]) -> list[str]:
    """What people read."""
    lines = [f"{'':12}{'weights':>10}{'biases':>8}{'ms':>8}{'lag 200':>10}{'keep .98':>10}"]
    for name, values in rows.items():
        drawn, kept = values["left_after_200_steps"], values["left_after_200_steps_keep_0.98"]
        lines.append(
            f"{name:12}{values['weights']:>10,}{values['biases']:>8,}{values['milliseconds']:>8.2f}"
            f"{drawn:>10.1e}{kept:>10.1e}"
        )
    return lines


def main(words: Sequence[str] | None = None) -> None:
    about, _, how = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lstm_gru", description=about, epilog=how)
    parser.add_argument("--steps", type=_positive, default=STEPS, help="the length of the sequences")
    parser.add_argument("--batch", type=_positive, default=BATCH, help="how many of them")
    parser.add_argument("--hidden", type=_positive, default=HIDDEN, help="units, and inputs, of a cell")
    parser.add_argument("--turns", type=_positive, default=TURNS, help="how often each is timed")
    parser.add_argument("--json", action="store_true", help="print one object as well")
    told = parser.parse_args(words)
    found = run(told.steps, told.batch, told.hidden, told.turns)
    if told.json:
        print(json.dumps(found))


def _positive(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"is {word!r}, expected a whole number of at least 1")
    return int(word)


if __name__ == "__main__":
    main()
