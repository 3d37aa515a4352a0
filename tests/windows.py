"""Windows of a plain series, with which tests of the trainer train small networks."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


class SeriesWindows:
    """All windows of a series: `inputs` [n, lookback, 1], and the rows after them, `targets` [n, horizon, 1].

    `times` selects the windows whose targets all lie in that part of the series.
    """

    def __init__(self, values, lookback: int, horizon: int, times: range | None = None) -> None:
        series = np.asarray(values, dtype=float if np.asarray(values).dtype.kind != "f" else None)
        times = range(len(series)) if times is None else times
        first, last = max(times.start, lookback), times.stop - horizon
        past, future = (sliding_window_view(series, size)[..., None] for size in (lookback, horizon))
        self.inputs = past[first - lookback : last - lookback + 1]
        self.targets = future[first : last + 1]

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.inputs)
