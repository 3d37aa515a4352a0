"""Where the gradient is cut: segmentations of a text side by side, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from throughtime.plots.style import COLOURS, INK, figure, save

_SHADES = (
    "#CFE3F1",
    "#F9DCC8",
)  # two tints of the palette's first colours, read apart in grey by their edges


@dataclass(frozen=True)
class Measured:
    """A strategy's figures as the picture shows them."""

    bias: float
    deviation: float
    lengths: Sequence[int]
    megabytes: Sequence[float]
    milliseconds: Sequence[float]


def segments_plot(text: str, cuts: Mapping[str, Sequence[int]], path: Path | str) -> Path:
    """Draw a text once for each strategy; `cuts` are the places before which its gradient is cut."""
    with figure(7.6, 0.55 + 0.62 * len(cuts)) as drawing:
        _segments(drawing.add_subplot(), text, cuts)
        return save(drawing, path)


def truncation_plot(
    text: str, cuts: Mapping[str, Sequence[int]], measured: Mapping[str, Measured], path: Path | str
) -> Path:
    """The segmentations; below them error, memory and time of each strategy's gradient."""
    with figure(7.6, 5.4) as drawing:
        halves: Any = drawing.subfigures(2, height_ratios=(0.55 + 0.5 * len(cuts), 3.1))
        above, below = halves
        _segments(above.add_subplot(), text, cuts)
        error, memory, time = below.subplots(1, 3)
        colours = dict(zip(measured, COLOURS, strict=False))
        _errors(error, measured, colours)
        for name, figures in measured.items():
            # Full and randomised keep the same: the first lies broad beneath the other.
            width = 5 if name == next(iter(measured)) else 1.8
            look: dict[str, Any] = {"color": colours[name], "marker": "o", "markersize": 4, "label": name}
            look |= {"linewidth": width, "alpha": 0.5 if width > 2 else 1.0}
            memory.plot(figures.lengths, figures.megabytes, **look)
            time.plot(figures.lengths, figures.milliseconds, **look)
        for axes, quantity in ((memory, "kept for the way back, MB"), (time, "forward and backward, ms")):
            axes.set_title(quantity, fontsize=10.5)
            axes.set(xlabel="steps", ylim=(0, None), xlim=(0, None))
        handles, names = memory.get_legend_handles_labels()
        below.legend(handles, names, loc="outside lower center", ncols=3, fontsize=10)
        return save(drawing, path)


def segments(cuts: Sequence[int], length: int) -> list[tuple[int, int]]:
    """The stretches between cuts, within which the gradient flows.

    >>> segments([3, 5], 8)
    [(0, 3), (3, 5), (5, 8)]
    """
    edges = [0, *(cut for cut in cuts if 0 < cut < length), length]
    return list(pairwise(edges))


def _segments(axes: Any, text: str, cuts: Mapping[str, Sequence[int]]) -> None:
    from matplotlib.patches import Rectangle

    for row, places in enumerate(cuts.values()):
        for number, (start, stop) in enumerate(segments(places, len(text))):
            axes.add_patch(
                Rectangle(
                    (start + 0.08, row - 0.3), stop - start - 0.16, 0.6,
                    facecolor=_SHADES[number % 2], edgecolor=INK, linewidth=0.7,
                )
            )  # fmt: skip
            if stop - start > 2:
                axes.annotate(
                    "", xy=(start + 0.3, row + 0.44), xytext=(stop - 0.3, row + 0.44),
                    arrowprops={"arrowstyle": "->", "color": COLOURS[1], "linewidth": 1.1,
                                "shrinkA": 0, "shrinkB": 0},
                )  # fmt: skip
        for place, character in enumerate(text):
            axes.text(
                place + 0.5, row, character, family="monospace", fontsize=9.5, ha="center",
                va="center_baseline",
            )  # fmt: skip
    axes.set(xlim=(0, len(text)), ylim=(len(cuts) - 0.35, -0.55))
    axes.set_yticks(range(len(cuts)), cuts, fontsize=9.5)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title("How far back the gradient flows", fontsize=11)


def _errors(axes: Any, measured: Mapping[str, Measured], colours: Mapping[str, str]) -> None:
    """Two bars a strategy: bias filled, deviation hatched."""
    for place, (name, figures) in enumerate(measured.items()):
        axes.bar(place - 0.2, figures.bias, 0.38, color=colours[name])
        axes.bar(
            place + 0.2, figures.deviation, 0.38, facecolor="none", edgecolor=colours[name], hatch="////"
        )
    axes.set_title("error over |full gradient|", fontsize=10.5)
    axes.set_xticks(range(len(measured)), measured, fontsize=8.5)
    axes.grid(visible=False, axis="x")
    axes.bar(0, 0, color=INK, label="bias")
    axes.bar(0, 0, facecolor="none", edgecolor=INK, hatch="////", label="deviation")
    axes.legend(fontsize=9, loc="upper left")
    top = max(max(figures.bias, figures.deviation) for figures in measured.values())
    axes.set_ylim(0, max(top * 1.45, 1e-6))
