"""The learning-rate finder: which rate it suggests, and a search on a real task."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.refusals import refuses

from throughtime.errors import ThroughtimeError
from throughtime.fit.lr_finder import MAX_RATES, SPAN, UPDATES, find_learning_rate, suggest_rate

RATES = np.geomspace(1e-6, 10, 100)


def sweep(steepest: float, noise: float = 0.0, seed: int = 0) -> NDArray[np.float64]:
    """Losses that fall around one rate and explode at rates a hundred times as large."""
    fall = 4 / (1 + steepest / RATES)
    drawn: NDArray[np.float64] = np.random.default_rng(seed).normal(size=len(RATES)) * noise
    return 9.2 - fall + np.minimum((RATES / steepest / 100) ** 2, 1e6) + drawn


@pytest.mark.parametrize("steepest", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_the_steepest_place_is_found_within_a_third_of_a_decade_despite_noise(
    steepest: float, noise: float
) -> None:
    for seed in range(5):
        found = suggest_rate(list(RATES), list(sweep(steepest, noise, seed)))
        assert abs(np.log10(found / steepest)) < 0.4


def test_a_loss_that_never_falls_gives_no_rate_but_a_reason() -> None:
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=100) * 0.2
        with refuses("1.0e-06", "1.0e+01", error=ThroughtimeError):
            suggest_rate(list(RATES), list(5 + noise))
    with refuses("1.0e-06", "1.0e+01", error=ThroughtimeError):
        suggest_rate(list(RATES), [5.0] * 100)


def test_a_sweep_that_breaks_at_once_asks_for_smaller_rates() -> None:
    with refuses("3", error=ThroughtimeError):
        suggest_rate(list(RATES), [5.0, 5.1, 9.0] + [float("nan")] * 97)


def test_rates_and_losses_must_fit() -> None:
    with refuses("losses", "1", "2"):
        suggest_rate([0.1, 0.2], [1.0])
    with refuses("rates"):
        suggest_rate([0.2, 0.1], [1.0, 2.0])


def test_rates_rise_until_the_loss_breaks_away(language_task):
    task = language_task(optimizer="sgd", clip=None)
    found = find_learning_rate(task, task.config)
    updates = UPDATES["sgd"]
    ratio = SPAN ** (1 / (updates - 1))
    assert found.rates[0] == pytest.approx(MAX_RATES["sgd"] / SPAN)
    for low, high in zip(found.rates, found.rates[1:], strict=False):
        assert high == pytest.approx(ratio * low)
    assert len(found.rates) == len(found.losses) < updates  # a rate of 1000 is beyond hope, and not tried
    assert found.losses[-1] > 4 * found.losses[0]
    assert found.rates[0] < found.suggestion < found.rates[-1]
