"""Intervals of simulated series cover as often as they say, and only seasons that exist are found."""

from __future__ import annotations

import numpy as np
import pytest

import throughtime as tt
from throughtime.data.panel import Frequency, Panel, Series
from throughtime.series.baselines import find_season

ROWS, FUTURE, SEEDS = 300, 900, 4


def simulate(kind: str, rows: int, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=rows + 100)
    if kind == "walk":
        return np.cumsum(noise)[100:]
    if kind == "ar1":
        for row in range(1, len(noise)):
            noise[row] += 0.7 * noise[row - 1]
    return noise[100:] + (3 * np.sin(np.pi * np.arange(rows) / 6) if kind == "seasonal" else 0)


@pytest.mark.parametrize("kind", ["white", "ar1", "walk", "seasonal"])
def test_intervals_cover_as_often_as_they_say(kind: str) -> None:  # R123
    """The mean of some series: the intervals of one depend on the few rows that they were measured on."""
    covered = []
    for seed in range(SEEDS):
        y = simulate(kind, ROWS + FUTURE, seed)
        rows = [{"unique_id": "s", "ds": row, "y": float(value)} for row, value in enumerate(y[:ROWS])]
        model = tt.train("forecast", rows, epochs=3, device="cpu", progress="none")
        assert model.config.season == (12 if kind == "seasonal" else None)
        h = model.config.horizon
        panel = Panel((Series.of("s", y),), None)
        tested = model.backtest(panel, n_windows=FUTURE // h, step_size=h, intervals="own")
        assert tested.trained_on == 0
        covered.append([tested.figures[0].total[f"coverage-{level}"] for level in (80, 95)])
    of_80, of_95 = np.mean(covered, axis=0)
    assert 76 < of_80 < 88
    assert 92 < of_95 < 98.5


@pytest.mark.parametrize(
    ("pattern", "noise", "trend"),
    [([1, 5, 2, 3], 0.5, 0), ([0, 1, 3, 2, 5, 1, 2], 1, 0.1), (np.sin(np.arange(12) * np.pi / 6), 0.3, 0.05)],
)
def test_a_season_is_found_in_numbered_rows(pattern, noise: float, trend: float) -> None:
    generator = np.random.default_rng(1)
    y = np.resize(pattern, 96) + noise * generator.normal(size=96) + trend * np.arange(96)
    gaps = np.where(generator.random(96) < 0.03, np.nan, y)
    for values in (y, gaps):
        assert find_season(Panel((Series.of("s", values),), None)) == len(pattern)
    # Dates that tell another season are not believed.
    hours = np.arange(96) * np.timedelta64(1, "h") + np.datetime64("2024-01-01", "ns")
    dated = Panel((Series.of("s", y, hours),), Frequency(3600, "second"))
    assert find_season(dated) == len(pattern)


@pytest.mark.parametrize("season", [12, 24, 52])
def test_a_smooth_season_in_noise_is_not_taken_for_a_short_one(season: int) -> None:
    for seed in range(20):
        rows = np.arange(6 * season)
        y = np.sin(2 * np.pi * rows / season) + 0.35 * np.random.default_rng(seed).normal(size=len(rows))
        found = find_season(Panel((Series.of("s", y),), None))
        assert abs(found - season) <= season // 10


@pytest.mark.parametrize("kind", ["white", "ar1", "walk"])
def test_no_season_is_found_where_there_is_none(kind: str) -> None:
    found = [find_season(Panel((Series.of("s", simulate(kind, 200, seed)),), None)) for seed in range(100)]
    assert found == [1] * 100


def test_a_season_that_is_given_wins_and_a_found_one_is_the_horizon() -> None:
    rows = [{"unique_id": "s", "ds": row, "y": [1, 5, 2, 3][row % 4] + 0.001 * row} for row in range(80)]
    small = {"epochs": 1, "device": "cpu", "progress": "none", "model": "linear"}
    found, given = (tt.train("forecast", rows, **small, **more).config for more in ({}, {"season": 5}))
    assert (found.season, found.horizon, given.season, given.horizon) == (4, 4, 5, 5)
