"""What every forecaster needs: inputs, the loop over rows, distributions of values, levels of intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.interrupt import check_interrupt

MIN_CHANCE = 2.0**-54  # a normal distribution has no quantile for 0
GRID = 4_097  # number of angles at which Student's t distribution is tabulated
ROUNDING, TINY = 1e-6, 1e-9  # what rounding changes in probabilities: as float32, and by sums of float64
Array = NDArray[Any]


@dataclass(frozen=True)
class History:
    """A series: its values, oldest first (nan for a gap), and the other columns that the model needs.

    `known` has the rows of y followed by those to forecast, `past` only the rows of y.
    """

    unique_id: str
    y: Sequence[float]
    known: Sequence[Sequence[float]] = field(default_factory=tuple)
    past: Sequence[Sequence[float]] = field(default_factory=tuple)

    def columns(self, role: str, count: int, rows: int, names: Sequence[str] = ()) -> Array:
        """Return the `known` or `past` columns as an array [rows or more, count]; an error gives `names`."""
        if not count:
            return np.zeros((rows, 0))
        table = np.array(getattr(self, role), dtype=float)
        if table.ndim != 2 or table.shape[1] != count or len(table) < rows:
            wanted = f"[{rows} or more, {count}]" + (f": {', '.join(names)}" if names else "")
            problem = f"its {role} columns have the shape {list(table.shape)}, expected {wanted}"
            raise InputError(f"series {self.unique_id!r}", problem)
        return table


def read_histories(data: Mapping[str, Any] | Sequence[Any]) -> list[History]:
    """Return the series of a dict of values by name, or of a list of `History`; names must differ.

    >>> read_histories({"shop": [3.0, 1.0]})
    [History(unique_id='shop', y=[3.0, 1.0], known=(), past=())]
    """
    histories = [History(*pair) for pair in data.items()] if isinstance(data, Mapping) else list(data)
    names = set()
    for number, history in enumerate(histories):
        if not isinstance(history, History):
            problem = f"is of type {type(history).__name__}, expected a History"
            raise InputError(
                f"data[{number}]", f'{problem}; give values by name, as in {{"sales": [3.0, 1.0]}}'
            )
        name = history.unique_id
        if name in names:
            raise InputError("data", f"has two series named {name!r}; give each a different name")
        names.add(name)
    return histories


class OutputDistribution:
    """Reads what a network says of a value, [..., width], as the distribution of that value.

    The numbers are a point; the centre and the scale of a distribution; or quantiles, in order.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.kind: str = settings["kind"]
        self.centre: int = settings.get("centre", 0)
        self.degrees: float = settings.get("degrees", 0.0)
        self.known = np.array(settings.get("probabilities", ()))

    @property
    def probabilistic(self) -> bool:
        """Whether it is a distribution, not a single number."""
        return self.kind != "point"

    def mean(self, outputs: Array) -> Array:
        """Return the point forecast, [...]."""
        return np.asarray(outputs[..., self.centre])

    def quantiles(self, outputs: Array, probabilities: Sequence[float]) -> Array:
        """Return the quantiles for these probabilities, [probabilities, ...]; some are interpolated."""
        if self.kind != "quantiles":
            points = self._standard(np.array(probabilities)).astype(np.float32)
            return np.stack([outputs[..., 0] + outputs[..., 1] * point for point in points])
        low, high = self.known[0], self.known[-1]
        for probability in probabilities:
            if not low - ROUNDING <= probability <= high + ROUNDING:
                problem = f"{probability:g} is outside the learned range, {low:g} to {high:g}"
                raise InputError(
                    "probabilities", f"{problem}; train with other probabilities, or ask for another level"
                )
        single = (1,) * (outputs.ndim - 1)
        return np.stack([self._interpolate(outputs, np.full(single, p)) for p in probabilities])

    def draw(self, outputs: Array, chances: Array) -> Array:
        """Draw a value from the distribution, [...]: its quantile for a random number in [0, 1), [...].

        Draws beyond the outermost known quantiles are set to them.
        """
        if self.kind == "quantiles":
            return self._interpolate(outputs, chances)
        standard = self._standard(np.maximum(chances, MIN_CHANCE))
        return np.asarray(outputs[..., 0] + outputs[..., 1] * standard, dtype=np.float32)

    def _interpolate(self, ordered: Array, probabilities: Array) -> Array:
        """Return the quantiles [...] for probabilities [...], between the two known ones."""
        if len(self.known) == 1:
            return np.asarray(ordered[..., 0])
        above = np.searchsorted(self.known, probabilities - TINY).clip(1, len(self.known) - 1)
        low, high = self.known[above - 1], self.known[above]
        share = ((probabilities - low) / (high - low)).clip(0, 1).astype(np.float32)
        first, second = (np.take_along_axis(ordered, at[..., None], -1)[..., 0] for at in (above - 1, above))
        distance = (second - first).astype(np.float64)
        # From the nearer end, as `torch.lerp` does: a share of 1 is the second quantile itself.
        between = np.where(share < 0.5, first + share * distance, second - (1 - share) * distance)
        return np.asarray(between, dtype=np.float32)

    def _standard(self, probabilities: Array) -> Array:
        """Return quantiles of the distribution with centre 0 and scale 1."""
        if self.kind == "gaussian":
            points = map(NormalDist().inv_cdf, probabilities.ravel().tolist())
            return np.array(list(points)).reshape(probabilities.shape)
        angles, below = self._student
        return math.sqrt(self.degrees) * np.tan(np.interp(probabilities, below, angles))

    @cached_property
    def _student(self) -> tuple[Array, Array]:
        """Angles a, and the probability below sqrt(n) tan(a) of Student's t distribution.

        With t = sqrt(n) tan(a) the density becomes cos(a)^(n - 1), which is smooth on a finite range.
        """
        angles = np.linspace(-math.pi / 2, math.pi / 2, GRID)
        density = np.cos(angles).clip(min=0) ** (self.degrees - 1)
        below = np.append(0, np.cumsum((density[1:] + density[:-1]) / 2))
        return angles, below / below[-1]


class WindowLevel(NamedTuple):
    """What is subtracted from the values of each window, and what they are then divided by; None: nothing."""

    offset: Any  # an array or a tensor [B], or None
    spread: Any

    def remove(self, values: Any) -> Any:
        """Normalise values [..., B]."""
        values = values if self.offset is None else values - self.offset
        return values if self.spread is None else values / self.spread

    def restore(self, values: Any) -> Any:
        """Undo the normalisation of values [..., B]; the result is at least float32."""
        values = values if values.dtype.itemsize > 2 else values.float()
        values = values if self.spread is None else values * self.spread
        return values if self.offset is None else values + self.offset


class WindowReading(NamedTuple):
    """What a network says after it has read a window, in arrays or tensors."""

    outputs: Any  # [B, width] for the next row, or [rows, B, width] for the whole horizon
    level: WindowLevel
    memory: Any = None
    """What it needs to read the next value."""


class WindowReader(Protocol):
    """A network with a window as its input: a trained one, or the graphs of its export."""

    recursive: bool
    horizon: int

    def compute(self, window: Any) -> WindowReading:
        """Read a window."""

    def read_row(self, reading: WindowReading, value: Any) -> WindowReading:
        """Read the normalised value [B] that was chosen for the next row."""


def roll_out(network: WindowReader, window: Any, h: int, choose: Callable[[Any, int], Any]) -> list[Any]:
    """Forecast `h` rows [B], one by one; `choose` gives a value for the outputs of each step."""
    reading, rows = network.compute(window), []
    for step in range(h):
        check_interrupt()
        value = choose(reading.outputs, step)
        rows.append(reading.level.restore(value))
        if step < h - 1:
            reading = network.read_row(reading, value)
    return rows


def check_horizon(network: WindowReader, h: int) -> None:
    """Refuse more rows than a network forecasts that does so at once."""
    if not network.recursive and h > network.horizon:
        raise InputError(
            "h",
            f"is {h}, but the model was trained for the next {network.horizon} rows at once; "
            f"train it with horizon={h} or strategy=recursive",
        )


def check_levels(levels: Iterable[float]) -> None:
    """Refuse levels that are not percentages; for a share such as 0.95 the error suggests 95.

    >>> check_levels([80, 0.95])
    Traceback (most recent call last):
    throughtime.errors.InputError: level: 0.95 is below 1; levels are percentages: use 95
    """
    for level in levels:
        if 0 < level < 1:
            raise InputError("level", f"{level:g} is below 1; levels are percentages: use {100 * level:g}")
        if not 1 <= level < 100:
            raise InputError("level", f"is {level:g}, expected a percentage of at least 1 and below 100")


def ends(level: float) -> tuple[float, float]:
    """The probabilities at the two ends of an interval of this level, in per cent.

    >>> ends(80)
    (0.1, 0.9)
    """
    return round(0.5 - level / 200, 10), round(0.5 + level / 200, 10)


def interval_ends(levels: Iterable[float]) -> list[float]:
    """Check several levels and return the ends of their intervals, sorted.

    >>> interval_ends([80, 95])
    [0.025, 0.1, 0.9, 0.975]
    """
    if isinstance(levels, int | float):
        raise InputError("level", f"is {levels}, expected a list of percentages, such as [80, 95]")
    levels = list(levels)
    check_levels(levels)
    return sorted({end for level in levels for end in ends(level)})
