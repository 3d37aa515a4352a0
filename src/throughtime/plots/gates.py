"""Gates at work: one heat map a gate, units against the tokens that were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from throughtime.plots.style import INK, figure, save

# Both maps keep their order for the colour-blind and in grey: 0 to 1 dark to light, -1 to 1 through white.
_OPEN, _SIGNED = "cividis", "PuOr_r"


def gates_plot(
    values: Mapping[str, ArrayLike],
    tokens: Sequence[str],
    path: Path | str,
    title: str = "",
    units: int = 12,
    meanings: Mapping[str, str] | None = None,
) -> Path:
    """Draw values [time, units] by name; of many units those whose first-named values vary most.

    What lies between 0 and 1 (a gate) has one scale of colours, what has a sign another.
    """
    arrays = {name: np.asarray(value) for name, value in values.items()}
    chosen = _liveliest(next(iter(arrays.values())), units)
    with figure(7.0, 0.75 + 1.02 * len(arrays)) as drawing:
        rows = drawing.subplots(len(arrays), sharex=True, squeeze=False)[:, 0]
        for axes, (name, value) in zip(rows, arrays.items(), strict=True):
            signed = bool(value.min() < 0)
            # A memory may run far beyond 1 in one unit: it must not make all others pale.
            top = max(1.0, float(np.quantile(np.abs(value[:, chosen]), 0.95)))
            image = axes.imshow(
                value[:, chosen].T, aspect="auto", interpolation="nearest",
                cmap=_SIGNED if signed else _OPEN, vmin=-top if signed else 0, vmax=top,
            )  # fmt: skip
            axes.grid(visible=False)
            axes.set_yticks([])
            axes.tick_params(length=0)
            meaning = (meanings or {}).get(name, "")
            axes.set_ylabel(f"${name}$\n{meaning}".rstrip(), rotation=0, ha="right", va="center", fontsize=10)
            drawing.colorbar(
                image, ax=axes, ticks=[-top, 0, top] if signed else [0, top], format="{x:.2g}",
                aspect=6, pad=0.015, fraction=0.03,
            )  # fmt: skip
        rows[0].set_title(title)
        marks = [token if token.strip() else "␣" for token in tokens]
        rows[-1].set_xticks(range(len(marks)), marks, family="monospace", color=INK, fontsize=11)
        return save(drawing, path)


def _liveliest(value: np.ndarray, units: int) -> np.ndarray:
    """The units that vary most over time, in order of when they are highest."""
    chosen = np.sort(np.argsort(-value.var(axis=0), kind="stable")[:units])
    return chosen[np.argsort(value[:, chosen].argmax(axis=0), kind="stable")]
