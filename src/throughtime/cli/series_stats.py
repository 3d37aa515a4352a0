"""`throughtime stats` of numeric series: level, spread, memory, and whether they drift."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.cli.output import Outcome, say

if TYPE_CHECKING:
    from throughtime.data.dataset import Dataset


def series_stats(dataset: Dataset, split: str, plot: Path | None) -> Outcome:
    """Each column of each series, cut into tenths whose means are compared; `plot` draws the first."""
    from throughtime.data.stationarity import drift

    rows: list[dict[str, Any]] = []
    for series in dataset.series(split):
        for column, values in zip(series.columns, series.values.T, strict=True):
            found = drift(values)
            if plot is not None and not rows:
                from throughtime.plots.drift import drift_plot

                drift_plot(values, found, plot)
                say(f"wrote {plot}")
            rows.append(
                {
                    "series": series.unique_id,
                    "column": column,
                    "steps": len(values),
                    "mean": float(values.mean()),
                    "deviation": float(values.std()),
                    "minimum": float(values.min()),
                    "maximum": float(values.max()),
                    "segments": [segment._asdict() for segment in found.segments],
                    "spread": found.spread,
                    "spread_by_chance": found.expected,
                    "drifts": found.drifts,
                }
            )
    return Outcome({"data": dataset.name, "series": rows}, [_table(dataset.name, rows)])


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
        spread = [f"{row[key]:.2f} sd" for key in ("spread", "spread_by_chance")]
        verdict = "drifts" if row["drifts"] else "stays"
        table.add_row(str(row["series"]), row["column"], f"{row['steps']:,}", *numbers, *spread, verdict)
    return table
