"""Gradients against the lag: what vanishes, what explodes, and what clipping does about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.plots.style import COLOURS, INK, figure, save

if TYPE_CHECKING:
    from throughtime.inspection.lag import Curve

_LIMITS = (1e-21, 1e21)  # beyond it, gone is gone
_TICKS = [10.0**power for power in range(-21, 22, 7)]  # 1, at which a gradient stays, among them
_OPEN: Any = "-"
_PALE = 0.45  # before clipping
_DRAWN, _CLIPPED = (0, (1, 1.2)), (0, (4, 1.6))


def gradients_plot(curves: Sequence[Curve], clip: float, path: Path | str) -> Path:
    """Draw norms against the lag, one column for each size of weights, and below what clipping does."""
    gains = sorted({curve.gain for curve in curves})
    colours = dict(zip(dict.fromkeys(curve.cell for curve in curves), COLOURS, strict=False))
    with figure(3.9 * len(gains) if len(gains) > 1 else 5.5, 6.4) as drawing:
        rows = drawing.subplots(2, len(gains), sharex=True, sharey="row", squeeze=False)
        for gain, column in zip(gains, rows.T, strict=True):
            chosen = [curve for curve in curves if curve.gain == gain]
            _norms(column[0], chosen, colours)
            _clipping(column[1], chosen, colours)
            kind = "small" if gain < 1 else "large"
            column[0].set_title(f"{kind} recurrent weights (gain {gain:g})")
            column[1].set_xlabel("lag $T - t$, in steps")
        rows[0, 0].set_ylabel(r"$|\,\partial s_T / \partial s_t\,|$")
        rows[1, 0].set_ylabel(f"a step's share of the\nweights' gradient, clip {clip:g}")
        _key_of_gates(rows[0, 0], curves)
        _key_of_clipping(rows[1, 0])
        drawing.legend(handles=_key_of_cells(colours), loc="outside lower center", ncols=3, fontsize=10)
        return save(drawing, path)


def _norms(axes: Any, curves: Sequence[Curve], colours: dict[str, str]) -> None:
    axes.set(yscale="log", ylim=_LIMITS, yticks=_TICKS)
    axes.axhline(1, color=INK, linewidth=0.8)
    for curve in curves:
        style = _DRAWN if curve.keep is None and _gated(curve, curves) else _OPEN
        axes.plot(curve.norms, color=colours[curve.cell], linestyle=style)


def _clipping(axes: Any, curves: Sequence[Curve], colours: dict[str, str]) -> None:
    axes.set(yscale="log", ylim=_LIMITS, yticks=_TICKS)
    axes.axhline(1, color=INK, linewidth=0.8)
    for curve in curves:
        if curve.keep is None and _gated(curve, curves):
            continue
        axes.plot(curve.added, color=colours[curve.cell], alpha=_PALE)
        axes.plot(curve.added_clipped, color=colours[curve.cell], linestyle=_CLIPPED)


def _gated(curve: Curve, curves: Sequence[Curve]) -> bool:
    """Whether the same cell is there with its gates set too."""
    return any(other.cell == curve.cell and other.keep is not None for other in curves)


def _key_of_gates(axes: Any, curves: Sequence[Curve]) -> None:
    """What a solid and what a dotted line is, where there are both."""
    from matplotlib.lines import Line2D

    keep = next((curve.keep for curve in curves if curve.keep is not None), None)
    if keep is None:
        return
    without = dict.fromkeys(curve.cell.upper() for curve in curves if not _gated(curve, curves))
    solid = f"gates set to keep {keep:g}" + (f"\n({', '.join(without)}: no gates)" if without else "")
    handles = [
        Line2D([], [], color=INK, linestyle=_OPEN, label=solid),
        Line2D([], [], color=INK, linestyle=_DRAWN, label="gates as drawn"),
    ]
    axes.legend(handles=handles, loc="best", fontsize=9)


def _key_of_clipping(axes: Any) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=INK, alpha=_PALE, label="before clipping"),
        Line2D([], [], color=INK, linestyle=_CLIPPED, label="after clipping"),
    ]
    axes.legend(handles=handles, loc="best", fontsize=9)


def _key_of_cells(colours: dict[str, str]) -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=colour, label=cell.upper()) for cell, colour in colours.items()]
