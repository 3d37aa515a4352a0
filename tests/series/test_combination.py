"""The weighted mean of linear maps with the least error, against errors of the windows themselves."""

from __future__ import annotations

import numpy as np
import pytest

from throughtime.series.baselines import naive, seasonal_naive
from throughtime.series.linear_maps import (
    add_errors,
    certain_share,
    error_products,
    last_season,
    least_combination,
    whole_map,
)
from throughtime.series.ridge import Moments, windows_within

DRAWS = np.random.default_rng(0)


@pytest.mark.parametrize("offset", ["last", "mean", "none"])
def test_a_whole_map_forecasts_what_the_map_of_normalised_windows_does(offset):
    windows, weights = DRAWS.normal(size=(5, 9)) + 7, DRAWS.normal(size=(9, 3))
    level = {"last": windows[:, -1:], "mean": windows.mean(1, keepdims=True), "none": 0.0}[offset]
    assert np.allclose(windows @ whole_map(weights, offset), level + (windows - level) @ weights)


@pytest.mark.parametrize("horizon", [3, 7, 10])
def test_rules_are_those_of_the_baselines(horizon):
    y = DRAWS.normal(size=30)
    assert np.array_equal(y[-1:] @ last_season(horizon, 1), naive(y, horizon).mean)
    assert np.allclose(y[-7:] @ last_season(horizon, 7), seasonal_naive(y, horizon, 7).mean)


def test_products_of_errors_are_those_of_the_windows():
    values = DRAWS.normal(size=80)
    maps = [DRAWS.normal(size=(rows, 3)) for rows in (4, 9, 1)]
    found = error_products(Moments.of([values], [range(20, 80)], 9, 3, subtract_last=False), maps)
    windows = np.concatenate([*windows_within(values, range(20, 80), 9, 3)])
    errors = [windows[:, 9 - len(each) : 9] @ each - windows[:, 9:] for each in maps]
    assert np.allclose(found, [[(one * two).sum() for two in errors] for one in errors])


@pytest.mark.parametrize("seed", range(8))
def test_no_weights_have_a_lower_error(seed):
    """Where the error is least, no map with a weight is worse than the others, and none without is better."""
    draws = np.random.default_rng(seed)
    errors = draws.normal(size=(6, 40)) + draws.normal(size=40) * draws.uniform(0, 2)
    products = errors @ errors.T
    weights = least_combination(products)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    least = weights @ products @ weights
    slopes = products @ weights
    assert (slopes >= least * (1 - 1e-6)).all()
    assert np.allclose(slopes[weights > 0], least)
    for _ in range(200):
        other = draws.dirichlet(np.ones(6))
        assert least <= other @ products @ other + 1e-9


ZERO, FAR = np.zeros((1, 2)), np.full((1, 2), 3.0)


def errors_of(values, tested, first, second):
    sums = {}
    add_errors(sums, values, tested, first, second)
    return sums


def trials_of(first, second):
    values = np.random.default_rng(1).normal(size=300)
    return [errors_of(values, part, first, second) for part in (range(100, 200), range(200, 300))]


def test_a_certain_gain_is_taken_whole_and_an_uncertain_one_as_far_as_is_asked():
    assert certain_share(trials_of(FAR, ZERO)) == 1
    assert certain_share(trials_of(ZERO, FAR)) == 0
    assert certain_share(trials_of(ZERO, ZERO + 0.01), 0.5) == 0.5
    assert certain_share(trials_of(FAR, FAR)) == 0


def test_a_gain_on_the_rows_of_a_choice_is_not_certain():
    """With one trial there are no others to choose on."""
    trials = trials_of(FAR, ZERO)
    assert certain_share(trials[:1]) == 0
    assert certain_share(trials[:1], 0.5) == 0.5


def test_one_of_many_choices_needs_a_larger_gain():
    draws = np.random.default_rng(0)
    observed = [np.array([1.0, 1 - gain, 1 - 2 * gain]) for gain in draws.normal(0.06, 0.15, 40)]
    trials = [dict(enumerate(observed[:20])), dict(enumerate(observed[20:]))]
    gains = np.array([1 - other for _, _, other in observed])
    errors = gains.mean() / (gains.std(ddof=1) / np.sqrt(40))
    assert 2 < errors < 3
    assert certain_share(trials) == 1
    assert certain_share(trials, choices=100) == 0  # 3.5 standard errors
