"""Look-backs chosen by ridge regressions: moments against plain least squares, and what is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.refusals import lacks

from throughtime.series import linear_maps
from throughtime.series.linear_maps import cut_trials, fit_moments, normalise, sum_windows
from throughtime.series.lookback import (
    RidgeChoice,
    choose_ridge,
    choose_stride,
    lookbacks_to_try,
)
from throughtime.series.ridge import PENALTIES, fit_ridge, windows_within

DRAWS = np.random.default_rng(0)


def window_offset(windows, offset):
    """What is subtracted from each of the windows."""
    if offset == "last":
        return windows[:, -1:]
    return windows.mean(axis=1, keepdims=True) if offset == "mean" else np.zeros((len(windows), 1))


SERIES = [DRAWS.normal(size=90).cumsum(), DRAWS.normal(size=70) + 3]
PARTS = [range(60), range(10, 70)]


@pytest.mark.parametrize("offset", ["last", "mean", "none"])
@pytest.mark.parametrize("lookback", [2, 5, 9])
def test_normalised_moments_are_those_of_normalised_windows(offset, lookback):
    """Also of shorter look-backs than the windows have."""
    found = normalise(sum_windows(SERIES, PARTS, 9, 4), lookback, offset)
    windows = np.concatenate(
        [b for s, p in zip(SERIES, PARTS, strict=True) for b in windows_within(s, p, 9, 4)]
    )
    past, true = windows[:, 9 - lookback : 9], windows[:, 9:]
    level = window_offset(past, offset)
    past, true = past - level, true - level
    assert np.allclose(found.inner, past.T @ past)
    assert np.allclose(found.cross, past.T @ true)
    assert found.squares == pytest.approx((true**2).sum())
    assert found.windows == len(windows)
    weights = np.linalg.solve(past.T @ past + 3 * np.eye(lookback), past.T @ true)
    assert np.allclose(found.weights(3.0), weights)
    assert found.squared_error(weights) == pytest.approx(((past @ weights - true) ** 2).sum())


def test_one_look_back_is_the_ridge_regression_of_the_baseline_and_the_last_value():
    """The last value is what a map of zeros forecasts, so it only shortens the regression."""
    parts = [range(60), range(50)], [range(60, 90), range(50, 70)]
    baseline = fit_ridge(SERIES, *parts, 6, 3, PENALTIES)
    found = choose_ridge(SERIES, *parts, [6], 3, ["last"])
    assert (found.lookback, found.normalise) == (6, "last")
    assert sum(found.shares.values()) == pytest.approx(1)
    assert set(found.shares) <= {"ridge 6", "last value"}
    # The last row of a window is 0 after its last value is subtracted.
    assert np.allclose(found.weights[:-1], found.shares["ridge 6"] * baseline.weights[:-1])
    errors = [
        (baseline.forecasts(block[:, :6]) - block[:, 6:]) ** 2
        for one, part in zip(SERIES, parts[1], strict=True)
        for block in windows_within(one, part, 6, 3)
    ]
    assert found.errors == {6: pytest.approx(np.concatenate(errors).mean())}


def echo(rows, lag, noise):
    """A series that repeats what it was some rows ago, changed a little."""
    draws = np.random.default_rng(1)
    values = draws.normal(size=rows)
    for row in range(lag, rows):
        values[row] = 0.95 * values[row - lag] + noise * draws.normal()
    return values


def test_a_long_memory_needs_a_long_look_back():
    """What matters lies 40 rows back: 16 rows do not see it."""
    values = echo(900, 40, 0.1)
    found = choose_ridge([values], [range(600)], [range(600, 900)], [16, 8, 48, 64], 4)
    assert found.lookback in (48, 64)
    assert found.shares.get("ridge 48", 0) + found.shares.get("ridge 64", 0) > 0.9
    assert list(found.errors) == [16, 8, 48, 64]
    assert min(found.errors[48], found.errors[64]) < 0.1 * found.errors[16]
    assert found.gain > 0.8
    assert not lacks(found.describe(), found.lookback, "ridge 16", f"8: {found.errors[8]:.4g}, 16: ")


def test_a_gain_that_may_be_chance_is_taken_by_half():
    """On noise, no look-back is better than another for long."""
    values = np.random.default_rng(3).normal(size=400)
    found = choose_ridge([values], [range(250)], [range(250, 320)], [24, 8, 48], 6, ["mean"])
    assert found.shares["ridge 24"] >= 0.5
    assert sum(found.shares.values()) == pytest.approx(1)


def test_a_rule_that_is_better_on_every_part_is_the_baseline():
    """Seven rows are repeated with little noise, and the training rows are few."""
    draws = np.random.default_rng(2)
    values = np.resize(draws.normal(size=7) * 5, 64) + draws.normal(0, 0.1, 64)
    found = choose_ridge([values], [range(50)], [range(50, 64)], [16, 7], 7, season=7)
    assert found.shares["last season"] >= 0.3
    ahead = values[-16:] - values[-1]
    forecast = values[-1] + ahead @ found.weights
    if found.normalise == "mean":
        forecast = values[-16:].mean() + (values[-16:] - values[-16:].mean()) @ found.weights
    assert np.abs(forecast - values[-7:]).max() < 1


@pytest.mark.parametrize("season", [None, 7])
def test_test_rows_are_never_read(season):
    values = np.random.default_rng(6).normal(size=200).cumsum()
    changed = values.copy()
    changed[160:] = 1e6
    same = [
        choose_ridge([each], [range(120)], [range(120, 160)], [4, 8, 16], 2, season=season)
        for each in (values, changed)
    ]
    assert np.array_equal(same[0].weights, same[1].weights)


def test_parts_are_tried_with_what_lies_before_them():
    """Their windows forecast no row that was fitted to; moments that are added up are those of all rows."""
    values = np.random.default_rng(6).normal(size=200).cumsum()
    trials = cut_trials([values], [range(120)], [range(120, 160)], 4, 2)
    rows = [(range(60), range(60, 90)), (range(90), range(90, 120)), (range(120), range(120, 160))]
    assert [(*trial.fitted, *trial.tested) for trial in trials] == rows
    fitted = fit_moments([values], [each.fitted for each in trials], 4, 2, 1)
    for trial, found, (before, tested) in zip(trials, fitted, rows, strict=True):
        assert np.allclose(trial.moments.inner, sum_windows([values], [tested], 4, 2).inner)
        alone = sum_windows([values], [before], 4, 2)
        assert found.windows == alone.windows
        assert np.allclose(found.cross, alone.cross)
    assert cut_trials([values], [range(120)], [range(0)], 4, 2) == []
    assert len(cut_trials([values], [range(40)], [range(40, 60)], 24, 4)) == 2  # half is too short


def test_a_level_that_wanders_is_left_by_its_last_value_and_a_fixed_one_by_its_mean():
    steps = np.random.default_rng(5).normal(size=(2, 1500))
    parts = [range(1000)], [range(1000, 1500)]
    assert choose_ridge([steps[0].cumsum()], *parts, [16], 8).normalise == "last"
    assert choose_ridge([steps[1]], *parts, [16], 8).normalise == "mean"


def test_without_validation_rows_the_last_fifth_decides():
    values = echo(500, 12, 0.1)
    found = choose_ridge([values], [range(500)], [range(0)], [4, 16], 4)
    assert found.shares["ridge 16"] > 0.9
    assert "validation" not in found.describe()


@pytest.mark.parametrize("offsets", [["none"], ["last", "mean"]])
def test_series_that_do_not_change_are_forecast_without_an_error(offsets):
    """Without an offset, the map itself must return the constant; with one, any finite map does."""
    found = choose_ridge([np.full(90, 3.0)], [range(60)], [range(60, 90)], [6, 12], 3, offsets)
    assert np.isfinite(found.weights).all()
    if offsets == ["none"]:
        assert np.full(found.lookback, 3.0) @ found.weights == pytest.approx(3)
    assert found.gain is None
    assert "rolling origins" not in found.describe()


def test_of_very_many_windows_every_nth_is_used(monkeypatch):
    """A penalty then weighs less, as there are fewer windows."""
    values = echo(900, 12, 0.1)
    parts = [range(600)], [range(600, 900)]
    whole = choose_ridge([values], *parts, [16], 4, ["last"])
    monkeypatch.setattr(linear_maps, "MAX_PRODUCTS", 600 * 16 * 20 / 5)
    assert choose_stride(parts[0], [16], 4) == 5
    fewer = choose_ridge([values], *parts, [16], 4, ["last"])
    assert fewer.errors[16] == pytest.approx(whole.errors[16], rel=0.4)
    assert not np.array_equal(fewer.weights, whole.weights)


def test_look_backs_fit_the_series():
    assert lookbacks_to_try(24, 96, [8640] * 7) == [336, 24, 48, 96, 512, 720]
    assert lookbacks_to_try(None, 10, [1000]) == [333, 10, 20, 40, 96]
    assert lookbacks_to_try(12, 12, [40]) == [13]  # a third
    assert lookbacks_to_try(7, 7, [500, 30, 30]) == [10, 7, 14]  # most series have 30 rows
    assert lookbacks_to_try(7, 7, [9]) == []
    assert lookbacks_to_try(1440, 60, [200_000]) == [336, 96, 512, 720, 1440]


def test_what_was_chosen_is_said():
    both = RidgeChoice(
        np.zeros((48, 2)),
        "mean",
        {"ridge 48": 0.6, "last season": 0.4},
        {48: 0.25, 24: 0.5},
        "ridge 48",
        0.088,
    )
    words = (
        "60% ridge 48",
        "40% last season",
        "8.8%",
        "below",
        "24: 0.5, 48: 0.25",
        "validation",
        "less their mean",
    )
    assert not lacks(both.describe(), 48, "the network corrects", *words)
    assert not lacks(both.describe(corrected=False), 48, *words)
    assert "network" not in both.describe(corrected=False)
    assert "validation" not in replace(both, validated=False).describe()
    alone = RidgeChoice(np.zeros((24, 2)), "none", {"ridge 24": 1.0}, {24: 0.26}, "ridge 24", 0.0).describe()
    assert lacks(alone, "below", "validation") == ["below", "validation"]
    assert not lacks(alone, "as they are")
