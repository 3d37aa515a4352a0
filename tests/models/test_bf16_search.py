"""A model that search runs in bf16, beside the same under autocast and in float32."""

from __future__ import annotations

import pytest
import torch

from throughtime.models import search_models
from throughtime.models.search_models import Bf16Model, ProductsInFewShapes, round_up_rows
from throughtime.search.beam import Beam
from throughtime.search.generate import generate
from throughtime.tasks.translate.network import PRESETS, build

PROMPTS = [[3, 4, 5], [6], [], [7, 8, 9, 10, 2]]


def built(preset, **options):
    torch.manual_seed(0)
    return build(preset, 11, 13, bos_id=1, embedding_size=8, hidden_size=12, **options).eval()


def stepped(model, steps=4):
    """The log-probabilities of some steps, one token for all rows."""
    last, state, memory = model.start(PROMPTS)
    found = []
    for number in range(steps):
        step = model.step(last, state, memory)
        found.append(step.log_probs)
        last, state = torch.full_like(last, 3 + number), step.state
    return torch.stack(found)


@pytest.mark.parametrize("options", [{}, {"layer_norm": True}, {"encoder_size": 5}], ids=str)
@pytest.mark.parametrize("preset", PRESETS)
def test_it_is_the_model_in_autocast(preset, options):
    model = built(preset, **options)
    with torch.no_grad():
        found, exact = stepped(Bf16Model(model)), stepped(model)
        with torch.autocast("cpu", torch.bfloat16):
            expected = stepped(model)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.03, rtol=0.01)
    torch.testing.assert_close(found, exact, atol=0.05, rtol=0.02)
    assert not torch.equal(found, exact)


@pytest.fixture
def asked(monkeypatch):
    """The numbers of rows of the products in few shapes."""
    rows, own = [], search_models.linear

    def product(x, weight, bias=None):
        rows.append(x.numel() // x.shape[-1])
        return own(x, weight, bias)

    monkeypatch.setattr(search_models, "linear", product)
    return rows


@pytest.mark.parametrize("rows", [1, 8, 13, 70])
@pytest.mark.parametrize("bias", [True, False])
def test_products_in_few_shapes_are_the_same(rows, bias, asked):  # R114
    torch.manual_seed(0)
    layer = torch.nn.Linear(20, 30, bias=bias).bfloat16()
    x = torch.randn(2, rows, 20)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = layer(x)
        with ProductsInFewShapes():
            found = layer(x)
            named = torch.nn.functional.linear(x, bias=layer.bias, weight=layer.weight)
    assert asked == [round_up_rows(2 * rows)] * 2
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(named, expected)
    assert found.shape == expected.shape == (2, rows, 30)


def test_a_search_asks_for_few_shapes(asked):  # R114
    model, stepped = Bf16Model(built("attention")), []
    step = model.step
    model.step = lambda last, *others: stepped.append(len(last)) or step(last, *others)
    prompts = [[3 + number % 8] * (1 + number % 5) for number in range(9)]
    generate(model, prompts, Beam(2, 3, max_length=20), max_new_tokens=20)
    assert len({*stepped} - {8, 16, 24, 32}) > 1
    assert {*asked} == {round_up_rows(rows) for rows in stepped}


def test_it_follows_the_weights_and_leaves_them_alone():
    model = built("attention", tied=True)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    rounded = Bf16Model(model)
    with torch.inference_mode():
        first = stepped(rounded)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    with torch.no_grad():
        model.head.bias[4] += 5.0
        second = stepped(rounded)
        torch.testing.assert_close(second, stepped(Bf16Model(model)))
    assert (second[:, :, 4] > first[:, :, 4]).all()


def test_every_search_runs_it():
    model = built("attention")
    found = generate(Bf16Model(model), PROMPTS, Beam(2, 3, max_length=9), max_new_tokens=9)
    expected = generate(model, PROMPTS, Beam(2, 3, max_length=9), max_new_tokens=9)
    for [one], [other] in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=0.05)
