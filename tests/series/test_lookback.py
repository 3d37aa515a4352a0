"""Look-backs chosen by ridge regressions: moments against plain least squares, and what is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from throughtime.series import lookback as lookback_module
from throughtime.series.lookback import (
    RidgeChoice,
    _try_parts,
    average_maps,
    choose_ridge,
    lookbacks_to_try,
    normalise,
    sum_windows,
)
from throughtime.series.ridge import fit_ridge, windows_within

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


def test_one_look_back_is_the_ridge_regression_of_the_baseline():
    parts = [range(60), range(50)], [range(60, 90), range(50, 70)]
    baseline = fit_ridge(SERIES, *parts, 6, 3, lookback_module.PENALTIES)
    found = choose_ridge(SERIES, *parts, [6], 3, ["last"])
    assert (found.penalty, found.lookback, found.normalise) == (baseline.penalty, 6, "last")
    assert np.allclose(found.weights, baseline.weights)
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
    assert found.lookback == found.chosen
    assert found.chosen in (48, 64)
    assert list(found.errors) == [16, 8, 48, 64]
    assert found.errors[found.chosen] < 0.1 * found.errors[16]
    for word in ("8, 16, 48, 64 rows", "than 16", f"{found.errors[found.chosen]:.4g}"):
        assert word in str(found)


@pytest.mark.parametrize("offset", ["last", "mean"])
def test_the_mean_of_maps_forecasts_the_mean(offset):
    windows = DRAWS.normal(size=(5, 9)) + 7
    maps = [(DRAWS.normal(size=(4, 3)), "last"), (DRAWS.normal(size=(9, 3)), "mean")]
    forecasts = []
    for weights, own in maps:
        past = windows[:, -len(weights) :]
        level = window_offset(past, own)
        forecasts.append(level + (past - level) @ weights)
    level = window_offset(windows, offset)
    found = level + (windows - level) @ average_maps(maps, offset)
    assert np.allclose(found, np.mean(forecasts, axis=0))


def test_a_better_look_back_is_used_together_with_the_first():
    values = echo(900, 40, 0.1)
    parts = [values], [range(600)], [range(600, 900)]
    both = choose_ridge(*parts, [16, 48], 4, ["last"])
    alone = [choose_ridge(*parts, [each], 4, ["last"]) for each in (16, 48)]
    assert (both.chosen, both.penalty) == (48, alone[1].penalty)
    windows = values[-48:][None] - values[-1]
    forecasts = [windows[:, -one.lookback :] @ one.weights for one in alone]
    assert np.allclose(windows @ both.weights, np.mean(forecasts, axis=0), rtol=1e-2, atol=1e-2)


def test_the_first_is_left_only_for_one_that_is_better_on_every_part():
    """The validation rows alone are the opposite of those 40 rows ago: they do not decide."""
    values = echo(900, 40, 0.01)
    values[600:] *= np.resize([-1] * 40 + [1] * 40, 300)
    parts = [range(600)], [range(600, 900)]
    found = choose_ridge([values], *parts, [48, 8], 4, ["none"])
    assert found.errors[8] < found.errors[48]
    assert found.chosen == 48


def test_parts_are_tried_with_what_lies_before_them():
    """Their windows forecast no row that was fitted to, and none of the test rows."""
    values = np.random.default_rng(6).normal(size=200).cumsum()
    trials = _try_parts([values], [range(120)], [range(120, 160)], 4, 2)
    rows = [(range(120), range(120, 160)), (range(90), range(90, 120)), (range(60), range(60, 90))]
    for trial, (fitted, tested) in zip(trials, rows, strict=True):
        assert np.allclose(trial.tested.inner, sum_windows([values], [tested], 4, 2).inner)
        assert trial.fitted.windows <= sum_windows([values], [fitted], 4, 2).windows
    changed = values.copy()
    changed[160:] = 1e6
    same = [
        choose_ridge([each], [range(120)], [range(120, 160)], [4, 8, 16], 2) for each in (values, changed)
    ]
    assert np.array_equal(same[0].weights, same[1].weights)


def test_a_level_that_wanders_is_left_by_its_last_value_and_a_fixed_one_by_its_mean():
    steps = np.random.default_rng(5).normal(size=(2, 1500))
    parts = [range(1000)], [range(1000, 1500)]
    assert choose_ridge([steps[0].cumsum()], *parts, [16], 8).normalise == "last"
    assert choose_ridge([steps[1]], *parts, [16], 8).normalise == "mean"


def test_without_validation_rows_the_last_fifth_decides():
    values = echo(500, 12, 0.1)
    found = choose_ridge([values], [range(500)], [range(0)], [4, 16], 4)
    assert found.chosen == 16


def test_too_few_rows_choose_nothing():
    assert choose_ridge([np.ones(9)], [range(6)], [range(6, 9)], [6], 3) is None
    assert choose_ridge([np.ones(90)], [range(60)], [range(60, 90)], [], 3) is None


def test_of_very_many_windows_every_nth_is_used(monkeypatch):
    values = echo(900, 12, 0.1)
    whole = sum_windows([values], [range(900)], 16, 4)
    monkeypatch.setattr(lookback_module, "MAX_PRODUCTS", 900 * 16 * 20 / 5)
    fewer = sum_windows([values], [range(900)], 16, 4)
    assert fewer.windows == -(-whole.windows // 5)
    assert choose_ridge([values], [range(600)], [range(600, 900)], [4, 16], 4).chosen == 16


def test_look_backs_fit_the_series():
    assert lookbacks_to_try(24, 96, [8640] * 7) == [336, 24, 48, 96, 512, 720]
    assert lookbacks_to_try(None, 10, [1000]) == [333, 10, 20, 40, 96]
    assert lookbacks_to_try(12, 12, [40]) == [13]  # a third
    assert lookbacks_to_try(7, 7, [500, 30, 30]) == [10, 7, 14]  # most series have 30 rows
    assert lookbacks_to_try(7, 7, [9]) == []


def test_what_was_chosen_is_said():
    first = RidgeChoice(np.zeros((48, 2)), 10.0, "last", {48: 0.25, 24: 0.5}, 48)
    assert all(word in str(first) for word in ("Look-back 48: of 24, 48", "0.25", "last value"))
    other = RidgeChoice(np.zeros((48, 2)), 10.0, "mean", {48: 0.27, 24: 0.26}, 24)
    assert all(word in str(other) for word in ("Look-back 48: of 24, 48", "0.26", "24 have", "its mean"))
    assert "part" not in str(RidgeChoice(np.zeros((24, 2)), 10.0, "mean", {24: 0.26}, 24))
