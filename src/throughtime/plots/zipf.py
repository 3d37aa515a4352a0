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
    fitted = {n: _fitted(len(frequencies_by_n[n])) for n, fit in fits.items() if fit is not None}
    ranges = set(fitted.values())
    with figure(7.0, 4.6) as drawing:
        axes = drawing.add_subplot(xscale="log", yscale="log", xlabel="rank", ylabel="frequency", title=title)
        for (n, frequencies), colour in zip(sorted(frequencies_by_n.items()), COLOURS, strict=False):
            ranks = _spread(len(frequencies))
            fit, label = fits.get(n), _NAMES.get(n, f"{n}-grams")
            if fit is not None:
                axes.plot(fitted[n], fit.frequency(fitted[n]), color=INK, linewidth=1.2, zorder=4)
                label += f", exponent {fit.exponent:.2f}"
                label += f" ({_spelled(fitted[n])})" if len(ranges) > 1 else ""
            # The longer n-grams have the longer tails: they lie below, so that all can be seen.
            axes.plot(
                ranks, frequencies[ranks - 1], ".", color=colour, markersize=4, label=label, zorder=3 - n / 10
            )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        over = f" over {_spelled(*ranges)}" if len(ranges) == 1 else ""
        axes.legend(markerscale=2.5, title=f"line: fit{over}" if ranges else None, alignment="left")
        return save(drawing, path)


def _fitted(types: int) -> tuple[int, int]:
    """The ranks that the line was fitted over: a text of few types has fewer of them."""
    first, last = ZIPF_RANKS
    return first, min(last, types)


def _spelled(ranks: tuple[int, int]) -> str:
    return f"ranks {ranks[0]} to {ranks[1]:,}"


def _spread(size: int) -> Counts:
    """Ranks from 1 to `size`, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, max(size, 1), _POINTS).round().astype(np.int64))[: max(size, 0)]
