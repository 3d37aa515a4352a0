"""Averages of weights: exponential, uniform, and when the latter begins."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses

from throughtime.fit.optimizers import Averaging, first_trigger

STEPPED = torch.tensor(True)


def parameters() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(4).double())]


def moved(weights, averaging: Averaging, updates: int, seed: int = 1) -> list[list[torch.Tensor]]:
    """Walk at random; what the weights were after each update."""
    draw = torch.Generator().manual_seed(seed)
    walk = []
    for _ in range(updates):
        with torch.no_grad():
            for weight in weights:
                weight += torch.randn(weight.shape, generator=draw, dtype=weight.dtype)
        averaging.update(STEPPED)
        walk.append([weight.detach().clone() for weight in weights])
    return walk


def averages(weights, averaging: Averaging) -> list[torch.Tensor]:
    with averaging.apply_averages():
        return [weight.detach().clone() for weight in weights]


def test_uniform_is_the_mean_of_all_updates_since_it_began():
    weights = parameters()
    averaging = Averaging(weights, "uniform")
    moved(weights, averaging, 3)
    assert not averaging.active
    assert torch.equal(averages(weights, averaging)[0], weights[0])
    averaging.begin()
    walk = moved(weights, averaging, 7)
    averaging.begin()  # once begun, it goes on
    walk += moved(weights, averaging, 4, seed=2)
    assert averaging.active
    for index, average in enumerate(averages(weights, averaging)):
        torch.testing.assert_close(average, torch.stack([step[index] for step in walk]).mean(0))


def test_ema_is_the_recursion_and_its_first_update_copies():
    weights = parameters()
    averaging = Averaging(weights, "ema", decay=0.8)
    [first] = moved(weights, averaging, 1)
    assert all(torch.equal(a, b) for a, b in zip(averages(weights, averaging), first, strict=True))
    walk = moved(weights, averaging, 79, seed=2)
    for index, average in enumerate(averages(weights, averaging)):
        expected = first[index]
        for update, step in enumerate(walk, 2):
            share = max(0.2, 10 / (update + 9))
            expected = (1 - share) * expected + share * step[index]
        torch.testing.assert_close(average, expected)


def test_the_weights_come_back_bit_for_bit_whatever_happens():
    weights = parameters()
    averaging = Averaging(weights, "ema", decay=0.5)
    moved(weights, averaging, 5)
    before = [weight.detach().clone() for weight in weights]
    places = [weight.data_ptr() for weight in weights]
    averaged = averages(weights, averaging)
    with pytest.raises(ZeroDivisionError), averaging.apply_averages():
        assert not torch.equal(weights[0], before[0])
        raise ZeroDivisionError
    assert all(torch.equal(a, b) for a, b in zip(weights, before, strict=True))
    assert [weight.data_ptr() for weight in weights] == places
    assert all(torch.equal(a, b) for a, b in zip(averages(weights, averaging), averaged, strict=True))


def test_misuse_inside_the_block_is_refused():
    averaging = Averaging(parameters(), "ema")
    with averaging.apply_averages():
        with pytest.raises(RuntimeError, match="before saving"):
            averaging.tensors()
        with pytest.raises(RuntimeError, match="already"), averaging.apply_averages():
            pass


@pytest.mark.parametrize("kind", ["ema", "uniform"])
def test_restored_it_goes_on_bit_for_bit(kind):
    weights = parameters()
    averaging = Averaging(weights, kind, decay=0.7)
    averaging.begin()
    moved(weights, averaging, 4)
    other_weights = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
    other = Averaging(other_weights, kind, decay=0.7)
    saved = {name: value.clone() for name, value in averaging.tensors().items()}
    other.restore({"model.weight": torch.zeros(1), **saved})
    for one, its in ((averaging, weights), (other, other_weights)):
        moved(its, one, 3, seed=9)
    for a, b in zip(averages(weights, averaging), averages(other_weights, other), strict=True):
        assert torch.equal(a, b)


def test_what_does_not_fit_is_refused():
    weights = parameters()
    saved = Averaging(weights, "ema").tensors()
    Averaging(weights, "uniform").restore({"model.weight": torch.zeros(1)})  # nothing averaged yet
    with refuses("checkpoint"):
        Averaging(weights, "none").restore(saved)
    with refuses("checkpoint", "2", "1"):
        Averaging(weights[:1], "ema").restore(saved)
    with refuses("checkpoint", "average.0", "[3, 2]", "[4]"):
        Averaging(weights[::-1], "ema").restore(saved)


def test_the_trigger_of_the_paper():
    falling = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0]
    assert first_trigger(falling, 2) is None
    assert first_trigger([1.0, 2.0, 2.0], 2) is None  # too few epochs to judge
    assert first_trigger([1.0, 2.0, 2.0, 2.0], 2) == 3
    assert first_trigger([*falling, 4.5], 2) is None  # the last two before it do not count
    assert first_trigger([*falling, 4.5, 5.5, 4.5], 2) == 7
    assert first_trigger([1.0, 1.0], 0) is None  # equal is not worse


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("kind", ["ema", "uniform"])
def test_on_a_gpu_nothing_waits_for_the_host(kind):
    def averaged(device):
        weights = [torch.nn.Parameter(torch.zeros(5, device=device))]
        averaging, stepped = Averaging(weights, kind, decay=0.5), STEPPED.to(device)
        averaging.begin()
        torch.cuda.set_sync_debug_mode("error")
        try:
            for _ in range(2):
                with torch.no_grad():
                    weights[0] += 1
                averaging.update(stepped)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return averages(weights, averaging)[0].tolist()

    assert averaged("cuda") == averaged("cpu")
