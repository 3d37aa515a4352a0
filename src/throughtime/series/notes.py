"""Sentences about series that are unusual: too short, constant, or with outliers."""

from __future__ import annotations

import numpy as np

from throughtime.data.panel import Panel
from throughtime.results import format_times
from throughtime.series.panels import PanelScaling, Timeline
from throughtime.text.texts import format_count

MAX_OUTLIERS = 3
"""Number of outliers that are described; of the others only the number is."""


def describe_outliers(panel: Panel, scaling: PanelScaling) -> list[str]:
    """Return sentences about values that are read as missing because they are outliers."""
    sentences = []
    for series, cleaned in zip(panel.series, scaling.clean(panel).series, strict=True):
        for row in np.flatnonzero(np.isnan(cleaned.y) & ~np.isnan(series.y)):
            what = f"{series.unique_id}: the value {series.y[row]:g} at {format_times(series.ds)[row]}"
            sentences.append(f"{what} is an outlier and read as missing (outliers=keep reads it as it is).")
    more = len(sentences) - MAX_OUTLIERS
    others = [f"{format_count(more, 'more outlier')} {'is' if more == 1 else 'are'} read as missing."]
    return sentences[:MAX_OUTLIERS] + others * (more > 0)


def describe_unusual_series(timeline: Timeline, panel: Panel) -> list[str]:
    """Return sentences about series that are too short to be split, and about constant ones."""
    training = timeline.part_of_each("train", panel)
    short = [series.unique_id for series in panel.series if not timeline.cuts(len(series))]
    constant = [
        series.unique_id
        for series, rows in zip(panel.series, training, strict=True)
        if np.isfinite(np.unique(series.y[: rows.stop])).sum() == 1
    ]
    notes = []
    if short:
        notes.append(f"Too short for valid_size and test_size, used for training only: {_join_names(short)}.")
    if constant:
        notes.append(f"Constant in the training rows, so not scaled: {_join_names(constant)}.")
    return notes


def _join_names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
