"""What the back-test asks of a model: a trained one, or a baseline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Panel, Series
from throughtime.results import Forecast
from throughtime.results import Progress as Progress
from throughtime.series.scaling import PLAIN, Scale

if TYPE_CHECKING:
    from throughtime.data.batching.series import PanelArrays, PanelWindows

Array = NDArray[np.float64]
"""Called with the number of steps that are done, and of all steps."""


class ForecastModel(ABC):
    """A model that forecasts every series of a panel; `name` heads the columns of what it writes."""

    name: str

    @abstractmethod
    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        *,
        paths: int = 0,
        future: Panel | None = None,
        seed: int | None = None,
    ) -> list[Forecast]:
        """Forecast the next `h` values of each series, with quantiles of these probabilities and paths.

        `future` has the columns that are known in the future, by their times; `seed` is that of the paths.
        """

    @property
    def lookback(self) -> int:
        """Number of rows that a forecast is made from."""
        return 1

    @property
    def reach(self) -> tuple[float, float]:
        """The outermost probabilities that it has quantiles of."""
        return 0.0, 1.0

    def power(self, series: Series) -> float:
        """The power of Box and Cox on whose scale errors are alike, whatever the level of the series."""
        return PLAIN


class WindowForecasts(NamedTuple):
    """One batch of windows, scaled: the series of each, the true values, the forecasts, and what counts."""

    series: NDArray[np.int64]  # [B]
    starts: NDArray[np.int64]  # [B]
    true: Array  # [h, B]
    forecast: Array  # [h, B]
    weights: Array  # [h, B]: 1 where a value was there, else 0

    def own_errors(self, forecast: Array, scales: Sequence[Scale]) -> Array:
        """The errors of a forecast [h, B] in the series' own units."""
        errors = np.empty_like(forecast)
        for number in np.unique(self.series):
            mine, scale = self.series == number, scales[number]
            errors[:, mine] = scale.undo(forecast[:, mine]) - scale.undo(self.true[:, mine])
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

    def scaled_arrays(self, panel: Panel) -> tuple[PanelArrays, list[Scale]]:
        """The series scaled for the model, and the scale of each."""
        ...

    def forecast_windows(
        self, windows: PanelWindows, progress: Progress | None = None
    ) -> Iterator[WindowForecasts]:
        """The mean forecast of each window beside the true values, batch by batch."""
        ...
