"""A forecaster with its series' scales and the settings that made it: trained, judged, saved, asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from throughtime.data.batching.panel import PanelArrays, PanelBatches, PanelWindows
from throughtime.data.datasets import open_dataset
from throughtime.data.frequency import spelled
from throughtime.data.panel import Panel, Series
from throughtime.data.panel_scaling import PanelScaling
from throughtime.data.readers.panel import panel_of, read_future
from throughtime.data.scaling import Scale
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.models.forecast_networks import Window
from throughtime.models.forecaster import Forecaster
from throughtime.models.weights import named_weights
from throughtime.tasks.forecast_config import ForecastConfig
from throughtime.tasks.forecast_task import window_of
from throughtime.tasks.forecasts import Forecast
from throughtime.tasks.report import Asked, Progress, Report, refuse_others
from throughtime.train.devices import products

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TASK = "forecast"
SERIES_FILE = "series.json"
ROWS_AT_ONCE = 4_096


class JudgedWindows(NamedTuple):
    """One batch of windows: which series, errors in scaled units [h, B], and which of them count."""

    series: NDArray[np.int64]
    starts: NDArray[np.int64]
    errors: NDArray[np.float64]
    weights: NDArray[np.float64]


class TrainedForecaster:
    """A model with the scales of its series. `name` heads the columns of what it forecasts."""

    def __init__(self, model: Forecaster, scaling: PanelScaling, config: ForecastConfig) -> None:
        self.model, self.scaling, self.config = model, scaling, config
        self.name: str = config.model
        self.notes: tuple[str, ...] = ()

    def forecast(
        self,
        data: str | Panel | None = None,
        h: int | None = None,
        level: Sequence[float] = (),
        future: str | Path | Panel | None = None,
        paths: int = 0,
    ) -> list[Forecast]:
        """The same as the command: after the data of training or others, with the head's own intervals.

        The interval of level 80 lies between the quantiles 0.1 and 0.9.
        """
        if not isinstance(data, Panel):
            data = panel_of(open_dataset(data or self.config.data), self.config.roles)
        if isinstance(future, str | Path):
            future = read_future(future, self.config.known)
        probabilities = sorted({round(0.5 + side * each / 200, 10) for each in level for side in (-1, 1)})
        return self.predict(data, h or self.model.horizon, probabilities, paths, future)

    @torch.no_grad()
    def predict(
        self,
        panel: Panel,
        h: int,
        probabilities: Sequence[float] = (),
        paths: int = 0,
        future: Panel | None = None,
    ) -> list[Forecast]:
        """The next `h` rows of each series; a point head has no quantiles, whatever is asked.

        A recursive model draws whole paths, and its quantiles are theirs. The head of a direct model knows
        each row's distribution but not how rows hang together: its paths are drawn row by row, so that sums
        and extremes over them are narrower than they ought to be.
        """
        if h < 1:
            raise InputError("--h", f"is {h}, expected 1 or more")
        self._check(panel)
        for one in panel.series:
            if len(one) < self.model.lookback:
                raise InputError(
                    f"series {one.unique_id!r}",
                    f"has {len(one):,} rows, a forecast looks back on {self.model.lookback}; give more rows",
                )
        scales = [self.scaling.scale(one, self.config.scaling) for one in panel.series]
        arrays = self.scaling.arrays(panel, scales)
        future_columns = [self._future(panel, one, h, future) for one in panel.series]
        self.model.eval()
        forecasts: list[Forecast] = []
        # Draws of paths are rows too: so many series at once that all their rows fit.
        drawn = max(paths, self._draws(probabilities))
        at_once = max(1, ROWS_AT_ONCE // max(1, drawn))
        generator = torch.Generator(self.device).manual_seed(self.config.seed)
        with products("float32"):
            for first in range(0, len(panel.series), at_once):
                chosen = range(first, min(first + at_once, len(panel.series)))
                window = self._window(arrays, chosen, future_columns)
                found = self._asked(window, h, probabilities, paths, generator)
                for place, number in enumerate(chosen):
                    one = panel.series[number]
                    forecasts.append(_forecast(one, panel.after(one, h), scales[number], found, place))
        return forecasts

    def k_step_errors(
        self, panel: Panel, steps: Sequence[int] = (1, 4, 16, 64), split: str = "valid"
    ) -> dict[int, float]:
        """The root of the mean squared error so many steps ahead, in the series' own units.

        Every window of the split counts whose last step lies in it; further ahead than one step a recursive
        model feeds on its own forecasts.
        """
        windows, scales = self.windows(panel, split, max(steps))
        spreads = np.array([scale.spread for scale in scales])
        squared, counted = np.zeros(max(steps)), np.zeros(max(steps))
        for one in self.judged_windows(windows):
            squared += ((one.errors * spreads[one.series]) ** 2 * one.weights).sum(axis=1)
            counted += one.weights.sum(axis=1)
        return {step: float(np.sqrt(squared[step - 1] / counted[step - 1])) for step in steps}

    def windows(self, panel: Panel, split: str, horizon: int) -> tuple[PanelWindows, list[Scale]]:
        """All windows of a split, and the scale of each series."""
        self._check(panel)
        config = self.config
        lengths = [len(one) for one in panel.series]
        parts, training = (config.timeline.part_of_each(each, lengths) for each in (split, "train"))
        names = [one.unique_id for one in panel.series]
        self.scaling.adopt(panel, dict(zip(names, training, strict=True)), config.scaling)
        scales = [self.scaling.series[one.unique_id] for one in panel.series]
        found = PanelWindows(self.scaling.arrays(panel, scales), parts, self.model.lookback, horizon)
        if not len(found):
            rows = max(len(part) for part in parts)
            raise InputError(
                f"split {split}",
                f"has {rows:,} rows, too few for a horizon of {horizon} after {self.model.lookback}",
            )
        return found, scales

    @torch.no_grad()
    def judged_windows(
        self, windows: PanelWindows, progress: Progress | None = None
    ) -> Iterator[JudgedWindows]:
        """How far off the mean forecast of each window is, batch by batch."""
        self.model.eval()
        batches = PanelBatches(windows, ROWS_AT_ONCE // 4, shuffle=False)
        with products("float32"):
            for number, batch in enumerate(batches, start=1):
                batch = batch.to(self.device)
                mean = self.model.rollout(window_of(batch), windows.horizon, self.model.head.mean)
                errors = (mean - batch.values[-windows.horizon :]).double().cpu().numpy()
                weights = batch.weights[-windows.horizon :].double().cpu().numpy()
                indices = batch.indices.cpu().numpy()
                yield JudgedWindows(windows.series[indices], windows.starts[indices], errors, weights)
                if progress is not None:
                    progress(number, len(batches.plan()))

    def report(self, dataset: Dataset, split: str, asked: Asked, progress: Progress | None = None) -> Report:
        """What `throughtime evaluate` shows of a split: every window, beside naive forecasts of the same."""
        from throughtime.tasks.forecast_report import report_of

        refuse_others(asked, (), "is for models of text, and this run forecasts")
        return report_of(self, dataset, split, progress)

    def sample(self, windows: PanelWindows, shown: int) -> str:
        """The first values of the first window, and what is forecast, in the series' own units."""
        arrays, start, number = windows.arrays, int(windows.starts[0]), int(windows.series[0])
        batch = PanelBatches(windows, 1, shuffle=False)
        window = window_of(next(iter(batch)).to(self.device))
        with torch.no_grad():
            mean = self.model.rollout(window, windows.horizon, self.model.head.mean)[:shown, 0]
        forecast = mean.double().cpu().numpy()
        name = arrays.names[number]
        scale = self.scaling.series[name]
        true = arrays.values[start + windows.lookback :][: len(forecast)].astype(np.float64)
        told = (" ".join(f"{value:.4g}" for value in scale.undone(each)) for each in (true, forecast))
        return f"{name}: " + " → ".join(told)

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        config = self.config
        weights = sum(weight.numel() for weight in self.model.parameters())
        cell = f" {config.cell} of {config.hidden_size}" if config.model in ("recurrent", "segment") else ""
        series = f"{len(self.scaling.series)} series" if len(self.scaling.series) > 1 else "1 series"
        return (
            f"{config.data}: {series}, {config.model}{cell}, {config.strategy}, look-back {config.lookback}, "
            f"horizon {config.horizon}, head {config.head}, {weights:,} weights"
        )

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights."""
        folder.write_config(TASK, self.config.model_dump(mode="json"))
        folder.write_json(SERIES_FILE, self.scaling.to_values())

    def save_weights(self, folder: ModelFolder) -> None:
        """Write the weights, whole or not at all."""
        weights = named_weights(self.model)
        folder.write_tensors({name: weight.detach().cpu().numpy() for name, weight in weights.items()})

    def card(self, values: Mapping[str, Any]) -> str:
        """README.md of the model folder."""
        config = self.config
        best = ", ".join(f"{name} {value:.4g}" for name, value in values["best"].items())
        step = self.scaling.frequency or "position"
        helping = ", ".join((*config.known, *config.past, *(["calendar"] if config.calendar else [])))
        return f"""# Forecasts of {config.data}

Model `{config.model}`, {config.strategy}, head `{config.head}`, made by throughtime.

| | |
|---|---|
| data | {config.data}: {len(self.scaling.series)} series, a row each {step} |
| window | {config.lookback} rows back, {config.horizon} ahead |
| scaling | {config.scaling} of each series, {config.normalise} of each window |
| columns that help | {helping or "none"} |
| weights | {values["parameters"]:,} |
| training | {values["epochs"]} epochs, {values["steps"]:,} updates, seed {config.seed}, {values["device"]} |
| validation, scaled | {best or "not measured"} |

    throughtime forecast FOLDER --h {config.horizon} --level 80 --level 95
    throughtime evaluate FOLDER --split test

In Python: `throughtime.load("FOLDER").forecast(h={config.horizon}, level=[80])`. The settings are in
config.json, the scales of the series in {SERIES_FILE}.
"""

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.model.parameters()).device

    def _check(self, panel: Panel) -> None:
        self.scaling.check(panel)
        wanted = (self.config.known, self.config.past)
        if (panel.known_names, panel.past_names) != wanted:
            raise InputError(
                "panel", f"has the columns {panel.known_names} and {panel.past_names}, not {wanted}"
            )

    def _draws(self, probabilities: Sequence[float]) -> int:
        drawn = self.model.recursive and self.model.head.probabilistic and probabilities
        return self.config.paths if drawn else 0

    def _window(self, arrays: PanelArrays, chosen: range, future: list[NDArray[np.float32]]) -> Window:
        """The last rows of some series, side by side."""
        ends = arrays.offsets[1:][list(chosen)]
        places = ends + np.arange(-self.model.lookback, 0)[:, None]
        known = np.concatenate([arrays.known[places], np.stack([future[each] for each in chosen], axis=1)])
        made = (arrays.values[places], known, arrays.past[places], arrays.numbers[list(chosen)])
        return Window(*(torch.from_numpy(np.ascontiguousarray(each)).to(self.device) for each in made))

    def _future(self, panel: Panel, series: Series, h: int, future: Panel | None) -> NDArray[np.float32]:
        """The columns known in the future, over the rows to forecast."""
        rows = h if self.model.recursive else max(h, self.model.horizon)
        ds = panel.after(series, rows)
        known = np.full((rows, len(self.config.known)), np.nan)
        if self.config.known:
            if future is None:
                raise InputError(
                    "--future",
                    f"is missing: the model needs {', '.join(self.config.known)} of the rows to forecast",
                )
            given = _of_series(future, series)
            _, here, there = np.intersect1d(ds, given.ds, return_indices=True)
            known[here] = given.known[there]
            absent = np.flatnonzero(np.isnan(known[:h]).any(axis=1))
            if len(absent):
                raise InputError(
                    "--future",
                    f"lacks {', '.join(self.config.known)} of series {series.unique_id!r} "
                    f"at {spelled(ds)[absent[0]]}",
                )
        return self.scaling.columns(known, ds).astype(np.float32)

    def _asked(
        self, window: Window, h: int, probabilities: Sequence[float], paths: int, generator: torch.Generator
    ) -> _Answer:
        model, head = self.model, self.model.head
        mean = model.rollout(window, h, head.mean)
        drawn = max(paths, self._draws(probabilities))
        samples = quantiles = None
        if drawn:
            repeated = model.rollout(
                window.repeated(drawn), h, lambda said: head.draw(said.float(), generator)
            )
            samples = repeated.unflatten(1, (-1, drawn))  # [h, B, paths]
        if probabilities and head.probabilistic and samples is not None and model.recursive:
            points = torch.tensor(probabilities, dtype=samples.dtype, device=samples.device)
            quantiles = torch.quantile(samples, points, dim=2)
        elif probabilities and head.probabilistic:
            _, said, level = model.said(window)
            quantiles = level.given_back(head.quantiles(said.float(), probabilities))[:, :h]
        return _Answer(
            mean,
            tuple(probabilities),
            quantiles,
            samples[:, :, :paths] if paths and samples is not None else None,
        )


class _Answer(NamedTuple):
    """What the model says of the series of one batch, scaled."""

    mean: Tensor  # [h, B]
    probabilities: tuple[float, ...]
    quantiles: Tensor | None  # [probabilities, h, B]
    samples: Tensor | None  # [h, B, paths]


def _forecast(series: Series, ds: Any, scale: Scale, answer: _Answer, place: int) -> Forecast:
    def own(values: Tensor) -> NDArray[np.float64]:
        return scale.undone(values.double().cpu().numpy())

    quantiles = {}
    if answer.quantiles is not None:
        found = own(answer.quantiles[:, :, place])
        quantiles = dict(zip(answer.probabilities, found, strict=True))
    samples = None if answer.samples is None else own(answer.samples[:, place].T)
    return Forecast(series.unique_id, ds, own(answer.mean[:, place]), quantiles, samples)


def _of_series(future: Panel, series: Series) -> Series:
    """The rows of a series to come; a table that names no series holds for all."""
    found = future.by_name().get(series.unique_id)
    if found is None and len(future.series) == 1:
        found = future.series[0]
    if found is None:
        raise InputError("--future", f"has no rows of series {series.unique_id!r}")
    return found
