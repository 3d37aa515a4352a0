"""Look-backs chosen by ridge regressions: moments against plain least squares, and what is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from throughtime.series import lookback as lookback_module
from throughtime.series.lookback import (
    RidgeChoice,
    choose_ridge,
    lookbacks_to_try,
    normalise,
    sum_windows,
    window_offset,
)
from throughtime.series.ridge import fit_ridge, windows_within

DRAWS = np.random.default_rng(0)
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
    """What matters lies 40 rows back: 16 rows do not see it, and 64 see no more than 48."""
    values = echo(900, 40, 0.1)
    found = choose_ridge([values], [range(600)], [range(600, 900)], [8, 16, 48, 64], 4)
    assert found.lookback == 48
    assert list(found.errors) == [8, 16, 48, 64]
    assert found.errors[48] < 0.1 * found.errors[16]
    for word in ("48", "8, 16, 48, 64", f"{found.errors[48]:.4g}"):
        assert word in str(found)


def test_of_equals_the_shortest_is_chosen():
    """The last value of a random walk says all: longer look-backs win by chance only."""
    walk = np.random.default_rng(3).normal(size=2000).cumsum()
    found = choose_ridge([walk], [range(1500)], [range(1500, 2000)], [4, 16, 64], 4)
    assert found.lookback == 4
    best = min(found.errors, key=found.errors.get)
    if best != 4:
        assert f"look-back {best}" in str(found)


def test_a_level_that_wanders_is_left_by_its_last_value_and_a_fixed_one_by_its_mean():
    steps = np.random.default_rng(5).normal(size=(2, 1500))
    parts = [range(1000)], [range(1000, 1500)]
    assert choose_ridge([steps[0].cumsum()], *parts, [16], 8).normalise == "last"
    assert choose_ridge([steps[1]], *parts, [16], 8).normalise == "mean"


def test_without_validation_rows_the_last_fifth_decides():
    values = echo(500, 12, 0.1)
    found = choose_ridge([values], [range(500)], [range(0)], [4, 16], 4)
    assert found.lookback == 16


def test_too_few_rows_choose_nothing():
    assert choose_ridge([np.ones(9)], [range(6)], [range(6, 9)], [6], 3) is None
    assert choose_ridge([np.ones(90)], [range(60)], [range(60, 90)], [], 3) is None


def test_of_very_many_windows_every_nth_is_used(monkeypatch):
    values = echo(900, 12, 0.1)
    whole = sum_windows([values], [range(900)], 16, 4)
    monkeypatch.setattr(lookback_module, "MAX_PRODUCTS", 900 * 16 * 20 / 5)
    fewer = sum_windows([values], [range(900)], 16, 4)
    assert fewer.windows == -(-whole.windows // 5)
    assert choose_ridge([values], [range(600)], [range(600, 900)], [4, 16], 4).lookback == 16


def test_look_backs_fit_the_series():
    assert lookbacks_to_try(24, 96, [8640] * 7, 960) == [24, 48, 96, 336, 512, 720]
    assert lookbacks_to_try(24, 96, [8640] * 7, 959) == [24, 48, 96, 336]  # too few to tell them apart
    assert lookbacks_to_try(None, 10, [1000], 100) == [10, 20, 40, 96]
    assert lookbacks_to_try(12, 12, [40], 12) == [9]  # a third of what is left
    assert lookbacks_to_try(7, 7, [500, 30, 30], 7) == [7, 14]  # most series have 30 rows
    assert lookbacks_to_try(7, 7, [9], 7) == []


def test_series_that_move_together_count_once():
    """Copies of a series make no look-back more certain."""
    values = echo(700, 3, 1.0)
    parts = [range(400)], [range(400, 700)]
    alone = choose_ridge([values], *parts, [4, 12, 24, 48], 30)
    many = choose_ridge([values] * 9, *([each[0]] * 9 for each in parts), [4, 12, 24, 48], 30)
    assert alone.lookback == many.lookback


def test_what_was_chosen_is_said():
    lowest = RidgeChoice(np.zeros((48, 2)), 10.0, "last", {24: 0.5, 48: 0.25})
    assert "Look-back 48 of 24, 48" in str(lowest)
    assert "0.25" in str(lowest)
    near = RidgeChoice(np.zeros((24, 2)), 10.0, "mean", {24: 0.26, 48: 0.25})
    assert all(word in str(near) for word in ("Look-back 24 of 24, 48", "0.26", "0.25, look-back 48", "mean"))
