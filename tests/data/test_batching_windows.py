"""A series in windows: shapes, no copies, splits by time, seeded sampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.batching.series import SeriesWindows, windows


def test_windows_of_ten() -> None:
    # R1
    series = np.random.default_rng(0).normal(size=100)
    inputs, targets = windows(series, tau=10)
    assert (inputs.shape, targets.shape) == ((90, 10), (90, 1))
    for i in range(90):
        assert inputs[i].tolist() == series[i : i + 10].tolist()
        assert targets[i, 0] == series[i + 10]


def test_windows_are_views() -> None:
    series = np.random.default_rng(0).normal(size=(100, 3))
    made = SeriesWindows(series, lookback=24, horizon=6)
    assert np.shares_memory(made.inputs, series)
    assert np.shares_memory(made.targets, series)


@given(
    steps=st.integers(2, 80),
    lookback=st.integers(1, 10),
    horizon=st.integers(1, 6),
    stride=st.integers(1, 5),
    channels=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_windows_follow_the_series(
    steps: int, lookback: int, horizon: int, stride: int, channels: int
) -> None:
    series = np.arange(steps * channels, dtype=float).reshape(steps, channels)
    if steps < lookback + horizon:
        with refuses("series"):
            SeriesWindows(series, lookback, horizon, stride)
        return
    made = SeriesWindows(series, lookback, horizon, stride)
    starts = range(0, steps - lookback - horizon + 1, stride)
    assert len(made) == len(starts)
    for window, start in enumerate(starts):
        assert np.array_equal(made.inputs[window], series[start : start + lookback])
        assert np.array_equal(made.targets[window], series[start + lookback : start + lookback + horizon])


def test_each_part_of_a_split_is_forecast_from_its_first_value_on() -> None:
    series = np.arange(100.0)
    train, valid, test = (
        SeriesWindows(series, 10, 5, times=times) for times in (range(60), range(60, 80), range(80, 100))
    )
    assert (train.targets.min(), train.targets.max()) == (10, 59)
    assert (valid.targets.min(), valid.targets.max()) == (60, 79)
    assert (test.targets.min(), test.targets.max()) == (80, 99)


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ([1.0, float("nan"), 2.0], ("values", "1")),
        (["a", "b"], ("values", "[time]", "[time, channels]")),
        (np.zeros((2, 2, 2)), ("values", "[time]", "[time, channels]")),
        ([], ("values", "[time]", "[time, channels]")),
        (np.zeros((9, 2)), ("values", "2")),
    ],
)
def test_bad_values_are_refused(values: object, facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        windows(values, tau=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [range(0, 101), range(-1, 50), range(0, 100, 2)])
def test_times_outside_the_series_are_refused(times: range) -> None:
    with refuses("times", "0", "99"):
        SeriesWindows(np.zeros(100), 3, 2, times=times)
