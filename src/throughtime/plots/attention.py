"""Attention as a picture: which source words each target word was written by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from throughtime.plots.style import INK, figure, save

_SHADES = "Blues"
_LEAST_HEIGHT = 2.8  # inches: the label of the scale has room beside a single row
_NAMED = 0.25
"""Weights from here on are written into their cell, for those who do not see the shade."""


def attention_plot(
    source: Sequence[str],
    target: Sequence[str],
    weights: Sequence[Sequence[float]],
    path: Path | str,
    title: str = "What each word looked at",
) -> Path:
    """Draw weights [target words][source words]; each row sums to 1."""
    with figure(2.2 + 0.62 * len(source), max(_LEAST_HEIGHT, 1.6 + 0.42 * len(target))) as drawing:
        axes = drawing.subplots()
        image = axes.imshow(weights, cmap=_SHADES, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.set_xticks(range(len(source)), source, rotation=40, ha="left", rotation_mode="anchor")
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(target)), target)
        axes.spines[:].set_visible(False)
        for row, own in enumerate(weights):
            for column, weight in enumerate(own):
                if weight >= _NAMED:
                    ink = "white" if weight > 0.6 else INK
                    axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color=ink, fontsize=8)
        axes.set_title(title)
        bar = drawing.colorbar(image, ax=axes, ticks=[0, 0.5, 1], format="{x:g}", pad=0.02, aspect=30)
        bar.outline.set_visible(False)
        bar.set_label("share of its attention")
        return save(drawing, path)
