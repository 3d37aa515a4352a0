"""A noisy sine: how near a forecaster comes to the noise, and how its error grows with the steps ahead.

Every seed has a series of its own: sin(0.01 t) and normal noise of deviation 0.2, whose square, 0.04, no
forecast of the next value can beat.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from recipes.measure import trained_run
from throughtime.config import Config, build_config
from throughtime.data import embedded
from throughtime.data.readers.panel import read_panel
from throughtime.tasks.base import load
from throughtime.version import __version__

NOISE = 0.04


class Sine(Config):
    """Forecasters by name, each with the settings of `train forecast`."""

    models: dict[str, dict[str, Any]]
    series_seeds: tuple[int, ...]
    rows: int = 1000
    steps: tuple[int, ...] = (1, 4, 16, 64)


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """A line for each model; the value is the squared error of the first, one step ahead, on validation."""
    asked = build_config(Sine, settings, "sine")
    lines = [_line(name, train, asked) for name, train in asked.models.items()]
    errors = [f"RMSE {step} step{'s' if step > 1 else ''} ahead" for step in asked.steps]
    columns = ["forecaster", "squared error", "± over seeds", "noise", *errors]
    words = [f"data:sine({asked.rows})", f"series:{len(asked.series_seeds)}", f"version:{__version__}"]
    return {
        "value": lines[0][1],
        "table": {"columns": columns, "rows": lines},
        "signature": "|".join(words),
    }


def _line(name: str, train: dict[str, Any], asked: Sine) -> list[Any]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in asked.series_seeds:
            table, run = Path(folder) / f"sine-{seed}.csv", Path(folder) / f"run-{seed}"
            values = embedded.series("sine", asked.rows, seed)
            table.write_text("y\n" + "".join(f"{value!r}\n" for value in values.tolist()))
            trained_run("forecast", {**train, "data": str(table), "seed": seed}, run)
            model, panel = load(run, "cpu"), read_panel(table)
            errors = model.k_steps(panel, (1, *asked.steps), split="valid").rmse
            found.append((errors[1] ** 2, errors))
    squared = [one for one, _ in found]
    ahead = [mean(errors[step] for _, errors in found) for step in asked.steps]
    return [name, mean(squared), stdev(squared), NOISE, *ahead]
