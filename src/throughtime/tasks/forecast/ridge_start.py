"""A forecaster that begins as a ridge regression: its look-back and its first forecasts are those of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from throughtime.data.batching.series import PanelWindows
from throughtime.data.panel import Panel, PanelArrays
from throughtime.errors import InputError
from throughtime.series.lookback import OFFSETS, SECONDS, RidgeChoice, choose_ridge, lookbacks_to_try
from throughtime.series.panels import PanelScaling
from throughtime.series.trials import Offset
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.network import DirectForecaster

NEEDED: dict[str | None, Sequence[Offset]] = {
    None: OFFSETS,
    "last": ("last",),
    "mean": ("mean",),
    # Dividing a window by its deviation, and multiplying its forecast by it, does not change a linear map.
    "standard": ("mean",),
    "none": ("none",),
}
"""What a ridge regression subtracts from a window, by the setting `normalise`."""
MAX_ERRORS = 2_000_000
"""Number of errors from which the first spread of the forecasts is estimated."""
BLOCK = 2**22
"""Number of values of the windows that are forecast at once for that."""
GIVEN_SECONDS = 60.0
"""Time to fit regressions with a look-back that is set."""
TIME_SHARE = 0.25
"""The part of the `minutes` that may be spent on linear forecasts."""


def choose_window(
    config: ForecastConfig, panel: Panel, scaling: PanelScaling
) -> tuple[ForecastConfig, RidgeChoice | None]:
    """Choose the look-back, the normalisation and the channels, where they are null, by ridge regressions.

    Without enough rows for one, they are left as they are, and a highway is trained with the network.
    """
    if config.lookback is not None and config.normalise is not None and not config.corrects:
        return config, None
    assert config.horizon is not None
    training, validation = (config.timeline.part_of_each(split, panel) for split in ("train", "valid"))
    rows = [len(part) for part in training]
    seconds = SECONDS if config.lookback is None else GIVEN_SECONDS
    seconds = seconds if config.minutes is None else TIME_SHARE * 60 * config.minutes
    lookbacks = [config.lookback] if config.lookback else []
    lookbacks = lookbacks or lookbacks_to_try(config.season, config.horizon, rows, seconds)
    choice = choose_ridge(
        _scale_series(panel, scaling),
        training,
        validation,
        lookbacks,
        config.horizon,
        NEEDED[config.normalise],
        config.season,
        config.channels if config.corrects else "shared",
        seconds,
    )
    if choice is None:
        if config.corrects and config.channels == "own":
            raise InputError(
                "channels",
                f"is own, but {max(rows):,} training rows are too few, or the time too short, to fit maps of "
                f"{max(lookbacks, default=0):,} rows back and {config.horizon:,} ahead; set shared",
            )
        highway = "trained" if config.highway == "ridge" else config.highway
        return config.model_copy(update={"highway": highway, "channels": "shared"}), None
    updates = {
        "lookback": choice.lookback,
        "normalise": config.normalise or choice.normalise,
        "channels": "shared" if choice.changes is None else "own",
    }
    return config.model_copy(update=updates), choice


def start_from_ridge(
    model: DirectForecaster, scaling: PanelScaling, config: ForecastConfig, panel: Panel
) -> None:
    """Set the first weights of a model to the ridge regression, with the spread of its training errors."""
    choice, arrays = scaling.ridge, _build_arrays(panel, scaling)
    assert choice is not None
    windows = PanelWindows(
        arrays, config.timeline.part_of_each("train", panel), model.lookback, model.horizon
    )
    count = max(2, MAX_ERRORS // model.horizon)
    chosen = np.unique(np.linspace(0, len(windows) - 1, min(count, len(windows))).astype(int))
    weights = torch.from_numpy(choice.weights.T).float()
    own = None if choice.changes is None else torch.from_numpy(choice.changes).float().transpose(1, 2)

    def read_blocks() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for part in np.array_split(chosen, -(-len(chosen) * windows.length // BLOCK)):
            rows = windows.starts[part] + np.arange(windows.length)[:, None]
            numbers = arrays.numbers[windows.series[part]]
            yield torch.from_numpy(arrays.values[rows]), torch.from_numpy(numbers)

    squares = None if choice.squares is None else torch.from_numpy(choice.squares).float()
    model.start_from(weights, read_blocks(), own, squares)


def _scale_series(panel: Panel, scaling: PanelScaling) -> list[np.ndarray]:
    arrays = _build_arrays(panel, scaling)
    cuts = zip(arrays.offsets[:-1], arrays.offsets[1:], strict=True)
    return [arrays.values[first:last].astype(np.float64) for first, last in cuts]


def _build_arrays(panel: Panel, scaling: PanelScaling) -> PanelArrays:
    return scaling.arrays(panel, [scaling.series[one.unique_id] for one in panel.series])
