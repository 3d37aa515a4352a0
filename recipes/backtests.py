"""Forecasters trained by the command and back-tested by it, beside rules of thumb on the same windows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

from recipes.measure import command, trained_run
from throughtime.config import Config, build_config
from throughtime.version import __version__

FIGURES = {"MAE": "mae", "RMSE": "rmse", "MASE": "mase", "CRPS": "crps"}
LEVELS = (80, 95)


class Tested(Config):
    """The settings of `train forecast`, and the words of `backtest`."""

    train: dict[str, Any]
    backtest: tuple[str, ...]


class Backtests(Config):
    """Back-tests, one for each data set; `data` is the first one's."""

    data: str
    tests: tuple[Tested, ...]
    value: Literal["rmse", "coverage"] = "rmse"


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """A line for each forecaster on each data set.

    The value is the RMSE of the first model, or by how many points at most the coverage of a model's
    intervals is off.
    """
    asked = build_config(Backtests, settings, "backtests")
    found = []
    for test in asked.tests:
        with tempfile.TemporaryDirectory() as folder:
            trained_run("forecast", test.train, Path(folder) / "run")
            found.append(command("backtest", str(Path(folder) / "run"), *test.backtest))
    totals = [one["figures"][one["model"]]["total"] for one in found]
    value = totals[0]["rmse"]
    if asked.value == "coverage":
        value = max(abs(total[f"coverage-{level}"] - level) for total in totals for level in LEVELS)
    words = [one["signature"].removesuffix(f"|version:{__version__}") for one in found]
    return {
        "value": value,
        "table": {"columns": columns(), "rows": [row for one in found for row in rows(one)]},
        "signature": "|".join([*words, f"version:{__version__}"]),
    }


def columns() -> list[str]:
    """The heading of the table."""
    covered = [name for level in LEVELS for name in (f"{level} % covers", "width")]
    return ["data", "forecaster", *FIGURES, *covered]


def rows(found: dict[str, Any]) -> list[list[Any]]:
    """The figures of the model and of the rules of thumb; a rule without intervals has none to show."""
    made = []
    for name, figures in found["figures"].items():
        total = figures["total"]
        covered = [
            total.get(f"{figure}-{level}", "-") for level in LEVELS for figure in ("coverage", "width")
        ]
        made.append([found["data"], name, *(total[each] for each in FIGURES.values()), *covered])
    return made
