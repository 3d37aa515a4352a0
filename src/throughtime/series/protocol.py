"""What a forecast is, and what the back-test asks of a model: a trained one, or a baseline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Times
from throughtime.series.scaling import PLAIN, SeriesScale

if TYPE_CHECKING:
    from throughtime.data.batching.series import PanelArrays, PanelWindows

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Called with the number of steps that are done, and of all steps."""


class Forecast(NamedTuple):
    """The next `h` values of one series."""

    unique_id: str
    ds: Times  # [h]
    mean: Array  # [h]
    quantiles: dict[float, Array]  # probability to [h]; empty for a point head
    samples: Array | None = None  # [paths, h]
    power: float = PLAIN  # of Box and Cox: on its scale errors are alike, whatever the level


class ForecastRequest(NamedTuple):
    """What is asked of a model; `future` has the columns that are known there, by their times."""

    panel: Panel
    h: int
    probabilities: Sequence[float]
    paths: int
    future: Panel | None


class ForecastModel(ABC):
    """A model that forecasts every series of a panel; `name` heads the columns of what it writes."""

    name: str

    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        paths: int = 0,
        future: Panel | None = None,
    ) -> list[Forecast]:
        """Forecast the next `h` values of each series, with quantiles of these probabilities and paths.

        `future` has the columns that are known in the future, by their times.
        """
        return self.answer(ForecastRequest(panel, h, probabilities, paths, future))

    @abstractmethod
    def answer(self, request: ForecastRequest) -> list[Forecast]:
        """A forecast for each series."""


class WindowForecasts(NamedTuple):
    """One batch of windows, scaled: the series of each, the true values, the forecasts, and what counts."""

    series: NDArray[np.int64]  # [B]
    starts: NDArray[np.int64]  # [B]
    true: Array  # [h, B]
    forecast: Array  # [h, B]
    weights: Array  # [h, B]: 1 where a value was there, else 0

    def own_errors(self, forecast: Array, scales: Sequence[SeriesScale]) -> Array:
        """The errors of a forecast [h, B] in the series' own units."""
        errors = np.empty_like(forecast)
        for number in np.unique(self.series):
            mine, scale = self.series == number, scales[number]
            errors[:, mine] = scale.undone(forecast[:, mine]) - scale.undone(self.true[:, mine])
        return errors


class WindowModel(Protocol):
    """A model that forecasts many windows at once."""

    @property
    def lookback(self) -> int:
        """Number of rows that a forecast is made from."""
        ...

    @property
    def max_steps(self) -> int | None:
        """Maximum number of rows that it can forecast; None for any number."""
        ...

    def scaled_arrays(self, panel: Panel) -> tuple[PanelArrays, list[SeriesScale]]:
        """The series scaled for the model, and the scale of each."""
        ...

    def forecast_windows(
        self, windows: PanelWindows, progress: Progress | None = None
    ) -> Iterator[WindowForecasts]:
        """The mean forecast of each window beside the true values, batch by batch."""
        ...
