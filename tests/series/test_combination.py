"""The weighted mean of linear maps with the least error, against errors of the windows themselves."""

from __future__ import annotations

import numpy as np
import pytest

from throughtime.series import combination
from throughtime.series.baselines import naive, seasonal_naive
from throughtime.series.combination import (
    add_maps,
    certain_share,
    error_products,
    last_season,
    least_combination,
    whole_map,
)
from throughtime.series.ridge import Moments, windows_within
from throughtime.series.trials import Trial

DRAWS = np.random.default_rng(0)


@pytest.mark.parametrize("offset", ["last", "mean", "none"])
def test_a_whole_map_forecasts_what_the_map_of_normalised_windows_does(offset):
    windows, weights = DRAWS.normal(size=(5, 9)) + 7, DRAWS.normal(size=(9, 3))
    level = {"last": windows[:, -1:], "mean": windows.mean(1, keepdims=True), "none": 0.0}[offset]
    assert np.allclose(windows @ whole_map(weights, offset), level + (windows - level) @ weights)


def test_the_mean_of_maps_forecasts_the_mean():
    windows, maps = DRAWS.normal(size=(5, 9)), [DRAWS.normal(size=(4, 3)), DRAWS.normal(size=(9, 3))]
    found = windows @ add_maps([(0.25, maps[0]), (0.75, maps[1])], 9)
    assert np.allclose(found, 0.25 * windows[:, -4:] @ maps[0] + 0.75 * windows @ maps[1])


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


def test_a_map_without_errors_is_enough():
    assert least_combination(np.diag([3.0, 0.0, 1.0])).tolist() == [0, 1, 0]


def trial_of(values, tested):
    return Trial([range(0)], [tested], Moments.of([values], [tested], 1, 2, subtract_last=False))


def test_a_certain_gain_is_taken_whole_and_an_uncertain_one_as_far_as_is_asked():
    values = DRAWS.normal(size=300)
    trial, zero = trial_of(values, range(100, 300)), np.zeros((1, 2))
    far = np.full((1, 2), 3.0)
    assert certain_share([values], [trial], [[far]], [[zero]]) == 1
    assert certain_share([values], [trial], [[zero]], [[far]]) == 0
    assert certain_share([values], [trial], [[zero]], [[zero + 0.01]], 0.5) == 0.5


def test_a_few_rows_are_no_evidence():
    values = DRAWS.normal(size=300)
    far, zero = np.full((1, 2), 3.0), np.zeros((1, 2))
    assert certain_share([values], [trial_of(values, range(100, 106))], [[far]], [[zero]]) == 0
    assert certain_share([values], [trial_of(values, range(100, 108))], [[far]], [[zero]]) > 0


def test_blocks_do_not_depend_on_how_windows_are_read(monkeypatch):
    """Very long series are read in several blocks of windows."""
    values = DRAWS.normal(size=200)
    maps = [[DRAWS.normal(size=(5, 8))] * 2, [DRAWS.normal(size=(3, 8)), DRAWS.normal(size=(3, 8))]]
    whole = combination._sum_blocks([values, values[:90]], [range(20, 200), range(90)], *maps)
    monkeypatch.setattr("throughtime.series.ridge.BLOCK", 13 * 7)
    parts = combination._sum_blocks([values, values[:90]], [range(20, 200), range(90)], *maps)
    assert len(whole) == len(parts)
    assert np.allclose(whole, parts)
