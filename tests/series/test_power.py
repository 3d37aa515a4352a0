"""Powers of Box and Cox: there and back, the likeliest one, and what they are not for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from tests.refusals import refuses

from throughtime.series.scaling import (
    POWERS,
    Scale,
    apply_power,
    fit_power,
    fit_scale,
    likelihood,
)

POSITIVE = arrays(np.float64, st.integers(1, 12), elements=st.floats(1e-3, 1e6))


@given(POSITIVE, st.floats(0.01, 1))
def test_a_power_is_scipys(values, power):
    expected = values if power == 1 else stats.boxcox(values, power)
    np.testing.assert_allclose(apply_power(values, power), expected, rtol=1e-9, atol=1e-9)


def test_the_likeliest_power_is_scipys():
    values = np.random.default_rng(0).gamma(3, size=500)
    for power in (0.0, 0.3, 1.0):
        assert likelihood(values, power) == pytest.approx(stats.boxcox_llf(power, values))
    assert fit_power("a", values, "box-cox") == pytest.approx(
        stats.boxcox_normmax(values, method="mle"), abs=0.01
    )


def test_growth_asks_for_the_logarithm_and_noise_for_nothing():
    draws = np.random.default_rng(1)
    assert fit_power("a", np.exp(draws.normal(size=2000)), "box-cox") < 0.1
    assert fit_power("a", 100 + draws.normal(size=2000), "none") == 1
    assert min(POWERS) == 0
    assert max(POWERS) == 1


def test_scales_of_transformed_series():
    values = np.exp(np.array([1.0, 3.0, np.nan]))
    assert fit_scale("a", values, "standard", 0.0) == pytest.approx(Scale(2.0, 1.0, 0.0))
    assert fit_scale("a", values, "standard") == Scale(values[:2].mean(), values[:2].std())


def test_what_is_not_positive_is_refused():
    with refuses("series 'a'", "-2", "transform=box-cox"):
        fit_power("a", np.array([3.0, -2.0]), "box-cox")
    with refuses("transform", "0", "transform=log"):
        apply_power(np.array([1.0, 0.0]), 0.0)
    assert apply_power(np.array([-1.0]), 1.0) == -1
