"""Attention against its equations, written out one query and one key at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu import decoder, decoder_steps
from throughtime.layers.attention import ATTENTIONS, Additive, attend, build_memory, masked_softmax
from throughtime.search.generate import Memory

every_kind = pytest.mark.parametrize("name", ATTENTIONS)


def built(name, query_size=4, memory_size=4, scaled=False):
    torch.manual_seed(0)
    return ATTENTIONS[name](query_size, memory_size, scaled=scaled).double()


def score(attention, query, output):
    """One score, by the paper's letters."""
    if hasattr(attention, "energy"):
        inner = attention.query.weight @ query + attention.key.weight @ output + attention.key.bias
        found = attention.energy @ torch.tanh(inner)
    elif hasattr(attention, "key"):
        found = query @ attention.key.weight @ output
    else:
        found = query @ output
    width = attention.energy.numel() if hasattr(attention, "energy") else len(query)
    return found / width**0.5 if attention.scaled else found


@every_kind
@pytest.mark.parametrize("scaled", [False, True])
def test_attention_is_its_equations(name, scaled):  # R90
    attention = built(name, scaled=scaled)
    outputs = torch.randn(5, 2, 4, dtype=torch.float64)  # [T, S, H]
    lengths = torch.tensor([5, 3])
    query = torch.randn(2, 3, 4, dtype=torch.float64)  # [S, n, Q]
    context, weights = attention(query, *build_memory(attention, outputs, lengths))
    for s, length in enumerate(lengths.tolist()):
        for n in range(3):
            scores = torch.stack([score(attention, query[s, n], outputs[t, s]) for t in range(length)])
            expected = torch.softmax(scores, 0)
            torch.testing.assert_close(weights[s, n, :length], expected)
            assert not weights[s, n, length:].any()
            torch.testing.assert_close(context[s, n], expected @ outputs[:length, s])


@every_kind
def test_an_empty_sentence_gives_zeros_and_finite_gradients(name):
    attention = built(name)
    outputs = torch.zeros(2, 2, 4, dtype=torch.float64, requires_grad=True)
    query = torch.randn(2, 1, 4, dtype=torch.float64, requires_grad=True)
    context, weights = attention(query, *build_memory(attention, outputs, torch.tensor([0, 2])))
    assert not weights[0].any()
    assert not context[0].any()
    (context.sum() + weights.square().sum()).backward()
    assert torch.isfinite(query.grad).all()
    assert torch.isfinite(outputs.grad).all()


@every_kind
@pytest.mark.parametrize("owner", [[0, 0, 1, 1], [0, 1, 1, 1]])
def test_rows_of_a_sentence_share_its_keys(name, owner):
    attention = built(name)
    kept = build_memory(attention, torch.randn(5, 2, 4, dtype=torch.float64), torch.tensor([5, 3]))
    query = torch.randn(4, 4, dtype=torch.float64)
    memory = Memory(kept, torch.arange(2)).follow(torch.tensor(owner))
    context, weights = attend(attention, query, memory)
    for row, sentence in enumerate(owner):
        alone, seen = attention(query[None, row : row + 1], *(part[sentence : sentence + 1] for part in kept))
        torch.testing.assert_close(context[row], alone[0, 0])
        torch.testing.assert_close(weights[row], seen[0, 0])


def compare_kernel(name, owner, dtype, device, places=5, size=6, scaled=False):
    """What the kernel finds, beside torch, which serves where gradients are wanted."""
    attention = built(name, size, size, scaled).to(device, torch.float32)
    outputs = torch.randn(places, 3, size, device=device)
    keys, values, padding = build_memory(attention, outputs, torch.tensor([places, 0, 3]))
    memory = Memory((keys, values.to(dtype), padding), torch.tensor(owner, device=device), None)
    query = torch.randn(len(owner), size, device=device)
    addend = torch.randn(len(owner), size, device=device).to(dtype)
    context, weights = attend(attention, query, memory, addend.clone())
    with torch.no_grad():
        found, looks = attend(attention, query, memory, addend.clone())
        alone, _ = attend(attention, query, memory)
        shown, _ = attend(attention, query, memory, addend.clone(), show=True)
    assert not found.requires_grad
    assert found.dtype == dtype
    close = {"rtol": 2e-5, "atol": 2e-5} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 6e-2}
    torch.testing.assert_close(found, context, **close)
    torch.testing.assert_close(alone + addend, context, **close)
    torch.testing.assert_close(shown, context.tanh(), **close)
    torch.testing.assert_close(looks, weights, **close)
    assert not looks[torch.tensor(owner) == 1].any()


@every_kind
@pytest.mark.parametrize("scaled", [False, True])
def test_a_kernel_attends_for_rows_that_share_sentences(name, scaled, emulated_decoder, monkeypatch):
    monkeypatch.setattr(decoder, "is_available", lambda device: True)
    launched, launch = [], decoder.attend
    monkeypatch.setattr(decoder, "attend", lambda *given: launched.append(0) or launch(*given))
    compare_kernel(name, [0, 0, 1, 2, 2, 2], torch.float32, "cpu", scaled=scaled)
    compare_kernel(name, [2], torch.float32, "cpu", scaled=scaled)
    assert len(launched) == 6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_real_gpu_attends_for_rows_that_share_sentences(name, dtype, allow_tf32):
    allow_tf32(False)
    compare_kernel(name, [0] * 100 + [1] * 50 + [2] * 150, dtype, "cuda", places=33, size=64)


def test_a_kernel_that_does_not_compile_is_done_without(monkeypatch):
    def fail(*given):
        raise ThroughtimeError("a GPU kernel did not compile")

    monkeypatch.setattr(decoder, "is_available", lambda device: True)
    monkeypatch.setattr(decoder, "attend", fail)
    monkeypatch.setattr(decoder_steps, "_WITHOUT_KERNEL", set())
    with pytest.warns(ThroughtimeWarning):
        compare_kernel("additive", [0, 1, 2], torch.float32, "cpu")


def test_an_attention_of_ones_own_needs_no_kernel(emulated_decoder, monkeypatch):
    class Own(Additive):
        def scores(self, query, keys):
            return -super().scores(query, keys)

    monkeypatch.setattr(decoder, "is_available", lambda device: True)
    monkeypatch.setattr(decoder, "attend", None)
    own = Own(6, 6)
    memory = Memory(build_memory(own, torch.randn(5, 1, 6), torch.tensor([5])), torch.arange(1))
    with torch.no_grad():
        attend(own, torch.randn(1, 6), memory)


@settings(max_examples=30, deadline=None)
@given(length=st.integers(1, 6), size=st.floats(1e-3, 1e30), seed=st.integers(0, 99))
def test_padding_weighs_nothing_whatever_the_scores(length, size, seed):
    scores = torch.randn(1, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * size
    padding = torch.arange(6)[None] >= length
    weights = masked_softmax(scores, padding)
    torch.testing.assert_close(weights[0, :length], torch.softmax(scores[0, :length], 0))
    assert not weights[0, length:].any()


def test_what_does_not_fit_is_refused():
    with refuses("attention", "'dot'", "'general'"):
        ATTENTIONS["dot"](4, 6)
    with refuses("attention", "'aditive'", "'additive'"):
        ATTENTIONS["aditive"](4, 6)
    assert built("general", 4, 6).keys(torch.zeros(1, 2, 6, dtype=torch.float64)).shape == (1, 2, 4)
