"""Decoders as ONNX operators: how each begins from what the encoder knows, and one step of it."""

from __future__ import annotations

from typing import NamedTuple, cast

from torch import nn

from throughtime.cells.base import GraphState as State
from throughtime.errors import InputError
from throughtime.export.attention import attend, keys
from throughtime.export.graph import Graph
from throughtime.export.pooling import pooled
from throughtime.export.recurrence import first_state, step_cell
from throughtime.export.stack import step_stack
from throughtime.layers.attention import Attention
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack
from throughtime.models.attention_decoder import AttentionDecoder
from throughtime.models.bridge import Bridge
from throughtime.models.conditional_decoder import ConditionalDecoder
from throughtime.models.context_decoder import ContextDecoder
from throughtime.models.seq2seq import Decoder


class Encoded(NamedTuple):
    """What the encoder's operators gave, as in `throughtime.models.seq2seq.Encoded`."""

    outputs: str  # [T, S, H]
    state: State
    final: str  # [S, H]
    lengths: str  # [S]


class Stepped(NamedTuple):
    """What one step of a decoder gives."""

    output: str  # [rows, H]
    state: State
    attention: str | None  # [rows, T]


def start(graph: Graph, decoder: Decoder, encoded: Encoded) -> tuple[State, State]:
    """The first state, and what is kept for each sentence."""
    if isinstance(decoder, AttentionDecoder):
        state = _bridged(graph, decoder.stack, decoder.bridge, encoded)
        own_keys, values, padding = _remembered(graph, decoder.attention, encoded)
        if decoder.input_feeding:
            nothing = graph.constant([[0.0] * decoder.output_size])
            sentences = graph.size(encoded.final, 0)
            state += (graph.op("Expand", nothing, graph.sizes(sentences, decoder.output_size)),)
        return state, (own_keys, graph.linear(values, decoder.from_context.weight), padding)
    if isinstance(decoder, ConditionalDecoder):
        kept = _remembered(graph, decoder.attention, encoded)
        if decoder.bridge is None:
            return first_state(graph, decoder.first, graph.size(encoded.final, 0)), kept
        return bridged(graph, decoder.bridge, encoded.state), kept
    if isinstance(decoder, ContextDecoder):
        state = _bridged(graph, decoder.stack, decoder.bridge, encoded)
        if decoder.context is None:
            return state, ()
        return state, (pooled(graph, decoder.context, encoded.outputs, encoded.final, encoded.lengths),)
    raise InputError("export", f"knows no ONNX operators for the decoder {type(decoder).__name__}")


def step_decoder(graph: Graph, decoder: Decoder, last: str, state: State, kept: State) -> Stepped:
    """Read one token a row, [rows]; each sentence has as many rows, side by side."""
    if isinstance(decoder, AttentionDecoder):
        return _attention(graph, decoder, last, state, kept)
    if isinstance(decoder, ConditionalDecoder):
        return _conditional(graph, decoder, last, state, kept)
    assert isinstance(decoder, ContextDecoder)
    return _context(graph, decoder, last, state, kept)


def bridged(graph: Graph, bridge: Bridge, state: State) -> State:
    """From the encoder's last state to the decoder's first."""
    if not bridge.layers:
        return state
    layers = cast(list[nn.Linear], list(bridge.layers))
    sources = state if bridge.pairwise else (graph.op("Concat", *state, axis=-1),) * len(layers)
    return tuple(
        graph.op("Tanh", graph.linear(source, layer.weight, layer.bias))
        for layer, source in zip(layers, sources, strict=True)
    )


def _bridged(graph: Graph, stack: Stack, bridge: Bridge | None, encoded: Encoded) -> State:
    if bridge is not None:
        return bridged(graph, bridge, encoded.state)
    cells = [cell for layer in cast(list[Layer], list(stack.layers)) for cell in layer.cells]
    sentences = graph.size(encoded.final, 0)
    return tuple(part for cell in cells for part in first_state(graph, cell, sentences))


def _remembered(graph: Graph, attention: Attention, encoded: Encoded) -> tuple[str, str, str]:
    values = graph.op("Transpose", encoded.outputs, perm=[1, 0, 2])
    zero, one = graph.constant(0, "int64"), graph.constant(1, "int64")
    steps = graph.op("Range", zero, graph.op("Squeeze", graph.size(values, 1)), one)
    past = graph.op("GreaterOrEqual", steps, graph.op("Unsqueeze", encoded.lengths, graph.axes(-1)))
    return keys(graph, attention, values), values, past


def _attention(graph: Graph, decoder: AttentionDecoder, last: str, state: State, kept: State) -> Stepped:
    x = graph.lookup(decoder.embedding.weight, last)
    if decoder.input_feeding:
        x, state = graph.op("Concat", x, state[-1], axis=-1), state[:-1]
    seen, reached = step_stack(graph, decoder.stack, x, state)
    context, weights = attend(graph, decoder.attention, seen, *kept)
    mixed = graph.op("Add", graph.linear(seen, decoder.from_state.weight, decoder.from_state.bias), context)
    output = graph.op("Tanh", _normed(graph, decoder.norm, mixed))
    return Stepped(output, (*reached, output) if decoder.input_feeding else reached, weights)


def _conditional(graph: Graph, decoder: ConditionalDecoder, last: str, state: State, kept: State) -> Stepped:
    y = graph.lookup(decoder.embedding.weight, last)
    asking = step_cell(graph, decoder.first, y, state)
    context, weights = attend(graph, decoder.attention, asking[0], *kept)
    reached = step_cell(graph, decoder.second, context, asking)
    together = graph.op("Concat", reached[0], y, context, axis=-1)
    mixed = graph.linear(together, decoder.mix.weight, decoder.mix.bias)
    return Stepped(graph.op("Tanh", _normed(graph, decoder.norm, mixed)), reached, weights)


def _context(graph: Graph, decoder: ContextDecoder, last: str, state: State, kept: State) -> Stepped:
    parts = []
    rows = graph.size(last, 0)
    if decoder.embedding is not None:
        parts.append(graph.lookup(decoder.embedding.weight, last))
    if decoder.context is not None:
        sentences, width = graph.size(kept[0], 0), graph.size(kept[0], 1)
        each = graph.op("Div", rows, sentences)
        whole = graph.op(
            "Expand", graph.op("Unsqueeze", kept[0], graph.axes(1)), graph.sizes(sentences, each, width)
        )
        parts.append(graph.op("Reshape", whole, graph.sizes(-1, width)))
    if not parts:
        parts.append(graph.op("Expand", graph.constant([[0.0]]), graph.sizes(rows, 1)))
    x = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=-1)
    y, reached = step_stack(graph, decoder.stack, x, state)
    if decoder.output is not None:
        y = graph.linear(y, decoder.output.weight, decoder.output.bias)
    return Stepped(y, reached, None)


def _normed(graph: Graph, norm: nn.LayerNorm | None, x: str) -> str:
    return x if norm is None else graph.layer_norm(x, norm.weight, norm.bias, norm.eps)
