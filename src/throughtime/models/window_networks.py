"""Networks from a window of the past to the outputs for the rows after it, and the same as graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, linear, pad

from throughtime.cells.base import Ops, State
from throughtime.data.panel import Window
from throughtime.errors import InputError
from throughtime.layers.layer import check_probability
from throughtime.layers.stack import Stack

FEW_SERIES = 32
"""Up to this number of series, applying all maps to a window is faster than copying the one that it needs."""
MAP_BLOCK = 2**22
"""Number of values that are computed or copied at once to apply the maps of series: 16 MiB."""


GraphWindow = Window[str]
"""The inputs as names in a graph; "" for columns that a model does not read."""


class WindowNetwork(nn.Module):
    """Maps a flattened look-back window through hidden layers to the horizon; linear without hidden layers.

    >>> network = WindowNetwork(lookback=4, horizon=2, width=1)
    >>> none = torch.zeros(6, 3, 0)
    >>> network(Window(torch.zeros(4, 3), none, none[:4], torch.zeros(3))).shape
    torch.Size([2, 3, 1])
    """

    def __init__(
        self,
        lookback: int,
        horizon: int,
        width: int,
        *,
        known: int = 0,
        past: int = 0,
        hidden_sizes: tuple[int, ...] = (),
        hidden_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.horizon, self.width = horizon, width
        size = lookback * (1 + past) + (lookback + horizon) * known
        layers: list[nn.Module] = []
        for hidden in hidden_sizes:
            layers += [nn.Linear(size, hidden), nn.ReLU(), nn.Dropout(hidden_dropout)]
            size = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(size, horizon * width))

    @property
    def output_layer(self) -> nn.Linear:
        """The last layer."""
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        return last

    def forward(self, window: Window[Tensor]) -> Tensor:
        """[horizon, B, width]."""
        flat = [window.values, *(_flat(each) for each in (window.known, window.past) if each.shape[-1])]
        outputs: Tensor = self.layers(torch.cat(flat).T)
        return outputs.view(-1, self.horizon, self.width).transpose(0, 1)

    def graph(self, ops: Ops, window: GraphWindow, rows: int) -> str:
        """Return the outputs in a graph; `rows` is the look-back."""
        columns = [window.values, *(_graph_flat(ops, each) for each in (window.known, window.past) if each)]
        x = ops.op("Transpose", ops.concat(columns, 0))
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                x = ops.linear(x, layer.weight, layer.bias)
            elif isinstance(layer, nn.ReLU):
                x = ops.op("Relu", x)
        return graph_horizon(ops, x, self.horizon, self.width)


class NoNetwork(nn.Module):
    """Zeros for all outputs, where a linear map is not corrected."""

    def __init__(self, horizon: int, width: int) -> None:
        super().__init__()
        self.horizon, self.width = horizon, width

    def forward(self, window: Window[Tensor]) -> Tensor:
        """[horizon, B, width]."""
        return window.values.new_zeros(self.horizon, window.values.shape[1], self.width)

    def graph(self, ops: Ops, window: GraphWindow, rows: int) -> str:
        """Return the outputs in a graph, for any batch."""
        return ops.constant(torch.zeros(self.horizon, 1, self.width))


class RecurrentNetwork(nn.Module):
    """A stack of cells reads the look-back; a linear layer maps its last output to the whole horizon.

    Gradients do not flow back through the first `warm_up` rows unless `warm_up_gradient` is set.
    """

    def __init__(
        self,
        stack: Stack,
        horizon: int,
        width: int,
        *,
        known: int = 0,
        warm_up: int = 0,
        warm_up_gradient: bool = False,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.stack, self.horizon, self.width = stack, horizon, width
        self.warm_up, self.warm_up_gradient = warm_up, warm_up_gradient
        self.output_dropout = check_probability("output_dropout", output_dropout)
        self.readout = nn.Linear(stack.output_size + horizon * known, horizon * width)

    @property
    def output_layer(self) -> nn.Linear:
        """The last layer."""
        return self.readout

    def forward(self, window: Window[Tensor]) -> Tensor:
        """[horizon, B, width]."""
        rows = len(window.values)
        inputs = join_columns(window.values.unsqueeze(-1), window.known[:rows], window.past)
        outputs, _ = run_after_warm_up(self.stack, inputs, self.warm_up, self.warm_up_gradient)
        read = dropout(outputs[-1], self.output_dropout, self.training)
        if window.known.shape[-1]:
            read = torch.cat([read, _flat(window.known[rows:]).T], dim=-1)
        flat: Tensor = self.readout(read)
        return flat.view(-1, self.horizon, self.width).transpose(0, 1)

    def graph(self, ops: Ops, window: GraphWindow, rows: int) -> str:
        """Return the outputs in a graph; `rows` is the look-back."""
        outputs, _ = self.stack.graph(ops, graph_columns(ops, window, rows))
        read = ops.op("Gather", outputs, ops.constant(-1, "int64"), axis=0)
        if window.known:
            ahead = ops.op("Transpose", _graph_flat(ops, ops.slice(window.known, rows, 2**31, 0)))
            read = ops.op("Concat", read, ahead, axis=-1)
        outputs = ops.linear(read, self.readout.weight, self.readout.bias)
        return graph_horizon(ops, outputs, self.horizon, self.width)


def join_columns(values: Tensor, *others: Tensor) -> Tensor:
    """Join columns [..., K] of all tables; if there is nothing to add to the first, it is not copied."""
    return torch.cat([values, *others], dim=-1) if any(table.shape[-1] for table in others) else values


def _flat(columns: Tensor) -> Tensor:
    """[T, B, K] as [T * K, B]."""
    return columns.transpose(1, 2).flatten(0, 1)


def apply_own_maps(maps: Tensor, past: Tensor, numbers: Tensor) -> Tensor:
    """Apply the map of its series [series, horizon, lookback] to each window [B, lookback]: [B, horizon].

    A series with the number -1 has none: zeros. Shapes depend on the number of windows only.

    >>> own = torch.tensor([[[1.0, 0.0]], [[0.0, 2.0]]])
    >>> apply_own_maps(own, torch.tensor([[3.0, 4.0]] * 3), torch.tensor([1, -1, 0])).T
    tensor([[8., 0., 3.]])
    """
    series, horizon, lookback = maps.shape
    few = series <= FEW_SERIES
    size = max(1, MAP_BLOCK // (horizon * (series if few else lookback)))
    blocks = []
    for rows, which in zip(past.split(size), numbers.split(size), strict=True):
        if few:
            every = linear(rows, maps.flatten(0, 1)).view(-1, series, horizon)
            mine = which[:, None] == torch.arange(series, device=which.device)
            blocks.append((every * mine.unsqueeze(-1)).sum(1))
        else:
            chosen = torch.bmm(maps[which.clamp(min=0)], rows.unsqueeze(-1)).squeeze(-1)
            blocks.append(chosen.masked_fill((which < 0).unsqueeze(-1), 0.0))
    return torch.cat(blocks)


def run_after_warm_up(stack: Stack, inputs: Tensor, skipped: int, gradient: bool) -> tuple[Tensor, State]:
    """Return outputs and state after the first `skipped` rows; these get gradients only if `gradient`."""
    if not skipped:
        outputs, state = stack(inputs)
        return outputs, state
    with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
        _, state = stack(inputs[:skipped])
    outputs, state = stack(inputs[skipped:], state)
    return outputs, state


class SegmentNetwork(nn.Module):
    """A recurrent network over segments of `segment` rows, after the idea of SegRNN (Lin et al., 2023).

    Each segment of the look-back becomes one vector, so that the cell takes lookback / segment steps. From
    the final state, one step for each segment of the horizon computes all segments in parallel. The input of
    that step is learned: half of it for the position of the segment, half for the series. An error in one
    segment does not affect the next.

    >>> network = SegmentNetwork(lookback=12, horizon=8, width=1, segment=4, hidden_size=16, series=2)
    >>> none = torch.zeros(20, 3, 0)
    >>> network(Window(torch.zeros(12, 3), none, none[:12], torch.tensor([0, 1, -1]))).shape
    torch.Size([8, 3, 1])
    """

    def __init__(
        self,
        lookback: int,
        horizon: int,
        width: int,
        *,
        segment: int,
        hidden_size: int,
        series: int = 1,
        cell: str = "gru",
        known: int = 0,
        past: int = 0,
        output_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if segment > lookback:
            raise InputError("segment", f"is {segment}, longer than the look-back of {lookback}")
        if hidden_size % 2:
            raise InputError(
                "hidden_size",
                f"is {hidden_size}; a segment network needs an even number, which it uses in halves",
            )
        self.horizon, self.width, self.segment = horizon, width, segment
        self.lacking = -lookback % segment
        self.places = -(-horizon // segment)
        self.read = nn.Linear(segment * (1 + known + past), hidden_size)
        self.stack = Stack(cell, hidden_size, hidden_size)
        half = hidden_size // 2
        self.place = nn.Parameter(torch.randn(self.places, half if series > 1 else hidden_size))
        self.series = nn.Parameter(torch.randn(series, half)) if series > 1 else None
        self.future = nn.Linear(segment * known, hidden_size) if known else None
        self.output_dropout = check_probability("output_dropout", output_dropout)
        self.write = nn.Linear(self.stack.output_size, segment * width)

    @property
    def output_layer(self) -> nn.Linear:
        """The last layer."""
        return self.write

    def forward(self, window: Window[Tensor]) -> Tensor:
        """[horizon, B, width]."""
        rows, batch = window.values.shape
        columns = [window.values.unsqueeze(-1), window.known[:rows], window.past]
        _, state = self.stack(self.read(self._segments(torch.cat(columns, dim=-1), before=True)).relu())
        first_state = tuple(tensor.repeat(self.places, 1) for tensor in state)  # [places * B, H]
        written, _ = self.stack(self._segment_inputs(window, rows).flatten(0, 1).unsqueeze(0), first_state)
        outputs: Tensor = self.write(dropout(written[0], self.output_dropout, self.training))
        outputs = outputs.view(self.places, batch, self.segment, self.width).transpose(1, 2)
        return outputs.flatten(0, 1)[: self.horizon]

    def _segment_inputs(self, window: Window[Tensor], rows: int) -> Tensor:
        """The input of the step for each segment of the horizon, [places, B, H]."""
        batch = window.values.shape[1]
        asked = self.place.unsqueeze(1).expand(-1, batch, -1)
        if self.series is not None:
            # A new series gets the mean embedding.
            series = self.series[window.numbers.clamp(min=0)]
            series = torch.where((window.numbers < 0).unsqueeze(-1), self.series.mean(0), series)
            asked = torch.cat([asked, series.expand(self.places, -1, -1)], dim=-1)
        if self.future is not None:
            asked = asked + self.future(
                self._segments(window.known[rows : rows + self.horizon], before=False)
            )
        return asked

    def _segments(self, columns: Tensor, before: bool) -> Tensor:
        """Cut rows [T, B, C] into segments [T / segment, B, segment * C], padded with zeros."""
        lacking = self.lacking if before else -len(columns) % self.segment
        filled = pad(columns, (0, 0, 0, 0, lacking, 0) if before else (0, 0, 0, 0, 0, lacking))
        return filled.view(-1, self.segment, *filled.shape[1:]).transpose(1, 2).flatten(2)

    def graph(self, ops: Ops, window: GraphWindow, rows: int) -> str:
        """Return the outputs in a graph; `rows` is the look-back."""
        read = self._graph_segments(ops, graph_columns(ops, window, rows), self.lacking, 0)
        read = ops.op("Relu", ops.linear(read, self.read.weight, self.read.bias))
        _, state = self.stack.graph(ops, read)
        batch = ops.size(window.values, 1)
        first_state = tuple(ops.op("Tile", value, ops.axes(self.places, 1)) for value in state)
        asked = self._graph_segment_inputs(ops, window, rows, batch)
        asked = ops.op("Reshape", asked, ops.axes(1, -1, self.stack.input_size))
        written, _ = self.stack.graph(ops, asked, first_state)
        outputs = ops.linear(ops.op("Squeeze", written, ops.axes(0)), self.write.weight, self.write.bias)
        outputs = ops.op("Reshape", outputs, ops.sizes(self.places, batch, self.segment, self.width))
        outputs = ops.op("Transpose", outputs, perm=[0, 2, 1, 3])
        outputs = ops.op("Reshape", outputs, ops.sizes(self.places * self.segment, batch, self.width))
        return ops.slice(outputs, 0, self.horizon, 0)

    def _graph_segment_inputs(self, ops: Ops, window: GraphWindow, rows: int, batch: str) -> str:
        place = ops.op("Unsqueeze", ops.weight(self.place), ops.axes(1))
        asked = ops.op("Expand", place, ops.sizes(self.places, batch, self.place.shape[1]))
        if self.series is not None:
            zero = ops.constant(0, "int64")
            series = ops.op("Gather", ops.weight(self.series), ops.op("Max", window.numbers, zero))
            new = ops.op("Unsqueeze", ops.op("Less", window.numbers, zero), ops.axes(-1))
            mean = ops.constant(self.series.detach().float().cpu().numpy().mean(0))
            series = ops.op("Unsqueeze", ops.op("Where", new, mean, series), ops.axes(0))
            series = ops.op("Expand", series, ops.sizes(self.places, batch, self.series.shape[1]))
            asked = ops.op("Concat", asked, series, axis=-1)
        if self.future is not None:
            ahead = ops.slice(window.known, rows, rows + self.horizon, 0)
            ahead = self._graph_segments(ops, ahead, 0, -self.horizon % self.segment)
            asked = ops.op("Add", asked, ops.linear(ahead, self.future.weight, self.future.bias))
        return asked

    def _graph_segments(self, ops: Ops, rows: str, before: int, after: int) -> str:
        filled = ops.op("Pad", rows, ops.axes(before, 0, 0, after, 0, 0)) if before or after else rows
        batch, width = ops.size(rows, 1), ops.size(rows, 2)
        cut = ops.op("Reshape", filled, ops.sizes(-1, self.segment, batch, width))
        flat = ops.op("Mul", width, ops.axes(self.segment))
        return ops.op("Reshape", ops.op("Transpose", cut, perm=[0, 2, 1, 3]), ops.sizes(-1, batch, flat))


def graph_columns(ops: Ops, window: GraphWindow, rows: int) -> str:
    """Join the values and columns of each row of the window: [T, B, 1 + K + P]."""
    columns = [ops.op("Unsqueeze", window.values, ops.axes(-1))]
    if window.known:
        columns.append(ops.slice(window.known, 0, rows, 0))
    if window.past:
        columns.append(window.past)
    return ops.concat(columns)


def _graph_flat(ops: Ops, value: str) -> str:
    """[T, B, K] as [T * K, B]."""
    return ops.op("Reshape", ops.op("Transpose", value, perm=[0, 2, 1]), ops.sizes(-1, ops.size(value, 1)))


def graph_horizon(ops: Ops, outputs: str, horizon: int, width: int) -> str:
    """[B, horizon * width] as [horizon, B, width]."""
    return ops.op("Transpose", ops.op("Reshape", outputs, ops.axes(-1, horizon, width)), perm=[1, 0, 2])
