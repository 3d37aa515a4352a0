"""What a forecast is, and who can make one: a trained model, or a rule of thumb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from throughtime.data.frequency import Times
from throughtime.data.panel import Panel
from throughtime.data.power import PLAIN


class Forecast(NamedTuple):
    """The next `h` values of one series."""

    unique_id: str
    ds: Times  # [h]
    mean: NDArray[np.float64]  # [h]
    quantiles: dict[float, NDArray[np.float64]]  # probability to [h]; empty for a point head
    samples: NDArray[np.float64] | None = None  # [paths, h]
    power: float = PLAIN  # of Box and Cox: on its scale errors are alike, whatever the level


class Forecasting(Protocol):
    """Who forecasts every series of a panel; `name` heads the columns of what it writes."""

    name: str

    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        paths: int = 0,
        future: Panel | None = None,
    ) -> list[Forecast]:
        """A forecast for each series; `future` has the columns that are known there, by their times."""
        ...
