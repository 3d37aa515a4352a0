"""Measures of forecasts against hand calculations, statsmodels and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from throughtime.metrics.forecast import (
    coverage,
    crps_quantiles,
    mae,
    mase,
    mse,
    pinball,
    rmse,
    seasonal_scale,
    smape,
)

GENERATOR = np.random.default_rng(0)
Y, F = GENERATOR.normal(size=(2, 7, 5))
numbers = arrays(np.float64, (3, 4), elements=st.floats(-1e3, 1e3))


def gaussian_crps(y: float, mean: float, deviation: float) -> float:
    z = (y - mean) / deviation
    return float(deviation * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / math.sqrt(math.pi)))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_errors_agree_with_statsmodels(axis: int | None) -> None:
    judge = pytest.importorskip("statsmodels.tools.eval_measures")
    np.testing.assert_allclose(mae(Y, F, axis), judge.meanabs(Y, F, axis), rtol=1e-12)
    np.testing.assert_allclose(mse(Y, F, axis), judge.mse(Y, F, axis), rtol=1e-12)
    np.testing.assert_allclose(rmse(Y, F, axis), judge.rmse(Y, F, axis), rtol=1e-12)


def test_the_figures_of_a_hand_calculation() -> None:
    y, forecast, history = [10.0, 12.0, 8.0], [11.0, 9.0, 8.0], [3.0, 5.0, 4.0, 9.0]
    assert mae(y, forecast) == pytest.approx(4 / 3)
    assert rmse(y, forecast) == pytest.approx(math.sqrt(10 / 3))
    assert smape(y, forecast) == pytest.approx((200 / 21 + 600 / 21 + 0) / 3)
    assert seasonal_scale(history, 1) == pytest.approx((2 + 1 + 5) / 3)
    assert seasonal_scale(history, 2) == pytest.approx((1 + 4) / 2)
    assert mase(y, forecast, seasonal_scale(history, 2)) == pytest.approx(4 / 3 / 2.5)
    assert pinball(y, forecast, 0.25) == pytest.approx((0.75 * 1 + 0.25 * 3 + 0) / 3)
    assert coverage(y, [10, 12.5, 0], [11, 13, 8]) == pytest.approx(2 / 3)


def test_the_seasonal_naive_forecast_of_its_own_history_has_a_scaled_error_of_one() -> None:
    history = GENERATOR.normal(size=40)
    assert mase(history[7:], history[:-7], seasonal_scale(history, 7)) == pytest.approx(1)


@pytest.mark.parametrize(("y", "mean", "deviation"), [(0.0, 0.0, 1.0), (2.5, 1.0, 0.5), (-3.0, 1.0, 2.0)])
def test_crps_of_a_gaussian_has_its_closed_form(y: float, mean: float, deviation: float) -> None:
    expected = gaussian_crps(y, mean, deviation)
    grid = np.arange(1, 1000) / 1000
    assert crps_quantiles(y, {p: norm.ppf(p, mean, deviation) for p in grid}) == pytest.approx(
        expected, rel=1e-3
    )


@given(numbers, numbers)
def test_bounds_and_symmetry(y: np.ndarray, forecast: np.ndarray) -> None:
    assert 0 <= smape(y, forecast) <= 200
    assert smape(y, forecast) == pytest.approx(smape(forecast, y))
    assert mae(y, forecast) <= rmse(y, forecast) + 1e-9
    assert pinball(y, forecast, 0.5) == pytest.approx(mae(y, forecast) / 2)


def test_what_was_not_observed_does_not_count() -> None:
    y = Y.copy()
    y[2, 3] = y[5, 0] = np.nan
    keep = ~np.isnan(y)
    assert mae(y, F) == pytest.approx(np.abs(y - F)[keep].mean())
    assert rmse(y, F) == pytest.approx(math.sqrt(((y - F) ** 2)[keep].mean()))
    assert coverage(y, F - 1, F + 1) == pytest.approx((np.abs(y - F) <= 1)[keep].mean())
    assert crps_quantiles(y, {0.4: F, 0.6: F + 1}) == pytest.approx(
        crps_quantiles(y[keep], {0.4: F[keep], 0.6: F[keep] + 1})
    )
    np.testing.assert_allclose(mae(y, F, axis=0)[0], np.abs(y - F)[[0, 1, 2, 3, 4, 6], 0].mean())
    assert math.isnan(mae([np.nan], [1.0]))


def test_a_series_without_a_scale_has_no_scaled_error_and_spoils_no_other() -> None:
    assert seasonal_scale([5.0, 5.0, 5.0], 1) == 0
    assert math.isnan(seasonal_scale([5.0, 6.0], 2))
    errors = mase([[1.0, 2.0], [1.0, 2.0]], [[2.0, 2.0], [9.0, 9.0]], [[2.0], [0.0]])
    assert errors == pytest.approx(0.25)
