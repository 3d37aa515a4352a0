"""Forecasters: what they may see, how they feed on themselves, and what warms up."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses

from throughtime.data.panel import Window
from throughtime.layers.stack import Stack
from throughtime.models import window_networks
from throughtime.models.forecast_heads import PointHead
from throughtime.models.forecasters import DirectForecaster, Forecaster
from throughtime.models.recursive_forecasters import LatentAutoregression, RecursiveForecaster
from throughtime.models.window_networks import RecurrentNetwork, SegmentNetwork, WindowNetwork

LOOKBACK, HORIZON, BATCH = 12, 5, 3


def window(known=0, past=0, rows=LOOKBACK + HORIZON):
    generator = torch.Generator().manual_seed(0)
    return Window(
        torch.randn(rows, BATCH, generator=generator),
        torch.randn(LOOKBACK + HORIZON, BATCH, known, generator=generator),
        torch.randn(rows, BATCH, past, generator=generator),
        torch.tensor([0, 1, -1]),
    )


def forecaster(kind, normalise="none", known=0, past=0, head=None, warm_up=0) -> Forecaster:
    torch.manual_seed(1)
    head = head or PointHead()
    inputs, width = {"known": known, "past": past}, head.width
    if kind == "latent":
        stack = Stack("gru", 1 + known, 8)
        return LatentAutoregression(stack, head, LOOKBACK, HORIZON, normalise, warm_up=warm_up)
    if kind == "recursive":
        network = WindowNetwork(LOOKBACK, 1, width, **inputs, hidden_sizes=(8,))
        return RecursiveForecaster(network, head, LOOKBACK, HORIZON, normalise)
    if kind == "recurrent":
        stack = Stack("lstm", 1 + known + past, 8, 2)
        network = RecurrentNetwork(stack, HORIZON, width, known=known, warm_up=warm_up)
    elif kind == "segment":
        network = SegmentNetwork(LOOKBACK, HORIZON, width, segment=5, hidden_size=8, series=2, **inputs)
    else:
        network = WindowNetwork(LOOKBACK, HORIZON, width, **inputs)
    return DirectForecaster(network, head, LOOKBACK, HORIZON, normalise, highway=HIGHWAY.get(kind, "none"))


KINDS = ("linear", "recurrent", "segment", "recursive", "latent")
HIGHWAY = {"recurrent": "trained", "segment": "ridge"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalise", ["none", "last", "mean", "standard"])
def test_a_forecast_knows_nothing_of_its_future(kind, normalise):
    past = 0 if kind in ("latent", "recursive") else 1
    model, seen = forecaster(kind, normalise, known=2, past=past), window(2, past)
    changed = seen._replace(values=seen.values.clone(), past=seen.past.clone())
    changed.values[LOOKBACK:] += 9
    changed.past[LOOKBACK:] += 9
    first, second = (model.rollout(each, HORIZON, model.head.mean) for each in (seen, changed))
    assert first.shape == (HORIZON, BATCH)
    assert torch.equal(first, second)
    moved = seen._replace(known=seen.known.clone())
    moved.known[LOOKBACK:] += 1  # what is known of the future does count
    assert not torch.allclose(first, model.rollout(moved, HORIZON, model.head.mean))


@pytest.mark.parametrize("kind", ["recursive", "latent"])
def test_one_step_fed_back_is_the_recursion(kind):  # R4
    """Forecasts of one row, each from a window that ends in the last, are those of many rows at once."""
    model, seen = forecaster(kind), window(rows=LOOKBACK)
    many = model.rollout(seen, 4, model.head.mean)
    if kind == "latent":
        longer = seen.values
        for step in range(4):
            said = model(Window(torch.cat([longer, torch.zeros(1, BATCH)]), *_none(len(longer) + 1)))
            assert torch.allclose(model.head.mean(said.values[-1]), many[step], atol=1e-5)
            longer = torch.cat([longer, many[step : step + 1]])
        return
    values = seen.values
    for step in range(4):
        [one] = model.rollout(seen._replace(values=values), 1, model.head.mean)
        assert torch.allclose(one, many[step], atol=1e-6)
        values = torch.cat([values[1:], one.unsqueeze(0)])


def _none(rows):
    nothing = torch.zeros(rows, BATCH, 0)
    return nothing, nothing, torch.zeros(BATCH, dtype=torch.long)


def test_the_warm_up_has_no_loss_and_no_gradient():  # R42
    model, seen = forecaster("latent", warm_up=7), window()
    values = seen.values.clone().requires_grad_()
    said = model(seen._replace(values=values))
    assert (said.first, len(said.values)) == (7, LOOKBACK + HORIZON - 7)
    assert model.loss_rows == len(said.values)
    said.values.sum().backward()
    assert (values.grad[:6] == 0).all()
    assert (values.grad[6:-1] != 0).any(dim=1).all()
    model.warm_up_gradient = True
    values.grad = None
    model(seen._replace(values=values)).values.sum().backward()
    assert (values.grad[:6] != 0).any(dim=1).all()


def test_a_direct_network_warms_up_too():  # R42
    model, seen = forecaster("recurrent", warm_up=7), window()
    model.highway = None
    values = seen.values.clone().requires_grad_()
    model(seen._replace(values=values)).values.sum().backward()
    assert (values.grad[:7] == 0).all()
    assert (values.grad[7:LOOKBACK] != 0).any(dim=1).all()
    with refuses("warm_up", "13", "12"):
        forecaster("latent", warm_up=LOOKBACK + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_series_side_by_side_are_each_alone(kind):
    model, seen = forecaster(kind, "last"), window()
    together = model.rollout(seen, HORIZON, model.head.mean)
    for row in range(BATCH):
        alone = Window(*(each[:, row : row + 1] for each in seen[:3]), seen.numbers[row : row + 1])
        assert torch.allclose(
            model.rollout(alone, HORIZON, model.head.mean)[:, 0], together[:, row], atol=1e-6
        )


def test_segments_know_their_place_and_their_series():
    model = forecaster("segment").network
    same = Window(
        torch.ones(LOOKBACK, BATCH), torch.zeros(LOOKBACK + HORIZON, BATCH, 0), *_none(LOOKBACK)[1:]
    )
    found = model(same._replace(numbers=torch.tensor([0, 1, -1])))[..., 0]
    assert not torch.allclose(found[:, 0], found[:, 1])
    with torch.no_grad():
        model.series[:] = model.series.mean(0)
    mean = model(same._replace(numbers=torch.tensor([0, 1, -1])))[..., 0]
    assert torch.allclose(mean[:, 0], mean[:, 2])
    assert torch.allclose(mean[:, 2], found[:, 2], atol=1e-6)  # an unseen series is the mean of those seen


def test_horizons_that_do_not_fit_are_refused():
    model = forecaster("linear")
    with refuses("h", "6", "5"):
        model.rollout(window(), 6, model.head.mean)
    assert model.rollout(window(), 2, model.head.mean).shape == (2, BATCH)
    with refuses("segment", "5", "4"):
        SegmentNetwork(4, 4, 1, segment=5, hidden_size=8)
    with refuses("hidden_size", "7"):
        SegmentNetwork(4, 4, 1, segment=2, hidden_size=7)
    with refuses("normalise", "'first'"):
        forecaster("linear", "first")


@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("block", [1, 50, 10**6])
def test_each_window_has_the_map_of_its_series(few, block, monkeypatch):
    """All maps are applied to few series, and the needed ones are copied of many, in blocks of windows."""
    monkeypatch.setattr(window_networks, "FEW_SERIES", few)
    monkeypatch.setattr(window_networks, "MAP_BLOCK", block)
    draws = torch.Generator().manual_seed(0)
    own, past = torch.randn(7, 3, 5, generator=draws), torch.randn(20, 5, generator=draws)
    numbers = torch.randint(-1, 7, (20,), generator=draws)
    found = window_networks.apply_own_maps(own, past, numbers)
    maps = [own[number] if number >= 0 else torch.zeros(3, 5) for number in numbers]
    assert torch.allclose(
        found, torch.stack([each @ row for each, row in zip(maps, past, strict=True)]), atol=1e-6
    )
