"""Windows of series: what is looked back on, and what is to be forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Unpack

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from throughtime.data.batching.batches import Batch, at_least
from throughtime.data.batching.buckets import RaggedIds, ShuffledWindows, WindowOptions
from throughtime.errors import InputError

Values = NDArray[np.floating[Any]]


def windows(values: ArrayLike, tau: int) -> tuple[Values, Values]:
    """The `tau` values before each value, [n, tau], and that value, [n, 1], as views of the series.

    >>> inputs, targets = windows([0.0, 0.1, 0.2, 0.3, 0.4], tau=2)
    >>> inputs
    array([[0. , 0.1],
           [0.1, 0.2],
           [0.2, 0.3]])
    >>> targets.T
    array([[0.2, 0.3, 0.4]])
    """
    series = as_series(values)
    if series.shape[1] != 1:
        raise InputError("values", f"have {series.shape[1]} channels; use SeriesWindows for more than one")
    made = SeriesWindows(series, lookback=tau, horizon=1)
    return made.inputs[:, :, 0], made.targets[:, :, 0]


class SeriesWindows:
    """All windows of a series, [T] or [T, C], as views: `inputs` [n, lookback, C], `targets` [n, horizon, C].

    `times` keeps the windows whose targets all lie in that part of the series; what they look back on may
    lie before it, so that each part of a split is forecast from its first value on.

    >>> made = SeriesWindows(range(10), lookback=3, horizon=2, times=range(6, 10))
    >>> made.inputs[:, :, 0].astype(int).tolist(), made.targets[:, :, 0].astype(int).tolist()
    ([[3, 4, 5], [4, 5, 6], [5, 6, 7]], [[6, 7], [7, 8], [8, 9]])
    """

    def __init__(
        self, values: ArrayLike, lookback: int, horizon: int, stride: int = 1, times: range | None = None
    ) -> None:
        for name, value in (("lookback", lookback), ("horizon", horizon), ("stride", stride)):
            at_least(name, value, 1)
        series = as_series(values)
        times = range(len(series)) if times is None else times
        if times.step != 1 or times.start < 0 or times.stop > len(series):
            raise InputError("times", f"are {times}, but the series has steps 0 to {len(series) - 1}")
        first, last = max(times.start, lookback), times.stop - horizon
        if last < first:
            problem = f"{len(series)} values in all, {len(times)} to forecast"
            raise InputError(
                "series", f"is too short for lookback {lookback} and horizon {horizon}: {problem}"
            )
        past = sliding_window_view(series, lookback, axis=0).swapaxes(1, 2)
        future = sliding_window_view(series, horizon, axis=0).swapaxes(1, 2)
        self.inputs: Values = past[first - lookback : last - lookback + 1 : stride]
        self.targets: Values = future[first : last + 1 : stride]
        self.first, self.stride = first, stride

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.inputs)


@dataclass(frozen=True)
class SeriesBatch(Batch):
    """Windows side by side: inputs [lookback, batch, C], targets [horizon, batch, C], and the windows."""

    inputs: Tensor
    targets: Tensor
    indices: Tensor


class SeriesBatches(ShuffledWindows[SeriesBatch]):
    """Windows in batches, float32, every one once an epoch: in random order, or in time's without `shuffle`.

    >>> made = SeriesWindows(range(5), lookback=2, horizon=1)
    >>> [batch.indices.tolist() for batch in SeriesBatches(made, batch_size=2, shuffle=False)]
    [[0, 1], [2]]
    """

    def __init__(self, windows: SeriesWindows, batch_size: int, **options: Unpack[WindowOptions]) -> None:
        about = {
            "first_target": windows.first,
            "stride": windows.stride,
            "lookback": windows.inputs.shape[1],
            "horizon": windows.targets.shape[1],
            "keep_last": options.get("keep_last", True),
        }
        super().__init__(windows, about, batch_size, **options)
        self._windows = windows

    def _collate(self, plan: RaggedIds, index: int) -> SeriesBatch:
        rows = plan[index]
        mine = self._mine(rows)
        per_window = self._windows.targets[0].size
        return SeriesBatch(
            count=len(rows) * per_window,
            inputs=_time_major(self._windows.inputs[mine]),
            targets=_time_major(self._windows.targets[mine]),
            indices=torch.from_numpy(mine.copy()),
        )


def split_by_time(steps: int, shares: Sequence[float]) -> tuple[range, ...]:
    """The times of the parts of a series, one after another, sized by their shares.

    >>> split_by_time(1000, (7, 1, 2))
    (range(0, 700), range(700, 800), range(800, 1000))
    """
    if not shares or min(shares) <= 0:
        raise InputError("shares", f"must all be above 0, got {tuple(shares)}")
    ends = [round(steps * share / sum(shares)) for share in accumulate(shares)]
    parts = tuple(range(start, stop) for start, stop in pairwise([0, *ends]))
    if not all(parts):
        raise InputError("shares", f"{tuple(shares)} leave a part of the {steps} steps empty")
    return parts


def as_series(values: ArrayLike) -> Values:
    """Finite numbers as [T, channels], without copying an array of floats."""
    series = np.asarray(values)
    if series.dtype.kind not in "fiu" or series.ndim not in (1, 2) or not series.size:
        problem = f"must be numbers, [time] or [time, channels], got {series.dtype} of shape {series.shape}"
        raise InputError("values", problem)
    series = series.astype(np.float64) if series.dtype.kind != "f" else series
    series = series[:, None] if series.ndim == 1 else series
    bad = np.flatnonzero(~np.isfinite(series).all(axis=1))
    if len(bad):
        raise InputError("values", f"at step {bad[0]} are missing or infinite; fill or drop them")
    return series


def _time_major(rows: Values) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(rows.swapaxes(0, 1), dtype=np.float32))


Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PanelArrays:
    """All series of a panel one after another, scaled; what is missing is filled in and not `observed`."""

    values: Floats  # [N]
    observed: NDArray[np.bool_]  # [N]
    known: Floats  # [N, K]
    past: Floats  # [N, P]
    offsets: NDArray[np.int64]  # [S + 1]: where each series begins
    numbers: NDArray[np.int64]  # [S]: the number by which a model knows a series, or -1
    names: tuple[str, ...] = ()  # [S]


class PanelWindows:
    """All windows of `lookback` and then `horizon` rows whose horizon lies in its series' part of `times`.

    They may look back to before that part, so that each part is forecast from its first row on. The last
    `counted` rows of a window count in the loss, by default the horizon. Windows without a value there are
    left out, and so are series that are too short.
    """

    def __init__(
        self,
        arrays: PanelArrays,
        times: Sequence[range],
        lookback: int,
        horizon: int,
        *,
        stride: int = 1,
        counted: int | None = None,
    ) -> None:
        for name, value in (("lookback", lookback), ("horizon", horizon), ("stride", stride)):
            at_least(name, value, 1)
        self.arrays, self.lookback, self.horizon, self.stride = arrays, lookback, horizon, stride
        self.counted = horizon if counted is None else counted
        starts = [
            offset + np.arange(max(part.start, lookback), part.stop - horizon + 1, stride) - lookback
            for offset, part in zip(arrays.offsets[:-1], times, strict=True)
        ]
        begins, owners = np.concatenate(starts), np.repeat(np.arange(len(starts)), list(map(len, starts)))
        seen = np.append(0, np.cumsum(arrays.observed))
        ends = begins + self.length
        full = seen[ends] > seen[ends - self.counted]
        self.starts, self.series = begins[full], owners[full]
        """Where each window begins in the arrays, and of which series it is."""

    @property
    def length(self) -> int:
        """The rows of one window."""
        return self.lookback + self.horizon

    def __len__(self) -> int:
        """How many windows."""
        return len(self.starts)


@dataclass(frozen=True)
class PanelBatch(Batch):
    """Windows side by side, T = lookback + horizon rows each."""

    values: Tensor  # [T, B]
    weights: Tensor  # [T, B]: 1 where a loss is taken of a value that is there, else 0
    known: Tensor  # [T, B, K]
    past: Tensor  # [T, B, P]
    numbers: Tensor  # [B]
    indices: Tensor  # [B]: which windows


class PanelBatches(ShuffledWindows[PanelBatch]):
    """Windows in batches, every one once an epoch: in random order, or in that of series and time.

    >>> flat = np.arange(6, dtype=np.float32)
    >>> none = np.zeros((6, 0), np.float32)
    >>> arrays = PanelArrays(flat, flat > -1, none, none, np.array([0, 6]), np.array([0]))
    >>> batches = PanelBatches(PanelWindows(arrays, [range(6)], 2, 1), batch_size=3, shuffle=False)
    >>> [batch.values.T.int().tolist() for batch in batches]
    [[[0, 1, 2], [1, 2, 3], [2, 3, 4]], [[3, 4, 5]]]
    """

    def __init__(self, windows: PanelWindows, batch_size: int, **options: Unpack[WindowOptions]) -> None:
        names = ("lookback", "horizon", "counted", "stride")
        about = {name: getattr(windows, name) for name in names}
        super().__init__(windows, about, batch_size, **options)
        self._windows = windows

    def _collate(self, plan: RaggedIds, index: int) -> PanelBatch:
        windows, arrays = self._windows, self._windows.arrays
        rows = plan[index]
        mine = self._mine(rows)
        steps = np.arange(windows.length)[:, None]
        counted = arrays.observed[windows.starts[rows] + steps[-windows.counted :]]
        places = windows.starts[mine] + steps  # [T, B]
        weights = arrays.observed[places].astype(np.float32)
        weights[: -windows.counted] = 0
        return PanelBatch(
            count=int(counted.sum()),
            values=torch.from_numpy(arrays.values[places]),
            weights=torch.from_numpy(weights),
            known=torch.from_numpy(arrays.known[places]),
            past=torch.from_numpy(arrays.past[places]),
            numbers=torch.from_numpy(arrays.numbers[windows.series[mine]]),
            indices=torch.from_numpy(mine.copy()),
        )
