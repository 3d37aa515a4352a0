"""A forecaster as graphs: one for a window, and one for a step of a recurrent state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from throughtime.errors import InputError
from throughtime.export.graph import Graph, as_array
from throughtime.export.write import Case, Exported, number_names
from throughtime.tasks.forecast import heads as forecast_heads
from throughtime.tasks.forecast.network import (
    LEAST_SPREAD,
    DirectForecaster,
    Forecaster,
    LatentAutoregression,
    NetworkForecaster,
)
from throughtime.tasks.forecast.predictor import SeriesForecaster
from throughtime.tasks.forecast.window_networks import RecurrentNetwork, SegmentNetwork, Window, WindowNetwork

BATCHES = (1, 3, 17)


def build_export(forecaster: SeriesForecaster) -> Exported:
    """Return the graphs and settings of a forecaster, with the scales of its series."""
    model, config, scaling = forecaster.model, forecaster.config, forecaster.scaling
    if config.transform != "none":
        raise InputError(
            "transform", f"is {config.transform}, which exports do not support; train with transform=none"
        )
    if scaling.calendar:
        raise InputError(
            "calendar", "is on, but exports read no dates; train again with calendar columns in known"
        )
    known, past = scaling.known_columns, len(config.past)
    return Exported(
        lambda int8: _graphs(model, known, past, int8),
        {
            "lookback": model.lookback,
            "horizon": model.horizon,
            "rows": model.trained_rows if isinstance(model, NetworkForecaster) else 1,
            "recursive": model.recursive,
            "stateful": isinstance(model, LatentAutoregression),
            "head": _head(model.head),
            "paths": config.paths,
            "seed": config.seed,
            "scaling": config.scaling,
            "scales": {name: list(scale[:2]) for name, scale in scaling.series.items()},
            "numbered": scaling.numbered,
            "known": [list(scale[:2]) for scale in scaling.known],
            "past": [list(scale[:2]) for scale in scaling.past],
        },
        lambda folder: None,
        lambda: _cases(model, known, past, scaling.numbered),
        f'forecast({{"my series": [1.0, 2.0, ...]}}, h={model.horizon}, level=[80])[0].mean',
    )


def _graphs(model: Forecaster, known: int, past: int, int8: bool) -> dict[str, Graph]:
    if isinstance(model, LatentAutoregression):
        return {"model": _reading_graph(model, known, int8), "step": _step_graph(model, known, int8)}
    assert isinstance(model, NetworkForecaster)
    return {"model": _window_graph(model, known, past, int8)}


def _window_graph(model: NetworkForecaster, known: int, past: int, int8: bool) -> Graph:
    """From windows to the outputs [rows, B, width] for normalised values, and the level."""
    graph = Graph("forecaster", int8=int8)
    values = graph.input("values", "float32", [model.lookback, "batch"])
    offset, spread = _level(graph, model, values)
    normalised = graph.op("Div", graph.op("Sub", values, offset), spread)
    window = GraphWindow(
        normalised,
        graph.input("known", "float32", [model.lookback + model.trained_rows, "batch", known])
        if known
        else None,
        graph.input("past", "float32", [model.lookback, "batch", past]) if past else None,
        graph.input("numbers", "int64", ["batch"]) if _numbered(model) else None,
    )
    outputs = graph_network(graph, model.network, window, model.lookback)
    if isinstance(model, DirectForecaster) and model.highway is not None:
        centre = graph.linear(graph.op("Transpose", normalised), model.highway.weight, model.highway.bias)
        centre = graph.op("Unsqueeze", graph.op("Transpose", centre), graph.axes(-1))
        before, after = model.head.centre, model.head.width - model.head.centre - 1
        outputs = graph.op("Add", outputs, graph.op("Pad", centre, graph.axes(0, 0, before, 0, 0, after)))
    graph.output(outputs, "outputs", "float32", [model.trained_rows, "batch", model.head.width])
    graph.output(offset, "offset", "float32", ["batch"])
    graph.output(spread, "spread", "float32", ["batch"])
    return graph


def _reading_graph(model: LatentAutoregression, known: int, int8: bool) -> Graph:
    """From windows to the outputs [B, width] of the next row, the level, and the state."""
    graph = Graph("forecaster", int8=int8)
    values = graph.input("values", "float32", [model.lookback, "batch"])
    offset, spread = _level(graph, model, graph.slice(values, 0, model.warm_up, 0))
    normalised = graph.op("Div", graph.op("Sub", values, offset), spread)
    rows = graph.input("known", "float32", [model.lookback, "batch", known]) if known else None
    outputs, state = model.stack.graph(
        graph, columns(graph, GraphWindow(normalised, rows, None, None), model.lookback)
    )
    last = graph.op("Gather", outputs, graph.constant(-1, "int64"), axis=0)
    outputs = graph.linear(last, model.readout.weight, model.readout.bias)
    graph.output(outputs, "outputs", "float32", ["batch", model.head.width])
    graph.output(offset, "offset", "float32", ["batch"])
    graph.output(spread, "spread", "float32", ["batch"])
    graph.state_outputs("state", state, model.stack.state_sizes)
    return graph


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
    graph.output(outputs, "outputs", "float32", ["batch", model.head.width])
    graph.state_outputs("next", reached, sizes)
    return graph


class GraphWindow(NamedTuple):
    """The inputs of `Window` as names in a graph; None for columns that a model does not read."""

    values: str  # [T, B]
    known: str | None  # [T and the rows ahead, B, K]
    past: str | None  # [T, B, P]
    numbers: str | None  # [B]


def graph_network(graph: Graph, module: nn.Module, window: GraphWindow, rows: int) -> str:
    """Add the operators of a network to a graph; return its outputs [horizon, B, width]."""
    if isinstance(module, WindowNetwork):
        return _window(graph, module, window)
    if isinstance(module, RecurrentNetwork):
        return _recurrent(graph, module, window, rows)
    if isinstance(module, SegmentNetwork):
        return _segment(graph, module, window, rows)
    raise InputError("export", f"knows no ONNX operators for the network {type(module).__name__}")


def _window(graph: Graph, module: WindowNetwork, window: GraphWindow) -> str:
    flat = [window.values, *(_flat(graph, each) for each in (window.known, window.past) if each is not None)]
    x = graph.op("Transpose", graph.concat(flat, 0))
    for layer in module.layers:
        if isinstance(layer, nn.Linear):
            x = graph.linear(x, layer.weight, layer.bias)
        elif isinstance(layer, nn.ReLU):
            x = graph.op("Relu", x)
    return _horizon(graph, x, module.horizon, module.width)


def _recurrent(graph: Graph, module: RecurrentNetwork, window: GraphWindow, rows: int) -> str:
    outputs, _ = module.stack.graph(graph, columns(graph, window, rows))
    read = graph.op("Gather", outputs, graph.constant(-1, "int64"), axis=0)
    if window.known is not None:
        ahead = graph.op("Transpose", _flat(graph, graph.slice(window.known, rows, 2**31, 0)))
        read = graph.op("Concat", read, ahead, axis=-1)
    outputs = graph.linear(read, module.readout.weight, module.readout.bias)
    return _horizon(graph, outputs, module.horizon, module.width)


def _segment(graph: Graph, module: SegmentNetwork, window: GraphWindow, rows: int) -> str:
    read = _segments(graph, columns(graph, window, rows), module.segment, module.lacking, 0)
    read = graph.op("Relu", graph.linear(read, module.read.weight, module.read.bias))
    _, state = module.stack.graph(graph, read)
    places, batch = module.places, graph.size(window.values, 1)
    begun = tuple(graph.op("Tile", part, graph.axes(places, 1)) for part in state)  # [places * B, H]
    asked = _segment_inputs(graph, module, window, rows, batch)
    width = module.stack.input_size
    asked = graph.op("Reshape", asked, graph.axes(1, -1, width))
    written, _ = module.stack.graph(graph, asked, begun)
    outputs = graph.linear(
        graph.op("Squeeze", written, graph.axes(0)), module.write.weight, module.write.bias
    )
    outputs = graph.op("Reshape", outputs, graph.sizes(places, batch, module.segment, module.width))
    outputs = graph.op("Transpose", outputs, perm=[0, 2, 1, 3])
    outputs = graph.op("Reshape", outputs, graph.sizes(places * module.segment, batch, module.width))
    return graph.slice(outputs, 0, module.horizon, 0)


def _segment_inputs(graph: Graph, module: SegmentNetwork, window: GraphWindow, rows: int, batch: str) -> str:
    """The input of the step for each segment of the horizon, [places, B, H]."""
    place = graph.op("Unsqueeze", graph.weight(module.place), graph.axes(1))
    asked = graph.op("Expand", place, graph.sizes(module.places, batch, module.place.shape[1]))
    if module.series is not None:
        assert window.numbers is not None
        zero = graph.constant(0, "int64")
        own = graph.op("Gather", graph.weight(module.series), graph.op("Max", window.numbers, zero))
        new = graph.op("Unsqueeze", graph.op("Less", window.numbers, zero), graph.axes(-1))
        own = graph.op("Where", new, graph.constant(as_array(module.series).mean(0)), own)
        own = graph.op(
            "Expand",
            graph.op("Unsqueeze", own, graph.axes(0)),
            graph.sizes(module.places, batch, module.series.shape[1]),
        )
        asked = graph.op("Concat", asked, own, axis=-1)
    if module.future is not None:
        assert window.known is not None
        ahead = graph.slice(window.known, rows, rows + module.horizon, 0)
        ahead = _segments(graph, ahead, module.segment, 0, -module.horizon % module.segment)
        asked = graph.op("Add", asked, graph.linear(ahead, module.future.weight, module.future.bias))
    return asked


def columns(graph: Graph, window: GraphWindow, rows: int) -> str:
    """Join the values and columns of each row of the window: [T, B, 1 + K + P]."""
    parts = [graph.op("Unsqueeze", window.values, graph.axes(-1))]
    if window.known is not None:
        parts.append(graph.slice(window.known, 0, rows, 0))
    if window.past is not None:
        parts.append(window.past)
    return graph.concat(parts)


def _segments(graph: Graph, rows: str, segment: int, before: int, after: int) -> str:
    """Cut rows [T, B, C] into segments [T / segment, B, segment * C], with rows of zeros at either end."""
    filled = graph.op("Pad", rows, graph.axes(before, 0, 0, after, 0, 0)) if before or after else rows
    batch, width = graph.size(rows, 1), graph.size(rows, 2)
    cut = graph.op("Reshape", filled, graph.sizes(-1, segment, batch, width))
    flat = graph.op("Mul", width, graph.axes(segment))
    return graph.op("Reshape", graph.op("Transpose", cut, perm=[0, 2, 1, 3]), graph.sizes(-1, batch, flat))


def _flat(graph: Graph, value: str) -> str:
    """[T, B, K] as [T * K, B]."""
    batch = graph.size(value, 1)
    return graph.op("Reshape", graph.op("Transpose", value, perm=[0, 2, 1]), graph.sizes(-1, batch))


def _horizon(graph: Graph, outputs: str, horizon: int, width: int) -> str:
    """[B, horizon * width] as [horizon, B, width]."""
    return graph.op("Transpose", graph.op("Reshape", outputs, graph.axes(-1, horizon, width)), perm=[1, 0, 2])


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
        spread = graph.op("Max", graph.op("Sqrt", square), graph.constant(LEAST_SPREAD))
    return offset, spread


def _numbered(model: NetworkForecaster) -> bool:
    return isinstance(model.network, SegmentNetwork) and model.network.series is not None


def _head(head: forecast_heads.ForecastHead) -> dict[str, Any]:
    """The settings that a runner needs to read the outputs."""
    if isinstance(head, forecast_heads.PointHead):
        return {"kind": "point"}
    if isinstance(head, forecast_heads.GaussianHead):
        return {"kind": "gaussian"}
    if isinstance(head, forecast_heads.StudentHead):
        return {"kind": "student", "degrees": float(head.degrees.detach())}
    if isinstance(head, forecast_heads.QuantileHead):
        return {"kind": "quantiles", "probabilities": list(head.known), "centre": head.centre}
    raise InputError("export", f"knows no way to write the head {type(head).__name__}")


@torch.inference_mode()
def _cases(model: Forecaster, known: int, past: int, numbered: int) -> Iterator[Case]:
    draws = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draws)

    for batch in BATCHES:
        what = f"{batch} x {model.lookback}"
        values = drawn(model.lookback, batch)
        columns_known = drawn(model.lookback + model.horizon, batch, known)
        numbers = torch.randint(-1, numbered, (batch,), generator=draws)
        window = Window(values, columns_known, drawn(model.lookback, batch, past), numbers)
        if isinstance(model, LatentAutoregression):
            yield from _stateful_cases(model, window, what, draws)
            continue
        assert isinstance(model, NetworkForecaster)
        _, outputs, level = model(window)
        given = {"values": values}
        if known:
            given["known"] = columns_known[: model.lookback + model.trained_rows]
        if past:
            given["past"] = window.past
        if _numbered(model):
            given["numbers"] = numbers
        expected = {"outputs": outputs, "offset": level.offset, "spread": level.spread}
        yield Case.of("model", what, given, expected)


def _stateful_cases(
    model: LatentAutoregression, window: Window, what: str, draws: torch.Generator
) -> Iterator[Case]:
    level = model.level(window.values[: model.warm_up])
    inputs = model._inputs(level.remove(window.values), window.known[1 : model.lookback + 1])
    outputs, state = model.stack(inputs)
    given = {"values": window.values}
    if window.known.shape[-1]:
        given["known"] = window.known[1 : model.lookback + 1]
    expected = {"outputs": model.readout(outputs[-1]), "offset": level.offset, "spread": level.spread}
    yield Case.of("model", what, given, {**expected, **number_names("state", state)})
    value = torch.randn(window.values.shape[1], generator=draws)
    last, reached = model.stack.step(model._inputs(value, window.known[-1]), state)
    given = {"value": value, **number_names("state", state)}
    if window.known.shape[-1]:
        given["known"] = window.known[-1]
    expected = {"outputs": model.readout(last), **number_names("next", reached)}
    yield Case.of("step", what, given, expected)
