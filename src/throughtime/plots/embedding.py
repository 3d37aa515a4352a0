"""Token vectors as a map: the tokens of a sentence among their nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from throughtime.plots.style import COLOURS, FAINT, INK, figure, save

if TYPE_CHECKING:
    from throughtime.inspection.neighbours import EmbeddingMap, Point

_WIDTH, _HEIGHT = 8.0, 6.2  # inches
_LARGE, _SMALL = 11.0, 8.5  # of the letters, in points

Box = tuple[float, float, float, float]  # left, bottom, right, top


def embedding_plot(found: EmbeddingMap, path: Path | str) -> Path:
    """Draw the map; a line joins each token of the sentence with its nearest neighbours."""
    with figure(_WIDTH, _HEIGHT) as drawing:
        axes = drawing.subplots()
        for point in found.points:
            for other in (found.points[place] for place in point.near):
                axes.plot([point.x, other.x], [point.y, other.y], color=FAINT, linewidth=0.9, zorder=1)
        for point, offset in zip(found.points, _offsets(found.points), strict=True):
            colour, asked = COLOURS[1] if point.asked else COLOURS[0], point.asked
            axes.plot(
                point.x, point.y, color=colour, marker="D" if asked else "o", markersize=6 if asked else 4
            )
            axes.annotate(
                point.token, (point.x, point.y), xytext=offset, textcoords="offset points", va="center",
                fontsize=_LARGE if asked else _SMALL, color=colour if asked else INK,
                fontweight="bold" if asked else "normal", ha="left" if offset[0] > 0 else "right",
            )  # fmt: skip
        axes.set_title("What the model finds alike: words of the sentence (◆) and their neighbours (●)")
        axes.set_xlabel(f"the two directions of most variance, {found.explained:.0%} of it")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.margins(0.12)
        axes.spines[["left", "bottom"]].set_visible(False)
        return save(drawing, path)


def _offsets(points: Sequence[Point]) -> list[tuple[float, float]]:
    """Where each token is written beside its point, in points of type: where it covers least of others."""
    xs, ys = [point.x for point in points], [point.y for point in points]
    across, up = (
        72 * size / 1.35 / ((max(own) - min(own)) or 1) for size, own in ((_WIDTH, xs), (_HEIGHT, ys))
    )
    places = [(point.x * across, point.y * up) for point in points]
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
    offsets = [(6.0, 4.0)] * len(points)
    for number in sorted(range(len(points)), key=lambda number: not points[number].asked):
        size = _LARGE if points[number].asked else _SMALL
        choices = [(side, height) for height in (4.0, -5.0, 9.0, -10.0, 15.0, -16.0) for side in (6.0, -6.0)]
        boxes = [_box(places[number], choice, size, points[number].token) for choice in choices]
        best = min(range(len(boxes)), key=lambda one: (sum(_shared(boxes[one], box) for box in taken), one))
        offsets[number] = choices[best]
        taken.append(boxes[best])
    return offsets


def _box(place: tuple[float, float], offset: tuple[float, float], size: float, word: str) -> Box:
    """About what a word covers."""
    x, y = place[0] + offset[0], place[1] + offset[1]
    far = x + (0.62 * size * len(word) if offset[0] > 0 else -0.62 * size * len(word))
    return min(x, far), y - 0.6 * size, max(x, far), y + 0.6 * size


def _shared(one: Box, other: Box) -> float:
    """The area that two boxes share.

    >>> _shared((0, 0, 2, 2), (1, 1, 3, 3)), _shared((0, 0, 1, 1), (5, 5, 6, 6))
    (1, 0)
    """
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide * high if wide > 0 and high > 0 else 0
