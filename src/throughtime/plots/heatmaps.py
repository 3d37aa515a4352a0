"""Heat maps: attention weights, and gates of a recurrent layer over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from throughtime.errors import InputError
from throughtime.plots.style import INK, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from throughtime.inspection.gates import LayerGates
    from throughtime.results import Alignment, Translation

# Both colour maps work for the colour-blind and in grey: 0 to 1 dark to light, -1 to 1 through white.
_OPEN, _SIGNED = "cividis", "PuOr_r"
_MIN_HEIGHT = 2.8  # inches: room for the label of the colour bar
_LABELLED = 0.25
"""Weights of at least this value are written into their cell."""

Weights = tuple[Sequence[str], Sequence[str], Sequence[Sequence[float]]]
"""Source words, target words, and a row of weights for each target word."""


def attention(
    answer: Translation | Alignment | Weights,
    *,
    title: str = "What each word attended to",
    path: Path | str | None = None,
) -> Figure:
    """Draw which source words each target word attended to; each row of weights sums to 1.

    `answer` is a translation made with `align=True`, its alignment, or a tuple of source words, target words
    and rows of weights.

    >>> figure = attention((["the", "cat"], ["le", "chat"], [[0.9, 0.1], [0.2, 0.8]]))
    >>> figure.axes[0].get_title(loc="left")
    'What each word attended to'
    """
    source, target, weights = _weights(answer)
    height = max(_MIN_HEIGHT, 1.6 + 0.42 * len(target))
    with figure(2.2 + 0.62 * len(source), height, path) as drawing:
        axes = drawing.subplots()
        image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.grid(visible=False)
        axes.tick_params(length=0)
        axes.set_xticks(range(len(source)), source, rotation=40, ha="left", rotation_mode="anchor")
        axes.xaxis.tick_top()
        axes.set_yticks(range(len(target)), target)
        axes.spines[:].set_visible(False)
        for row, row_weights in enumerate(weights):
            for column, weight in enumerate(row_weights):
                if weight >= _LABELLED:
                    ink = "white" if weight > 0.6 else INK
                    axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color=ink, fontsize=8)
        axes.set_title(title)
        bar = drawing.colorbar(image, ax=axes, ticks=[0, 0.5, 1], format="{x:g}", pad=0.02, aspect=30)
        bar.outline.set_visible(False)
        bar.set_label("share of its attention")
    return drawing


def _weights(answer: Translation | Alignment | Weights) -> Weights:
    if isinstance(answer, tuple):
        return answer
    if isinstance(answer, list):
        problem = "is a list, expected one translation, such as the first of these, answers[0]"
        raise InputError("answer", problem)
    alignment: Any = getattr(answer, "alignment", answer)
    if alignment is None:
        raise InputError("answer", "has no attention weights; translate with align=True")
    if not hasattr(alignment, "weights"):
        raise InputError("answer", f"is of type {type(answer).__name__}, expected a translation")
    return alignment.source, alignment.target, alignment.weights


def keep_gates(layers: Sequence[LayerGates], *, title: str = "", path: Path | str | None = None) -> Figure:
    """Draw the gate of each layer that keeps the state, or the state itself if there is no such gate."""
    rows = [(layer, layer.keep or "h") for layer in layers]
    heads = [f"{layer.name}: {_head(layer, letter)}" for layer, letter in rows]
    return _panels(rows, heads, title, path)


def layer_gates(layer: LayerGates, *, title: str = "", path: Path | str | None = None) -> Figure:
    """Draw all gates, candidates and states of one layer, except tanh of a state."""
    rows = [(layer, letter) for letter in layer.gates if not letter.startswith("tanh ")]
    return _panels(rows, [_head(layer, letter) for _, letter in rows], title, path)


def _head(layer: LayerGates, letter: str) -> str:
    keeps = ", 1 keeps the state" if letter == layer.keep else ""
    return f"{letter.replace('-', '−')}{keeps}"


def _panels(
    rows: list[tuple[LayerGates, str]], heads: list[str], title: str, path: Path | str | None
) -> Figure:
    longest = max(len(layer.tokens) for layer, _ in rows)
    with figure(min(16.0, 2.6 + 0.55 * max(longest, 8)), 0.7 + 2.35 * len(rows), path) as drawing:
        panels = drawing.subplots(len(rows), squeeze=False)[:, 0]
        for axes, (layer, letter), head in zip(panels, rows, heads, strict=True):
            value = layer.values[letter]
            order = layer.order
            heat_map(drawing, axes, value[:, [unit for unit in order if unit < value.shape[1]]], pad=0.01)
            axes.set_xticks(range(len(layer.tokens)), layer.tokens, rotation=30, ha="right", fontsize=9)
            _mark_half_lives(axes, layer.half_lives, len(order))
            axes.set_title(head, fontsize=10.5)
        if title:
            drawing.suptitle(title, x=0.01, ha="left", fontsize=12, color=INK)
    return drawing


def _mark_half_lives(axes: Any, lives: NDArray[np.float64] | None, units: int) -> None:
    """Mark where the half-life falls below 16, 8, 4, ... tokens."""
    if lives is None:
        axes.set_yticks([])
        axes.set_ylabel(f"{units} units")
        return
    places = {int((lives > mark).sum()): f"{mark:g}" for mark in (16, 8, 4, 2, 1, 0.5)}
    shown = {place: label for place, label in places.items() if 0 < place < units}
    far = [place for place in shown if all(place - other > units / 12 for other in shown if other < place)]
    axes.set_yticks([place - 0.5 for place in far], [shown[place] for place in far], fontsize=8)
    axes.set_ylabel("half-life in tokens", fontsize=9)


def heat_map(drawing: Any, axes: Any, value: NDArray[Any], **bar: float) -> None:
    """Draw values [time, units]; values with a sign have another colour map than values from 0 to 1."""
    signed = bool(value.min() < 0)
    # One unit far beyond 1 must not make all others pale.
    top = max(1.0, float(np.quantile(np.abs(value), 0.95)))
    image = axes.imshow(
        value.T, aspect="auto", interpolation="nearest", cmap=_SIGNED if signed else _OPEN,
        vmin=-top if signed else 0, vmax=top,
    )  # fmt: skip
    axes.grid(visible=False)
    axes.tick_params(length=0)
    drawing.colorbar(image, ax=axes, ticks=[-top, 0, top] if signed else [0, top], format="{x:.2g}", **bar)
