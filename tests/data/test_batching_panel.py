"""Windows over many series: which there are, what is in them, and where an epoch stands."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.data import embedded
from throughtime.data.batching.series import PanelArrays, PanelBatches, PanelWindows
from throughtime.data.panel import Panel, Series
from throughtime.series.panels import PanelScaling, Timeline
from throughtime.series.scaling import Scale, fill_gaps, fit_scale


def arrays(*series):
    panel = Panel(tuple(Series.of(str(number), values) for number, values in enumerate(series)), None)
    scaling = PanelScaling.of(panel, [range(len(y)) for y in series], "none", False)
    return scaling.scale_panel(panel)[0]


def test_the_notes_window():  # R1
    made = PanelWindows(arrays(embedded.series("sine", 100)), [range(100)], lookback=10, horizon=1)
    [batch] = PanelBatches(made, 1000, shuffle=False)
    assert batch.values[:10].T.shape == (90, 10)
    assert batch.values[10:].T.shape == (90, 1)


def test_windows_look_back_into_the_part_before_and_never_ahead():
    made = PanelWindows(arrays(np.arange(20.0), np.arange(100.0, 120.0)), [range(12, 16)] * 2, 4, 3)
    [batch] = PanelBatches(made, 10, shuffle=False)
    assert batch.values.T.int().tolist() == [[*range(first, first + 7)] for first in (8, 9, 108, 109)]
    assert batch.numbers.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("horizon", "parts"), [(1, 4), (3, 3), (4, 2), (5, 1), (9, 1)])
def test_windows_are_divided_into_no_more_parts_than_whole_horizons(horizon, parts):
    """There are 13 - `horizon` windows, one a row."""
    made = PanelWindows(arrays(np.arange(14.0)), [range(14)], 2, horizon)
    numbers = made.divide(4).tolist()
    assert numbers == [window * parts // (13 - horizon) for window in range(13 - horizon)]
    assert set(numbers) == set(range(parts))


def test_what_is_missing_counts_nothing():
    y = np.arange(8.0)
    y[[3, 5, 6]] = np.nan
    made = PanelWindows(arrays(y), [range(8)], 2, 2)
    assert made.starts.tolist() == [0, 1, 2, 4]  # none for the rows 5 and 6
    [batch] = PanelBatches(made, 10, shuffle=False)
    assert batch.count == 1 + 1 + 1 + 1
    assert batch.weights.sum() == batch.count
    assert batch.values[:, 2].tolist() == [2, 2, 4, 4]  # filled with what was before


def orders(batches, epochs=2):
    """The windows of some epochs, in the order in which they come."""
    return [torch.cat([batch.indices for batch in batches]).tolist() for _ in range(epochs)]


def test_windows_come_in_an_order_of_the_seed_and_the_epoch():  # R9
    made = PanelWindows(arrays(np.arange(60.0), np.arange(40.0)), [range(60), range(40)], 3, 2)
    first, second = orders(PanelBatches(made, 7, seed=1))
    assert sorted(first) == sorted(second) == list(range(len(made)))
    assert first != second
    assert sorted(first) not in (first, second)
    assert orders(PanelBatches(made, 7, seed=1)) == [first, second]
    assert first not in orders(PanelBatches(made, 7, seed=2))
    assert orders(PanelBatches(made, 7, seed=1, shuffle=False)) == [sorted(first)] * 2


def test_scales_come_from_the_training_part_only():
    y = np.concatenate([np.array([1.0, 3.0] * 5), np.full(10, 1e6)])
    panel = Panel((Series.of("a", y),), None)
    scaling = PanelScaling.of(panel, [range(10)], "standard", False)
    assert scaling.series["a"][:4] == (2.0, 1.0, 1.0, 0.0)
    restored = PanelScaling.from_values(scaling.to_values(), "series.json")
    assert restored.series == scaling.series


@pytest.mark.parametrize(
    "damage",
    [
        {"series": {"a": [None, 1]}},
        {"series": {"a": [1, "a"]}},
        {"series": {"a": [1.0, float("inf")]}},
        {"series": [1]},
        {"past": "x"},
        {"known": [3]},
        {"numbered": float("inf")},
        {"frequency": {"step": "x", "unit": "second"}},
        {"frequency": {"unit": "second"}},
        {"frequency": 3},
    ],
)
def test_damaged_scales_are_refused(damage):
    panel = Panel((Series.of("a", np.arange(20.0)),), None)
    values = PanelScaling.of(panel, [range(10)], "standard", False).to_values()
    assert PanelScaling.from_values(values, "series.json").series
    with refuses("series.json"):
        PanelScaling.from_values({**values, **damage}, "series.json")
    for name in values:
        with refuses("series.json"):
            PanelScaling.from_values({key: one for key, one in values.items() if key != name}, "series.json")


def test_robust_scales_do_not_mind_outliers():
    y = np.random.default_rng(0).normal(5, 2, 1001)
    y[::100] = 1e9
    centre, spread, *_ = fit_scale("a", y, "robust")
    assert (centre, spread) == (pytest.approx(5, abs=0.3), pytest.approx(2, abs=0.3))
    assert fit_scale("a", np.full(5, 0.1), "robust") == Scale(0.1, 1.0)
    mostly_nothing = fit_scale("a", np.array([0.0] * 9 + [10.0]), "robust")
    assert mostly_nothing.spread == pytest.approx(3.0)
    with refuses("series 'a'"):
        fit_scale("a", np.full(3, np.nan), "standard")


def test_parts_along_time():
    assert Timeline(None, 20, 0).parts(100)["train"] == range(80)
    assert Timeline(8640, 2880, 2880).part("heldout", 17420) == range(8640, 14400)
    assert Timeline(None, 0.5, 0.25).part("all", 8) == range(8)
    with refuses("train_size, valid_size and test_size", "0", "60", "40"):
        Timeline(None, 60, 40).parts(100)
    with refuses("split", "'dev'"):
        Timeline(None, 1, 1).part("dev", 100)


def test_gaps_at_the_beginning_are_the_centre():
    assert fill_gaps(np.array([[np.nan, 1.0], [2.0, np.nan]])).tolist() == [[0, 1], [2, 1]]
    assert isinstance(arrays(np.arange(3.0)), PanelArrays)
