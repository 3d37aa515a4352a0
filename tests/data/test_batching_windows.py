"""A series in windows: shapes, no copies, splits by time, seeded sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from throughtime.data.batching import SeriesBatches, SeriesWindows, split_by_time, windows
from throughtime.errors import InputError


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
        with pytest.raises(InputError, match="too short"):
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
        SeriesWindows(series, 10, 5, times=times) for times in split_by_time(100, (6, 2, 2))
    )
    assert (train.targets.min(), train.targets.max()) == (10, 59)
    assert (valid.targets.min(), valid.targets.max()) == (60, 79)
    assert (test.targets.min(), test.targets.max()) == (80, 99)


@given(steps=st.integers(10, 10_000), shares=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_split_covers_the_series(steps: int, shares: list[int]) -> None:
    parts = split_by_time(steps * 10, shares)
    assert [step for part in parts for step in (part.start, part.stop)][1:-1:2] == [
        part.start for part in parts[1:]
    ]
    assert (parts[0].start, parts[-1].stop) == (0, steps * 10)


def test_windows_are_sampled_at_random_every_one_once() -> None:
    # R9
    series = np.random.default_rng(0).normal(size=(200, 2))
    made = SeriesWindows(series, lookback=8, horizon=3)
    batches = SeriesBatches(made, batch_size=32, seed=1)
    epochs = [list(batches) for _ in range(2)]
    orders = [torch.cat([batch.indices for batch in epoch]).tolist() for epoch in epochs]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(190))
    assert orders[0] != orders[1] != sorted(orders[1])
    again = SeriesBatches(made, batch_size=32, seed=1)
    assert torch.cat([batch.indices for batch in again]).tolist() == orders[0]
    other = SeriesBatches(made, batch_size=32, seed=2)
    assert torch.cat([batch.indices for batch in other]).tolist() != orders[0]
    batch = epochs[0][0]
    assert (batch.inputs.shape, batch.targets.shape) == ((8, 32, 2), (3, 32, 2))
    assert batch.inputs.dtype == torch.float32
    assert batch.count == batch.targets.numel()
    for row, window in enumerate(batch.indices.tolist()):
        assert np.allclose(batch.inputs[:, row], series[window : window + 8])
        assert np.allclose(batch.targets[:, row], series[window + 8 : window + 11])


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([1.0, float("nan"), 2.0], "at step 1 are missing"),
        (["a", "b"], "must be numbers"),
        (np.zeros((2, 2, 2)), "must be numbers"),
        ([], "must be numbers"),
        (np.zeros((9, 2)), "2 channels"),
    ],
)
def test_bad_values_are_refused(values: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        windows(values, tau=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("shares", [(), (1, 0), (0.999, 0.001)])
def test_shares_that_leave_nothing_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="shares"):
        split_by_time(100, shares)


@pytest.mark.parametrize("times", [range(0, 101), range(-1, 50), range(0, 100, 2)])
def test_times_outside_the_series_are_refused(times: range) -> None:
    with pytest.raises(InputError, match="times"):
        SeriesWindows(np.zeros(100), 3, 2, times=times)
