"""Series side by side on one regular grid: what forecasting reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from throughtime.data.frequency import Frequency, Times, infer_frequency, spelled
from throughtime.errors import InputError

Values = NDArray[np.float64]
MOST_GAPS = 50
"""A series with more missing rows for each of its own is a mistake in its times."""


@dataclass(frozen=True, eq=False)
class Series:
    """One series on a regular grid. Rows that its file lacks are there, with NaN in them.

    `known` are values that are known in the future too, such as holidays; `past` are not.
    """

    unique_id: str
    ds: Times  # [T]
    y: Values  # [T], NaN where missing
    known: Values  # [T, K]
    past: Values  # [T, P]

    @classmethod
    def of(cls, unique_id: str, y: Sequence[float] | Values, ds: Times | None = None) -> Series:
        """A series of values alone, at positions 0, 1, 2, ... unless `ds` gives their times."""
        values = np.asarray(y, dtype=np.float64)
        times = np.arange(len(values)) if ds is None else ds
        return cls(unique_id, times, values, np.zeros((len(values), 0)), np.zeros((len(values), 0)))

    def rows(self, part: slice) -> Series:
        """Some of its rows."""
        return replace(self, ds=self.ds[part], y=self.y[part], known=self.known[part], past=self.past[part])

    def __len__(self) -> int:
        """How many rows it has."""
        return len(self.ds)


@dataclass(frozen=True, eq=False)
class Panel:
    """Series of one frequency. `notes` are sentences on what reading them had to put right.

    >>> panel = Panel((Series.of("a", [1.0, 2.0, 3.0]),), None)
    >>> panel.until(1).series[0].y, panel.after(panel.series[0], 2)
    (array([1., 2.]), array([3, 4]))
    """

    series: tuple[Series, ...]
    frequency: Frequency | None  # None: positions, one apart
    known_names: tuple[str, ...] = ()
    past_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()  # columns whose values are `y`, where a file names them
    undated: bool = False  # values without times; any model accepts them as steps of its own frequency

    def until(self, cut: int) -> Panel:
        """The history before the last `cut` rows of each series."""
        if cut < 0:
            raise InputError("cut", f"is {cut}, expected 0 or more")
        return replace(self, series=tuple(one.rows(slice(max(0, len(one) - cut))) for one in self.series))

    def after(self, series: Series, h: int) -> Times:
        """The `h` times that follow a series' last row."""
        if self.frequency is None and series.ds.dtype.kind == "M":
            raise InputError(
                f"series {series.unique_id!r}", "has one date, which tells no step; give two rows or more"
            )
        return (self.frequency or Frequency(1, "position")).after(series.ds[-1], h)

    def by_name(self) -> dict[str, Series]:
        """The series by their names."""
        return {one.unique_id: one for one in self.series}


def regular(series: Sequence[Series]) -> Panel:
    """Sorted series put on the grid of their common frequency; gaps become rows of NaN, and are told.

    >>> days = np.array(["2020-01-01", "2020-01-02", "2020-01-04"], "datetime64[ns]")
    >>> panel = regular([Series.of("rain", [3.0, 1.0, 2.0], days)])
    >>> panel.series[0].y
    array([ 3.,  1., nan,  2.])
    >>> panel.notes[0]
    'rain has 1 gap, the first after 2020-01-02: 1 row is missing at a step of one day.'
    """
    frequency = infer_frequency([one.ds for one in series])
    grid = frequency or Frequency(1, "position")
    notes: list[str] = []
    filled = []
    for one in series:
        places = grid.places(one.ds)
        _check_grid(one, places, grid)
        rows = places.round().astype(np.int64)
        absent = np.flatnonzero(np.isnan(one.y))
        lacking = _lacking(one, absent) if len(absent) else None
        if len(rows) and rows[-1] + 1 > len(rows):
            notes.append(_gaps(one, rows, grid))
            one = _spread(one, rows, grid)
        notes += [lacking] if lacking else []
        filled.append(one)
    return Panel(tuple(filled), frequency, notes=tuple(notes))


def _check_grid(series: Series, places: Values, grid: Frequency) -> None:
    off = np.flatnonzero(np.abs(places - places.round()) > 1e-6)
    if len(off):
        time = spelled(series.ds)[int(off[0])]
        raise InputError(
            f"series {series.unique_id!r}",
            f"has the time {time}, which is off its grid of one {grid}; resample it to a regular step",
        )
    if len(places) and places[-1] > MOST_GAPS * len(places):
        raise InputError(
            f"series {series.unique_id!r}",
            f"has {len(places):,} rows for {int(places[-1]) + 1:,} steps of one {grid}; is a time mistyped?",
        )


def _spread(series: Series, rows: NDArray[np.int64], grid: Frequency) -> Series:
    count = int(rows[-1]) + 1

    def wide(values: Values) -> Values:
        spread = np.full((count, *values.shape[1:]), np.nan)
        spread[rows] = values
        return spread

    return Series(
        series.unique_id,
        grid.grid(series.ds[0], count),
        wide(series.y),
        wide(series.known),
        wide(series.past),
    )


def _lacking(series: Series, absent: NDArray[np.int64]) -> str:
    values = "1 value" if len(absent) == 1 else f"{len(absent):,} values"
    return f"{series.unique_id} lacks {values}, the first at {spelled(series.ds)[int(absent[0])]}."


def _gaps(series: Series, rows: NDArray[np.int64], grid: Frequency) -> str:
    steps = np.diff(rows)
    first = int(np.flatnonzero(steps > 1)[0])
    gaps, lacking = int((steps > 1).sum()), int((steps - 1).sum())
    count = "1 gap" if gaps == 1 else f"{gaps:,} gaps"
    missing = "1 row is" if lacking == 1 else f"{lacking:,} rows are"
    after = spelled(series.ds)[first]
    return (
        f"{series.unique_id} has {count}, the first after {after}: {missing} missing at a step of one {grid}."
    )
