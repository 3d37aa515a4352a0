"""Tokens: their frequency against their rank, and a map of their embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from throughtime.plots.style import COLOURS, FAINT, INK, figure
from throughtime.text.statistics import ZIPF_RANKS, Counts, zipf_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from throughtime.inspection.embeddings import EmbeddingMap, Point

_NAMES = {1: "single tokens", 2: "pairs", 3: "triples"}
_POINTS = 400  # more would overlap


def zipf(
    frequencies_by_n: Mapping[int, Counts],
    *,
    title: str = "Frequency falls with rank",
    path: Path | str | None = None,
) -> Figure:
    """Draw the frequency of n-grams against their rank on logarithmic axes, with fitted lines."""
    with figure(7.0, 4.6, path=path) as drawing:
        axes = drawing.add_subplot(xscale="log", yscale="log", xlabel="rank", ylabel="frequency", title=title)
        for (n, frequencies), colour in zip(sorted(frequencies_by_n.items()), COLOURS, strict=False):
            ranks, fit, label = _spread(len(frequencies)), zipf_fit(frequencies), _NAMES.get(n, f"{n}-grams")
            if fit is not None:
                first, last = ZIPF_RANKS[0], min(ZIPF_RANKS[1], len(frequencies))
                axes.plot((first, last), fit.frequency((first, last)), color=INK, linewidth=1.2, zorder=4)
                label += f", exponent {fit.exponent:.2f} (ranks {first} to {last:,})"
            # Longer n-grams have longer tails: draw them below, so that all remain visible.
            look: dict[str, Any] = {"color": colour, "markersize": 4, "zorder": 3 - n / 10}
            axes.plot(ranks, frequencies[ranks - 1], ".", label=label, **look)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        axes.legend(markerscale=2.5)
    return drawing


def _spread(size: int) -> Counts:
    """Ranks from 1 to `size`, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, max(size, 1), _POINTS).round().astype(np.int64))[:size]


_WIDTH, _HEIGHT = 8.0, 6.2  # inches
_LARGE, _SMALL = 11.0, 8.5  # of the letters, in points

Box = tuple[float, float, float, float]  # left, bottom, right, top


def embedding(word_map: EmbeddingMap, *, path: Path | str | None = None) -> Figure:
    """Draw a map of embeddings; lines join each token of the sentence with its nearest neighbours."""
    with figure(_WIDTH, _HEIGHT, path=path) as drawing:
        axes = drawing.subplots()
        for point in word_map.points:
            for other in (word_map.points[position] for position in point.near):
                axes.plot([point.x, other.x], [point.y, other.y], color=FAINT, linewidth=0.9, zorder=1)
        for point, offset in zip(word_map.points, _offsets(word_map.points), strict=True):
            colour, asked = COLOURS[1] if point.asked else COLOURS[0], point.asked
            marker, size = ("D", 6) if asked else ("o", 4)
            axes.plot(point.x, point.y, color=colour, marker=marker, markersize=size)
            axes.annotate(
                point.token, (point.x, point.y), xytext=offset, textcoords="offset points", va="center",
                fontsize=_LARGE if asked else _SMALL, color=colour if asked else INK,
                fontweight="bold" if asked else "normal", ha="left" if offset[0] > 0 else "right",
            )  # fmt: skip
        axes.set_title("What the model finds alike: words of the sentence (◆) and their neighbours (●)")
        label = f"the two directions of most variance, {word_map.explained:.0%} of it"
        axes.set(xlabel=label, xticks=[], yticks=[])
        axes.margins(0.12)
        axes.spines[["left", "bottom"]].set_visible(False)
    return drawing


def _offsets(points: Sequence[Point]) -> list[tuple[float, float]]:
    """The offset of each label from its point, in typographic points, with the least overlap."""
    xs, ys = [point.x for point in points], [point.y for point in points]
    across, up = (
        72 * size / 1.35 / ((max(values) - min(values)) or 1)
        for size, values in ((_WIDTH, xs), (_HEIGHT, ys))
    )
    places = [(point.x * across, point.y * up) for point in points]
    occupied_boxes: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    offsets = [(6.0, 4.0)] * len(points)
    for number in sorted(range(len(points)), key=lambda number: not points[number].asked):
        size = _LARGE if points[number].asked else _SMALL
        choices = [(side, height) for height in (4.0, -5.0, 9.0, -10.0, 15.0, -16.0) for side in (6.0, -6.0)]
        boxes = [_box(places[number], choice, size, points[number].token) for choice in choices]
        best = min(
            range(len(boxes)),
            key=lambda choice: (sum(_overlap_area(boxes[choice], box) for box in occupied_boxes), choice),
        )
        offsets[number] = choices[best]
        occupied_boxes.append(boxes[best])
    return offsets


def _box(place: tuple[float, float], offset: tuple[float, float], size: float, word: str) -> Box:
    """The approximate box of a label."""
    x, y = place[0] + offset[0], place[1] + offset[1]
    far = x + (0.62 * size * len(word) if offset[0] > 0 else -0.62 * size * len(word))
    return min(x, far), y - 0.6 * size, max(x, far), y + 0.6 * size


def _overlap_area(one: Box, other: Box) -> float:
    """The area that two boxes share.

    >>> _overlap_area((0, 0, 2, 2), (1, 1, 3, 3)), _overlap_area((0, 0, 1, 1), (5, 5, 6, 6))
    (1, 0)
    """
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide * high if wide > 0 and high > 0 else 0


def positions(perplexities: Sequence[float], *, first: int = 1, path: Path | str | None = None) -> Figure:
    """Draw the perplexity at each position of a window, from position `first` on.

    It falls while the state warms up: at the first positions a model has read little to predict from.
    """
    with figure(7.0, 3.6, path=path) as drawing:
        axes = drawing.subplots()
        places = range(first, first + len(perplexities))
        axes.plot(places, perplexities, "o-", color=COLOURS[0], markersize=3)
        axes.set(xlabel="position in the window", ylabel="perplexity", title="Perplexity by position")
        axes.set_ylim(bottom=1)
        axes.locator_params(axis="x", integer=True)
    return drawing
