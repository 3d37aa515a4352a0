"""Panels for a model: their parts along time, and their values on one scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from throughtime.data.batching.series import PanelArrays
from throughtime.data.panel import Frequency, Panel, Series, Times, calendar
from throughtime.errors import InputError
from throughtime.series.scaling import Scale, Scaling, Transform, fill_gaps, power_of, scale_of

Size = int | float
"""A number of rows, or, as a fraction below 1, a share of all rows."""


class Timeline(NamedTuple):
    """The sizes of the parts. Without `train` the others are the last rows, and what is before them trains.

    With `train` the parts follow each other from the first row on, and what is left over is not used: the
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
        """The rows of each part of a series of so many rows."""
        valid, test = _rows(self.valid, rows), _rows(self.test, rows)
        train = rows - valid - test if self.train is None else _rows(self.train, rows)
        if train <= 0 or train + valid + test > rows:
            wanted = f"{max(0, train):,} to train, {valid:,} to validate and {test:,} to test"
            raise InputError(
                "train_size, valid_size and test_size", f"leave {wanted} of {rows:,} rows; lower some"
            )
        edges = {"train": (0, train), "valid": (train, train + valid)}
        edges["test"] = (train + valid, train + valid + test)
        return {name: range(*edge) for name, edge in edges.items()}

    def part(self, split: str, rows: int) -> range:
        """One part, or `heldout` (valid and test), or `all` that is used."""
        parts = self.parts(rows)
        if split == "heldout":
            return range(parts["valid"].start, parts["test"].stop)
        if split == "all":
            return range(parts["test"].stop)
        if split not in parts:
            raise InputError("split", f"is {split!r}; known are train, valid, test, heldout and all")
        return parts[split]

    def part_of_each(self, split: str, lengths: Sequence[int]) -> list[range]:
        """A part of each of several series; where the longest can be cut, those too short to be only train.

        >>> Timeline(None, 5, 5).part_of_each("valid", [30, 8])
        [range(20, 25), range(0, 0)]
        """
        longest = max(lengths)
        return [
            self.part(split, rows)
            if rows == longest or self.cuts(rows)
            else range(rows if split == "train" else 0)
            for rows in lengths
        ]

    def unseen(self, lengths: Sequence[int]) -> int:
        """Number of rows at the end of every one of these series that do not train.

        >>> Timeline(None, 5, 5).unseen([30, 40])
        10
        """
        parts = self.part_of_each("train", lengths)
        return min(length - part.stop for length, part in zip(lengths, parts, strict=True))

    def cuts(self, rows: int) -> bool:
        """Whether a series of so many rows is long enough to be cut."""
        try:
            return bool(self.parts(rows))
        except InputError:
            return False


def _rows(size: Size, rows: int) -> int:
    return size if isinstance(size, int) else round(size * rows)


Values = NDArray[np.float64]


@dataclass(eq=False)
class PanelScaling:
    """The scale of each series by its name, in the order of training, and of each helping column.

    The first `numbered` series are those that a model may have learned something of its own for.
    """

    frequency: Frequency | None
    series: dict[str, Scale]
    known: tuple[Scale, ...]
    past: tuple[Scale, ...]
    numbered: int
    calendar: bool

    @classmethod
    def of(
        cls,
        panel: Panel,
        training: Mapping[str, range],
        scaling: Scaling,
        calendar: bool,
        transform: Transform = "none",
    ) -> PanelScaling:
        """From the training part of each series, and of no other row."""
        parts = [one.rows(_slice(training[one.unique_id])) for one in panel.series]
        known, past = (
            tuple(
                scale_of(name, np.concatenate([getattr(part, role)[:, place] for part in parts]), "standard")
                for place, name in enumerate(names)
            )
            for role, names in (("known", panel.known_names), ("past", panel.past_names))
        )
        found = cls(panel.frequency, {}, known, past, len(parts), calendar)
        found.adopt(panel, training, scaling, transform)
        return found

    def adopt(
        self, panel: Panel, training: Mapping[str, range], scaling: Scaling, transform: Transform = "none"
    ) -> None:
        """Add the scales of series that are new, each by its training rows."""
        for one in panel.series:
            part = one.rows(_slice(training[one.unique_id]))
            self.series[one.unique_id] = self.scale(part, scaling, transform)

    def scale(self, series: Series, scaling: Scaling, transform: Transform = "none") -> Scale:
        """The scale of a series: the one it was trained with, or for a new one that of all its values."""
        name, found = series.unique_id, self.series.get(series.unique_id)
        if found is None:
            found = scale_of(name, series.y, scaling, power_of(name, series.y, transform))
        return found

    def check(self, panel: Panel) -> None:
        """Refuse series with other steps than in training, or without dates if the model needs dates."""
        if panel.undated:
            if self.calendar:
                raise InputError("data", "has values without dates, and this model reads the calendar")
            return
        if panel.frequency != self.frequency and all(len(one) > 1 for one in panel.series):
            steps = [str(each) if each else "position" for each in (panel.frequency, self.frequency)]
            raise InputError("data", f"has steps of one {steps[0]}, the model was trained on one {steps[1]}")

    def arrays(self, panel: Panel, scales: Sequence[Scale]) -> PanelArrays:
        """The panel scaled, gaps filled with what was there before them, series one after another."""
        y = [scale_series(one, scale) for one, scale in zip(panel.series, scales, strict=True)]
        observed = ~np.isnan(np.concatenate(y))
        numbers = {name: number for number, name in enumerate(self.series) if number < self.numbered}
        return PanelArrays(
            np.concatenate([fill_gaps(each[:, None])[:, 0] for each in y]).astype(np.float32),
            observed,
            np.concatenate([self.columns(one.known, one.ds) for one in panel.series]).astype(np.float32),
            np.concatenate([fill_gaps(_scaled(one.past, self.past)) for one in panel.series]).astype(
                np.float32
            ),
            np.append(0, np.cumsum([len(one) for one in panel.series])),
            np.array([numbers.get(one.unique_id, -1) for one in panel.series]),
            tuple(one.unique_id for one in panel.series),
        )

    def columns(self, known: Values, ds: Times) -> Values:
        """The columns known in the future, scaled, and those of the calendar."""
        own = fill_gaps(_scaled(known, self.known))
        if not self.calendar:
            return own
        return np.concatenate([own, calendar(ds, self.frequency)[1]], axis=1)

    @property
    def known_columns(self) -> int:
        """How many columns a model knows of the future."""
        dates = np.zeros(1, dtype="datetime64[ns]")
        return len(self.known) + (len(calendar(dates, self.frequency)[0]) if self.calendar else 0)

    def to_values(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "frequency": None if self.frequency is None else asdict(self.frequency),
            "series": {name: list(scale) for name, scale in self.series.items()},
            "known": [list(scale) for scale in self.known],
            "past": [list(scale) for scale in self.past],
            "numbered": self.numbered,
            "calendar": self.calendar,
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any], where: str) -> PanelScaling:
        """What `to_values` gave."""
        try:
            frequency = values["frequency"]
            return cls(
                None if frequency is None else Frequency(**{**frequency, "step": int(frequency["step"])}),
                {name: _scale(scale) for name, scale in values["series"].items()},
                tuple(_scale(scale) for scale in values["known"]),
                tuple(_scale(scale) for scale in values["past"]),
                int(values["numbered"]),
                bool(values["calendar"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(where, f"is damaged ({error!r}); train the model again") from None


def _scale(values: Sequence[float]) -> Scale:
    scale = Scale(*map(float, values))
    if not all(map(math.isfinite, scale)):
        raise ValueError(f"a scale of {values}")
    return scale


def scale_series(series: Series, scale: Scale) -> Values:
    """The values of a series on its scale; NaN is missing."""
    try:
        return scale.apply(series.y)
    except InputError as error:
        raise InputError(f"series {series.unique_id!r}", error.problem) from None


def _scaled(columns: Values, scales: tuple[Scale, ...]) -> Values:
    if not scales:
        return columns[:, :0]
    return np.stack([scale.apply(columns[:, place]) for place, scale in enumerate(scales)], axis=1)


def _slice(rows: range) -> slice:
    return slice(rows.start, rows.stop)
