"""Decoders against their equations, and the switches of each."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import nn

from throughtime.cells import GRU, LSTM
from throughtime.layers.attention import Additive
from throughtime.layers.stack import Stack
from throughtime.models.conditional import ConditionalDecoder
from throughtime.models.decoders import CONTEXTS, AttentionDecoder, ContextDecoder
from throughtime.models.seq2seq import Bridge, EncoderOutput
from throughtime.search.generate import Memory

B, T, H = 3, 4, 6


def encoded(lengths=(4, 2, 3), state_sizes=(H,)):
    torch.manual_seed(3)
    rows = torch.tensor(lengths)
    outputs = torch.randn(T, B, H) * (torch.arange(T)[:, None] < rows)[..., None]
    return EncoderOutput(
        outputs, tuple(torch.randn(B, size) for size in state_sizes), torch.randn(B, H), rows
    )


def memory_of(kept):
    return Memory(kept, torch.arange(B))


@pytest.mark.parametrize("length", [4, 1])
def test_contexts_are_last_mean_and_max_of_real_steps(length):  # R81
    source = encoded((length, 2, 0))
    inside = source.outputs[:length, 0]
    stack = Stack("gru", source.outputs.shape[2], 4)
    decoders = (ContextDecoder(stack, context=name, context_size=stack.input_size) for name in CONTEXTS)
    last, mean, most = (decoder.start(source)[1][0] for decoder in decoders)
    torch.testing.assert_close(mean[0], inside.mean(0))
    torch.testing.assert_close(most[0], inside.amax(0))
    assert torch.equal(last, source.final)
    assert not mean[2].any()
    assert not most[2].any()


def test_the_context_stays_the_same_through_decoding():  # R82, R85
    torch.manual_seed(0)
    decoder = ContextDecoder(Stack("gru", 5 + H, H), nn.Embedding(9, 5), context="mean", context_size=H)
    source = encoded()
    state, kept = decoder.start(source)
    context = source.outputs.sum(0) / source.lengths[:, None]
    cell, h = decoder.stack.layers[0].from_left, torch.zeros(B, H)
    for last in torch.randint(0, 9, (5, B)):
        one = decoder.step(last, state, memory_of(kept))
        state = one.state
        x = torch.cat([decoder.embedding(last), context], -1)
        (h,) = cell.step(cell.project(x[None])[0], (h,))
        torch.testing.assert_close(one.outputs, h)
        assert torch.equal(kept[0], context)


def test_a_decoder_without_inputs_ignores_tokens():  # R83, structures 1 and 2
    for decoder in (
        ContextDecoder(Stack("gru", 1, H), bridge=Bridge((H,), (H,))),
        ContextDecoder(Stack("gru", H, H, initial="learned"), context="last", context_size=H),
    ):
        state, kept = decoder.start(encoded())
        one, other = (
            decoder.run(ids, state, memory_of(kept)).outputs for ids in torch.randint(0, 9, (2, 5, B))
        )
        assert torch.equal(one, other)
        assert not torch.equal(one[:, 0], one[:, 1])  # but knows its source


def test_the_first_state_is_the_encoders_or_zero_or_learned():  # R83
    source = encoded()
    copied = ContextDecoder(Stack("gru", 1, H), bridge=Bridge((H,), (H,)))
    assert torch.equal(copied.start(source)[0][0], source.state[0])
    own = {
        initial: ContextDecoder(Stack("gru", H, H, initial=initial), context="last", context_size=H)
        for initial in ("zero", "learned")
    }
    for decoder in own.values():
        assert not decoder.start(source)[0][0].any()
    assert own["learned"].start(source)[0][0].requires_grad
    assert not own["zero"].start(source)[0][0].requires_grad


def test_a_bridge_joins_what_differs_or_refuses():  # R84
    with refuses("bridge", "[12]", "[6]"):
        Bridge((12,), (6,), project=False)
    same = (torch.randn(B, 6),)
    assert Bridge((6,), (6,), project=False)(same) is same
    bridge, state = Bridge((12, 12), (6, 6)), (torch.randn(B, 12), torch.randn(B, 12))
    for layer, part, found in zip(bridge.layers, state, bridge(state), strict=True):
        torch.testing.assert_close(found, torch.tanh(part @ layer.weight.T + layer.bias))
    deeper = Bridge((12,), (6, 6))((torch.randn(B, 12),))  # one layer read, an LSTM or two layers write
    assert [tuple(part.shape) for part in deeper] == [(B, 6), (B, 6)]


def test_input_feeding_is_its_equations():  # R90
    torch.manual_seed(0)
    decoder = AttentionDecoder(
        nn.Embedding(9, 5),
        Stack("lstm", 5 + 7, H),
        Additive(H, H),
        output_size=7,
        bridge=Bridge((H, H), (H, H)),
    )
    source = encoded(state_sizes=(H, H))
    state, kept = decoder.start(source)
    inputs = torch.randint(0, 9, (3, B))
    found = decoder.run(inputs, state, memory_of(kept))
    cell, s, fed = decoder.stack.layers[0].from_left, source.state, torch.zeros(B, 7)
    for t, last in enumerate(inputs):
        s = cell.step(cell.project(torch.cat([decoder.embedding(last), fed], -1)[None])[0], s)
        weights = decoder.attention(s[0][:, None], *kept)[1]
        context = torch.bmm(weights, source.outputs.transpose(0, 1))[:, 0]
        fed = torch.tanh(decoder.from_state(s[0]) + context @ decoder.from_context.weight.T)
        torch.testing.assert_close(found.outputs[t], fed)
        torch.testing.assert_close(found.extras["attention"][t], weights[:, 0])
    torch.testing.assert_close(found.state, (*s, fed))


def test_a_stack_of_ones_own_generates():
    class Halved(Stack):
        def step(self, x, state):
            return super().step(x / 2, state)

    torch.manual_seed(0)
    decoder = AttentionDecoder(
        nn.Embedding(9, 5),
        Halved("lstm", 5, H),
        Additive(H, H),
        output_size=7,
        input_feeding=False,
        bridge=Bridge((H, H), (H, H)),
    ).eval()
    state, kept = decoder.start(encoded(state_sizes=(H, H)))
    ids, cell = torch.tensor([3, 4, 4]), decoder.stack.layers[0].from_left
    found = decoder.step(ids, state, memory_of(kept))
    expected = cell.step(cell.project(decoder.embedding(ids)[None] / 2)[0], state)
    torch.testing.assert_close(found.state, expected)


def test_the_conditional_decoder_is_its_equations():
    torch.manual_seed(0)
    decoder = ConditionalDecoder(
        nn.Embedding(9, 5), GRU(5, H), GRU(H, H), Additive(H, H), output_size=7, bridge=Bridge((H,), (H,))
    )
    source = encoded()
    state, kept = decoder.start(source)
    inputs = torch.randint(0, 9, (3, B))
    found = decoder.run(inputs, state, memory_of(kept))
    (s,) = source.state
    for t, y in enumerate(decoder.embedding(inputs)):
        (asking,) = decoder.first.step(decoder.first.project(y[None])[0], (s,))
        context = decoder.attention(asking[:, None], *kept)[0][:, 0]
        (s,) = decoder.second.step(decoder.second.project(context[None])[0], (asking,))
        w1, w2, w3 = decoder.mix.weight.split([H, 5, H], dim=1)
        expected = torch.tanh(s @ w1.T + y @ w2.T + context @ w3.T + decoder.mix.bias)
        torch.testing.assert_close(found.outputs[t], expected)


def test_what_does_not_fit_is_refused():
    table = nn.Embedding(9, 5)
    with refuses("decoder", "bidirectional"):  # R66
        AttentionDecoder(table, Stack("gru", 5 + H, H, bidirectional=True), Additive(12, H), output_size=H)
    with refuses("decoder", "5", "11"):
        AttentionDecoder(table, Stack("gru", 5, H), Additive(H, H), output_size=H)
    with refuses("attention", "7"):
        AttentionDecoder(table, Stack("gru", 5 + H, H), Additive(7, H), output_size=H)
    with refuses("decoder"):
        ContextDecoder(Stack("gru", 5, H), table)
    with refuses("context", "'meen'", "'mean'"):
        ContextDecoder(Stack("gru", 5 + H, H), table, context="meen", context_size=H)
    with refuses("decoder", "6"):
        ConditionalDecoder(table, GRU(5, H), LSTM(H, H), Additive(H, H), output_size=H)
    with refuses("decoder", "5"):
        ConditionalDecoder(table, GRU(4, H), GRU(H, H), Additive(H, H), output_size=H)
