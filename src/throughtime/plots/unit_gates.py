"""Gates of trained layers through a sentence: units from those that remember to those that forget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from throughtime.plots.style import INK, figure, save

if TYPE_CHECKING:
    from throughtime.inspection.gates import LayerGates

_OPEN, _SIGNED = "cividis", "PuOr_r"
_MEANINGS = {
    "f": "forget gate: 1 keeps",
    "z": "update gate: 1 keeps",
    "1 - z": "1 − update gate: 1 keeps",
    "i": "input gate",
    "o": "output gate",
    "r": "reset gate",
    "g": "candidate",
    "n": "candidate",
    "h": "state",
    "c": "memory",
}


def remembering_plot(layers: Sequence[LayerGates], path: Path | str, title: str = "") -> Path:
    """Draw of each layer the gate that keeps the state, or where it has none the state itself."""
    return _panels(
        [(layer, layer.gates[0] if layer.keep else "h") for layer in layers], path, title, named=True
    )


def layer_plot(layer: LayerGates, path: Path | str, title: str = "") -> Path:
    """Draw all gates, candidates and states of one layer; the memory once, before it is squashed."""
    letters = [letter for letter in layer.gates if letter != "tanh c"]
    return _panels([(layer, letter) for letter in letters], path, title, named=False)


def _panels(rows: list[tuple[LayerGates, str]], path: Path | str, title: str, named: bool) -> Path:
    longest = max(len(layer.tokens) for layer, _ in rows)
    with figure(min(16.0, 2.6 + 0.55 * max(longest, 8)), 0.7 + 2.35 * len(rows)) as drawing:
        panels = drawing.subplots(len(rows), squeeze=False)[:, 0]
        for axes, (layer, letter) in zip(panels, rows, strict=True):
            _heat(drawing, axes, layer, letter)
            head = f"{layer.name}: {_meaning(layer, letter)}" if named else _meaning(layer, letter)
            axes.set_title(head, fontsize=10.5)
        if title:
            drawing.suptitle(title, x=0.01, ha="left", fontsize=12, color=INK)
        return save(drawing, path)


def _heat(drawing: Any, axes: Any, layer: LayerGates, letter: str) -> None:
    order = layer.order
    value = layer.values[letter]
    value = value[:, [unit for unit in order if unit < value.shape[1]]]
    signed = bool(value.min() < 0)
    top = max(1.0, float(np.quantile(np.abs(value), 0.95)))
    image = axes.imshow(
        value.T, aspect="auto", interpolation="nearest", cmap=_SIGNED if signed else _OPEN,
        vmin=-top if signed else 0, vmax=top,
    )  # fmt: skip
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.set_xticks(range(len(layer.tokens)), layer.tokens, rotation=30, ha="right", fontsize=9)
    lives = layer.half_lives
    if lives is None:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(order)} units")
    else:
        # Where the half-life falls below these numbers of tokens.
        places = {mark: int((lives > mark).sum()) for mark in (16, 8, 4, 2, 1, 0.5)}
        shown = {place: f"{mark:g}" for mark, place in places.items() if 0 < place < len(order)}
        far = [
            place
            for place in shown
            if all(place - other > len(order) / 12 for other in shown if other < place)
        ]
        axes.set_yticks([place - 0.5 for place in far], [shown[place] for place in far], fontsize=8)
        axes.set_ylabel("half-life in tokens", fontsize=9)
    drawing.colorbar(image, ax=axes, ticks=[-top, 0, top] if signed else [0, top], format="{x:.2g}", pad=0.01)


def _meaning(layer: LayerGates, letter: str) -> str:
    meaning, letter = _MEANINGS.get(letter), letter.replace("-", "−")
    return f"{letter}, {meaning}" if meaning else letter
