"""A long past read segment by segment, a long horizon written segment by segment, all of them at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, pad

from throughtime.errors import InputError
from throughtime.layers.dropout import check_probability
from throughtime.layers.stack import Stack
from throughtime.tasks.forecast.networks import Window


class SegmentNetwork(nn.Module):
    """A recurrent network over segments of `segment` rows, after the idea of SegRNN (Lin et al., 2023).

    A segment of the look-back becomes one vector, so that a cell takes lookback / segment steps instead of
    lookback. From the state that it reaches, one more step for each segment of the horizon writes them in
    parallel: its input is learned, half of it for the place of the segment, half for the series. So an error
    in one segment does not enter the next.

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
            raise InputError("hidden_size", f"is {hidden_size}; a segment network shares it in halves")
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

    def forward(self, window: Window) -> Tensor:
        """[horizon, B, width]."""
        rows, batch = window.values.shape
        columns = [window.values.unsqueeze(-1), window.known[:rows], window.past]
        _, state = self.stack(self.read(self._segments(torch.cat(columns, dim=-1), before=True)).relu())
        begun = tuple(part.repeat(self.places, 1) for part in state)  # [places * B, H]
        written, _ = self.stack(self._asked(window, rows).flatten(0, 1).unsqueeze(0), begun)
        said: Tensor = self.write(dropout(written[0], self.output_dropout, self.training))
        said = said.view(self.places, batch, self.segment, self.width).transpose(1, 2)
        return said.flatten(0, 1)[: self.horizon]

    def _asked(self, window: Window, rows: int) -> Tensor:
        """The input of each segment to be written, [places, B, H]."""
        batch = window.values.shape[1]
        asked = self.place.unsqueeze(1).expand(-1, batch, -1)
        if self.series is not None:
            # A series that training did not see is taken for the mean of those that it saw.
            own = self.series[window.numbers.clamp(min=0)]
            own = torch.where((window.numbers < 0).unsqueeze(-1), self.series.mean(0), own)
            asked = torch.cat([asked, own.expand(self.places, -1, -1)], dim=-1)
        if self.future is not None:
            asked = asked + self.future(
                self._segments(window.known[rows : rows + self.horizon], before=False)
            )
        return asked

    def _segments(self, columns: Tensor, before: bool) -> Tensor:
        """Rows [T, B, C] as segments [T / segment, B, segment * C]; where T falls short, with zeros."""
        lacking = self.lacking if before else -len(columns) % self.segment
        filled = pad(columns, (0, 0, 0, 0, lacking, 0) if before else (0, 0, 0, 0, 0, lacking))
        return filled.view(-1, self.segment, *filled.shape[1:]).transpose(1, 2).flatten(2)
