"""A forecaster as graphs: one for a window, and one for a step of a recurrent state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from throughtime.data.panel import Window
from throughtime.errors import InputError
from throughtime.graphs.graph import Graph
from throughtime.graphs.write import Case, ModelExport, number_names
from throughtime.series.conformal import load_intervals
from throughtime.series.history import last_rows
from throughtime.tasks.forecast.network import (
    MIN_SPREAD,
    DirectForecaster,
    Forecaster,
    LatentAutoregression,
    NetworkForecaster,
)
from throughtime.tasks.forecast.pipeline import WindowLevel
from throughtime.tasks.forecast.predictor import SeriesForecaster
from throughtime.tasks.forecast.window_graphs import GraphWindow, columns, graph_network
from throughtime.tasks.forecast.window_networks import SegmentNetwork

BATCHES = (1, 3, 17)
PAGE_ROWS = 200
"""Rows of the first series that a page holds, or more if a forecast needs more."""


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
    size = 2 if config.transform == "none" else 3  # centre, spread, and the power of a transform

    def graphs(int8: bool) -> dict[str, Graph]:
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
            **({} if config.transform == "none" else {"transform": config.transform}),
            "scales": {name: list(scale[:size]) for name, scale in scaling.series.items()},
            "numbered": scaling.numbered,
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
    found: dict[str, Any] = {
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
        scores = {name: _plain(values) for name, values in intervals.scores.items()}
        about = {"kind": intervals.kind, "series": list(intervals.series), "season": intervals.season}
        found["intervals"] = {**about, "scores": scores}
    if sample and forecaster.history is not None:
        rows = max(PAGE_ROWS, forecaster.lookback + forecaster.model.horizon)
        found["history"] = last_rows(forecaster.history.series[0], rows)
    return found


def _plain(values: Any) -> Any:
    """Numbers for JSON with seven digits, as many as float32 has; None where there is none."""
    if values.ndim > 1:
        return [_plain(each) for each in values]
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in values.tolist()]


def _model_graph(model: Forecaster, known: int, past: int, int8: bool) -> Graph:
    """From windows to the outputs for normalised values, the level, and the state if there is one.

    The outputs are [rows, B, width]; a model with a state has those of the next row, [B, width].
    """
    graph = Graph("forecaster", int8=int8)
    lookback, width = model.lookback, model.head.width
    values = graph.input("values", "float32", [lookback, "batch"])
    latent = model if isinstance(model, LatentAutoregression) else None
    offset, spread = _level(graph, model, graph.slice(values, 0, latent.warm_up, 0) if latent else values)
    ahead = 0 if latent else model.trained_rows
    window = GraphWindow(
        graph.op("Div", graph.op("Sub", values, offset), spread),
        graph.input("known", "float32", [lookback + ahead, "batch", known]) if known else None,
        graph.input("past", "float32", [lookback, "batch", past]) if past else None,
        graph.input("numbers", "int64", ["batch"]) if _numbers_series(model) else None,
    )
    if latent:
        found, state = latent.stack.graph(graph, columns(graph, window, lookback))
        last = graph.op("Gather", found, graph.constant(-1, "int64"), axis=0)
        outputs = graph.linear(last, latent.readout.weight, latent.readout.bias)
        outputs = model.head.graph_values(graph, outputs)
        graph.output(outputs, "outputs", "float32", ["batch", width])
        graph.state_outputs("state", state, latent.stack.state_sizes)
    else:
        assert isinstance(model, NetworkForecaster)
        outputs = graph_network(graph, model.network, window, lookback)
        if isinstance(model, DirectForecaster) and model.highway is not None:
            centre = graph.op("Transpose", _linear_maps(graph, model, window))
            padding = graph.axes(0, 0, model.head.centre, 0, 0, width - model.head.centre - 1)
            centre = graph.op("Pad", graph.op("Unsqueeze", centre, graph.axes(-1)), padding)
            if model.corrects:
                outputs = graph.op("Add", outputs, graph.weight((model.spread + model.margin).unsqueeze(1)))
                shares = np.ones(width, np.float32)
                shares[model.head.centre] = float(model.trust)
                outputs = graph.op("Mul", outputs, graph.constant(shares))
            outputs = graph.op("Add", outputs, centre)
        outputs = model.head.graph_values(graph, outputs)
        graph.output(outputs, "outputs", "float32", [ahead, "batch", width])
    graph.output(offset, "offset", "float32", ["batch"])
    graph.output(spread, "spread", "float32", ["batch"])
    return graph


def _linear_maps(graph: Graph, model: DirectForecaster, window: GraphWindow) -> str:
    """The linear forecasts [B, horizon] of `DirectForecaster.map_linearly`."""
    assert model.highway is not None
    flat = graph.op("Transpose", window.values)
    centre = graph.linear(flat, model.highway.weight, model.highway.bias)
    if model.own is None:
        return centre
    assert window.numbers is not None
    horizon = model.own.shape[1]
    zero = graph.constant(0, "int64")
    numbers = graph.op("Unsqueeze", window.numbers, graph.axes(-1))
    first = graph.op("Mul", graph.op("Max", numbers, zero), graph.axes(horizon))
    rows = graph.op("Add", first, graph.constant(np.arange(horizon), "int64"))
    own = graph.op(
        "MatMul", graph.lookup(model.own.flatten(0, 1), rows), graph.op("Unsqueeze", flat, graph.axes(-1))
    )
    own = graph.op("Squeeze", own, graph.axes(-1))
    new = graph.op("Less", numbers, zero)
    return graph.op("Add", centre, graph.op("Where", new, graph.constant(0.0), own))


def _step_graph(model: LatentAutoregression, known: int, int8: bool) -> Graph:
    """From a normalised value [B] and the state to the outputs [B, width] of the next row."""
    graph = Graph("step", int8=int8)
    value = graph.input("value", "float32", ["batch"])
    parts = [graph.op("Unsqueeze", value, graph.axes(-1))]
    if known:
        parts.append(graph.input("known", "float32", ["batch", known]))
    sizes = model.stack.state_sizes
    state = graph.state_inputs("state", sizes)
    last, reached = model.stack.graph_step(graph, graph.concat(parts), state)
    outputs = graph.linear(last, model.readout.weight, model.readout.bias)
    outputs = model.head.graph_values(graph, outputs)
    graph.output(outputs, "outputs", "float32", ["batch", model.head.width])
    graph.state_outputs("next", reached, sizes)
    return graph


def _level(graph: Graph, model: Forecaster, values: str) -> tuple[str, str]:
    """What is subtracted from the values of each window, and what they are divided by: both [B]."""
    last = graph.op("Gather", values, graph.constant(-1, "int64"), axis=0)
    zeros = graph.op("Mul", last, graph.constant(0.0))
    offset, spread = zeros, graph.op("Add", zeros, graph.constant(1.0))
    if model.normalise == "last":
        offset = last
    elif model.normalise != "none":
        offset = graph.op("ReduceMean", values, graph.axes(0), keepdims=0)
    if model.normalise == "standard":
        away = graph.op("Sub", values, offset)
        square = graph.op("ReduceMean", graph.op("Mul", away, away), graph.axes(0), keepdims=0)
        spread = graph.op("Max", graph.op("Sqrt", square), graph.constant(MIN_SPREAD))
    return offset, spread


def _numbers_series(model: Forecaster) -> bool:
    network = getattr(model, "network", None)
    embeds = isinstance(network, SegmentNetwork) and network.series is not None
    return embeds or getattr(model, "own", None) is not None


@torch.inference_mode()
def _cases(model: Forecaster, known: int, past: int, numbered: int) -> Iterator[Case]:
    draws = torch.Generator().manual_seed(0)

    def draw_tensor(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws)

    def case(part: str, given: dict[str, Tensor], expected: dict[str, Tensor]) -> Case:
        used = {"known": known, "past": past, "numbers": _numbers_series(model)}
        inputs = {name: value for name, value in given.items() if used.get(name, True)}
        return Case.of(part, f"{batch} x {rows}", inputs, expected)

    rows, head = model.lookback, model.head
    for batch in BATCHES:
        values = draw_tensor(rows, batch)
        columns_known = draw_tensor(rows + model.horizon + 1, batch, known)
        numbers = torch.randint(-1, numbered, (batch,), generator=draws)
        window = Window(values, columns_known, draw_tensor(rows, batch, past), numbers)
        given = window._asdict()
        if not isinstance(model, LatentAutoregression):
            _, outputs, level = model(window)
            given["known"] = columns_known[: rows + model.trained_rows]
            expected = {"outputs": head.describe_values(outputs), **_fill_level(level, values[0])}
            yield case("model", given, expected)
            continue
        reading = model.compute(window)
        state, _ = reading.memory
        expected = {"outputs": head.describe_values(reading.outputs), **number_names("state", state)}
        given["known"] = columns_known[1 : rows + 1]
        yield case("model", given, expected | _fill_level(reading.level, values[0]))
        given = {
            "value": draw_tensor(batch),
            "known": columns_known[rows + 1],
            **number_names("state", state),
        }
        reading = model.advance(reading, given["value"])
        reached = number_names("next", reading.memory[0])
        yield case("step", given, {"outputs": head.describe_values(reading.outputs), **reached})


def _fill_level(level: WindowLevel, like: Tensor) -> dict[str, Tensor]:
    """The level of windows as a graph returns it: with 0 for no offset, and 1 for no spread."""
    return {
        "offset": torch.zeros_like(like) if level.offset is None else level.offset,
        "spread": torch.ones_like(like) if level.spread is None else level.spread,
    }
