"""Gradients through time: how they vanish and explode, where they are truncated, and the costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.plots.style import COLOURS, INK, figure, legend_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from throughtime.inspection.gradients import Curve
    from throughtime.inspection.truncation import StrategyComparison

_LIMITS = (1e-21, 1e21)
_TICKS = [10.0**power for power in range(-21, 22, 7)]  # includes 1, where a gradient is preserved
_OPEN: Any = "-"
_PALE = 0.45  # before clipping
_DRAWN, _CLIPPED = (0, (1, 1.2)), (0, (4, 1.6))


def gradients(curves: Sequence[Curve], clip: float, *, path: Path | str | None = None) -> Figure:
    """Draw norms against the lag, one column for each gain of the weights, and the effect of clipping."""
    gains = sorted({curve.gain for curve in curves})
    colours = dict(zip(dict.fromkeys(curve.cell for curve in curves), cycle(COLOURS), strict=False))
    with figure(3.9 * len(gains) if len(gains) > 1 else 5.5, 6.4, path=path) as drawing:
        rows = drawing.subplots(2, len(gains), sharex=True, sharey="row", squeeze=False)
        for gain, column in zip(gains, rows.T, strict=True):
            _draw_curves(column[0], column[1], [curve for curve in curves if curve.gain == gain], colours)
            kind = "small" if gain < 1 else "large"
            column[0].set_title(f"{kind} recurrent weights (gain {gain:g})")
            column[1].set_xlabel("lag $T - t$, in steps")
        rows[0, 0].set_ylabel(r"$|\,\partial s_T / \partial s_t\,|$")
        rows[1, 0].set_ylabel(f"a step's share of the\nweights' gradient, clip {clip:g}")
        _key_of_gates(rows[0, 0], curves)
        before = legend_line("before clipping", color=INK, alpha=_PALE)
        after = legend_line("after clipping", color=INK, linestyle=_CLIPPED)
        rows[1, 0].legend(handles=[before, after], loc="best", fontsize=9)
        cells = [legend_line(cell.upper(), color=colour) for cell, colour in colours.items()]
        drawing.legend(handles=cells, loc="outside lower center", ncols=3, fontsize=10)
    return drawing


def _draw_curves(norms: Any, added: Any, curves: Sequence[Curve], colours: dict[str, str]) -> None:
    """Draw the norms, and below them a step's share of the gradient before and after clipping."""
    for axes in (norms, added):
        axes.set(yscale="log", ylim=_LIMITS, yticks=_TICKS)
        axes.axhline(1, color=INK, linewidth=0.8)
    for curve in curves:
        look, as_drawn = {"color": colours[curve.cell]}, curve.keep is None and _has_gates_set(curve, curves)
        norms.plot(curve.norms, linestyle=_DRAWN if as_drawn else _OPEN, **look)
        if not as_drawn:
            added.plot(curve.added, alpha=_PALE, **look)
            added.plot(curve.added_clipped, linestyle=_CLIPPED, **look)


def _has_gates_set(curve: Curve, curves: Sequence[Curve]) -> bool:
    """Whether another curve has the same cell with its gates set."""
    return any(other.cell == curve.cell and other.keep is not None for other in curves)


def _key_of_gates(axes: Any, curves: Sequence[Curve]) -> None:
    """Explain solid and dotted lines, if there are both."""
    keep = next((curve.keep for curve in curves if curve.keep is not None), None)
    if keep is None:
        return
    without = dict.fromkeys(curve.cell.upper() for curve in curves if not _has_gates_set(curve, curves))
    solid = f"gates set to keep {keep:g}" + (f"\n({', '.join(without)}: no gates)" if without else "")
    handles = [
        legend_line(solid, color=INK, linestyle=_OPEN),
        legend_line("gates as drawn", color=INK, linestyle=_DRAWN),
    ]
    axes.legend(handles=handles, loc="best", fontsize=9)


# Two tints of the first colours of the palette, with edges that separate them in grey.
_SHADES = ("#CFE3F1", "#F9DCC8")


def truncation(
    text: str,
    cuts: Mapping[str, Sequence[int]],
    measured: Sequence[StrategyComparison],
    *,
    path: Path | str | None = None,
) -> Figure:
    """Draw the segments of each strategy, and the error, memory and time of its gradient.

    `cuts` are the positions of the text before which the gradient of a strategy is cut.
    """
    with figure(7.6, 5.4, path=path) as drawing:
        halves: Any = drawing.subfigures(2, height_ratios=(0.55 + 0.5 * len(cuts), 3.1))
        above, below = halves
        _segments(above.add_subplot(), text, cuts)
        error, memory, time = below.subplots(1, 3)
        _errors(error, measured)
        for row, colour in zip(measured, COLOURS, strict=False):
            # Full and randomised need the same memory: draw the first line broad beneath the other.
            width = 5 if row is measured[0] else 1.8
            look: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 4, "label": row.name}
            look |= {"linewidth": width, "alpha": 0.5 if width > 2 else 1.0}
            lengths = [cost.steps for cost in row.growth]
            memory.plot(lengths, [cost.saved / 1e6 for cost in row.growth], **look)
            time.plot(lengths, [cost.seconds * 1e3 for cost in row.growth], **look)
        for axes, quantity in ((memory, "kept for the way back, MB"), (time, "forward and backward, ms")):
            axes.set_title(quantity, fontsize=10.5)
            axes.set(xlabel="steps", ylim=(0, None), xlim=(0, None))
        handles, names = memory.get_legend_handles_labels()
        below.legend(handles, names, loc="outside lower center", ncols=3, fontsize=10)
    return drawing


def stretches(cuts: Sequence[int], length: int) -> list[tuple[int, int]]:
    """Return the ranges between cuts, within which the gradient flows.

    >>> stretches([3, 5], 8)
    [(0, 3), (3, 5), (5, 8)]
    """
    return list(pairwise([0, *(cut for cut in cuts if 0 < cut < length), length]))


def _segments(axes: Any, text: str, cuts: Mapping[str, Sequence[int]]) -> None:
    from matplotlib.patches import Rectangle

    for row, places in enumerate(cuts.values()):
        for number, (start, stop) in enumerate(stretches(places, len(text))):
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
        for column, character in enumerate(text):
            axes.text(
                column + 0.5, row, character, family="monospace", fontsize=9.5, ha="center",
                va="center_baseline",
            )  # fmt: skip
    axes.set(xlim=(0, len(text)), ylim=(len(cuts) - 0.35, -0.55), xticks=[])
    axes.set_yticks(range(len(cuts)), cuts, fontsize=9.5)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_title("How far back the gradient flows", fontsize=11)


def _errors(axes: Any, measured: Sequence[StrategyComparison]) -> None:
    """Draw two bars for each strategy: bias filled, deviation hatched."""
    for column, (row, colour) in enumerate(zip(measured, COLOURS, strict=False)):
        look = {"edgecolor": colour, "hatch": "////"}
        axes.bar(column - 0.2, row.error.bias, 0.38, color=colour)
        axes.bar(column + 0.2, row.error.deviation, 0.38, facecolor="none", **look)
    axes.set_title("error over |full gradient|", fontsize=10.5)
    axes.set_xticks(range(len(measured)), [row.name for row in measured], fontsize=8.5)
    axes.grid(visible=False, axis="x")
    axes.bar(0, 0, color=INK, label="bias")
    axes.bar(0, 0, facecolor="none", edgecolor=INK, hatch="////", label="deviation")
    axes.legend(fontsize=9, loc="upper left")
    top = max(max(row.error.bias, row.error.deviation) for row in measured)
    axes.set_ylim(0, max(top * 1.45, 1e-6))


_PANELS = (
    ("milliseconds", "time of one training step (ms)"),
    ("megabytes", "memory kept for it (MB)"),
)


def complexity(
    lengths: Sequence[int], layers: Mapping[str, Mapping[str, Any]], *, path: Path | str | None = None
) -> Figure:
    """Draw time and memory of each layer on logarithmic axes, each line named with its fitted exponent.

    `layers` maps a name to `milliseconds` and `megabytes`, with one number for each length, and to
    `milliseconds_exponent` and `megabytes_exponent`.
    """
    with figure(9.0, 4.4, path=path) as drawing:
        for axes, (kind, label) in zip(drawing.subplots(1, 2), _PANELS, strict=True):
            for (name, measured), colour in zip(layers.items(), COLOURS, strict=False):
                grows = f"{name}, $n^{{{measured[f'{kind}_exponent']:.1f}}}$"
                axes.plot(lengths, measured[kind], "o-", color=colour, markersize=4, label=grows)
            axes.set_xscale("log", base=2)
            axes.set(yscale="log", xticks=lengths[::2])
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.set(xlabel="length n of the sequence", title=label)
            axes.legend(fontsize=9)
    return drawing
