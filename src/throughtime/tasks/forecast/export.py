"""A forecaster as graphs: what it says of the rows after a window, and where a state goes on, one step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from throughtime.errors import InputError
from throughtime.export.exported import Case, Exported, named
from throughtime.export.graph import Graph
from throughtime.export.networks import Window, columns, network
from throughtime.export.stack import run_stack, step_stack
from throughtime.tasks.forecast import heads as forecast_heads
from throughtime.tasks.forecast.network import (
    LEAST_SPREAD,
    DirectForecaster,
    Forecaster,
    LatentAutoregression,
    NetworkForecaster,
)
from throughtime.tasks.forecast.networks import SegmentNetwork
from throughtime.tasks.forecast.networks import Window as TorchWindow
from throughtime.tasks.forecast.predictor import SeriesForecaster

BATCHES = (1, 3, 17)


def exported(forecaster: SeriesForecaster) -> Exported:
    """The parts of a forecaster; the scales of its series go with it."""
    model, config, scaling = forecaster.model, forecaster.config, forecaster.scaling
    if config.transform != "none":
        raise InputError(
            "transform", f"is {config.transform}, which the runner does not know; train without it to export"
        )
    if scaling.calendar:
        raise InputError(
            "calendar", "is on, but the runner reads no dates; give them as columns of known, and train again"
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
            "scales": {name: list(scale) for name, scale in scaling.series.items()},
            "numbered": scaling.numbered,
            "known": [list(scale) for scale in scaling.known],
            "past": [list(scale) for scale in scaling.past],
        },
        lambda folder: None,
        lambda: _cases(model, known, past, scaling.numbered),
        f'forecast({{"my series": [1.0, 2.0, ...]}}, h={model.horizon}, level=[80])[0].mean',
    )


def _graphs(model: Forecaster, known: int, past: int, int8: bool) -> dict[str, Graph]:
    if isinstance(model, LatentAutoregression):
        return {"model": _reading(model, known, int8), "step": _stepping(model, known, int8)}
    assert isinstance(model, NetworkForecaster)
    return {"model": _saying(model, known, past, int8)}


def _saying(model: NetworkForecaster, known: int, past: int, int8: bool) -> Graph:
    """Windows, to what is said [rows, B, width] of values without their level, and that level."""
    graph = Graph("forecaster", int8=int8)
    values = graph.input("values", "float32", [model.lookback, "batch"])
    offset, spread = _level(graph, model, values)
    taken = graph.op("Div", graph.op("Sub", values, offset), spread)
    window = Window(
        taken,
        graph.input("known", "float32", [model.lookback + model.trained_rows, "batch", known])
        if known
        else None,
        graph.input("past", "float32", [model.lookback, "batch", past]) if past else None,
        graph.input("numbers", "int64", ["batch"]) if _numbered(model) else None,
    )
    said = network(graph, model.network, window, model.lookback)
    if isinstance(model, DirectForecaster) and model.highway is not None:
        centre = graph.linear(graph.op("Transpose", taken), model.highway.weight, model.highway.bias)
        centre = graph.op("Unsqueeze", graph.op("Transpose", centre), graph.axes(-1))
        before, after = model.head.centre, model.head.width - model.head.centre - 1
        said = graph.op("Add", said, graph.op("Pad", centre, graph.axes(0, 0, before, 0, 0, after)))
    graph.output(said, "said", "float32", [model.trained_rows, "batch", model.head.width])
    graph.output(offset, "offset", "float32", ["batch"])
    graph.output(spread, "spread", "float32", ["batch"])
    return graph


def _reading(model: LatentAutoregression, known: int, int8: bool) -> Graph:
    """Windows, to what is said [B, width] of the next row, the level, and the state."""
    graph = Graph("forecaster", int8=int8)
    values = graph.input("values", "float32", [model.lookback, "batch"])
    offset, spread = _level(graph, model, graph.slice(values, 0, model.warm_up, 0))
    taken = graph.op("Div", graph.op("Sub", values, offset), spread)
    rows = graph.input("known", "float32", [model.lookback, "batch", known]) if known else None
    outputs, state = run_stack(
        graph, model.stack, columns(graph, Window(taken, rows, None, None), model.lookback)
    )
    last = graph.op("Gather", outputs, graph.constant(-1, "int64"), axis=0)
    said = graph.linear(last, model.readout.weight, model.readout.bias)
    graph.output(said, "said", "float32", ["batch", model.head.width])
    graph.output(offset, "offset", "float32", ["batch"])
    graph.output(spread, "spread", "float32", ["batch"])
    for (name, value), size in zip(named("state", state).items(), model.stack.state_sizes, strict=True):
        graph.output(value, name, "float32", ["batch", size])
    return graph


def _stepping(model: LatentAutoregression, known: int, int8: bool) -> Graph:
    """A value [B] without its level and the state, to what is said [B, width] of the next row."""
    graph = Graph("step", int8=int8)
    value = graph.input("value", "float32", ["batch"])
    parts = [graph.op("Unsqueeze", value, graph.axes(-1))]
    if known:
        parts.append(graph.input("known", "float32", ["batch", known]))
    sizes = model.stack.state_sizes
    state = tuple(
        graph.input(name, "float32", ["batch", size]) for name, size in named("state", sizes).items()
    )
    x = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=-1)
    last, reached = step_stack(graph, model.stack, x, state)
    said = graph.linear(last, model.readout.weight, model.readout.bias)
    graph.output(said, "said", "float32", ["batch", model.head.width])
    for (name, part), size in zip(named("next", reached).items(), sizes, strict=True):
        graph.output(part, name, "float32", ["batch", size])
    return graph


def _level(graph: Graph, model: Forecaster, values: str) -> tuple[str, str]:
    """What is taken away from the values of each window, and what they are divided by: both [B]."""
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
    """What a runner must know to read what is said."""
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
        values, columns_known = (
            drawn(model.lookback, batch),
            drawn(model.lookback + model.horizon, batch, known),
        )
        numbers = torch.randint(-1, numbered, (batch,), generator=draws)
        window = TorchWindow(values, columns_known, drawn(model.lookback, batch, past), numbers)
        if isinstance(model, LatentAutoregression):
            yield from _stateful_cases(model, window, what, draws)
            continue
        assert isinstance(model, NetworkForecaster)
        _, said, level = model.said(window)
        given = {"values": values}
        if known:
            given["known"] = columns_known[: model.lookback + model.trained_rows]
        if past:
            given["past"] = window.past
        if _numbered(model):
            given["numbers"] = numbers
        told = {"said": said, "offset": level.offset, "spread": level.spread}
        yield Case("model", what, _arrays(given), _arrays(told))


def _stateful_cases(
    model: LatentAutoregression, window: TorchWindow, what: str, draws: torch.Generator
) -> Iterator[Case]:
    level = model.level(window.values[: model.warm_up])
    inputs = model._inputs(level.taken(window.values), window.known[1 : model.lookback + 1])
    outputs, state = model.stack(inputs)
    given = {"values": window.values}
    if window.known.shape[-1]:
        given["known"] = window.known[1 : model.lookback + 1]
    told = {"said": model.readout(outputs[-1]), "offset": level.offset, "spread": level.spread}
    yield Case("model", what, _arrays(given), _arrays({**told, **named("state", state)}))
    value = torch.randn(window.values.shape[1], generator=draws)
    last, reached = model.stack.step(model._inputs(value, window.known[-1]), state)
    given = {"value": value, **named("state", state)}
    if window.known.shape[-1]:
        given["known"] = window.known[-1]
    told = {"said": model.readout(last), **named("next", reached)}
    yield Case("step", what, _arrays(given), _arrays(told))


def _arrays(tensors: dict[str, Tensor]) -> dict[str, Any]:
    return {name: value.contiguous().numpy() for name, value in tensors.items()}
