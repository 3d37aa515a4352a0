"""What a folder's README.md says of a forecaster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from throughtime.series.panels import PanelScaling
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.report import trained_for

SERIES_FILE = "series.json"


def card_of(config: ForecastConfig, scaling: PanelScaling, values: Mapping[str, Any]) -> str:
    """The data, the window and the training of a model, and how to ask it."""
    best = ", ".join(f"{name} {value:.4g}" for name, value in values["best"].items())
    step = scaling.frequency or "position"
    helping = ", ".join((*config.known, *config.past, *(["calendar"] if config.calendar else [])))
    transformed = "" if config.transform == "none" else f"{config.transform}, then "
    return f"""# Forecasts of {config.data}

Model `{config.model}`, {config.strategy}, head `{config.head}`, made by throughtime.

| | |
|---|---|
| data | {config.data}: {len(scaling.series)} series, a row each {step} |
| window | {config.lookback} rows back, {config.horizon} ahead |
| scaling | {transformed}{config.scaling} of each series, {config.normalise} of each window |
| columns that help | {helping or "none"} |
| weights | {values["parameters"]:,} |
| training | {trained_for(values)}, seed {config.seed}, {values["device"]} |
| validation, scaled | {best or "not measured"} |

    throughtime forecast FOLDER --h {config.horizon} --level 80 --level 95
    throughtime evaluate FOLDER --split test

In Python: `throughtime.load("FOLDER").forecast(h={config.horizon}, level=[80])`. The settings are in
config.json, the scales of the series in {SERIES_FILE}.
"""
