"""The graphs of models with an encoder and a decoder: what starts a text, and one step of writing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from throughtime.graphs.graph import Graph
from throughtime.graphs.write import number_names
from throughtime.models.heads import Head, SoftmaxHead
from throughtime.models.seq2seq import EncoderDecoder, GraphDecoded
from throughtime.search.generate import Memory, Step

Axes = list[int | str]
END_OF_AXIS = 2**31 - 1
"""The end of an axis, for `Slice`."""


class MemoryShapes(NamedTuple):
    """The sizes of a decoder's state, and the type and the axes of each tensor that it keeps per sentence."""

    sizes: list[int]
    kept: dict[str, tuple[str, Axes]]


@torch.inference_mode()
def describe_memory(model: EncoderDecoder, prompt: Sequence[Any]) -> MemoryShapes:
    """Read a prompt, and describe what the decoder makes of it."""
    source, lengths = model.prepare([prompt])
    state, memory = model.encode(source.to(next(model.parameters()).device), lengths)
    kept = {name: _describe(tensor) for name, tensor in number_names("kept", memory.kept).items()}
    return MemoryShapes([tensor.shape[1] for tensor in state], kept)


def _describe(kept: Tensor) -> tuple[str, Axes]:
    kind = str(kept.dtype).removeprefix("torch.")
    if kept.dim() == 2:  # padding [S, T], or a context [S, H]
        return kind, ["sentences", "time" if kept.dtype == torch.bool else kept.shape[1]]
    return kind, ["sentences", "time", kept.shape[2]]


def add_start(graph: Graph, model: EncoderDecoder, source: str, lengths: str, shapes: MemoryShapes) -> None:
    """Add the encoder: its outputs are the first state and the memory of each sentence."""
    state, kept = model.decoder.graph_start(graph, model.encoder.graph(graph, source, lengths))
    graph.state_outputs("state", state, shapes.sizes, "sentences")
    for tensor, (name, shape) in zip(kept, shapes.kept.items(), strict=True):
        graph.output(tensor, name, *shape)


def add_step(graph: Graph, model: EncoderDecoder, shapes: MemoryShapes) -> GraphDecoded:
    """Add a step of the decoder, whose inputs are tokens, states and the memory of each sentence."""
    last = graph.input("last", "int64", ["rows"])
    state = graph.state_inputs("state", shapes.sizes, "rows")
    kept = tuple(graph.input(name, *shape) for name, shape in shapes.kept.items())
    return model.decoder.graph_step(graph, last, state, kept)


def add_candidates(graph: Graph, head: Head, hidden: str, count: str) -> str:
    """Add the output layer for candidates; return the rows that are left for that of all tokens."""
    candidates = graph.input("candidates", "int64", ["candidates"])
    allowed = graph.input("allowed", "bool", ["sentences", "candidates"])
    assert isinstance(head, SoftmaxHead)
    number, sentences = graph.size(candidates, 0), graph.size(allowed, 0)
    each = graph.op("Div", graph.size(hidden, 0), sentences)
    each = graph.op("Mul", each, graph.op("Min", number, graph.axes(1)))  # 0 without candidates
    rows = graph.op("Mul", each, sentences)
    axis, end = graph.axes(0), graph.axes(END_OF_AXIS)
    scores = graph.linear_rows(
        graph.op("Slice", hidden, axis, rows, axis), head.weight, head.bias, candidates
    )
    table = graph.op("Reshape", scores, graph.sizes(sentences, each, number), allowzero=1)
    barred = graph.op("Not", graph.op("Unsqueeze", allowed, graph.axes(1)))
    table = graph.op("Where", barred, graph.constant(-np.inf), table)
    log_probs = graph.op("LogSoftmax", table, axis=-1)
    log_probs = graph.op("Reshape", log_probs, graph.sizes(rows, number), allowzero=1)
    values, places = graph.ops("TopK", [log_probs, graph.op("Min", count, number)], 2, {"axis": -1})
    graph.output(values, "candidate_log_probs", "float32", ["candidate rows", "likeliest candidates"])
    ids = graph.op("Gather", candidates, places)
    graph.output(ids, "candidate_ids", "int64", ["candidate rows", "likeliest candidates"])
    return graph.op("Slice", hidden, rows, end, axis)


class StepCase(NamedTuple):
    """A step of the torch model on drawn tokens: what the graph of the decoder gets and must return."""

    step: Step
    owner: Tensor  # the sentence of each row
    inputs: dict[str, Tensor]
    reached: Mapping[str, Tensor]


@torch.inference_mode()
def check_start(
    model: EncoderDecoder,
    source: Tensor,
    lengths: Tensor,
    each: int,
    target_size: int,
    draws: torch.Generator,
) -> tuple[dict[str, Tensor], StepCase]:
    """Return what the graph of the encoder must return, and a step of `each` rows for every sentence."""
    device = next(model.parameters()).device
    state, memory = model.encode(source.to(device), lengths)
    kept = number_names("kept", memory.kept)
    owner = torch.arange(len(lengths), device=device).repeat_interleave(each)
    rows = tuple(tensor[owner] for tensor in state)
    last = torch.randint(target_size, (len(owner),), generator=draws)
    step = model.step(last.to(device), rows, Memory(memory.kept, owner, each))
    inputs = {"last": last, **number_names("state", rows), **kept}
    started = {**number_names("state", state), **kept}
    return started, StepCase(step, owner, inputs, number_names("next", step.state))
