"""Learning curves: training and validation epoch by epoch, and the search for a learning rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from throughtime.plots.style import COLOURS, INK, figure, save

_GREY = "#999999"
_DECADE = 10.0
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def learning_plot(
    lines: Sequence[Mapping[str, Any]],
    path: Path | str,
    measure: str = "perplexity",
    better: Literal["less", "more"] = "less",
) -> Path:
    """Draw the lines of a `metrics.jsonl`: the measure against the epoch, and below it the learning rate.

    What is measured in validation only, BLEU for one, has no curve of training.
    """
    epochs = _epochs(lines)
    train, valid = _curve(lines, "train", measure, epochs), _curve(lines, "valid", measure, epochs)
    rates = _curve(lines, "train", "lr", epochs)
    best = None
    with figure(7.0, 5.0) as drawing:
        axes, below = drawing.subplots(2, sharex=True, height_ratios=(5, 1))
        if len(train[0]):
            axes.plot(*train, color=COLOURS[0], linewidth=1.2, label="training")
        if len(valid[0]):
            axes.plot(*valid, color=COLOURS[1], marker="." if len(valid[0]) <= 60 else "", label="validation")
            best = int(valid[1].argmin() if better == "less" else valid[1].argmax())
            _mark_best(axes, *valid, best)
        values = np.concatenate([train[1], valid[1]])
        if better == "less" and len(values) and values.max() > _DECADE * values.min() > 0:
            _logarithmic(axes)
        axes.set(ylabel=measure, title=_title(valid, measure, best))
        if len(values):
            axes.legend(loc="upper right" if better == "less" else "lower right")
        below.plot(*rates, color=_GREY, linewidth=1.2)
        below.set(ylabel="learning\nrate", xlabel="epoch")
        below.set_ylim(bottom=0)
        below.xaxis.get_major_locator().set_params(integer=True)
        below.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
        axes.margins(x=0.02)
        return save(drawing, path)


def rate_plot(rates: Sequence[float], losses: Sequence[float], suggested: float, path: Path | str) -> Path:
    """Draw the loss against a rising learning rate, with the rate that is suggested."""
    x, y = np.asarray(rates, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    with figure(7.0, 4.2) as drawing:
        axes = drawing.add_subplot(xscale="log", xlabel="learning rate", ylabel="training loss")
        axes.plot(x, y, color=COLOURS[0])
        if len(y):
            # What explodes at the end would flatten all that matters.
            start, low = float(np.median(y[:5])), float(y.min())
            room = max(start - low, 0.05 * abs(start))
            axes.set_ylim(low - 0.1 * room, max(start, float(y[: len(y) // 2].max())) + 0.3 * room)
        axes.axvline(suggested, color=COLOURS[1], linewidth=1.2)
        axes.set_title(f"The loss falls most steeply at a learning rate of {suggested:.2g}")
        return save(drawing, path)


def _epochs(lines: Sequence[Mapping[str, Any]]) -> Curve:
    """Steps beside the epochs done by then, for interpolation: lines other than of training end an epoch.

    >>> lines = [{"kind": "valid", "step": 100, "epoch": 1}, {"kind": "train", "step": 150, "epoch": 2}]
    >>> np.interp([50, 100, 150], *_epochs(lines))
    array([0.5, 1. , 1.5])
    """
    ends = {0: 0} | {line["step"]: line["epoch"] for line in lines if line["kind"] != "train"}
    if len(ends) == 1:  # nothing was validated: the last step that an epoch is known by
        ends |= {step: epoch for epoch, step in {line["epoch"]: line["step"] for line in lines}.items()}
    # After the last end lies an unfinished epoch, as long as the others were.
    end, reached = max(ends), max((line["step"] for line in lines), default=0)
    if reached > end > 0:
        ends[reached] = ends[end] * reached / end
    steps = sorted(ends)
    return np.array(steps, dtype=np.float64), np.array([ends[step] for step in steps], dtype=np.float64)


def _curve(lines: Sequence[Mapping[str, Any]], kind: str, name: str, epochs: Curve) -> Curve:
    """Where and what a kind of line has under a name; null stands for what was no number."""
    points = [
        (line["step"], line[name]) for line in lines if line["kind"] == kind and line.get(name) is not None
    ]
    steps, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return np.interp(steps, *epochs), values


def _logarithmic(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _mark_best(axes: Any, epochs: NDArray[np.float64], values: NDArray[np.float64], best: int) -> None:
    axes.plot(epochs[best], values[best], "o", color=COLOURS[1], markersize=8, markeredgecolor=INK, zorder=5)
    axes.annotate(
        f"best {values[best]:,.4g}",
        (epochs[best], values[best]),
        xytext=(0, 10),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontweight="bold",
        zorder=6,
    )


def _title(valid: Curve, measure: str, best: int | None) -> str:
    if best is None:
        return f"Training {measure}"
    return f"Best validation {measure} {valid[1][best]:,.4g}, after epoch {valid[0][best]:.0f}"
