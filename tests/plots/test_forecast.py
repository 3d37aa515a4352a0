"""Pictures of forecasts, of back-tests, and of the error against the step."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import dates
from tests.refusals import refuses

from throughtime import plots
from throughtime.data.panel import Frequency, Panel, Series
from throughtime.results import Forecast
from throughtime.series.backtest import backtest
from throughtime.series.baselines import Baseline
from throughtime.series.figures import KSteps, SeriesKSteps

DAYS = np.arange("2020-01-01", "2020-03-21", dtype="datetime64[D]").astype("datetime64[ns]")
WALK = np.random.default_rng(0).normal(size=len(DAYS)).cumsum()
PANEL = Panel((Series.of("rain", WALK, DAYS),), Frequency(86_400, "second"))
NUMBERED = Panel(tuple(Series.of(f"s{number}", WALK) for number in range(10)), None)
LEVELS = (80, 95)
PROBABILITIES = (0.025, 0.1, 0.9, 0.975)


def lines(axes: Any, label: str) -> list[Any]:
    return [line for line in axes.lines if line.get_label() == label]


def labels(drawing: Any) -> list[str]:
    return [text.get_text() for text in drawing.legends[0].get_texts()]


def test_a_forecast_is_a_fan_after_the_end_of_the_history() -> None:
    [told] = Baseline("drift").predict(NUMBERED, 10, PROBABILITIES)[:1]
    drawing = plots.forecast(told, NUMBERED)  # the levels that the forecast has
    (axes,) = drawing.axes
    [observed], [forecast] = lines(axes, "observed"), lines(axes, "forecast")
    np.testing.assert_array_equal(observed.get_ydata(), WALK[-30:])
    np.testing.assert_array_equal(forecast.get_ydata(), told.mean)
    assert forecast.get_xdata()[0] == observed.get_xdata()[-1] + 1
    assert labels(drawing) == ["observed", "forecast", "95 %", "80 %"]
    wide, narrow = (one.get_paths()[0].get_extents().height for one in axes.collections)
    assert wide > narrow
    assert axes.collections[0].get_alpha() < axes.collections[1].get_alpha()


def test_points_have_no_fan_and_many_series_are_not_all_drawn() -> None:
    drawing = plots.forecast(Baseline("naive").predict(NUMBERED, 5), NUMBERED, LEVELS)
    assert len(drawing.axes) == 8
    assert not any(axes.collections for axes in drawing.axes)
    assert drawing.legends[0].get_title().get_text() == "8 of 10 series"


def test_windows_that_overlap_are_not_drawn_upon_each_other() -> None:
    found = backtest(Baseline("naive"), PANEL, h=6, n_windows=5, step_size=4, season=1)
    (axes,) = plots.backtest(found, PANEL, LEVELS).axes
    begins = [line.get_xdata()[0] for line in lines(axes, "forecast")]
    assert begins == [DAYS[len(DAYS) - cut] for cut in (22, 14, 6)]
    for line, window in zip(lines(axes, "forecast"), (0, 2, 4), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), found.figures[0].windows.mean[window, 0])


def test_the_error_is_drawn_against_steps_ahead() -> None:
    # R4
    drawing = plots.forecast_error({"own": [1.0, 2.0, 3.0], "naive": [2.0, 3.0, 4.0]}, "MASE")
    (axes,) = drawing.axes
    assert (axes.get_xscale(), axes.get_ylabel()) == ("linear", "MASE")
    assert list(axes.lines[1].get_xdata()) == [1, 2, 3]
    assert labels(drawing) == ["own", "naive"]


@pytest.mark.parametrize(
    ("start", "unit", "frequency", "above"),
    [
        ("2023-11-14", "D", Frequency(86_400, "second"), "%d %b"),
        ("2023-12-29T19", "h", Frequency(3600, "second"), "%H:%M"),
        ("2023-12-31T23:20", "m", Frequency(60, "second"), "%H:%M"),
        ("2023-12-31T23:59:20", "s", Frequency(1, "second"), "%H:%M:%S"),
        ("2021-11", "M", Frequency(1, "month"), "%b"),
    ],
)
def test_no_date_can_be_taken_for_another(start: str, unit: Any, frequency: Frequency, above: str) -> None:
    ds = (np.datetime64(start, unit) + np.arange(55)).astype("datetime64[ns]")
    panel = Panel((Series.of("a", WALK[:55], ds),), frequency)
    (axes,) = plots.forecast(Baseline("naive").predict(panel, 7), panel).axes
    low, high = axes.get_xlim()
    shown = [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
    assert len(shown) >= 3
    # Each label with what was last said below, the first of them all with a year.
    day, year = "01 Jan", shown[0].get_text()[-4:]
    for label in shown:
        upper, _, lower = label.get_text().partition("\n")
        year = lower[-4:] if lower[-4:].isdigit() else year
        day = lower[:6] if len(lower) > 4 else day
        rest, below = (f"{day} {year}", "%d %b %Y") if "%H" in above else (year, "%Y")
        read = datetime.strptime(f"{upper} {rest}", f"{above} {below}")
        assert read == dates.num2date(label.get_position()[0]).replace(tzinfo=None)


@pytest.mark.parametrize("h", [1, 2])
def test_short_horizons_with_dates_are_written_and_always_the_same(tmp_path: Path, h: int) -> None:
    told = Baseline("naive").predict(PANEL, h, PROBABILITIES)
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for file in files:
        plots.forecast(told, PANEL, LEVELS, path=file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_predictions_of_each_k_have_a_panel_of_their_own() -> None:  # R4
    rmse = {1: 0.5, 16: 2.25}
    ahead = {step: np.concatenate([np.full(step, np.nan), WALK[:-step]]) for step in rmse}
    series = [SeriesKSteps(one, ahead, range(50, 80), rmse) for one in (*PANEL.series, *NUMBERED.series)]
    dated = plots.k_steps(KSteps((1, 16), rmse, 30, tuple(series[:1])))
    numbered = plots.k_steps(KSteps((1, 16), rmse, 30, tuple(series[1:])), trained=False)
    first, second = dated.axes
    assert [axes.get_title(loc="left").splitlines()[-1] for axes in (first, second)] == [
        "1 step ahead, RMSE 0.5",
        "16 steps ahead, RMSE 2.25",
    ]
    for axes, step in ((first, 1), (second, 16)):
        [observed], [predicted] = lines(axes, "observed"), lines(axes, "predicted")
        np.testing.assert_array_equal(observed.get_ydata(), WALK)
        np.testing.assert_array_equal(predicted.get_ydata(), ahead[step])
        begin = axes.lines[-1].get_xdata()[0]  # where the tested rows begin
        assert np.datetime64(begin) == DAYS[50]
    assert labels(dated) == ["observed", "predicted"]
    assert len(numbered.axes) == 2 * 3
    assert numbered.legends[0].get_title().get_text() == "3 of 10 series"
    assert all(len(axes.lines) == 2 for axes in numbered.axes)
    long = Series.of("long", np.zeros(1_500))
    [axes] = plots.k_steps(KSteps((1,), rmse, 9, (SeriesKSteps(long, {1: long.y}, range(9), rmse),))).axes
    assert len(lines(axes, "observed")[0].get_xdata()) == 1_000
    assert "1,000 of 1,500" in axes.get_title(loc="left")


def test_history_is_whatever_the_user_has(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"unique_id": "rain", "ds": DAYS, "y": WALK})
    table.to_csv(tmp_path / "rain.csv", index=False)
    told = Baseline("naive").predict(PANEL, 3)
    for history in (PANEL, table, str(tmp_path / "rain.csv"), tmp_path / "rain.csv"):
        (axes,) = plots.forecast(told, history).axes
        np.testing.assert_allclose(lines(axes, "observed")[0].get_ydata(), WALK[-24:])
        assert len(plots.backtest(backtest(Baseline("naive"), PANEL, 3, 2), history).axes) == 1
    (alone,) = plots.forecast(told).axes
    assert not lines(alone, "observed")
    undated = [Forecast("mine", np.ones(2), {})]
    (axes,) = plots.forecast(undated, {"mine": [1.0, 2.0, 3.0]}).axes
    assert lines(axes, "forecast")[0].get_xdata().tolist() == [3, 4]
    with refuses("history", "'rain'"):
        plots.forecast(told, NUMBERED)
    with refuses("forecasts"):
        plots.forecast([])
