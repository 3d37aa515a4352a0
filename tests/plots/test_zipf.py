"""The picture of Zipf's law, and what all pictures share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime import plots
from throughtime.errors import ThroughtimeError
from throughtime.plots.style import figure
from throughtime.text.statistics import zipf_fit

COUNTS = {n: np.sort(np.random.default_rng(n).zipf(1.5, 3000 * n))[::-1] for n in (1, 2, 3)}
FITS = {n: zipf_fit(counts) for n, counts in COUNTS.items()}


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_plot_is_written_in_each_format_and_always_the_same(
    tmp_path: Path, suffix: str, magic: bytes
) -> None:
    # R18
    files = [tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"]
    for file in files:
        plots.zipf(COUNTS, path=file)
    first = files[0].read_bytes()
    assert first.startswith(magic)
    assert files[1].read_bytes() == first


def test_the_plot_shows_the_exponents_on_logarithmic_axes() -> None:
    # R18
    axes: Any
    (axes,) = plots.zipf(COUNTS).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    names = ("single tokens", "pairs", "triples")
    exponents = [f"{fit.exponent:.2f} (ranks 10 to " for fit in FITS.values() if fit is not None]
    for label, name, exponent in zip(labels, names, exponents, strict=True):
        assert label.startswith(f"{name}, exponent {exponent}")
    points = next(line for line in axes.lines if line.get_label() == labels[0])
    ranks = points.get_xdata()
    assert (ranks[0], ranks[-1]) == (1, len(COUNTS[1]))
    np.testing.assert_array_equal(points.get_ydata(), COUNTS[1][ranks - 1])


@pytest.mark.parametrize(
    ("types", "ranks"),
    [((27, 471), (" (ranks 10 to 27)", " (ranks 10 to 471)")), ((2000, 4000), (" (ranks 10 to 1,000)",) * 2)],
)
def test_the_legend_tells_the_ranks_that_were_fitted(types: tuple[int, int], ranks: tuple[str, str]) -> None:
    # R18
    counts = {n: 1e6 / np.arange(1, size + 1) for n, size in enumerate(types, 1)}
    axes: Any
    (axes,) = plots.zipf(counts).axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [f"single tokens, exponent 1.00{ranks[0]}", f"pairs, exponent 1.00{ranks[1]}"]
    lines = [line.get_xdata() for line in axes.lines if line.get_linestyle() == "-"]
    assert [max(own) for own in lines] == [min(size, 1000) for size in types]


def test_few_types_have_no_line() -> None:
    axes: Any
    (axes,) = plots.zipf({1: np.array([5, 4, 3, 2, 1])}).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["single tokens"]


def test_tiny_and_empty_texts_can_be_drawn(tmp_path: Path) -> None:
    counts = {1: np.array([2, 1]), 2: np.array([1]), 3: np.array([], dtype=np.int64)}
    plots.zipf(counts, path=tmp_path / "z.png")
    assert (tmp_path / "z.png").stat().st_size > 1000


def test_an_unknown_suffix_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with refuses("z.gif", ".png", ".svg", ".pdf"):
        plots.zipf(COUNTS, path=tmp_path / "z.gif")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refuses("[plot]", error=ThroughtimeError), figure():
        pass


def test_matplotlib_is_imported_only_when_a_figure_is_drawn() -> None:
    code = "import sys, throughtime.plots; sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
