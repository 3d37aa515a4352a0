"""Back-testing: figures by hand, honest intervals, and rules of thumb always beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import lacks, refuses

from throughtime.data.panel import Panel, Series
from throughtime.data.readers.panel import read_panel
from throughtime.results import Forecast
from throughtime.series.backtest import backtest, calibrate_intervals
from throughtime.series.baselines import Baseline, ForecastModel, find_season
from throughtime.series.conformal import Conformal
from throughtime.series.figures import GRID
from throughtime.series.rolling import Rolling


class Points(ForecastModel):
    """A rule of thumb without its distribution: what a model with a point head is."""

    name = "points"

    def __init__(self, rule: str = "naive", season: int | None = None) -> None:
        self.rule = Baseline(rule, season)

    def answer(self, query) -> list[Forecast]:
        panel, h = query.panel, query.h
        return self.rule.predict(panel, h)


def read_series_panel(*series: Sequence[float]) -> Panel:
    return Panel(tuple(Series.of(name, y) for name, y in zip("abcdef", series, strict=False)), None)


def walk(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=rows).cumsum()


def test_figures_by_hand() -> None:
    panel = read_series_panel([1, 2, 4, 5, 7, 4, 8])
    found = backtest(Baseline("naive"), panel, h=2, n_windows=2, step_size=2, levels=[80])
    # From 4: 5 and 7; from 7: 4 and 8. The history before the first origin has changes of 1 and 2.
    own = found.figures[0]
    assert [one.name for one in found.figures] == ["naive", "naive", "seasonal-naive", "drift"]
    assert "6" in found.left_out["ridge"]  # 3 rows before the first origin
    assert found.origins == ["2", "4"]
    assert own.total["mae"] == pytest.approx((1 + 3 + 3 + 1) / 4)
    assert own.total["rmse"] == pytest.approx(5**0.5)
    assert own.total["mase"] == pytest.approx(2 / 1.5)
    assert own.total["smape"] == pytest.approx(50 * (1 / 9 + 3 / 11 + 3 / 11 + 1 / 15))
    assert own.steps["mae"] == pytest.approx([2, 2])
    assert own.steps["rmse"] == pytest.approx([5**0.5, 5**0.5])
    # At both origins the mean squared change is 5/2: an interval reaches 2.03 up and down, then 2.87.
    assert own.total["width-80"] == pytest.approx(1.2815515655 * 2.5**0.5 * (1 + 2**0.5))
    assert own.total["coverage-80"] == 50
    assert found.figures[1].total == own.total


@pytest.mark.parametrize("kind", ["absolute", "scaled"])
def test_no_window_that_is_tested_has_made_its_own_interval(kind: str) -> None:
    y = walk(120)
    h, step, n_windows = 5, 2, 6
    whole = backtest(
        Points(), read_series_panel(y), h, n_windows, step, levels=[80], intervals=kind, earlier_windows=20
    )
    told = whole.figures[0].windows.quantiles[0.9]
    for window, cut in enumerate(whole.rolling.cuts):
        other = y.copy()
        other[len(y) - cut :] = 1e6  # all that comes after the origin
        again = backtest(
            Points(),
            read_series_panel(other),
            h,
            n_windows,
            step,
            levels=[80],
            intervals=kind,
            earlier_windows=20,
        )
        np.testing.assert_array_equal(again.figures[0].windows.quantiles[0.9][window], told[window])


def test_intervals_are_those_of_the_windows_that_were_over() -> None:
    y = walk(60)
    found = backtest(
        Points(), read_series_panel(y), h=2, n_windows=3, step_size=1, levels=[80], earlier_windows=9
    )
    assert (found.interval_kind, found.earlier_windows) == ("absolute", 9)
    for window, cut in enumerate(found.rolling.cuts):
        origin = len(y) - cut  # rows known
        errors = [abs(y[begin + 1] - y[begin - 1]) for begin in range(origin - 10, origin - 1)]
        bound = sorted(errors)[7]  # of 9, the ceil(10 x 0.8) = 8th
        high = found.figures[0].windows.quantiles[0.9][window, 0, 1]
        assert high == pytest.approx(y[origin - 1] + bound)


def test_a_model_with_quantiles_keeps_them_unless_told_otherwise() -> None:
    panel = read_series_panel(walk(300))
    own = backtest(Baseline("naive"), panel, h=2, n_windows=20)
    assert (own.interval_kind, own.earlier_windows) == ("own", 0)
    moved = backtest(Baseline("naive"), panel, h=2, n_windows=20, intervals="conformal")
    assert (moved.interval_kind, moved.earlier_windows) == ("quantiles", 100)
    assert moved.figures[0].total["mae"] == own.figures[0].total["mae"]
    assert moved.figures[0].total["width-80"] != own.figures[0].total["width-80"]
    assert moved.figures[1].total == own.figures[1].total


def test_a_back_test_is_printed_as_a_table() -> None:
    found = backtest(Baseline("naive"), read_series_panel(walk(300)), h=2, n_windows=20)
    heading, names, own, *rest = str(found).splitlines()
    assert heading.startswith("20 windows of 2 steps, 2 apart, after ")
    assert names.split() == "MAE RMSE sMAPE % MASE CRPS in 80 % in 95 %".split()
    assert own.split()[:2] == ["naive", f"{found.figures[0].total['mae']:,.4g}"]
    assert own.endswith(f"{found.figures[0].total['coverage-95']:.1f} %")
    assert rest[len(found.figures) - 1 :] == found.notes


def test_exactly_enough_rows_for_intervals_and_one_too_few() -> None:
    # A row of history and one more for the scale; 19 earlier windows, none of which reaches the tested 2.
    needed = 2 + 2 + (2 - 1 + 2 - 1 + 19)
    found = backtest(Points(), read_series_panel(walk(needed)), h=2, n_windows=2, step_size=1)
    assert (found.earlier_windows, found.without) == (19, None)
    assert np.isfinite(found.figures[0].windows.quantiles[0.975]).all()
    short = read_series_panel(walk(needed - 1))
    with refuses("series 'a'", needed - 1, "2", "19", needed):
        backtest(Points(), short, h=2, n_windows=2, step_size=1, intervals="absolute")
    # Unasked, a model of points is measured without them.
    found = backtest(Points(), short, h=2, n_windows=2, step_size=1)
    assert found.interval_kind == "none"
    assert not lacks(str(found.without), needed - 1, needed)
    assert "coverage-80" not in found.figures[0].total
    assert found.figures[0].total["crps"] == found.figures[0].total["mae"]
    assert found.figures[1].total["coverage-80"] >= 0


def test_windows_are_looked_for_where_the_model_was_not_trained() -> None:
    panel = read_series_panel(walk(200))
    free = backtest(Points(), panel, h=2, n_windows=4, unseen=70)
    assert (free.earlier_windows, free.trained_on, free.earlier_trained_on) == (31, 0, 0)
    tight = backtest(Points(), panel, h=2, n_windows=4, unseen=20)
    assert tight.earlier_windows == 19
    # 23 windows of two rows, ten in the last twenty: the four that are tested, and six before them.
    assert (tight.trained_on, tight.earlier_trained_on) == (0, 23 - 10)
    late = backtest(Points(), panel, h=2, n_windows=4, unseen=5)
    assert (late.trained_on, late.earlier_trained_on) == (2, 19)
    assert late.to_dict()["windows_trained_on"] == 2


def test_bad_wishes_are_refused_in_a_sentence() -> None:
    panel = read_series_panel(walk(80))
    with refuses("level", "100"):
        backtest(Points(), panel, h=2, levels=[100])
    with refuses("intervals", "'scalde'", "'scaled'"):
        backtest(Points(), panel, h=2, intervals="scalde")
    with refuses("intervals", "'own'"):
        calibrate_intervals(Points(), panel, h=2, intervals="own")
    with refuses("step_size", "0"):
        backtest(Points(), panel, h=2, step_size=0)
    with refuses("intervals"):
        backtest(Points(), panel, h=2, intervals="own")
    with refuses("earlier_windows", "18", "95", "19"):
        backtest(Points(), panel, h=2, earlier_windows=18)


@pytest.mark.parametrize(("model", "intervals"), [(Baseline("drift"), "own"), (Points(), "absolute")])
def test_crps_does_not_depend_on_the_levels(model: Baseline | Points, intervals: str) -> None:
    panel = read_series_panel(walk(300))
    told = [
        backtest(model, panel, h=2, levels=levels, intervals=intervals) for levels in ([80, 95], [50], [99])
    ]
    for found in told:
        assert found.grid == GRID
        for one, usual in zip(found.figures, told[0].figures, strict=True):
            assert one.total["crps"] == usual.total["crps"]


class Narrow(Baseline):
    reach = (0.1, 0.95)


def test_the_grid_of_crps_is_cut_to_what_a_head_and_its_windows_have() -> None:
    # A head that learned 0.1 to 0.9 only can be tested at 80 %; the rules of thumb have the same grid.
    panel = read_series_panel(walk(80))
    within = backtest(Narrow("naive"), panel, h=2, levels=[80])
    assert (within.grid[0], within.grid[-1]) == (0.1, 0.9)
    assert within.to_dict()["crps_quantiles"] == [0.1, 0.9]
    assert within.figures[1].total == within.figures[0].total
    # Four windows bound 80 % and no more; nine all of it.
    few = backtest(Points(), panel, h=2, levels=[50], earlier_windows=4)
    assert (few.grid[0], few.grid[-1]) == (0.1, 0.9)
    assert few.figures[1].total["crps"] == within.figures[1].total["crps"]
    assert backtest(Points(), panel, h=2, levels=[50], earlier_windows=9).grid == GRID
    assert backtest(Baseline("naive"), panel, h=2, levels=[80]).grid == GRID


def gappy(rows: int, share: float = 0.3) -> np.ndarray:
    y = walk(rows)
    y[5:][np.random.default_rng(1).random(rows - 5) < share] = np.nan
    return y


@pytest.mark.parametrize("kind", ["absolute", "scaled", "quantiles"])
def test_gaps_take_more_earlier_windows(kind: str) -> None:
    model = Baseline("naive") if kind == "quantiles" else Points()
    found = backtest(model, read_series_panel(gappy(200)), h=2, n_windows=4, intervals=kind, unseen=50)
    assert found.earlier_windows > 19
    own = found.figures[0].windows
    assert np.isfinite(own.quantiles[0.975][~np.isnan(own.y)]).all()
    assert (found.infinite.get(95, 0), found.levels) == (np.isinf(own.quantiles[0.975]).sum(), (80, 95))
    for figure in ("coverage-95", "width-95", "crps"):
        assert np.isfinite(found.figures[0].total[figure])
    # No more than that: with one less, some value lacks scores.
    less = (
        backtest(
            model,
            read_series_panel(gappy(200)),
            2,
            4,
            intervals=kind,
            earlier_windows=found.earlier_windows - 1,
        )
        .figures[0]
        .windows
    )
    assert np.isinf(less.quantiles[0.975][~np.isnan(less.y)]).any()


def test_infinite_intervals_are_told_and_left_out() -> None:
    panel = read_series_panel(gappy(120, 0.15))
    found = backtest(Points(), panel, h=3, n_windows=6, earlier_windows=22)
    own = found.figures[0].windows
    low, high = (own.quantiles[p] for p in (0.025, 0.975))
    infinite = np.isinf(high)
    assert 0 < found.infinite[95] == infinite.sum() < infinite.size
    assert found.to_dict()["infinite_intervals"] == {"95": infinite.sum()}
    assert found.notes == [
        f"{infinite.sum()} of 18 intervals of 95 % are infinite and left out of coverage and width: "
        "each needs 19 earlier windows in which its step was observed."
    ]
    counted = ~infinite & ~np.isnan(own.y)
    total = found.figures[0].total
    assert total["width-95"] == pytest.approx((high - low)[~infinite].mean())
    assert total["coverage-95"] == pytest.approx(100 * ((low <= own.y) & (own.y <= high))[counted].mean())
    assert np.isfinite(total["crps"])


def test_a_level_without_any_interval_is_dropped_with_a_sentence() -> None:
    y = walk(60)
    y[36:50:3] = np.nan
    found = backtest(Points(), read_series_panel(y), h=1, n_windows=4, earlier_windows=19)
    assert found.levels == (80,)
    assert found.notes == [
        "95 % is left out: an interval needs 19 earlier windows in which its step was observed, "
        "and none has them."
    ]
    assert all("coverage-95" not in one.total for one in found.figures)
    assert found.figures[0].total["coverage-80"] >= 0


def test_kept_intervals_are_made_of_observed_values() -> None:
    # Every seventh value is missing: windows a week apart would never see it at their last step.
    y = walk(300)
    y[-1::-7] = np.nan
    panel = read_series_panel(y)
    made = calibrate_intervals(Points(), panel, h=7, unseen=200)
    assert made.infinite == 0
    told = Conformal(Points(), made.intervals).predict(panel, 7, [0.025, 0.975])
    assert np.isfinite(told[0].quantiles[0.975]).all()
    y = walk(60)
    y[5:55] = np.nan
    made = calibrate_intervals(Points(), read_series_panel(y), h=3)
    assert made.infinite == 3
    with refuses("level 95", "19", "'a'", "1"):
        Conformal(Points(), made.intervals).predict(read_series_panel(y), 3, [0.975])


def test_intervals_for_what_comes_next() -> None:
    panel = read_series_panel(walk(200))
    made = calibrate_intervals(Points(), panel, h=3, unseen=60)
    assert (made.n_windows, made.trained_on) == (58, 0)  # a row apart, since there is no room for 100
    [told] = Conformal(Points(), made.intervals).predict(panel, 3, [0.1, 0.9])
    width = told.quantiles[0.9] - told.quantiles[0.1]
    assert width[0] == pytest.approx(2 * 1.28, rel=0.35)
    assert width[2] > width[0]
    with refuses("level 99", "99"):
        Conformal(Points(), made.intervals).predict(panel, 3, [0.005])
    assert calibrate_intervals(Points(), panel, h=3, unseen=10).trained_on > 0
    with refuses("series 'a'", "20", "19"):
        calibrate_intervals(Points(), read_series_panel(walk(20)), h=3)


@pytest.mark.parametrize(
    ("name", "season"), [("airline-passengers", 12), ("elec_vic", 24), ("daily-min-temperatures", 1)]
)
def test_the_season_comes_from_the_frequency_if_it_is_there(corpora: Path, name: str, season: int) -> None:
    panel = read_panel(corpora / "series" / f"{name}.csv")
    assert find_season(panel) == season
    [told] = Baseline("seasonal-naive").predict(panel, 2 * season)
    np.testing.assert_array_equal(told.mean, np.tile(panel.series[0].y[-season:], 2))


@pytest.mark.parametrize(("name", "step_size"), [("ETTh1", 48), ("elec_vic", 12)])
def test_coverage_over_all_of_a_real_series(corpora: Path, name: str, step_size: int) -> None:
    panel = read_panel(corpora / "series" / f"{name}.csv")
    h, earlier, history = 24, 100, 25
    every = Rolling(1, step_size, h).room(len(panel.series[0]) - history)
    found = backtest(
        Points("seasonal-naive"),
        panel,
        h,
        every - earlier + 1,
        step_size,
        intervals="absolute",
        earlier_windows=earlier,
    )
    for level in (80, 95):
        assert abs(found.figures[0].total[f"coverage-{level}"] - level) < 3
