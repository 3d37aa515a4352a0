"""Linear maps of each series: against plain least squares, and where they are used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.refusals import lacks, refuses

from throughtime.series import own_maps
from throughtime.series.linear_maps import cut_trials
from throughtime.series.lookback import RidgeChoice, choose_ridge
from throughtime.series.own_maps import OwnMaps, fit_own_maps, may_have_own
from throughtime.series.ridge import windows_within

LOOKBACK, HORIZON = 8, 3
TRAINING, VALIDATION = range(600), range(600, 900)


def waves(periods, noise=0.3, rows=900):
    """A wave with noise for each of the periods, of equal spread."""
    draws, times = np.random.default_rng(0), np.arange(rows)
    return [np.sin(2 * np.pi * times / period) + noise * draws.normal(size=rows) for period in periods]


def parts_of(series):
    return [TRAINING] * len(series), [VALIDATION] * len(series)


def chosen(series, channels=None):
    return choose_ridge(series, *parts_of(series), [LOOKBACK], HORIZON, channels=channels)


def windows_of(values, part, offset):
    """Windows and what follows them, without the offset of each window."""
    windows = np.concatenate([*windows_within(values, part, LOOKBACK, HORIZON)])
    past, true = windows[:, :LOOKBACK], windows[:, LOOKBACK:]
    level = past[:, -1:] if offset == "last" else past.mean(axis=1, keepdims=True)
    return past - level, true - level


@pytest.mark.parametrize("offset", ["last", "mean"])
def test_a_map_is_least_squares_with_a_penalty_on_the_distance_from_the_shared_one(offset, monkeypatch):
    monkeypatch.setattr(own_maps, "PENALTIES", (30.0,))
    series = waves([9, 17])
    trials = cut_trials(series, *parts_of(series), LOOKBACK, HORIZON)
    shared = [np.random.default_rng(number).normal(size=(LOOKBACK, HORIZON)) for number in range(4)]
    found = fit_own_maps(series, trials, parts_of(series)[0], shared, offset, whole=True)
    errors = np.zeros(2)
    for one, change in zip(series, found.changes, strict=True):
        past, true = windows_of(one, TRAINING, offset)
        rows = np.concatenate([past, np.sqrt(30.0) * np.eye(LOOKBACK)])
        targets = np.concatenate([true, np.sqrt(30.0) * shared[-1]])
        assert np.allclose(shared[-1] + change, np.linalg.lstsq(rows, targets, rcond=None)[0])
        for number, trial in enumerate(trials):
            past, true = windows_of(one, trial.fitted[0], offset)
            weights = shared[number] + np.linalg.solve(
                past.T @ past + 30 * np.eye(LOOKBACK), past.T @ (true - past @ shared[number])
            )
            past, true = windows_of(one, trial.tested[0], offset)
            errors += [((past @ each - true) ** 2).sum() for each in (weights, shared[number])]
    assert found.gain == pytest.approx(1 - errors[0] / errors[1])


def test_without_validation_rows_all_training_rows_are_fitted_to(monkeypatch):
    monkeypatch.setattr(own_maps, "PENALTIES", (30.0,))
    series = waves([5, 9, 40], rows=600)
    choice = choose_ridge(series, [TRAINING] * 3, [range(0)] * 3, [LOOKBACK], HORIZON, channels="own")
    for one, change in zip(series, choice.changes, strict=True):
        past, true = windows_of(one, TRAINING, choice.normalise)
        equations = past.T @ past + 30 * np.eye(LOOKBACK)
        assert np.allclose(change, np.linalg.solve(equations, past.T @ (true - past @ choice.weights)))


def test_series_that_move_differently_have_maps_of_their_own():
    series = waves([5, 9, 40])
    choice, shared = chosen(series), chosen(series, "shared")
    assert shared.changes is None
    assert np.array_equal(choice.weights, shared.weights)
    assert choice.own.shares.min() > 0.5
    assert choice.own.gain > 0.1
    for one, change in zip(series, choice.changes, strict=True):
        past, true = windows_of(one, VALIDATION, choice.normalise)
        errors = [((past @ each - true) ** 2).mean() for each in (choice.weights + change, choice.weights)]
        assert errors[0] < errors[1]
    assert "a linear map for each series" in choice.describe()


def test_series_that_move_alike_share_one():
    choice = chosen(waves([9] * 4, noise=1.0))
    assert choice.own.gain < 0.01
    assert not choice.own.shares.any()
    assert choice.changes is None
    assert chosen(waves([9])).own is None


def test_chance_gives_no_series_a_map():
    """Of 30 series of one process, the penalties that are best on some rows are not better on others."""
    used = []
    for seed in range(8):
        steps = np.random.default_rng(seed).normal(size=(400, 30))
        for row in range(1, 400):
            steps[row] += 0.7 * steps[row - 1]
        parts = [range(300)] * 30, [range(300, 400)] * 30
        own = choose_ridge([*steps.T], *parts, [12], 6, channels=None).own
        used.append(np.count_nonzero(own.shares))
        assert own.shares.mean() < 0.01
    assert used.count(0) >= 6
    assert max(used) <= 1


def test_one_series_of_many_may_need_a_map():
    """Over all series the gain is not certain, but for the one that is unlike the others it is."""
    own = chosen(waves([9, 9, 9, 5], noise=0.5)).own
    assert own.shares[3] > 0.5
    assert own.shares[3] == own.shares.max()


def test_one_part_proves_no_gain():
    """Rows for a single trial: what is chosen on them is not measured on others."""
    series = [one[:50] for one in waves([5, 9, 17], noise=0.1)]
    parts = [range(12)] * 3, [range(12, 50)] * 3
    assert len(cut_trials(series, *parts, LOOKBACK, HORIZON)) == 1
    choice = choose_ridge(series, *parts, [LOOKBACK], HORIZON, channels=None)
    assert not choice.own.shares.any()


def test_what_is_asked_for_is_done():
    choice = chosen(waves([9] * 4, noise=1.0), "own")
    assert (choice.own.shares == 1).all()
    assert len(choice.changes) == 4


def test_test_rows_are_never_read():
    series = waves([5, 9], rows=1200)
    changed = [np.concatenate([one[:900], np.full(300, 1e6)]) for one in series]
    first, second = (chosen(each) for each in (series, changed))
    assert np.array_equal(first.changes, second.changes)


def test_a_series_without_windows_keeps_the_shared_map():
    series = [*waves([5, 9]), waves([20])[0][:6]]
    training = [TRAINING, TRAINING, range(6)]
    validation = [VALIDATION, VALIDATION, range(0)]
    choice = choose_ridge(series, training, validation, [LOOKBACK], HORIZON, channels="own")
    assert not choice.changes[2].any()
    assert choice.changes[:2].any(axis=(1, 2)).all()


def test_too_many_weights_are_not_tried(monkeypatch):
    assert may_have_own(7, 720, 720)
    assert not may_have_own(1, 720, 720)
    assert not may_have_own(100_000, 24, 24)
    assert not may_have_own(3, 5_000, 1)
    assert not may_have_own(7, 720, 720, time=0.1)
    monkeypatch.setattr(own_maps, "MAX_WEIGHTS", 10)
    assert chosen(waves([5, 9])).own is None
    with refuses("channels", "own", 2, LOOKBACK, HORIZON, "shared"):
        chosen(waves([5, 9]), "own")


def test_what_was_found_is_said():
    weights = np.zeros((2, 3))
    found = RidgeChoice(weights, "last", {"ridge 2": 1.0}, {2: 1.0}, "ridge 2", 0.0)

    def said(gain, *shares):
        return replace(found, own=OwnMaps(weights[None], np.array(shares), gain)).describe()

    assert not lacks(said(0.087, 0.25, 0, 0.75), "8.7%", "below", "2 of 3", "25% to 75%")
    assert not lacks(said(-0.012, 0, 0), "1.2%", "above", "not used")
    assert said(None, 0.0) == found.describe()  # no error, nothing to gain
