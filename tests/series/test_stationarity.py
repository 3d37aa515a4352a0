"""Drift made visible: a ramp and a random walk drift, noise does not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime import plots
from throughtime.series.stationarity import drift


def remembering(memory: float, generator: np.random.Generator, steps: int = 1000) -> np.ndarray:
    """A stationary series in which each value keeps a share of the one before."""
    series = generator.normal(size=steps)
    series[0] /= np.sqrt(1 - memory**2)
    for step in range(1, steps):
        series[step] += memory * series[step - 1]
    return series


@pytest.mark.parametrize("seed", range(10))
def test_ramps_and_walks_drift_and_noise_does_not(seed: int) -> None:
    # R9
    generator = np.random.default_rng(seed)
    ramp = np.linspace(0, 10, 1000) + 0.5 * generator.normal(size=1000)
    assert drift(ramp).drifts
    assert drift(ramp).spread > 0.9
    assert drift(generator.normal(size=1000).cumsum()).drifts
    assert not drift(generator.normal(size=1000)).drifts
    assert not drift(remembering(0.5, generator)).drifts


def test_segments_hold_their_own_statistics() -> None:
    rng = np.random.default_rng(0)
    series = np.concatenate([rng.normal(0, 1, 5000), 3 + 2 * remembering(0.8, rng, 5000)])
    first, second = drift(series, segments=2).segments
    assert (first.start, first.stop, second.start, second.stop) == (0, 5000, 5000, 10_000)
    assert first.mean == pytest.approx(series[:5000].mean())
    assert second.deviation == pytest.approx(series[5000:].std())
    assert first.autocorrelation == pytest.approx(0, abs=0.05)
    assert second.autocorrelation == pytest.approx(
        np.corrcoef(series[5000:-1], series[5001:])[0, 1], abs=0.01
    )


def test_missing_values_change_no_figure_but_their_own() -> None:
    series = remembering(0.8, np.random.default_rng(0), 20_000)
    holed = np.where(np.arange(20_000) % 3 == 0, np.nan, series)  # of each three values two are neighbours
    closed = holed[~np.isnan(holed)]  # as if the third had never been
    whole, found = (
        np.mean([part.autocorrelation for part in drift(one).segments]) for one in (series, holed)
    )
    assert found == pytest.approx(whole, abs=0.02)
    assert np.mean([part.autocorrelation for part in drift(closed).segments]) < whole - 0.05
    part = drift(holed).segments[3]
    assert (part.start, part.stop, part.mean) == (6000, 8000, pytest.approx(np.nanmean(holed[6000:8000])))
    alternating = np.where(np.arange(20_000) % 2, np.nan, series)
    assert {part.autocorrelation for part in drift(alternating).segments} == {0.0}  # nobody has a neighbour


def test_a_line_breaks_at_a_gap_and_lone_values_are_dots(tmp_path: Path) -> None:
    series = np.arange(100.0)
    series[[10, 12, 50]] = np.nan
    plots.drift(series, drift(series), path=tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    strokes = [path for path in re.findall(r'<path d="([^"]*)"', drawn) if path.count("L") > 50]
    assert [path.count("M") for path in strokes] == [4]
    assert len(re.findall(r"<use [^>]*stroke: #999999", drawn)) == 1


def test_a_constant_does_not_drift() -> None:
    still = drift(np.ones(100))
    assert (still.spread, still.expected, still.drifts) == (0.0, 0.0, False)


def test_drift_is_drawn(tmp_path: Path) -> None:
    # R9
    ramp, noise = np.linspace(0, 10, 1000), np.random.default_rng(0).normal(size=1000)
    for series in (ramp, noise[:900]):
        plots.drift(series, drift(series), path=tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    drawn = []
    for count in (10, 20):
        plots.drift(ramp, drift(ramp, count), path=tmp_path / "a.svg")
        drawn.append(_marks(tmp_path / "a.svg"))
    # Ten segments more: a band, a mean and an autocorrelation each.
    assert drawn[1] - drawn[0] == 30


def _marks(picture: Path) -> int:
    """How many bands and bars the picture holds."""
    return len(
        re.findall(
            r'<g id="(?:FillBetweenPolyCollection|LineCollection|PolyCollection)_', picture.read_text()
        )
    )


@pytest.mark.parametrize(
    ("values", "segments", "facts"),
    [
        ([1.0] * 29, 10, ("segments", "3", "29")),
        ([1.0] * 30, 1, ("segments", "1")),
        ([1.0, float("inf")] * 30, 10, ("values",)),
        ([float("nan")] * 100 + [1.0] * 29, 10, ("segments", "3", "29")),
        ([float("nan")] * 400 + [1.0] * 31, 10, ("values", "10")),
        (np.zeros((40, 2)), 10, ("values",)),
    ],
)
def test_bad_input_is_refused(values: object, segments: int, facts: tuple[str, ...]) -> None:
    with refuses(*facts):
        drift(values, segments)  # type: ignore[arg-type]
