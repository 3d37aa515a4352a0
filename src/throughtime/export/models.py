"""Encoders, decoders and heads as operators."""

from __future__ import annotations

from typing import NamedTuple, cast

from torch import nn

from throughtime.cells.base import GraphState as State
from throughtime.errors import InputError
from throughtime.export.graph import Graph
from throughtime.export.layers import attend, attention_keys, pool
from throughtime.export.recurrence import first_state, run_stack, step_cell, step_stack
from throughtime.layers.attention import Attention
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack
from throughtime.models.decoders import AttentionDecoder, ConditionalDecoder, ContextDecoder
from throughtime.models.heads import AdaptiveHead, Head, MixtureHead, SoftmaxHead
from throughtime.models.language import RecurrentLanguageModel
from throughtime.models.seq2seq import Bridge, Decoder, RecurrentEncoder


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


def encode(graph: Graph, encoder: RecurrentEncoder, source: str, lengths: str) -> Encoded:
    """What a recurrent encoder makes of its sources; the states of both directions side by side."""
    outputs, flat = run_stack(
        graph, encoder.stack, graph.lookup(encoder.embedding.weight, source), None, lengths
    )
    parts = len(encoder.stack.state_sizes) // encoder.stack.num_layers // (1 + encoder.stack.bidirectional)
    state: State = flat
    if encoder.stack.bidirectional:
        layers = [flat[first : first + 2 * parts] for first in range(0, len(flat), 2 * parts)]
        state = tuple(
            graph.op("Concat", own[part], own[parts + part], axis=-1)
            for own in layers
            for part in range(parts)
        )
    return Encoded(outputs, state, state[-parts], lengths)


def embed(graph: Graph, model: RecurrentLanguageModel, ids: str) -> str:
    """Vectors of ids [T, B]; those of NOTHING are zeros."""
    zero = graph.constant(0, "int64")
    real = graph.op("Unsqueeze", graph.op("GreaterOrEqual", ids, zero), graph.axes(-1))
    vectors = graph.lookup(model.embedding.weight, graph.op("Max", ids, zero))
    return graph.op("Where", real, vectors, graph.constant(0.0))


def start_decoder(graph: Graph, decoder: Decoder, encoded: Encoded) -> tuple[State, State]:
    """The first state, and what is kept for each sentence."""
    if isinstance(decoder, AttentionDecoder):
        state = _first_decoder_state(graph, decoder.stack, decoder.bridge, encoded)
        own_keys, values, padding = _remember(graph, decoder.attention, encoded)
        if decoder.input_feeding:
            nothing = graph.constant([[0.0] * decoder.output_size])
            sentences = graph.size(encoded.final, 0)
            state += (graph.op("Expand", nothing, graph.sizes(sentences, decoder.output_size)),)
        return state, (own_keys, graph.linear(values, decoder.from_context.weight), padding)
    if isinstance(decoder, ConditionalDecoder):
        kept = _remember(graph, decoder.attention, encoded)
        if decoder.bridge is None:
            return first_state(graph, decoder.first, graph.size(encoded.final, 0)), kept
        return bridge_state(graph, decoder.bridge, encoded.state), kept
    if isinstance(decoder, ContextDecoder):
        state = _first_decoder_state(graph, decoder.stack, decoder.bridge, encoded)
        if decoder.context is None:
            return state, ()
        return state, (pool(graph, decoder.context, encoded.outputs, encoded.final, encoded.lengths),)
    raise InputError("export", f"knows no ONNX operators for the decoder {type(decoder).__name__}")


def step_decoder(graph: Graph, decoder: Decoder, last: str, state: State, kept: State) -> Stepped:
    """Read one token a row, [rows]; each sentence has as many rows, side by side."""
    if isinstance(decoder, AttentionDecoder):
        return _attention(graph, decoder, last, state, kept)
    if isinstance(decoder, ConditionalDecoder):
        return _conditional(graph, decoder, last, state, kept)
    assert isinstance(decoder, ContextDecoder)
    return _context(graph, decoder, last, state, kept)


def bridge_state(graph: Graph, bridge: Bridge, state: State) -> State:
    """From the encoder's last state to the decoder's first."""
    if not bridge.layers:
        return state
    layers = cast(list[nn.Linear], list(bridge.layers))
    sources = state if bridge.pairwise else (graph.op("Concat", *state, axis=-1),) * len(layers)
    return tuple(
        graph.op("Tanh", graph.linear(source, layer.weight, layer.bias))
        for layer, source in zip(layers, sources, strict=True)
    )


def _first_decoder_state(graph: Graph, stack: Stack, bridge: Bridge | None, encoded: Encoded) -> State:
    if bridge is not None:
        return bridge_state(graph, bridge, encoded.state)
    cells = [cell for layer in cast(list[Layer], list(stack.layers)) for cell in layer.cells]
    sentences = graph.size(encoded.final, 0)
    return tuple(part for cell in cells for part in first_state(graph, cell, sentences))


def _remember(graph: Graph, attention: Attention, encoded: Encoded) -> tuple[str, str, str]:
    values = graph.op("Transpose", encoded.outputs, perm=[1, 0, 2])
    steps = graph.steps(values, 1)
    past = graph.op("GreaterOrEqual", steps, graph.op("Unsqueeze", encoded.lengths, graph.axes(-1)))
    return attention_keys(graph, attention, values), values, past


def _attention(graph: Graph, decoder: AttentionDecoder, last: str, state: State, kept: State) -> Stepped:
    x = graph.lookup(decoder.embedding.weight, last)
    if decoder.input_feeding:
        x, state = graph.op("Concat", x, state[-1], axis=-1), state[:-1]
    seen, reached = step_stack(graph, decoder.stack, x, state)
    context, weights = attend(graph, decoder.attention, seen, *kept)
    mixed = graph.op("Add", graph.linear(seen, decoder.from_state.weight, decoder.from_state.bias), context)
    output = graph.op("Tanh", _norm(graph, decoder.norm, mixed))
    return Stepped(output, (*reached, output) if decoder.input_feeding else reached, weights)


def _conditional(graph: Graph, decoder: ConditionalDecoder, last: str, state: State, kept: State) -> Stepped:
    y = graph.lookup(decoder.embedding.weight, last)
    asking = step_cell(graph, decoder.first, y, state)
    context, weights = attend(graph, decoder.attention, asking[0], *kept)
    reached = step_cell(graph, decoder.second, context, asking)
    together = graph.op("Concat", reached[0], y, context, axis=-1)
    mixed = graph.linear(together, decoder.mix.weight, decoder.mix.bias)
    return Stepped(graph.op("Tanh", _norm(graph, decoder.norm, mixed)), reached, weights)


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
    y, reached = step_stack(graph, decoder.stack, graph.concat(parts), state)
    if decoder.output is not None:
        y = graph.linear(y, decoder.output.weight, decoder.output.bias)
    return Stepped(y, reached, None)


def _norm(graph: Graph, norm: nn.LayerNorm | None, x: str) -> str:
    return x if norm is None else graph.layer_norm(x, norm.weight, norm.bias, norm.eps)


def log_probs(graph: Graph, head: Head, hidden: str) -> str:
    """ln P of every word: [..., H] -> [..., V]."""
    if isinstance(head, SoftmaxHead):
        return graph.op("LogSoftmax", graph.linear(hidden, head.weight, head.bias), axis=-1)
    if isinstance(head, AdaptiveHead):
        return _adaptive(graph, head, hidden)
    if isinstance(head, MixtureHead):
        return _mixture(graph, head, hidden)
    raise InputError("export", f"knows no ONNX operators for the head {type(head).__name__}")


def _adaptive(graph: Graph, head: AdaptiveHead, hidden: str) -> str:
    softmax = head.softmax
    frequent = softmax.shortlist_size
    first = graph.op("LogSoftmax", graph.linear(hidden, softmax.head.weight, softmax.head.bias), axis=-1)
    parts = [graph.slice(first, 0, frequent, -1)]
    for number, tail in enumerate(softmax.tail):
        narrow, wide = (cast(nn.Linear, part) for part in cast(nn.Sequential, tail))
        within = graph.linear(graph.linear(hidden, narrow.weight), wide.weight)
        kind = graph.slice(first, frequent + number, frequent + number + 1, -1)
        parts.append(graph.op("Add", kind, graph.op("LogSoftmax", within, axis=-1)))
    return graph.op("Concat", *parts, axis=-1)


def _mixture(graph: Graph, head: MixtureHead, hidden: str) -> str:
    """Expert after expert, so that no more than two distributions are there at once."""
    shares = graph.op("LogSoftmax", graph.linear(hidden, head.shares.weight), axis=-1)
    states = graph.op("Tanh", graph.linear(hidden, head.states.weight, head.states.bias))
    width = head.softmax.weight.shape[1]
    together = ""
    for expert in range(head.experts):
        state = graph.slice(states, expert * width, (expert + 1) * width, -1)
        each = graph.op("LogSoftmax", graph.linear(state, head.softmax.weight, head.softmax.bias), axis=-1)
        joint = graph.op("Add", each, graph.slice(shares, expert, expert + 1, -1))
        together = _log_sum(graph, together, joint) if together else joint
    return together


def _log_sum(graph: Graph, first: str, second: str) -> str:
    """ln(exp a + exp b), which is the larger one and ln(1 + exp(-|a - b|))."""
    apart = graph.op("Neg", graph.op("Abs", graph.op("Sub", first, second)))
    more = graph.op("Log", graph.op("Add", graph.op("Exp", apart), graph.constant(1.0)))
    return graph.op("Add", graph.op("Max", first, second), more)
