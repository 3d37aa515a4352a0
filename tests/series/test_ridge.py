"""Ridge regression beside a model: fitted to the same rows, in the series' own units, and always there."""

from __future__ import annotations

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.data.datasets import open_dataset
from throughtime.data.panel import Panel, Series
from throughtime.data.readers.panel import read_series_panel
from throughtime.series.backtest import backtest
from throughtime.series.baselines import Baseline
from throughtime.series.ridge import Fitting, RidgeBaseline, lookback_for

ROWS = 300


def seasons(rows: int = ROWS) -> Panel:
    """A small and a large wave of a week."""
    draws, wave = np.random.default_rng(0), np.sin(np.arange(rows) * 2 * np.pi / 7)
    small, large = wave + draws.normal(0, 0.2, rows), 500 + 80 * wave + draws.normal(0, 16, rows)
    return Panel((Series.of("small", small), Series.of("large", large)), None)


def test_it_stands_beside_the_rules_of_thumb_and_beats_them() -> None:
    found = backtest(Baseline("naive"), seasons(), h=7, n_windows=10, season=7)
    own = {one.name: one for one in found.figures[1:]}
    assert list(own) == ["naive", "seasonal-naive", "drift", "ridge"]
    assert own["ridge"].total["mase"] < own["seasonal-naive"].total["mase"]
    assert own["ridge"].series["large"]["mae"] == pytest.approx(16 * 0.8, rel=0.3)
    assert own["ridge"].total["coverage-80"] == pytest.approx(80, abs=8)
    assert found.left_out == {}


def test_a_model_that_loses_says_so() -> None:
    found = backtest(Baseline("naive"), seasons(), h=7, n_windows=10, season=7)
    totals = {one.name: one.total for one in found.figures}
    assert found.beaten_by["ridge"] == ["mae", "rmse"]
    assert "naive" not in found.beaten_by  # as good as itself
    [told] = [note for note in found.notes if "ridge" in note]
    for figure in (totals["naive"]["mae"], totals["ridge"]["mae"], totals["naive"]["rmse"]):
        assert f"{figure:,.4g}" in told
    assert found.to_dict()["beaten_by"] == found.beaten_by
    assert told in found.to_dict()["notes"]


def test_no_tested_row_is_fitted_to() -> None:
    panel = seasons()
    known = backtest(Baseline("naive"), panel, h=7, n_windows=5, season=7)
    cut = known.rolling.cuts[0]
    other = []
    for one in panel.series:
        y = one.y.copy()
        y[len(y) - cut :] = 1e6
        other.append(Series.of(one.unique_id, y))
    again = backtest(Baseline("naive"), Panel(tuple(other), None), h=7, n_windows=5, season=7)
    first, then = (found.figures[-1].windows.mean[0] for found in (known, again))
    np.testing.assert_array_equal(first, then)


def test_it_is_fitted_to_the_rows_that_are_named() -> None:
    panel = seasons()
    fitting = Fitting([range(200)] * 2, [range(200, 240)] * 2, [1.0, 1.0])
    found = backtest(Baseline("naive"), panel, h=7, n_windows=2, season=7, fitting=fitting)
    own = RidgeBaseline.fit(panel, 7, fitting)
    assert own.lookback == 66
    expected = [one.mean for one in own.predict(panel.drop_last(7), 7)]
    np.testing.assert_allclose(found.figures[-1].windows.mean[-1], expected)


def test_the_scale_of_a_power_keeps_forecasts_positive() -> None:
    draws = np.random.default_rng(0)
    grown = np.exp(np.arange(150) / 40 + np.sin(np.arange(150) * np.pi / 6) + draws.normal(0, 0.1, 150))
    panel = Panel((Series.of("a", grown),), None)
    ridge = RidgeBaseline.fit(panel, 12, Fitting([range(100)], [range(100, 130)], [0.0]))
    [said] = ridge.predict(panel.drop_last(12), 12, [0.001])
    assert (said.quantiles[0.001] > 0).all()
    assert ridge.power(panel.series[0]) == 0


def test_the_lookback_is_a_third_and_two_weeks_of_hours_at_most() -> None:
    assert [lookback_for([rows]) for rows in (6, 100, 1008, 9000)] == [2, 33, 336, 336]
    with refuses("training rows", "5", "6"):
        lookback_for([300, 5])


@pytest.mark.usefixtures("corpora")
def test_the_published_error_on_etth1() -> None:
    """Look-back 336, 96 hours ahead, every test window of the usual split, standardised values."""
    panel = read_series_panel(open_dataset("series/ETTh1"))
    count, origins = len(panel.series), np.arange(11_520, 14_400 - 96 + 1)
    fitting = Fitting([range(8_640)] * count, [range(8_640, 11_520)] * count, [1.0] * count)
    found = RidgeBaseline.fit(panel, 96, fitting)
    errors = []
    for one in panel.series:
        true = np.lib.stride_tricks.sliding_window_view(found.scales[one.unique_id].apply(one.y), 96)[origins]
        errors.append(((found.forecast_from(one, origins) - true) ** 2).mean())
    assert found.lookback == 336
    assert np.mean(errors) == pytest.approx(0.370, abs=0.003)
