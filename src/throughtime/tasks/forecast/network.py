"""The network of a forecaster, and its graphs: one for a window, and one for a step of a recurrent state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from throughtime.data.panel import Window
from throughtime.errors import InputError
from throughtime.graphs.graph import Graph
from throughtime.graphs.write import Case, ModelExport, number_names
from throughtime.layers.devices import matmul_precision
from throughtime.layers.stack import Stack
from throughtime.models.forecast_heads import ForecastHead, GaussianHead, PointHead, QuantileHead, StudentHead
from throughtime.models.forecasters import DirectForecaster, Forecaster, NetworkForecaster
from throughtime.models.recursive_forecasters import LatentAutoregression, RecursiveForecaster
from throughtime.models.window_networks import NoNetwork, RecurrentNetwork, SegmentNetwork, WindowNetwork
from throughtime.runtime.forecast import OutputDistribution, WindowLevel, WindowReading
from throughtime.series.conformal import load_intervals
from throughtime.series.panels import PanelScaling, last_rows, to_plain
from throughtime.tasks.forecast.config import ForecastConfig
from throughtime.tasks.forecast.pipeline import Array, ForecastPipeline

if TYPE_CHECKING:
    from throughtime.tasks.forecast.model import SeriesForecaster

Built = TypeVar("Built")
BATCHES = (1, 3, 17)
FLOAT_DIGITS = 7
PAGE_ROWS = 200
"""Rows of the first series that a page holds, or more if a forecast needs more."""


def build_forecaster(config: ForecastConfig, scaling: PanelScaling) -> Forecaster:
    """Build the network that a configuration describes."""
    head, recursive = _head(config), config.strategy == "recursive"
    sizes = {"width": head.width, "known": scaling.known_columns, "past": len(config.past)}

    def build(kind: Callable[..., Built], **arguments: Any) -> Built:
        return kind(**{**config.arguments_for(kind), **arguments})

    if config.model == "recurrent":
        inputs = 1 + sizes["known"] + sizes.pop("past")
        stack = Stack(
            config.cell, inputs, config.hidden_size, config.num_layers, dropout=config.hidden_dropout
        )
        shared = {"stack": stack, "warm_up": config.warm_up or 0}
        if recursive:
            return build(LatentAutoregression, head=head, **shared)
        network: nn.Module = build(RecurrentNetwork, **shared, **sizes)
    elif config.model == "smoothing":
        network = build(NoNetwork, width=head.width)
    elif config.model == "segment":
        network = build(SegmentNetwork, series=scaling.numbered, **sizes)
    else:
        hidden_sizes = (config.hidden_size,) * config.num_layers if config.model == "mlp" else ()
        horizon = 1 if recursive else config.horizon
        network = build(WindowNetwork, horizon=horizon, hidden_sizes=hidden_sizes, **sizes)
    if recursive:
        return build(RecursiveForecaster, network=network, head=head)
    # A linear model is a linear map already.
    highway = "none" if config.model == "linear" else config.highway
    own_maps = scaling.numbered if config.channels == "own" else 0
    return build(
        DirectForecaster,
        network=network,
        head=head,
        highway=highway,
        own_maps=own_maps,
        own_spreads=config.model == "smoothing",
    )


def _head(config: ForecastConfig) -> ForecastHead:
    if config.head == "point":
        return PointHead(config.loss)
    if config.head == "quantiles":
        return QuantileHead(config.probabilities)
    return GaussianHead() if config.head == "gaussian" else StudentHead()


class NetworkPipeline(ForecastPipeline):
    """The pipeline of a trained network: arrays become tensors on its device, and its outputs arrays."""

    model: Forecaster

    @property
    def distribution(self) -> OutputDistribution:
        """How the outputs of the network are read."""
        return OutputDistribution(self.model.head.settings())

    def compute(self, window: Window[Array]) -> WindowReading:
        """Run the network on a window of scaled values."""
        tensors = Window(*(self._to_tensor(table) for table in window))
        return self._read(lambda: self.model.eval().compute(tensors))

    def read_row(self, reading: WindowReading, value: Array) -> WindowReading:
        """Run the network on the value that was chosen for the next row."""
        return self._read(lambda: self.model.read_row(reading.memory, self._to_tensor(value)))

    @torch.no_grad()
    def _read(self, run: Callable[[], WindowReading]) -> WindowReading:
        """Return in arrays what the network says, with the tensors as memory."""
        with matmul_precision("float32"):
            reading = run()
            values = self.model.head.describe_values(reading.outputs.float()).cpu().numpy()
        offset, spread = (None if each is None else each.cpu().numpy() for each in reading.level)
        return WindowReading(values, WindowLevel(offset, spread), reading)

    def _to_tensor(self, values: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(next(self.model.parameters()).device)


def build_export(forecaster: SeriesForecaster) -> ModelExport:
    """Return the graphs and settings of a forecaster, with the scales of its series."""
    model, config, scaling = forecaster.model, forecaster.config, forecaster.scaling
    refusal = None
    if scaling.calendar:
        refusal = InputError(
            "calendar",
            "is on, and exports to ONNX read no dates; export to html, which reads them, or train "
            "again with calendar columns in known",
        )
    known, past = scaling.known_columns, len(config.past)

    def graphs(int8: bool) -> dict[str, Graph]:
        int8 = int8 and config.model != "smoothing"  # maps are small, and exact
        step = {"step": _step_graph(model, known, int8)} if isinstance(model, LatentAutoregression) else {}
        return {"model": _model_graph(model, known, past, int8), **step}

    return ModelExport(
        graphs,
        {
            "lookback": model.lookback,
            "horizon": model.horizon,
            "rows": model.trained_rows if isinstance(model, NetworkForecaster) else 1,
            "recursive": model.recursive,
            "stateful": isinstance(model, LatentAutoregression),
            "distribution": model.head.settings(),
            "paths": config.paths,
            "seed": config.seed,
            "scaling": config.scaling,
            **({} if config.transform in (None, "none") else {"transform": config.transform}),
            **({} if config.outliers == "replace" else {"outliers": config.outliers}),
            "scales": {name: scale.to_values() for name, scale in scaling.series.items()},
            "numbered": scaling.numbered,
            **({"pads": config.season or 1} if config.model == "smoothing" else {}),
            "names": {"known": list(config.known), "past": list(config.past)},
            "known": [list(scale[:2]) for scale in scaling.known],
            "past": [list(scale[:2]) for scale in scaling.past],
        },
        lambda folder: None,
        lambda: _cases(model, known, past, scaling.numbered),
        f'forecast({{"my series": [1.0, 2.0, ...]}}, h={model.horizon}, level=[80])[0].mean',
        lambda sample: describe_for_page(forecaster, sample),
        refusal,
    )


def describe_for_page(forecaster: SeriesForecaster, sample: bool) -> dict[str, Any]:
    """Return what a page reads besides the settings: dates, saved intervals, the last rows of a series."""
    scaling, config = forecaster.scaling, forecaster.config
    values: dict[str, Any] = {
        "frequency": None if scaling.frequency is None else asdict(scaling.frequency),
        "calendar": scaling.calendar,
        "series": list(scaling.series)[: scaling.numbered],  # objects of JavaScript put names like "10" first
        "seed": str(config.seed),  # numbers of JavaScript have 53 bits
        "own_intervals": forecaster.has_own_intervals,
        "intervals": None,
        "history": None,
    }
    intervals = None if forecaster.folder is None else load_intervals(forecaster.folder)
    if intervals is not None and not forecaster.has_own_intervals:
        scores = {name: to_plain(table, FLOAT_DIGITS) for name, table in intervals.scores.items()}
        values["intervals"] = {**intervals.about, "scores": scores}
    if sample and forecaster.history is not None:
        rows = max(PAGE_ROWS, forecaster.lookback + forecaster.model.horizon)
        values["history"] = last_rows(forecaster.history.series[0], rows)
    return values


def _model_graph(model: Forecaster, known: int, past: int, int8: bool) -> Graph:
    """From windows to the outputs for normalised values, the level, and the state if there is one.

    The outputs are [rows, B, width]; a model with a state has those of the next row, [B, width].
    """
    graph = Graph("forecaster", int8=int8)
    lookback = model.lookback
    values = graph.input("values", "float32", [lookback, "batch"])
    if isinstance(model, LatentAutoregression):
        ahead, measured = 0, graph.slice(values, 0, model.warm_up, 0)
    else:
        ahead, measured = model.trained_rows, values
    offset, spread = model.graph_level(graph, measured)
    window = Window(
        graph.op("Div", graph.op("Sub", values, offset), spread),
        graph.input("known", "float32", [lookback + ahead, "batch", known]) if known else "",
        graph.input("past", "float32", [lookback, "batch", past]) if past else "",
        graph.input("numbers", "int64", ["batch"]) if _reads_numbers(model) else "",
    )
    if isinstance(model, LatentAutoregression):
        outputs, state = model.graph(graph, window)
        _add_outputs(graph, model, outputs, ["batch"])
        graph.state_outputs("state", state, model.stack.state_sizes)
    else:
        assert isinstance(model, NetworkForecaster)
        _add_outputs(graph, model, model.graph(graph, window), [ahead, "batch"])
    graph.output(offset, "offset", "float32", ["batch"])
    graph.output(spread, "spread", "float32", ["batch"])
    return graph


def _reads_numbers(model: Forecaster) -> bool:
    """Return whether the network has an embedding, or a map, of each series."""
    embedding = getattr(getattr(model, "network", None), "series", None)
    return embedding is not None or getattr(model, "own", None) is not None


def _step_graph(model: LatentAutoregression, known: int, int8: bool) -> Graph:
    """From a normalised value [B] and the state to the outputs [B, width] of the next row."""
    graph = Graph("step", int8=int8)
    columns = [graph.op("Unsqueeze", graph.input("value", "float32", ["batch"]), graph.axes(-1))]
    if known:
        columns.append(graph.input("known", "float32", ["batch", known]))
    sizes = model.stack.state_sizes
    state = graph.state_inputs("state", sizes)
    outputs, reached = model.graph_step(graph, graph.concat(columns), state)
    _add_outputs(graph, model, outputs, ["batch"])
    graph.state_outputs("next", reached, sizes)
    return graph


def _add_outputs(graph: Graph, model: Forecaster, outputs: str, shape: list[int | str]) -> None:
    """Make what the head says the outputs of a graph."""
    graph.output(model.head.graph_values(graph, outputs), "outputs", "float32", [*shape, model.head.width])


@torch.inference_mode()
def _cases(model: Forecaster, known: int, past: int, numbered: int) -> Iterator[Case]:
    draws = torch.Generator().manual_seed(0)

    def draw_tensor(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws)

    def case(part: str, inputs: dict[str, Tensor], expected: dict[str, Tensor]) -> Case:
        used = {"known": known, "past": past, "numbers": _reads_numbers(model)}
        inputs = {name: value for name, value in inputs.items() if used.get(name, True)}
        return Case.of(part, f"{batch} x {rows}", inputs, expected)

    rows, head = model.lookback, model.head
    for batch in BATCHES:
        values = draw_tensor(rows, batch)
        columns_known = draw_tensor(rows + model.horizon + 1, batch, known)
        numbers = torch.randint(-1, numbered, (batch,), generator=draws)
        window = Window(values, columns_known, draw_tensor(rows, batch, past), numbers)
        inputs = window._asdict()
        if not isinstance(model, LatentAutoregression):
            _, outputs, level = model(window)
            inputs["known"] = columns_known[: rows + model.trained_rows]
            expected = {"outputs": head.describe_values(outputs), **_fill_level(level, values[0])}
            yield case("model", inputs, expected)
            continue
        reading = model.compute(window)
        state, _ = reading.memory
        expected = {"outputs": head.describe_values(reading.outputs), **number_names("state", state)}
        inputs["known"] = columns_known[1 : rows + 1]
        yield case("model", inputs, expected | _fill_level(reading.level, values[0]))
        inputs = {
            "value": draw_tensor(batch),
            "known": columns_known[rows + 1],
            **number_names("state", state),
        }
        reading = model.read_row(reading, inputs["value"])
        reached = number_names("next", reading.memory[0])
        yield case("step", inputs, {"outputs": head.describe_values(reading.outputs), **reached})


def _fill_level(level: WindowLevel, like: Tensor) -> dict[str, Tensor]:
    """The level of windows as a graph returns it: with 0 for no offset, and 1 for no spread."""
    return {
        "offset": torch.zeros_like(like) if level.offset is None else level.offset,
        "spread": torch.ones_like(like) if level.spread is None else level.spread,
    }
