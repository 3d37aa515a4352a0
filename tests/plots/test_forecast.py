"""Pictures of forecasts, of back-tests, and of the error against the step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from throughtime.data.frequency import Frequency
from throughtime.data.panel import Panel, Series
from throughtime.plots.forecast import backtest_plot, forecast_plot, horizon_plot
from throughtime.tasks.backtest import backtest
from throughtime.tasks.baselines import Baseline

DAYS = np.arange("2020-01-01", "2020-03-21", dtype="datetime64[D]").astype("datetime64[ns]")
WALK = np.random.default_rng(0).normal(size=len(DAYS)).cumsum()
PANEL = Panel((Series.of("rain", WALK, DAYS),), Frequency(86_400, "second"))
NUMBERED = Panel(tuple(Series.of(f"s{number}", WALK) for number in range(10)), None)
LEVELS = (80, 95)
PROBABILITIES = (0.025, 0.1, 0.9, 0.975)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    kept: list[Any] = []
    monkeypatch.setattr("throughtime.plots.forecast.save", lambda drawing, path: kept.append(drawing))
    return kept


def lines(axes: Any, label: str) -> list[Any]:
    return [line for line in axes.lines if line.get_label() == label]


def labels(drawing: Any) -> list[str]:
    return [text.get_text() for text in drawing.legends[0].get_texts()]


def test_a_forecast_is_a_fan_after_the_end_of_the_history(drawn: list[Any]) -> None:
    [told] = Baseline("drift").predict(NUMBERED, 10, PROBABILITIES)[:1]
    forecast_plot(NUMBERED, [told], LEVELS, "f.png")
    (axes,) = drawn[0].axes
    [observed], [forecast] = lines(axes, "observed"), lines(axes, "forecast")
    np.testing.assert_array_equal(observed.get_ydata(), WALK[-30:])
    np.testing.assert_array_equal(forecast.get_ydata(), told.mean)
    assert forecast.get_xdata()[0] == observed.get_xdata()[-1] + 1
    assert labels(drawn[0]) == ["observed", "forecast", "95 %", "80 %"]
    wide, narrow = (one.get_paths()[0].get_extents().height for one in axes.collections)
    assert wide > narrow
    assert axes.collections[0].get_alpha() < axes.collections[1].get_alpha()


def test_points_have_no_fan_and_many_series_are_not_all_drawn(drawn: list[Any]) -> None:
    forecast_plot(NUMBERED, Baseline("naive").predict(NUMBERED, 5), LEVELS, "f.png")
    assert len(drawn[0].axes) == 8
    assert not any(axes.collections for axes in drawn[0].axes)
    assert drawn[0].legends[0].get_title().get_text() == "8 of 10 series"


def test_windows_that_overlap_are_not_drawn_upon_each_other(drawn: list[Any]) -> None:
    found = backtest(Baseline("naive"), PANEL, h=6, n_windows=5, step_size=4, season=1)
    backtest_plot(PANEL, found.judged[0].windows, found.rolling.cuts, LEVELS, "b.png")
    (axes,) = drawn[0].axes
    begins = [line.get_xdata()[0] for line in lines(axes, "forecast")]
    assert begins == [DAYS[len(DAYS) - cut] for cut in (22, 14, 6)]
    for line, window in zip(lines(axes, "forecast"), (0, 2, 4), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), found.judged[0].windows.mean[window, 0])


def test_of_many_windows_the_last_are_drawn(drawn: list[Any]) -> None:
    found = backtest(Baseline("naive"), PANEL, h=2, n_windows=30, step_size=2, season=1)
    backtest_plot(PANEL, found.judged[0].windows, found.rolling.cuts, LEVELS, "b.png")
    begins = [line.get_xdata()[0] for line in lines(drawn[0].axes[0], "forecast")]
    assert begins == [DAYS[-cut] for cut in range(16, 0, -2)]


def test_the_error_is_drawn_against_steps_ahead(drawn: list[Any]) -> None:
    # R4
    horizon_plot({"linear": [0.2, 0.3, 0.5, 0.9]}, "k.png", steps=[1, 4, 16, 64])
    (axes,) = drawn[0].axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "4", "16", "64"]
    assert axes.lines[0].get_xdata().tolist() == [1, 4, 16, 64]
    horizon_plot({"own": [1.0, 2.0, 3.0], "naive": [2.0, 3.0, 4.0]}, "k.png", "MASE")
    (axes,) = drawn[1].axes
    assert (axes.get_xscale(), axes.get_ylabel()) == ("linear", "MASE")
    assert axes.lines[1].get_xdata().tolist() == [1, 2, 3]
    assert labels(drawn[1]) == ["own", "naive"]


@pytest.mark.parametrize("h", [1, 2])
def test_short_horizons_with_dates_are_written_and_always_the_same(tmp_path: Path, h: int) -> None:
    told = Baseline("naive").predict(PANEL, h, PROBABILITIES)
    first = forecast_plot(PANEL, told, LEVELS, tmp_path / "a.svg").read_bytes()
    assert forecast_plot(PANEL, told, LEVELS, tmp_path / "b.svg").read_bytes() == first
