"""Windows over many series: what is looked back on and what is to be forecast, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.batch import Batch
from throughtime.data.batching.position import at_least
from throughtime.data.batching.ragged import RaggedIds
from throughtime.data.batching.shuffled import ShuffledWindows

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
    `counted` rows of a window are what a loss is taken of, the horizon unless told otherwise. Windows
    without a value there are left out, and so are series that are too short.
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
        starts, series = [], []
        for number, part in enumerate(times):
            first, last = max(part.start, lookback), part.stop - horizon
            own = arrays.offsets[number] + np.arange(first, last + 1, stride, dtype=np.int64) - lookback
            starts.append(own)
            series.append(np.full(len(own), number, dtype=np.int64))
        begins, owners = np.concatenate(starts), np.concatenate(series)
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

    def __init__(
        self,
        windows: PanelWindows,
        batch_size: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        about = {
            "lookback": windows.lookback,
            "horizon": windows.horizon,
            "counted": windows.counted,
            "stride": windows.stride,
        }
        super().__init__(
            windows, about, batch_size, seed=seed, shuffle=shuffle, rank=rank, world_size=world_size
        )
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
