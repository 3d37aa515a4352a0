"""The series that a forecaster was trained on, in its model folder; forecasts continue them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from throughtime.data.panel import Frequency, Panel, Series
from throughtime.folder import ModelFolder
from throughtime.results import format_times

FILE, COLUMNS = "history.safetensors", ("ds", "y", "known", "past")


def save_history(folder: ModelFolder, panel: Panel) -> None:
    """Write all series of a panel into a model folder."""
    arrays = {
        name: np.concatenate([np.asarray(getattr(series, name)) for series in panel.series])
        for name in COLUMNS
    }
    dated = arrays["ds"].dtype.kind == "M"
    arrays["ds"] = arrays["ds"].astype("datetime64[ns]" if dated else np.int64).view(np.int64)
    arrays["ends"] = np.cumsum([*map(len, panel.series)])
    about = {
        "series": panel.names,
        "frequency": None if panel.frequency is None else asdict(panel.frequency),
        "dated": dated,
        "known": panel.known_names,
        "past": panel.past_names,
        "target": panel.target_names,
    }
    folder.write_arrays(FILE, arrays, about)


def load_history(folder: ModelFolder) -> Panel | None:
    """Read the panel that `save_history` wrote; None if the folder has none."""
    if not (folder.path / FILE).is_file():
        return None
    with folder.read_arrays(FILE, "train the model again") as (arrays, about):
        if about["dated"]:
            arrays["ds"] = arrays["ds"].view("datetime64[ns]")
        cuts = arrays.pop("ends")
        if any(len(each) != cuts[-1] for each in arrays.values()):
            raise ValueError("its columns differ in length")
        columns = (np.split(arrays[name], cuts[:-1]) for name in COLUMNS)
        parts = zip(*columns, strict=True)
        series = [Series(str(name), *table) for name, table in zip(about["series"], parts, strict=True)]
        frequency = None if about["frequency"] is None else Frequency(**about["frequency"])
        known, past, target = (tuple(map(str, about[role])) for role in ("known", "past", "target"))
        return Panel(tuple(series), frequency, known, past, target_names=target)


def last_rows(series: Series, rows: int) -> dict[str, Any]:
    """Return the last rows of a series for JSON, with its columns if it has any; None for a missing value.

    >>> last_rows(Series.of("sales", [3.0, np.nan, 5.0]), 2)
    {'unique_id': 'sales', 'ds': [1, 2], 'y': [None, 5.0]}
    """
    last = series.ds[-rows:]
    ds = format_times(last) if last.dtype.kind == "M" else last.tolist()
    columns = {"known": series.known, "past": series.past}
    tables = {role: to_plain(table[-rows:]) for role, table in columns.items() if table.shape[1]}
    return {"unique_id": series.unique_id, "ds": ds, "y": to_plain(series.y[-rows:]), **tables}


def to_plain(values: Any, digits: int = 17) -> list[Any]:
    """Return numbers for JSON, with some significant digits; None where there is none."""
    if values.ndim > 1:
        return [to_plain(row, digits) for row in values]
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in values]
