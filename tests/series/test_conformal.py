"""Conformal intervals: the law of their coverage, their edges, and how they are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.data.panel import Panel, Series
from throughtime.folder import ModelFolder
from throughtime.results import Forecast
from throughtime.series.baselines import ForecastModel
from throughtime.series.conformal import (
    KINDS,
    Conformal,
    conformal_quantile,
    load_intervals,
    save_intervals,
)
from throughtime.series.rolling import PastWindows, windows_needed

ENDS = {80: (0.1, 0.9), 95: (0.025, 0.975)}
ASKED = [p for ends in ENDS.values() for p in ends]


def windows(count: int, h: int = 4, seed: int = 0) -> PastWindows:
    """Exchangeable windows of two series, with skewed noise of unlike spread; quantiles far too narrow."""
    generator = np.random.default_rng(seed)
    recent_change = generator.uniform(0.5, 3.0, size=(count, 2)) * [1, 10]
    mean = generator.normal(size=(count, 2, h))
    noise = (generator.exponential(size=mean.shape) - 0.7) * np.arange(1, h + 1)
    quantiles = {p: mean + (p - 0.5) * recent_change[..., None] * 0.1 for p in ASKED}
    return PastWindows(
        ("a", "b"),
        mean + noise * recent_change[..., None],
        mean,
        quantiles,
        recent_change,
        season=1,
        powers=np.ones_like(recent_change),
    )


def covered(rolled: PastWindows, quantiles: dict[float, np.ndarray], level: int) -> np.ndarray:
    low, high = (quantiles[p] for p in ENDS[level])
    return (low <= rolled.y) & (rolled.y <= high)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [80, 95])
def test_on_exchangeable_windows_intervals_cover_as_often_as_they_say(kind: str, level: int) -> None:
    found = []
    for seed in range(40):
        rolled = windows(80, seed=seed)
        past, new = rolled.windows(slice(59)), rolled.windows(slice(59, None))
        found.append(covered(new, KINDS[kind].of(past).adjust(new, ASKED), level))
    shares = 100 * np.concatenate(found).mean(axis=0)  # [series, steps]
    assert abs(shares.mean() - level) < 1.5
    # Every series and every step alike, though their noise differs by a factor of forty.
    assert np.abs(shares - level).max() < 3


def test_scaled_intervals_are_wide_where_a_series_is_lively() -> None:
    past, new = windows(200), windows(1, seed=1)
    found = KINDS["scaled"].of(past).adjust(new, ASKED)
    widths = (found[0.9] - found[0.1])[0, :, 0]
    np.testing.assert_allclose(widths[0] / widths[1], new.recent_change[0, 0] / new.recent_change[0, 1])
    other = replace(new, series=("never", "seen"))
    np.testing.assert_array_equal(KINDS["scaled"].of(past).adjust(other, [0.9])[0.9], found[0.9])


@given(st.integers(1, 60), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]), st.integers(0, 10))
def test_the_quantile_is_the_smallest_score_with_enough_below_it(count: int, level: float, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=count)
    found = float(conformal_quantile(scores, level))
    assert np.isfinite(found) == (count >= windows_needed(level))
    if np.isfinite(found):
        assert (scores <= found).sum() >= (count + 1) * level - 1e-6
        assert (scores < found).sum() < (count + 1) * level


def test_quantiles_are_moved_in_where_they_are_too_wide_and_never_cross() -> None:
    past, new = windows(100), windows(5, seed=1)

    def wide(rolled: PastWindows) -> PastWindows:
        return replace(rolled, quantiles={p: rolled.mean + (p - 0.5) * 1e3 for p in ASKED})

    found = KINDS["quantiles"].of(wide(past)).adjust(wide(new), [*ASKED])
    assert (found[0.975] - found[0.025] < 950).all()
    ordered = np.stack([found[p] for p in sorted(ASKED)])
    assert (np.diff(ordered, axis=0) >= 0).all()


def test_between_two_levels_intervals_cover_too() -> None:
    inside = []
    for seed in range(40):
        rolled = windows(80, seed=seed)
        own, new = KINDS["quantiles"].of(rolled.windows(slice(60))), rolled.windows(slice(60, None))
        assert own.required_quantiles([0.05, 0.5, 0.95]) == [0.025, 0.1, 0.5, 0.9, 0.975]
        found = own.adjust(new, [0.025, 0.05, 0.1, 0.9, 0.95, 0.975])
        assert (np.diff(np.stack(list(found.values())), axis=0) >= 0).all()
        inside.append(((new.y >= found[0.05]) & (new.y <= found[0.95])).mean())
    assert abs(100 * np.mean(inside) - 90) < 3


def test_levels_that_were_not_measured_and_series_not_seen_are_refused() -> None:
    past, new = windows(50), windows(1)
    own = KINDS["quantiles"].of(past)
    for p, level in ((0.005, 99), (0.6, 20)):
        with refuses(f"level {level}", "80", "95"):
            own.adjust(new, [p])
    stranger = replace(new, series=("a", "c"))
    with refuses("series 'c'"):
        KINDS["absolute"].of(past).adjust(stranger, [0.9])
    longer = windows(1, h=6)
    with refuses("h", "6", "4"):
        KINDS["scaled"].of(past).adjust(longer, [0.9])
    with refuses("intervals", "quantiles"):
        KINDS["quantiles"].of(replace(past, quantiles={}))


class Points(ForecastModel):
    """Forecasts the number of rows."""

    name = "points"

    def answer(self, query) -> list[Forecast]:
        panel, h = query.panel, query.h
        return [Forecast(one.unique_id, np.full(h, 7.0), {}, ds=panel.after(one, h)) for one in panel.series]


def test_a_model_of_points_forecasts_intervals() -> None:
    past = windows(60)
    panel = Panel((Series.of("b", range(9)), Series.of("a", range(9))), None)
    b, a = Conformal(Points(), KINDS["absolute"].of(past)).predict(panel, 3, ASKED)
    assert (b.unique_id, a.unique_id) == ("b", "a")
    assert b.mean.tolist() == [7, 7, 7]
    for one, place in ((a, 0), (b, 1)):
        scores = np.sort(np.abs(past.y - past.mean)[:, place, :3], axis=0)
        np.testing.assert_allclose(one.quantiles[0.9], 7 + scores[48])  # of 60, the ceil(61 x 0.8) = 49th
        np.testing.assert_allclose(one.quantiles[0.025], 7 - scores[57])


@pytest.mark.parametrize("kind", KINDS)
def test_kept_intervals_are_the_same(kind: str, tmp_path: Path) -> None:
    folder, new = ModelFolder(tmp_path), windows(3, seed=1)
    assert load_intervals(folder) is None
    intervals = KINDS[kind].of(windows(50))
    save_intervals(folder, intervals)
    kept = load_intervals(folder)
    assert kept is not None
    assert (kept.kind, kept.series, kept.season) == (kind, ("a", "b"), 1)
    assert repr(kept) == repr(intervals) == f"{type(kept).__name__}(2 series, season 1, 4 steps ahead)"
    told, expected = kept.adjust(new, ASKED), intervals.adjust(new, ASKED)
    for p in ASKED:
        np.testing.assert_array_equal(told[p], expected[p])
