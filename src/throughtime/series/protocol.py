"""The interface of a forecasting model, implemented by trained models and baselines alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from throughtime.data.panel import Panel, Series
from throughtime.results import Forecast
from throughtime.series.scaling import PLAIN


@dataclass(frozen=True)
class ForecastQuery:
    """What to forecast: the next `h` rows of each series of a panel.

    `probabilities` are those of the quantiles, `paths` is the number of sample paths to draw with `seed`, and
    `future` holds the columns that are known in the future, by their times.
    """

    panel: Panel
    h: int
    probabilities: Sequence[float] = ()
    paths: int = 0
    future: Panel | None = None
    seed: int | None = None


class ForecastModel(ABC):
    """A model that forecasts every series of a panel; `name` heads the columns of its output."""

    name: str
    lookback: int = 1
    """Number of rows that a forecast is made from."""
    reach: tuple[float, float] = (0.0, 1.0)
    """The lowest and highest probabilities for which the model has quantiles."""

    @abstractmethod
    def answer(self, query: ForecastQuery) -> list[Forecast]:
        """Return a forecast for each series of the query."""

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
        """Forecast the next `h` rows of each series; see `ForecastQuery` for the arguments."""
        return self.answer(ForecastQuery(panel, h, probabilities, paths, future, seed))

    def power(self, series: Series) -> float:
        """Return the Box-Cox power of a series; on its scale, errors do not depend on the level."""
        return PLAIN
