"""Rules of thumb against textbooks' formulas and statsmodels."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.series.baselines import drift, naive, repeated_rows, seasonal_naive

Y = np.random.default_rng(3).normal(size=40).cumsum() + 50


@pytest.mark.parametrize(
    ("rule", "order", "seasonal", "h"),
    [(naive, (0, 1, 0), (0, 0, 0, 0), 5), (partial(seasonal_naive, season=4), (0, 0, 0), (0, 1, 0, 4), 10)],
)
def test_naive_rules_are_statsmodels_random_walks(rule, order, seasonal, h) -> None:
    arima = pytest.importorskip("statsmodels.tsa.arima.model")
    told = arima.ARIMA(Y, order=order, seasonal_order=seasonal).fit().get_forecast(h)
    mean, deviation = rule(Y, h)
    np.testing.assert_allclose(mean, told.predicted_mean, rtol=1e-6)
    np.testing.assert_allclose(deviation, told.se_mean, rtol=1e-3)


def test_drift_has_the_slope_of_a_regression_on_changes_and_its_uncertainty() -> None:
    regression = pytest.importorskip("statsmodels.regression.linear_model")
    fit = regression.OLS(np.diff(Y), np.ones(len(Y) - 1)).fit()
    mean, deviation = drift(Y, 6)
    ahead = np.arange(1, 7)
    np.testing.assert_allclose(mean, Y[-1] + ahead * fit.params[0])
    np.testing.assert_allclose(deviation, np.sqrt(ahead * fit.mse_resid + (ahead * fit.bse[0]) ** 2))


def test_a_hand_calculation() -> None:
    y = np.array([1.0, 3.0, 2.0, 6.0])
    s = math.sqrt((4 + 1 + 16) / 3)
    np.testing.assert_allclose(naive(y, 2).deviation, [s, s * math.sqrt(2)])
    s = math.sqrt((1 + 9) / 2)
    np.testing.assert_allclose(seasonal_naive(y, 3, 2).mean, [2, 6, 2])
    np.testing.assert_allclose(seasonal_naive(y, 3, 2).deviation, [s, s, s * math.sqrt(2)])
    slope = 5 / 3
    s = math.sqrt(((2 - slope) ** 2 + (-1 - slope) ** 2 + (4 - slope) ** 2) / 2)
    np.testing.assert_allclose(drift(y, 1).deviation, [s * math.sqrt(1 + 1 / 3)])


def test_missing_values_at_the_end_make_the_way_longer() -> None:
    y = np.array([1.0, 3.0, 2.0, 6.0])
    gone = np.array([1.0, 3.0, 2.0, 6.0, np.nan, np.nan])
    for rule in (naive, drift):
        np.testing.assert_allclose(rule(gone, 3).mean, rule(y, 5).mean[2:])
        np.testing.assert_allclose(rule(gone, 3).deviation, rule(y, 5).deviation[2:])
    np.testing.assert_allclose(seasonal_naive(gone, 3, 2).mean, seasonal_naive(y, 5, 2).mean[2:])
    np.testing.assert_allclose(seasonal_naive(gone, 3, 2).deviation, seasonal_naive(y, 5, 2).deviation[2:])


def test_rows_that_are_repeated_step_back_whole_seasons() -> None:
    observed = np.random.default_rng(0).random(50) < 0.5
    origins = np.array([3, 20, 50])
    for season in (1, 4, 7):
        rows = repeated_rows(observed, origins, 9, season)
        for k in range(9):
            for place, origin in enumerate(origins):
                back = [row for row in range(origin) if (origin + k - row) % season == 0 and observed[row]]
                assert rows[k, place] == max(back, default=-1)


def test_too_short_histories() -> None:
    with refuses("the history"):
        naive(np.array([np.nan, np.nan]), 1)
    with refuses("the history", "3"):
        seasonal_naive(np.array([1.0, 2.0]), 1, 3)
    assert math.isnan(naive(np.array([4.0]), 1).deviation[0])
    assert naive(np.array([4.0]), 1).mean[0] == 4
