"""`throughtime stats` of numeric series: level, spread, memory, and whether they drift."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.cli.output import Outcome, say
from throughtime.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from throughtime.data.dataset import Dataset
    from throughtime.data.stationarity import Drift

SHORTEST = 30
"""A tenth of a series is compared with the others from three values on."""


def series_stats(dataset: Dataset, split: str, plot: Path | None) -> Outcome:
    """Each column of each series, cut into tenths whose means are compared; `plot` draws the first."""
    from throughtime.data.stationarity import drift

    rows: list[dict[str, Any]] = []
    drawn: tuple[str, NDArray[np.float64], Drift] | None = None
    for series in dataset.series(split):
        for column, values in zip(series.columns, series.values.T, strict=True):
            found = drift(values) if len(values) >= SHORTEST else None
            if found is not None and drawn is None:
                drawn = f"{series.unique_id}, column {column}", values, found
            rows.append({"series": series.unique_id, "column": column, **_figures(values, found)})
    if plot is not None:
        _draw(dataset, drawn, len(rows), plot)
    return Outcome({"data": dataset.name, "series": rows}, [_table(dataset.name, rows)])


def _figures(values: NDArray[np.float64], found: Drift | None) -> dict[str, Any]:
    """What is known of one series; a short one has no drift."""
    return {
        "steps": len(values),
        "mean": float(values.mean()),
        "deviation": float(values.std()),
        "minimum": float(values.min()),
        "maximum": float(values.max()),
        "segments": [] if found is None else [segment._asdict() for segment in found.segments],
        "spread": None if found is None else found.spread,
        "spread_by_chance": None if found is None else found.expected,
        "drifts": None if found is None else found.drifts,
    }


def _draw(
    dataset: Dataset, drawn: tuple[str, NDArray[np.float64], Drift] | None, count: int, plot: Path
) -> None:
    from throughtime.plots.drift import drift_plot

    if drawn is None:
        raise InputError(
            dataset.name, f"has no series of {SHORTEST} steps or more, so --plot has no drift to draw"
        )
    name, values, found = drawn
    drift_plot(values, found, plot)
    say(f"wrote {plot}" + (f": {name}, the first of {count} series that is long enough" if count > 1 else ""))


def _table(name: str, rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(box=None, title=name, title_justify="left", padding=(0, 2, 0, 0))
    for heading in ("series", "column"):
        table.add_column(heading)
    for heading in ("steps", "mean", "sd", "min", "max", "spread of the tenths' means", "by chance"):
        table.add_column(heading, justify="right")
    table.add_column("the level")
    for row in rows:
        numbers = [f"{row[key]:.4g}" for key in ("mean", "deviation", "minimum", "maximum")]
        spread, verdict = ["–", "–"], "too short"
        if row["drifts"] is not None:
            spread = [f"{row[key]:.2f} sd" for key in ("spread", "spread_by_chance")]
            verdict = "drifts" if row["drifts"] else "stays"
        table.add_row(str(row["series"]), row["column"], f"{row['steps']:,}", *numbers, *spread, verdict)
    return table
