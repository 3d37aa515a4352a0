"""Panels prepared for a model: split along time and scaled; and the series that it was trained on, saved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Frequency, Panel, PanelArrays, Series, Times, calendar
from throughtime.errors import InputError
from throughtime.results import format_times
from throughtime.series.outliers import Outliers, outlier_limit, remove_outliers
from throughtime.series.scaling import Scale, Scaling, Transform, fill_gaps, fit_power, fit_scale

if TYPE_CHECKING:
    from throughtime.folder import ModelFolder
    from throughtime.series.lookback import RidgeChoice
    from throughtime.series.short import ShortForecasts

SERIES_FILE = "series.json"
Size = int | float
"""A number of rows, or a fraction of all rows if it is below 1."""
Values = NDArray[np.float64]


class Timeline(NamedTuple):
    """The sizes of the splits. Without `train`, the others are the last rows, and all rows before them train.

    With `train`, the splits follow one another from the first row, and the remaining rows are not used: the
    usual split of ETTh1 is `Timeline(8640, 2880, 2880)`.

    >>> Timeline(None, 0.1, 0.2).parts(1000)
    {'train': range(0, 700), 'valid': range(700, 800), 'test': range(800, 1000)}
    >>> Timeline(8640, 2880, 2880).parts(17420)["test"]
    range(11520, 14400)
    """

    train: Size | None
    valid: Size
    test: Size

    def parts(self, rows: int) -> dict[str, range]:
        """Return the rows of each split of a series with this number of rows."""
        valid, test = _rows(self.valid, rows), _rows(self.test, rows)
        train = rows - valid - test if self.train is None else _rows(self.train, rows)
        if train <= 0 or train + valid + test > rows:
            wanted = f"{max(0, train):,} for training, {valid:,} for validation and {test:,} for testing"
            raise InputError(
                "train_size, valid_size and test_size",
                f"divide {rows:,} rows into {wanted}; lower them, or give a longer series",
            )
        end = train + valid
        return {"train": range(train), "valid": range(train, end), "test": range(end, end + test)}

    def part(self, split: str, rows: int) -> range:
        """Return the rows of one split, of `heldout` (valid and test), or of `all` splits."""
        parts = self.parts(rows)
        parts["heldout"] = range(parts["valid"].start, parts["test"].stop)
        parts["all"] = range(parts["test"].stop)
        if split not in parts:
            raise InputError("split", f"is {split!r}; known are train, valid, test, heldout and all")
        return parts[split]

    def part_of_each(self, split: str, panel: Panel) -> list[range]:
        """Return the rows of a split of each series; series that are too short to be split only train.

        >>> panel = Panel((Series.of("long", np.zeros(30)), Series.of("short", np.zeros(8))), None)
        >>> Timeline(None, 5, 5).part_of_each("valid", panel)
        [range(20, 25), range(0, 0)]
        """
        longest = max(map(len, panel.series))
        return [
            self.part(split, len(series))
            if len(series) == longest or self.cuts(len(series))
            else range(len(series) if split == "train" else 0)
            for series in panel.series
        ]

    def unseen(self, panel: Panel) -> int:
        """Return the number of rows at the end of every series that do not train.

        >>> Timeline(None, 5, 5).unseen(Panel((Series.of("a", np.zeros(30)),), None))
        10
        """
        parts = self.part_of_each("train", panel)
        return min(len(series) - part.stop for series, part in zip(panel.series, parts, strict=True))

    def cuts(self, rows: int) -> bool:
        """Return whether a series with this number of rows is long enough to be split."""
        try:
            return bool(self.parts(rows))
        except InputError:
            return False


def _rows(size: Size, rows: int) -> int:
    return size if isinstance(size, int) else round(size * rows)


@dataclass(eq=False)
class PanelScaling:
    """The scale of each series by name, in the order of training, and of each additional column.

    A model may have an embedding and a map for each of the first `numbered` series. `scaling`, `transform`
    and `outliers` are the settings that scales of new series are measured with.
    """

    frequency: Frequency | None
    series: dict[str, Scale]
    known: tuple[Scale, ...]
    past: tuple[Scale, ...]
    numbered: int
    calendar: bool
    scaling: Scaling = "standard"
    transform: Transform = "none"
    outliers: Outliers = "replace"
    ridge: RidgeChoice | None = None
    """Of a new model: the linear forecasts whose look-back it has, and which it may correct. Not saved."""
    short: ShortForecasts | None = None
    chosen: str = ""  # in words, what a model without a network consists of; `short` has its maps, not saved

    @classmethod
    def of(
        cls,
        panel: Panel,
        training: Sequence[range],
        scaling: Scaling,
        calendar: bool,
        transform: Transform = "none",
        outliers: Outliers = "replace",
    ) -> PanelScaling:
        """Measure the scales on the training rows of each series."""
        parts = [
            series.rows(slice(rows.start, rows.stop))
            for series, rows in zip(panel.series, training, strict=True)
        ]
        known, past = (
            tuple(
                fit_scale(name, column, "standard")
                for name, column in zip(names, np.concatenate(tables).T, strict=True)
            )
            for names, tables in (
                (panel.known_names, [series.known for series in parts]),
                (panel.past_names, [series.past for series in parts]),
            )
        )
        measured = cls(panel.frequency, {}, known, past, len(parts), calendar, scaling, transform, outliers)
        measured.adopt(panel, training)
        return measured

    def adopt(self, panel: Panel, training: Sequence[range]) -> None:
        """Add the scales of series that are new, each measured on its training rows."""
        for series, rows in zip(panel.series, training, strict=True):
            self.series[series.unique_id] = self.scale(series.rows(slice(rows.start, rows.stop)))

    def scale(self, series: Series) -> Scale:
        """Return the scale that a series was trained with; a new series is measured on all its values."""
        name, scale = series.unique_id, self.series.get(series.unique_id)
        if scale is None:
            limit = math.inf if self.outliers == "keep" else outlier_limit(series, self.frequency)
            y = remove_outliers(series, self.frequency, limit).y
            scale = fit_scale(name, y, self.scaling, fit_power(name, y, self.transform))
            scale = scale._replace(low=-math.inf if (y < 0).any() else 0.0, limit=limit)
        return scale

    def clean(self, panel: Panel) -> Panel:
        """Return a panel without outliers, which are beyond the limits of training and of these rows."""
        limits = ((series, self.scale(series).limit) for series in panel.series)
        return replace(
            panel, series=tuple(remove_outliers(series, self.frequency, limit) for series, limit in limits)
        )

    def check(self, panel: Panel) -> None:
        """Refuse series whose frequency is not that of training, or without dates if the model needs them."""
        if panel.undated:
            if self.calendar:
                raise InputError("data", "has values without dates, but this model reads the calendar")
            return
        if panel.frequency != self.frequency and all(len(series) > 1 for series in panel.series):
            if self.frequency is None and panel.frequency and panel.frequency.unit != "position":
                problem = f"but these rows have dates (one every {panel.frequency}); leave the dates out"
                raise InputError("data", f"the model was trained on numbered rows, {problem}")
            steps = [str(each) if each else "position" for each in (panel.frequency, self.frequency)]
            raise InputError("data", f"has steps of one {steps[0]}, the model was trained on one {steps[1]}")

    def scale_panel(self, panel: Panel) -> tuple[PanelArrays, list[Scale]]:
        """Return the scaled panel, one series after another, and its scales.

        Gaps and outliers repeat the row before.
        """
        scales = [self.scale(series) for series in panel.series]
        y = []
        for series, scale in zip(self.clean(panel).series, scales, strict=True):
            try:
                y.append(scale.apply(series.y))
            except InputError as error:
                raise InputError(f"series {series.unique_id!r}", error.problem) from None
        numbers = {name: number for number, name in enumerate(self.series) if number < self.numbered}
        columns = (
            [fill_gaps(values) for values in y],
            [self.columns(series.known, series.ds) for series in panel.series],
            [fill_gaps(_scale_columns(series.past, self.past)) for series in panel.series],
        )
        values, known, past = (np.concatenate(each).astype(np.float32) for each in columns)
        observed = ~np.isnan(np.concatenate(y))
        offsets = np.append(0, np.cumsum([*map(len, panel.series)]))
        known_numbers = np.array([numbers.get(name, -1) for name in panel.names])
        return PanelArrays(values, observed, known, past, offsets, known_numbers, panel.names), scales

    def columns(self, known: Values, ds: Times) -> Values:
        """Return the columns known in the future, scaled, and those of the calendar."""
        scaled = fill_gaps(_scale_columns(known, self.known))
        if not self.calendar:
            return scaled
        return np.concatenate([scaled, calendar(ds, self.frequency)[1]], axis=1)

    @property
    def known_columns(self) -> int:
        """Number of columns that are known in the future."""
        dates = np.zeros(1, dtype="datetime64[ns]")
        return len(self.known) + (len(calendar(dates, self.frequency)[0]) if self.calendar else 0)

    def save(self, folder: ModelFolder) -> None:
        """Write the scales into a model folder."""
        folder.write_json(SERIES_FILE, self.to_values())

    def to_values(self) -> dict[str, Any]:
        """Return values for JSON, from which `from_values` restores the scales."""
        return {
            "frequency": None if self.frequency is None else asdict(self.frequency),
            "series": {name: scale.to_values() for name, scale in self.series.items()},
            "known": [scale.to_values() for scale in self.known],
            "past": [scale.to_values() for scale in self.past],
            "numbered": self.numbered,
            "calendar": self.calendar,
            **({"chosen": self.chosen} if self.chosen else {}),
        }

    @classmethod
    def from_values(
        cls,
        values: Mapping[str, Any],
        where: str,
        scaling: Scaling = "standard",
        transform: Transform = "none",
        outliers: Outliers = "replace",
    ) -> PanelScaling:
        """Restore scales from the values of `to_values`, which were read from `where`."""
        try:
            frequency = values["frequency"]
            return cls(
                None if frequency is None else Frequency(**{**frequency, "step": int(frequency["step"])}),
                {name: Scale.from_values(scale) for name, scale in values["series"].items()},
                tuple(Scale.from_values(scale) for scale in values["known"]),
                tuple(Scale.from_values(scale) for scale in values["past"]),
                int(values["numbered"]),
                bool(values["calendar"]),
                scaling,
                transform,
                outliers,
                chosen=str(values.get("chosen", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(where, f"is damaged ({error!r}); train the model again") from None


def _scale_columns(columns: Values, scales: tuple[Scale, ...]) -> Values:
    if not scales:
        return columns[:, :0]
    return np.stack([scale.apply(columns[:, column]) for column, scale in enumerate(scales)], axis=1)


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
        cuts = arrays.pop("ends")
        kinds = {"ds": (1, "i"), "y": (1, "f"), "known": (2, "f"), "past": (2, "f")}
        if any((arrays[name].ndim, arrays[name].dtype.kind) != kind for name, kind in kinds.items()):
            raise ValueError("it holds other arrays than columns")
        if about["dated"]:
            arrays["ds"] = arrays["ds"].view("datetime64[ns]")
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
