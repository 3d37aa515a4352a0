"""Zipf's law: the frequency of n-grams against their rank."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from throughtime.plots.style import COLOURS, INK, figure, save
from throughtime.text.statistics import ZIPF_RANKS, Counts, ZipfFit

_NAMES = {1: "single tokens", 2: "pairs", 3: "triples"}
_POINTS = 400  # more would lie upon each other


def zipf_plot(
    frequencies_by_n: Mapping[int, Counts],
    fits: Mapping[int, ZipfFit | None],
    path: Path | str,
    title: str = "Frequency falls with rank",
) -> Path:
    """Draw falling frequencies of n-grams on two logarithmic axes, with the fitted lines."""
    with figure(7.0, 4.6) as drawing:
        axes = drawing.add_subplot(xscale="log", yscale="log", xlabel="rank", ylabel="frequency", title=title)
        for (n, frequencies), colour in zip(sorted(frequencies_by_n.items()), COLOURS, strict=False):
            ranks = _spread(len(frequencies))
            fit = fits.get(n)
            label = _NAMES.get(n, f"{n}-grams") + ("" if fit is None else f", exponent {fit.exponent:.2f}")
            # The longer n-grams have the longer tails: they lie below, so that all can be seen.
            axes.plot(
                ranks, frequencies[ranks - 1], ".", color=colour, markersize=4, label=label, zorder=3 - n / 10
            )
            if fit is not None:
                ends = np.array([ZIPF_RANKS[0], min(ZIPF_RANKS[1], len(frequencies))])
                axes.plot(ends, fit.frequency(ends), color=INK, linewidth=1.2, zorder=4)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        fitted = "line: fit over ranks {} to {:,}".format(*ZIPF_RANKS)
        axes.legend(markerscale=2.5, title=fitted, alignment="left")
        return save(drawing, path)


def _spread(size: int) -> Counts:
    """Ranks from 1 to `size`, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, max(size, 1), _POINTS).round().astype(np.int64))[: max(size, 0)]
