"""An exported forecaster: forecasts with intervals and paths, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from throughtime.data.panel import Window
from throughtime.errors import InputError
from throughtime.results import Forecast
from throughtime.runtime.checks import Size
from throughtime.runtime.forecast import OutputDistribution, WindowLevel, WindowReading, interval_ends
from throughtime.runtime.session import ExportedModel, ExportFolder, Session
from throughtime.series.panels import PanelScaling
from throughtime.series.scaling import Transform
from throughtime.tasks.forecast.pipeline import ForecastPipeline, PlainSeries, build_panels

Array = NDArray[Any]
Rows = Annotated[int, 1, 1_000_000]


class DistributionSettings(TypedDict):
    """How the outputs of an exported forecaster are read."""

    kind: Literal["point", "gaussian", "student", "quantiles"]
    degrees: NotRequired[float]
    probabilities: NotRequired[list[float]]
    centre: NotRequired[Size]


class ColumnNames(TypedDict):
    """The columns that a forecaster reads."""

    known: list[str]
    past: list[str]


class ForecasterSettings(TypedDict):
    """The settings of an exported forecaster."""

    lookback: Rows
    horizon: Annotated[int, 1, 100_000]
    rows: Rows
    recursive: bool
    stateful: bool
    distribution: DistributionSettings
    paths: Annotated[int, 1, 100_000]
    seed: int
    scaling: Literal["standard", "robust", "none"]
    transform: NotRequired[Literal["log", "box-cox"]]
    outliers: NotRequired[Literal["keep"]]
    scales: dict[str, list[float | None]]
    numbered: Size
    pads: NotRequired[Annotated[int, 1, 1_000_000]]
    names: ColumnNames
    known: list[list[float]]
    past: list[list[float]]


class SeriesForecasterRunner(ForecastPipeline, ExportedModel):
    """The graphs of an exported forecaster, and the scales of the series that it was trained on."""

    settings_type = ForecasterSettings
    name = "forecaster"

    def __init__(self, folder: ExportFolder) -> None:
        super().__init__(folder)
        settings: ForecasterSettings = self.settings  # type: ignore[assignment]
        self.lookback, self.horizon, self.rows = settings["lookback"], settings["horizon"], settings["rows"]
        self.recursive, self.paths, self.seed = settings["recursive"], settings["paths"], settings["seed"]
        self.known, self.past = tuple(settings["names"]["known"]), tuple(settings["names"]["past"])
        scales = {**settings, "series": settings["scales"], "frequency": None, "calendar": False}
        transform: Transform = settings.get("transform", "none")
        where = str(folder.path / "export.json")
        self.scaling = PanelScaling.from_values(
            scales, where, settings["scaling"], transform, settings.get("outliers", "replace")
        )
        self.pads = settings.get("pads", 0)
        self._distribution = OutputDistribution(settings["distribution"])
        self.session = folder.session("model")
        self.step = folder.session("step") if settings["stateful"] else None

    @property
    def distribution(self) -> OutputDistribution:
        """How outputs are read."""
        return self._distribution

    def forecast(
        self,
        data: PlainSeries | None = None,
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
        panel, known = build_panels(data, self.known, self.past)
        probabilities = interval_ends(level)
        rows = self.horizon if h is None else h
        return self.predict(panel, rows, probabilities, paths=paths, future=known, seed=seed)

    def compute(self, window: Window[Array]) -> WindowReading:
        """Run the graph on a window of scaled values."""
        ahead = self.lookback + self.rows
        values = window._asdict()
        values["known"] = window.known[1 : self.lookback + 1] if self.step else window.known[:ahead]
        states = self.session.sort_numbered("state", self.session.outputs)
        outputs, offset, spread, *state = _run(self.session, ["outputs", "offset", "spread", *states], values)
        level = WindowLevel(offset, spread)
        if self.step:
            return WindowReading(
                outputs, level, (dict(zip(states, state, strict=True)), window.known[self.lookback + 1 :])
            )
        return WindowReading(outputs[0] if self.recursive else outputs, level, (window, level))

    def read_row(self, reading: WindowReading, value: Array) -> WindowReading:
        """Run the graph on the value that was chosen for the next row."""
        if self.step is None:
            window, level = reading.memory
            values = np.concatenate([window.values[1:], level.restore(value)[None]])
            return self.compute(window._replace(values=values, known=window.known[1:]))
        state, known = reading.memory
        nexts = self.step.sort_numbered("next", self.step.outputs)
        outputs, *reached = _run(self.step, ["outputs", *nexts], {"value": value, "known": known[0], **state})
        return WindowReading(outputs, reading.level, (dict(zip(state, reached, strict=True)), known[1:]))


def _run(session: Session, outputs: Sequence[str], values: dict[str, Array]) -> list[Array]:
    """Run a graph on those of the values that it reads."""
    return session.run(outputs, {name: np.ascontiguousarray(values[name]) for name in session.inputs})
