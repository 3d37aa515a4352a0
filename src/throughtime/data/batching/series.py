"""Windows of series: the values to look back on, and the values to forecast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from throughtime.data.batching.batch import HEADER, Batch, Layout, TensorKind
from throughtime.data.batching.buckets import RaggedIds, ShuffledWindows, WindowOptions
from throughtime.data.batching.packing import PaddedShapes
from throughtime.data.panel import PanelArrays
from throughtime.errors import InputError, check_whole

Values = NDArray[np.floating[Any]]


def windows(values: ArrayLike, tau: int) -> tuple[Values, Values]:
    """Return the `tau` values before each value, [n, tau], and that value, [n, 1], as views of the series.

    >>> inputs, targets = windows([0.0, 0.1, 0.2, 0.3, 0.4], tau=2)
    >>> inputs
    array([[0. , 0.1],
           [0.1, 0.2],
           [0.2, 0.3]])
    >>> targets.T
    array([[0.2, 0.3, 0.4]])
    """
    check_whole("tau", tau)
    series = np.asarray(values)
    if series.dtype.kind not in "fiu" or series.ndim != 1 or not series.size:
        problem = f"must be numbers, [time], got {series.dtype} of shape {list(series.shape)}"
        raise InputError("values", problem)
    series = series.astype(np.float64) if series.dtype.kind != "f" else series
    bad = np.flatnonzero(~np.isfinite(series))
    if len(bad):
        raise InputError("values", f"at step {bad[0]} are missing or infinite; fill or remove them")
    if len(series) <= tau:
        raise InputError("series", f"is too short for tau {tau}: {len(series)} values in all")
    cut = sliding_window_view(series, tau + 1)
    return cut[:, :-1], cut[:, -1:]


class PanelWindows:
    """All windows of `lookback` and `horizon` rows whose horizon lies in the range of `times` of its series.

    Windows may look back to before that range, so that each part is forecast from its first row on. The loss
    counts the last `counted` rows of a window, by default the horizon. Windows without a value there are left
    out, and so are series that are too short.
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
            check_whole(name, value)
        self.arrays, self.lookback, self.horizon, self.stride = arrays, lookback, horizon, stride
        self.counted = horizon if counted is None else counted
        starts = [
            offset + np.arange(max(span.start, lookback), span.stop - horizon + 1, stride) - lookback
            for offset, span in zip(arrays.offsets[:-1], times, strict=True)
        ]
        begins, owners = np.concatenate(starts), np.repeat(np.arange(len(starts)), list(map(len, starts)))
        seen = np.append(0, np.cumsum(arrays.observed))
        ends = begins + self.length
        full = seen[ends] > seen[ends - self.counted]
        self.starts, self.series = begins[full], owners[full]
        """The start of each window in the arrays, and its series."""

    def divide(self, most: int) -> NDArray[np.int64]:
        """Return the number of the part that each window belongs to: equal lengths of time, at most `most`.

        There are no more parts than whole horizons, and windows of all series at a time are in the same one.
        """
        firsts = np.full(len(self.arrays.offsets), np.iinfo(np.int64).max)
        np.minimum.at(firsts, self.series, self.starts)
        since = self.starts - firsts[self.series]
        rows = int(since.max(initial=0)) + 1
        return np.asarray(since * min(most, max(1, rows // self.horizon)) // rows)

    @property
    def length(self) -> int:
        """The number of rows of one window."""
        return self.lookback + self.horizon

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.starts)


@dataclass(frozen=True)
class PanelBatch(Batch):
    """Windows side by side, T = lookback + horizon rows each."""

    values: Tensor  # [T, B]
    weights: Tensor  # [T, B]: 1 where the loss counts a value that is there, else 0
    known: Tensor  # [T, B, K]
    past: Tensor  # [T, B, P]
    numbers: Tensor  # [B]
    indices: Tensor  # [B]: the numbers of the windows


class PanelBatches(ShuffledWindows[PanelBatch]):
    """Batches of windows, each once per epoch: in random order, or in order of series and time.

    >>> flat = np.arange(6, dtype=np.float32)
    >>> none = np.zeros((6, 0), np.float32)
    >>> arrays = PanelArrays(flat, flat > -1, none, none, np.array([0, 6]), np.array([0]))
    >>> batches = PanelBatches(PanelWindows(arrays, [range(6)], 2, 1), batch_size=3, shuffle=False)
    >>> [batch.values.T.int().tolist() for batch in batches]
    [[[0, 1, 2], [1, 2, 3], [2, 3, 4]], [[3, 4, 5]]]
    """

    def __init__(self, windows: PanelWindows, batch_size: int, **options: Unpack[WindowOptions]) -> None:
        names = ("lookback", "horizon", "counted", "stride")
        settings = {"windows": len(windows), **{name: getattr(windows, name) for name in names}}
        super().__init__(settings, batch_size, **options)
        self._panel, self._complete = windows, bool(windows.arrays.observed.all())

    def _windows(self, generator: np.random.Generator) -> NDArray[np.int64]:
        return np.arange(len(self._panel))

    def _pack_chunk(
        self, plan: RaggedIds, indices: range, shapes: PaddedShapes | None, pin: bool
    ) -> Iterable[PanelBatch]:
        """Windows are long: each is read straight into the memory of its batch."""
        windows, arrays = self._panel, self._panel.arrays
        columns = {"values": arrays.values, "known": arrays.known, "past": arrays.past}
        views = {  # a column that is not there has nothing to write
            name: sliding_window_view(values, windows.length, 0)
            for name, values in columns.items()
            if values.size
        }
        steps = np.arange(-windows.counted, 0)[:, None] + windows.length
        rows = [self._mine(plan[index]) for index in indices]
        kinds = {count: self._lay_out(count) for count in {*map(len, rows)}}  # few: most are alike
        layouts = [kinds[len(mine)] for mine in rows]
        sizes = [layout.size for layout in layouts]
        memory = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=pin)
        for index, mine, layout, piece in zip(indices, rows, layouts, memory.split(sizes), strict=True):
            tensors, starts = layout.open(piece), windows.starts[mine]
            for name, view in views.items():
                tensors[name][:] = np.moveaxis(view[starts], -1, 0)
            tensors["weights"][: -windows.counted] = 0
            tensors["weights"][-windows.counted :] = self._complete or arrays.observed[starts + steps]
            tensors["numbers"][:], tensors["indices"][:] = arrays.numbers[windows.series[mine]], mine
            count = windows.counted * len(plan[index])
            if not self._complete:
                count = int(np.count_nonzero(arrays.observed[windows.starts[plan[index]] + steps]))
            batch = PanelBatch.in_memory(layout, piece, count, piece.numpy()[:HEADER].data)
            batch.write_header(count, 0.0)
            yield batch

    def _lay_out(self, rows: int) -> Layout:
        """Return where the tensors of a batch of this number of rows lie."""
        widths = dict.fromkeys(("values", "weights"), ())
        widths |= {name: getattr(self._panel.arrays, name).shape[1:] for name in ("known", "past")}
        tensors: list[TensorKind] = [
            (name, (self._panel.length, rows, *width), torch.float32) for name, width in widths.items()
        ]
        return Layout.place([*tensors, *((name, (rows,), torch.int64) for name in ("numbers", "indices"))])
