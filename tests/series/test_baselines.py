"""Rules of thumb as forecasters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from tests.refusals import refuses

from throughtime.data.panel import Frequency, Panel, Series
from throughtime.series.baselines import BASELINES, Baseline, find_season

PANEL = Panel((Series.of("a", np.random.default_rng(0).normal(size=50).cumsum()),), None)


@pytest.mark.parametrize(
    ("frequency", "season"),
    [
        (Frequency(3_600, "second"), 24),
        (Frequency(86_400, "second"), 7),
        (Frequency(1, "month"), 12),
        (Frequency(3, "month"), 4),
        (None, 1),
    ],
)
def test_a_season_is_what_people_expect_of_the_frequency(frequency: Frequency | None, season: int) -> None:
    assert find_season(Panel(PANEL.series, frequency)) == season


@pytest.mark.parametrize("name", BASELINES)
def test_quantiles_and_samples_are_those_of_the_gaussian(name: str) -> None:
    [told] = Baseline(name, season=5).predict(PANEL, 3, probabilities=[0.1, 0.5, 0.9], paths=20_000)
    mean, deviation = BASELINES[name](PANEL.series[0].y, 3, 5)
    np.testing.assert_allclose(told.quantiles[0.9], mean + norm.ppf(0.9) * deviation)
    np.testing.assert_allclose(told.quantiles[0.5], told.mean)
    assert told.ds.tolist() == [50, 51, 52]
    assert told.samples is not None
    np.testing.assert_allclose(told.samples.mean(axis=0), mean, atol=0.05 * deviation.max())
    np.testing.assert_allclose(told.samples.std(axis=0), deviation, rtol=0.03)
    [again] = Baseline(name, season=5).predict(PANEL, 3, paths=20_000)
    np.testing.assert_array_equal(again.samples, told.samples)


def test_errors_name_the_series_and_the_rule() -> None:
    with refuses("series 'a'", "99"):
        Baseline("seasonal-naive", season=99).predict(PANEL, 1)
    with refuses("baseline", "'drfit'", "'drift'"):
        Baseline("drfit")
    with refuses("season", "0"):
        Baseline("naive", season=0)
