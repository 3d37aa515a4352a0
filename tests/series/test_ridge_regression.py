"""Ridge regression: the same weights as scikit-learn's, the penalty that validates best, and no gaps."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tests.refusals import refuses

from throughtime.series import ridge as ridge
from throughtime.series.ridge import PENALTIES, fit_ridge


def waves(rows: int = 200, noise: float = 1.5) -> list[np.ndarray]:
    draws = np.random.default_rng(0)
    return [np.sin(np.arange(rows) / own) + draws.normal(0, noise, rows) for own in (2.0, 5.0, 9.0)]


def stacked(
    series: list[np.ndarray], part: range, lookback: int, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
    """All windows that forecast rows of a part, by a loop, each without its last value."""
    inputs, targets = [], []
    for values in series:
        for origin in range(max(part.start, lookback), part.stop - horizon + 1):
            last = values[origin - 1]
            inputs.append(values[origin - lookback : origin] - last)
            targets.append(values[origin : origin + horizon] - last)
    return np.array(inputs), np.array(targets)


def test_the_map_is_that_of_least_squares_with_a_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "BLOCK", 200)  # so that windows come in many blocks
    series, training, validation = waves(), range(120), range(120, 160)
    found = fit_ridge(series, [training] * 3, [validation] * 3, lookback=12, horizon=4)
    inputs, targets = stacked(series, training, 12, 4)
    judge, true = stacked(series, validation, 12, 4)
    errors = {}
    for penalty in PENALTIES:
        # The penalty as twelve further rows of data.
        more = np.sqrt(penalty) * np.eye(12)
        weights = np.linalg.lstsq(
            np.concatenate([inputs, more]), np.concatenate([targets, np.zeros((12, 4))]), rcond=None
        )[0]
        errors[penalty] = ((judge @ weights - true) ** 2).mean(), weights
    assert found.penalty == min(errors, key=lambda penalty: errors[penalty][0])
    np.testing.assert_allclose(found.weights, errors[found.penalty][1], atol=1e-9)
    windows = sliding_window_view(series[0], 12)[160:163]
    said = found.forecasts(windows)
    np.testing.assert_allclose(said, windows[:, -1:] + (windows - windows[:, -1:]) @ found.weights)
    assert min(PENALTIES) < found.penalty < max(PENALTIES)


def test_rows_after_the_validation_do_not_matter() -> None:
    series = waves()
    parts = [[range(120)] * 3, [range(120, 160)] * 3]
    found = fit_ridge(series, *parts, lookback=12, horizon=4)
    changed = [np.concatenate([own[:160], np.full(40, 1e9)]) for own in series]
    np.testing.assert_array_equal(fit_ridge(changed, *parts, lookback=12, horizon=4).weights, found.weights)


def test_without_validation_the_last_fifth_chooses_and_trains_as_well() -> None:
    series = waves()
    alone = fit_ridge(series, [range(150)] * 3, [range(0)] * 3, lookback=12, horizon=4)
    told = fit_ridge(series, [range(120)] * 3, [range(120, 150)] * 3, lookback=12, horizon=4)
    assert alone.penalty == told.penalty
    again = fit_ridge(series, [range(150)] * 3, [range(150, 160)] * 3, 12, 4, penalties=[alone.penalty])
    np.testing.assert_array_equal(alone.weights, again.weights)


def test_too_few_rows_are_refused() -> None:
    with refuses("training rows", "15", "12", "4"):
        fit_ridge(waves(), [range(15)] * 3, [range(120, 160)] * 3, lookback=12, horizon=4)
    with refuses("training rows", "18"):
        fit_ridge(waves(), [range(18)] * 3, [range(0)] * 3, lookback=12, horizon=4)
