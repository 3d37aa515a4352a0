"""A series in windows: each value beside those before it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.data.batching.series import windows


def test_windows_of_ten() -> None:
    # R1
    series = np.random.default_rng(0).normal(size=100)
    inputs, targets = windows(series, tau=10)
    assert (inputs.shape, targets.shape) == ((90, 10), (90, 1))
    for i in range(90):
        assert inputs[i].tolist() == series[i : i + 10].tolist()
        assert targets[i, 0] == series[i + 10]
    assert np.shares_memory(inputs, series)
    assert np.shares_memory(targets, series)


def test_a_series_as_long_as_its_window_is_refused() -> None:
    assert windows([1.0, 2.0, 3.0], tau=2)[0].shape == (1, 2)
    with refuses("series", "3"):
        windows([1.0, 2.0, 3.0], tau=3)


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ([1.0, float("nan"), 2.0], ("values", "1")),
        (["a", "b"], ("values", "[time]")),
        (np.zeros((2, 2, 2)), ("values", "[time]")),
        ([], ("values", "[time]")),
        (np.zeros((9, 2)), ("values", "2")),
    ],
)
def test_bad_values_are_refused(values: object, facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        windows(values, tau=1)  # type: ignore[arg-type]
