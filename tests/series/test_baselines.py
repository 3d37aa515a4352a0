"""Rules of thumb as forecasters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from tests.refusals import refuses

from throughtime.data.panel import Frequency, Panel, Series
from throughtime.series.baselines import BASELINES, Baseline, find_season, rows_in_week
from throughtime.series.lookback import choose_ridge

WALK = np.random.default_rng(0).normal(size=50).cumsum()
PANEL = Panel((Series.of("a", WALK),), None)


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
    wave = WALK / 9 + 3 * np.sin(2 * np.pi * np.arange(50) / season)
    assert find_season(Panel((Series.of("a", wave),), frequency)) == season


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


SEASONS = {
    "noise": (lambda dice, n: dice.normal(size=n), 1),
    "a random walk": (lambda dice, n: dice.normal(size=n).cumsum(), 1),
    "twelve months": (lambda dice, n: np.resize(2 * dice.normal(size=12), n) + dice.normal(size=n), 12),
    "four months": (lambda dice, n: np.resize([3.0, -2.0, 1.0, 0.0], n) + dice.normal(size=n) / 2, 4),
}


@pytest.mark.parametrize("name", SEASONS)
def test_values_may_contradict_the_season_of_their_dates(name):
    draw, expected = SEASONS[name]
    months, dice = Frequency(1, "month"), np.random.default_rng(0)
    ds = months.grid(np.datetime64("2010-01-01"), 120)
    found = [find_season(Panel((Series.of("a", draw(dice, 120), ds),), months)) for _ in range(40)]
    assert found.count(expected) >= 34
    short = Series.of("a", draw(dice, 30), ds[:30])
    assert find_season(Panel((short,), months)) == 12  # too short to tell


def test_a_week_is_tried_beside_a_day():
    assert rows_in_week(Frequency(1800, "second"), 48) == 336
    assert rows_in_week(Frequency(1800, "second"), 12) is None
    assert rows_in_week(Frequency(86400, "second"), 7) is None
    assert rows_in_week(None, 24) is None
    dice = np.random.default_rng(0)
    hours = np.resize(dice.normal(size=24), 800) * np.resize(np.repeat([1, 1, 1, 1, 1, 0.3, 0.1], 24), 800)
    series = [hours + dice.normal(size=800) / 5]
    rows = [range(640)], [range(640, 720)]
    choices = [choose_ridge(series, *rows, [186, 24, 48], 24, season=24, week=week) for week in (None, 168)]
    assert choices[1].shares["last week"] > 0.2
    assert choices[1].gain > choices[0].gain
