"""Exponential smoothing: the level, the trend and the season of a series, as the state of a recurrence."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from throughtime.cells.base import Cell, State


class ExponentialSmoothing(Cell):
    r"""Additive exponential smoothing; each unit smooths the input with weights of its own.

    With the error :math:`e_t = x_t - y_{t-1}` of the forecast :math:`y_{t-1} = l + \phi b + s_1`

    .. math:: l' = l + \phi b + \alpha e_t \qquad b' = \phi b + \beta e_t \qquad s_m' = s_1 + \gamma e_t

    and the other seasons move up, :math:`s_i' = s_{i+1}`. Without a season (1), there is no s. The output is
    the forecast of the next input. All is linear in the inputs and the state before them, so forecasts with
    fixed weights are a linear map of the rows that were read.

    >>> cell = ExponentialSmoothing(torch.tensor([[0.5, 0.0, 1.0, 0.0]]))
    >>> outputs, _ = cell(torch.tensor([[[4.0]], [[8.0]]]))
    >>> outputs.flatten()                                       # from a level of 0
    tensor([2., 5.], grad_fn=<ViewBackward0>)
    """

    def __init__(self, weights: Tensor, season: int = 1) -> None:
        """Take the weights [units, 4]: alpha, beta, phi and gamma."""
        units = len(weights)
        super().__init__(1, units, state_sizes=(units,) * 3 + ((units * season,) if season > 1 else ()))
        self.season = season
        self.alpha, self.beta, self.phi, self.gamma = (
            nn.Parameter(column.clone()) for column in weights.unbind(1)
        )

    def project(self, x: Tensor) -> Tensor:
        """Every unit reads the input itself."""
        return x

    def step(self, projected: Tensor, state: State) -> State:
        """Correct the state by the error of its forecast."""
        w = self.weights()
        forecast, level, trend, *seasons = state
        error, trend = projected - forecast, w["phi"] * trend
        level, trend = level + trend + w["alpha"] * error, trend + w["beta"] * error
        forecast = level + w["phi"] * trend
        if not seasons:
            return forecast, level, trend
        units = self.hidden_size
        moved = torch.cat([seasons[0][:, units:], seasons[0][:, :units] + w["gamma"] * error], dim=1)
        return forecast + moved[:, :units], level, trend, moved

    def begin(self, level: Tensor, trend: Tensor, season: Tensor) -> State:
        """Return the state of rows that begin with a level [B], a trend [B] and a season [B, m]."""
        ones = torch.ones_like(self.phi)
        level, trend = level[:, None] * ones, trend[:, None] * ones
        if self.season == 1:
            return level + self.phi * trend, level, trend
        seasons = season[:, :, None] * ones
        return level + self.phi * trend + seasons[:, 0], level, trend, seasons.flatten(1)

    def forecast(self, state: State, horizon: int) -> Tensor:
        """Return the forecasts [B, units, horizon] of the inputs after a state."""
        _, level, trend, *seasons = state
        steps = torch.arange(1, horizon + 1)
        damped = (self.phi[:, None] ** steps).cumsum(1)
        line = level[..., None] + trend[..., None] * damped
        if not seasons:
            return line
        table = seasons[0].unflatten(1, (self.season, self.hidden_size)).transpose(1, 2)
        seasonal: Tensor = line + table[..., (steps - 1) % self.season]
        return seasonal
