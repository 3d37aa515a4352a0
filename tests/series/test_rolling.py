"""Windows of a back-test: their arithmetic at its edges, and what a model may see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.panel import Panel, Series
from throughtime.results import Forecast
from throughtime.series.baselines import ForecastModel
from throughtime.series.rolling import Rolling, measure_recent_change, roll

small = st.integers(1, 9)


class Spy(ForecastModel):
    """Forecasts zero, and keeps what it was shown."""

    name = "spy"

    def __init__(self) -> None:
        self.shown: list[tuple[Panel, Panel | None]] = []

    def answer(self, query) -> list[Forecast]:
        panel, h = query.panel, query.h
        self.shown.append((panel, query.future))
        # In another order than the panel's: forecasts are found by name.
        return [
            Forecast(one.unique_id, np.full(h, len(one.y), dtype=float), {}, ds=panel.after(one, h))
            for one in reversed(panel.series)
        ]


def read_series_panel(*lengths: int) -> Panel:
    series = (Series.of(f"s{length}", np.arange(length) + 100.0 * length) for length in lengths)
    return Panel(tuple(series), frequency=None)


@given(small, small, small, small)
def test_windows_fill_the_data_to_the_last_row_and_need_just_so_many(
    n_windows: int, step_size: int, h: int, history: int
) -> None:
    rolling = Rolling(n_windows, step_size, h)
    needed = history + h + step_size * (n_windows - 1)
    rolling.check(read_series_panel(needed), history)
    with refuses(f"series 's{needed - 1}'", needed - 1, needed):
        rolling.check(read_series_panel(needed, needed - 1), history)
    rolled = roll(Spy(), read_series_panel(needed), rolling, (), season=1)
    assert rolled.y[-1, 0, -1] == 100 * needed + needed - 1
    assert rolled.mean[0, 0, 0] == history  # what was left before the first origin


@given(small, small, small, small)
def test_earlier_windows_are_over_before_the_tested_ones_begin(
    n_windows: int, step_size: int, h: int, earlier: int
) -> None:
    rolling = Rolling(n_windows, step_size, h)
    more = rolling.add_earlier(earlier)
    assert more.cuts[-n_windows:] == rolling.cuts
    for place in range(n_windows):
        origin, before = rolling.cuts[place], more.cuts[place : place + earlier]
        assert min(before) - h >= origin  # the last row of each is no later than the origin
        assert min(before) - step_size - h < origin  # and none was left out
    room = more.cuts[0]
    assert rolling.room(room) == earlier
    assert rolling.room(room - 1) == earlier - 1


@pytest.mark.parametrize(("given_", "name"), [((0, 1, 1), "n_windows"), ((1, 0, 1), "step_size")])
def test_what_is_no_window_is_refused(given_: tuple[int, int, int], name: str) -> None:
    with refuses(name, "0"):
        Rolling(*given_)


def test_a_model_sees_no_row_after_the_origin_but_columns_known_ahead() -> None:
    rows = np.arange(10.0)
    series = Series("a", np.arange(10), rows, known=rows[:, None] + 50, past=rows[:, None] + 70)
    spy = Spy()
    roll(spy, Panel((series,), None, ("known",), ("past",)), Rolling(2, 2, 3), (), season=1)
    for (history, future), origin in zip(spy.shown, (5, 7), strict=True):
        assert history.series[0].y.tolist() == rows[:origin].tolist()
        assert len(history.series[0].known) == len(history.series[0].past) == origin
        assert future is not None
        ahead = future.series[0]
        assert ahead.ds.tolist() == [origin, origin + 1, origin + 2]
        assert ahead.known.ravel().tolist() == (rows[origin : origin + 3] + 50).tolist()
        assert np.isnan(ahead.y).all()
        assert np.isnan(ahead.past).all()


def test_how_lively_a_series_was_is_told_by_its_last_seasons_and_is_never_zero() -> None:
    assert measure_recent_change(np.concatenate([np.arange(100) % 2 * 9.0, np.arange(40.0)]), 1) == 1
    assert measure_recent_change(np.concatenate([[0.0, 3.0], np.full(60, 3.0)]), 1) > 0
    assert measure_recent_change(np.full(5, 2.0), 1) == 1
