"""Linear maps of each series: against plain least squares, and where they are used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from throughtime.errors import InputError
from throughtime.series import own_maps
from throughtime.series.lookback import RidgeChoice, choose_ridge
from throughtime.series.own_maps import OwnMaps, fit_own_maps, may_have_own
from throughtime.series.ridge import windows_within
from throughtime.series.trials import cut_trials

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
    shared = [np.random.default_rng(number).normal(size=(LOOKBACK, HORIZON)) for number in range(3)]
    found = fit_own_maps(series, trials, shared, offset, whole=True)
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
    assert found.ratio == pytest.approx(errors[0] / errors[1])


def test_series_that_move_differently_have_maps_of_their_own():
    series = waves([5, 9, 40])
    choice, shared = chosen(series), chosen(series, "shared")
    assert shared.changes is None
    assert np.array_equal(choice.weights, shared.weights)
    assert choice.own.share > 0.5
    assert choice.own.ratio < 0.9
    for one, change in zip(series, choice.changes, strict=True):
        past, true = windows_of(one, VALIDATION, choice.normalise)
        errors = [((past @ each - true) ** 2).mean() for each in (choice.weights + change, choice.weights)]
        assert errors[0] < errors[1]
    assert "a linear map for each series" in str(choice)


def test_series_that_move_alike_share_one():
    choice = chosen(waves([9] * 4, noise=1.0))
    assert choice.own.ratio > 0.99
    assert choice.own.share < 0.3
    assert chosen(waves([9])).own is None


def test_what_is_asked_for_is_done():
    choice = chosen(waves([9] * 4, noise=1.0), "own")
    assert choice.own.share == 1
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
    monkeypatch.setattr(own_maps, "MOST_WEIGHTS", 10)
    assert chosen(waves([5, 9])).own is None
    with pytest.raises(InputError, match=r"channels: is own, but 2 maps of 8 rows back.*set shared"):
        chosen(waves([5, 9]), "own")


def test_what_was_found_is_said():
    weights = np.zeros((2, 3))
    found = RidgeChoice(weights, "last", {"ridge 2": 1.0}, {2: 1.0}, 1.0)
    said = {share: str(replace(found, own=OwnMaps(weights[None], share, 0.913))) for share in (0.0, 0.75)}
    assert all("0.913 times as large" in each for each in said.values())
    assert said[0.75].endswith("75% of the difference is used.")
    assert said[0.0].endswith("they are not used.")
