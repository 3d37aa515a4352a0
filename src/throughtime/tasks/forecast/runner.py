"""An exported forecaster: forecasts with intervals and paths, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError, check_whole
from throughtime.results import Forecast
from throughtime.runtime.checks import Size
from throughtime.runtime.draws import uniform, whole_seed
from throughtime.runtime.forecast import History, OutputDistribution, interval_ends, read_histories
from throughtime.runtime.session import ExportedModel, ExportFolder
from throughtime.series.scaling import Scale, fill_gaps, fit_power, fit_scale, unscale_forecasts

ROWS_AT_ONCE = 4096
"""Number of series, or of paths of some series, that go through the model together."""
Array = NDArray[Any]
Chances = Callable[[Any], Array]
"""From steps to a random number in [0, 1) for each of them and each row of a window, [..., B]."""


class RunnerWindow(NamedTuple):
    """The last rows of B series, scaled."""

    values: Array  # [T, B]
    known: Array  # [T + rows ahead, B, K]
    past: Array  # [T, B, P]
    numbers: Array  # [B]

    def repeat(self, times: int) -> RunnerWindow:
        """Repeat each series this many times, with copies next to each other."""
        return RunnerWindow(*(np.repeat(each, times, axis=min(1, each.ndim - 1)) for each in self))


Rows = Annotated[int, 1, 1_000_000]


class HeadSettings(TypedDict):
    """How the outputs of an exported forecaster are read."""

    kind: Literal["point", "gaussian", "student", "quantiles"]
    degrees: NotRequired[float]
    probabilities: NotRequired[list[float]]
    centre: NotRequired[Size]


class ForecasterSettings(TypedDict):
    """The settings of an exported forecaster."""

    lookback: Rows
    horizon: Annotated[int, 1, 100_000]
    rows: Rows
    recursive: bool
    stateful: bool
    head: HeadSettings
    paths: Annotated[int, 1, 100_000]
    seed: int
    scaling: Literal["standard", "robust", "none"]
    transform: NotRequired[Literal["log", "box-cox"]]
    scales: dict[str, list[float]]
    numbered: Size
    known: list[list[float]]
    past: list[list[float]]


class SeriesForecasterRunner(ExportedModel):
    """The graphs of an exported forecaster, and the scales of the series that it was trained on."""

    settings_type = ForecasterSettings

    def __init__(self, folder: ExportFolder) -> None:
        super().__init__(folder)
        self.head = OutputDistribution(self.settings["head"])
        self.session = folder.session("model")
        self.step = folder.session("step") if self.settings["stateful"] else None

    def forecast(
        self,
        data: Mapping[str, Sequence[float]] | Sequence[History] | None = None,
        *,
        h: int | None = None,
        level: Sequence[float] = (),
        future: None = None,
        paths: int = 0,
        seed: int | None = None,
        date_format: None = None,
    ) -> list[Forecast]:
        """Forecast the next `h` values of each series, with intervals of these levels in per cent.

        `data` is a dict of values by series name, or a list of `History` with further columns; only the
        trained model reads files. A series of the training data keeps its scale; a new one is scaled by its
        own values.
        """
        for name, value in (("future", future), ("date_format", date_format)):
            if value is not None:
                raise InputError(name, "needs the trained model; give columns in a History")
        if data is None or isinstance(data, str):
            raise InputError("data", "needs the trained model; give values by name, or a list of History")
        h = self.settings["horizon"] if h is None else h
        check_whole("h", h)
        if not self.settings["recursive"] and h > self.settings["horizon"]:
            raise InputError(
                "h", f"is {h}, but the model was trained for {self.settings['horizon']} rows at once"
            )
        if paths and not self.head.probabilistic:
            raise InputError("paths", "need a model with a distribution; this one forecasts points only")
        given, probabilities = read_histories(data), interval_ends(level)
        wanted = bool(probabilities) and self.head.probabilistic
        # The quantiles of a recursive model are those of its paths.
        num_paths = max(paths, self.settings["paths"] if wanted and self.settings["recursive"] else 0)
        seed = whole_seed(self.settings["seed"] if seed is None else seed)
        found: list[Forecast] = []
        at_once = max(1, ROWS_AT_ONCE // max(1, num_paths))
        for first in range(0, len(given), at_once):
            histories = given[first : first + at_once]
            scales = [self._scale(one) for one in histories]
            window = self._window(histories, scales, h)
            mean, samples = self._rollout(window, h, None), None
            if num_paths:
                rows = window.repeat(num_paths)
                samples = self._rollout(rows, h, _draw_chances(seed, first, len(histories), num_paths))
                samples = samples.reshape(h, len(histories), num_paths)
            quantiles = self._quantiles(window, h, samples, probabilities) if wanted else ()
            found += unscale_forecasts(
                [one.unique_id for one in histories],
                scales,
                mean,
                dict(zip(probabilities, quantiles, strict=False)),
                samples[:, :, :paths] if paths and samples is not None else None,
                [None] * len(histories),
            )
        return found

    def _quantiles(
        self, window: RunnerWindow, h: int, samples: Array | None, asked: Sequence[float]
    ) -> Array:
        """The scaled quantiles [probabilities, h, B]: of the paths, or of the head."""
        if self.settings["recursive"]:
            assert samples is not None
            return np.quantile(samples, asked, axis=2)
        outputs, offset, spread = self._run_window(window, 0)
        found: Array = self.head.quantiles(outputs, asked)[:, :h] * spread + offset
        return found

    def _rollout(self, window: RunnerWindow, h: int, chances: Chances | None) -> Array:
        """The next `h` scaled values [h, B]: means, or draws if `chances` is given."""

        def choose(outputs: Array, steps: Any) -> Array:
            return self.head.mean(outputs) if chances is None else self.head.draw(outputs, chances(steps))

        if self.step is not None:
            return self._stateful(window, h, choose)
        if not self.settings["recursive"]:
            outputs, offset, spread = self._run_window(window, 0)
            direct: Array = choose(outputs, np.arange(len(outputs))[:, None]) * spread + offset
            return direct[:h]
        chosen = []
        for step in range(h):
            outputs, offset, spread = self._run_window(window, step)
            chosen.append((choose(outputs[0], step) * spread + offset).astype(np.float32))
            window = window._replace(values=np.concatenate([window.values[1:], chosen[-1][None]]))
        return np.stack(chosen)

    def _run_window(self, window: RunnerWindow, step: int) -> list[Array]:
        """Run the graph on the window at a step: outputs of the next rows, and the level of the window."""
        given = {"values": window.values, "past": window.past, "numbers": window.numbers}
        given["known"] = window.known[step : step + len(window.values) + self.settings["rows"]]
        return self.session.run(
            ["outputs", "offset", "spread"], self._select_inputs(self.session.inputs, given)
        )

    def _stateful(self, window: RunnerWindow, h: int, choose: Any) -> Array:
        assert self.step is not None
        rows, known = len(window.values), window.known
        names = self.session.sort_numbered("state", self.session.outputs)
        given = self._select_inputs(
            self.session.inputs, {"values": window.values, "known": known[1 : rows + 1]}
        )
        outputs, offset, spread, *state = self.session.run(["outputs", "offset", "spread", *names], given)
        nexts, chosen = self.step.sort_numbered("next", self.step.outputs), []
        for step in range(h):
            value = choose(outputs, step).astype(np.float32)
            chosen.append(value * spread + offset)
            if step < h - 1:
                given = {
                    "value": value,
                    "known": known[rows + step + 1],
                    **dict(zip(names, state, strict=True)),
                }
                outputs, *state = self.step.run(
                    ["outputs", *nexts], self._select_inputs(self.step.inputs, given)
                )
        return np.stack(chosen)

    def _select_inputs(self, names: Sequence[str], given: Mapping[str, Array]) -> dict[str, Array]:
        """Select the inputs of a graph."""
        return {name: np.ascontiguousarray(given[name]) for name in names}

    def _scale(self, history: History) -> Scale:
        known = self.settings["scales"].get(history.unique_id)
        if known is not None:
            return Scale(*known)
        values = np.array(history.y, dtype=float)
        power = fit_power(history.unique_id, values, self.settings.get("transform", "none"))
        return fit_scale(history.unique_id, values, self.settings["scaling"], power)

    def _window(self, histories: Sequence[History], scales: Sequence[Scale], h: int) -> RunnerWindow:
        lookback = self.settings["lookback"]
        ahead = h if self.settings["recursive"] else self.settings["horizon"]
        numbers = {
            name: place
            for place, name in enumerate(self.settings["scales"])
            if place < self.settings["numbered"]
        }
        values, known, past = [], [], []
        for one, scale in zip(histories, scales, strict=True):
            if len(one.y) < lookback:
                raise InputError(
                    f"series {one.unique_id!r}",
                    f"has {len(one.y)} values, but a forecast needs {lookback}; give more values",
                )
            values.append(fill_gaps(scale.apply(np.array(one.y, dtype=float)))[-lookback:])
            columns = _scaled_columns(one, "known", self.settings["known"], len(one.y) + h)
            missing = max(0, len(one.y) + ahead - len(columns))  # rows beyond h, which are not used
            columns = np.pad(columns, ((0, missing), (0, 0)), mode="edge")
            known.append(columns[len(one.y) - lookback : len(one.y) + ahead])
            before = _scaled_columns(one, "past", self.settings["past"], len(one.y))[: len(one.y)]
            past.append(before[-lookback:])
        return RunnerWindow(
            np.stack(values, axis=1).astype(np.float32),
            np.stack(known, axis=1).astype(np.float32),
            np.stack(past, axis=1).astype(np.float32),
            np.array([numbers.get(one.unique_id, -1) for one in histories]),
        )


def _draw_chances(seed: int, first: int, series: int, paths: int) -> Chances:
    """Random numbers that depend on the seed, the number of the series, its path and the step only."""
    numbers, places = np.divmod(np.arange(series * paths), paths)
    return lambda steps: uniform(seed, steps, numbers + first, places)


def _scaled_columns(history: History, role: str, scales: Sequence[Sequence[float]], rows: int) -> Array:
    """Scaled columns [rows or more, K] with filled gaps."""
    table = history.columns(role, len(scales), rows)
    centres, spreads = np.array(scales, dtype=float).reshape(-1, 2).T
    return fill_gaps((table - centres) / spreads)
