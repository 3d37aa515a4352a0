"""Learning curves: training and validation epoch by epoch, and the search for a learning rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from throughtime.plots.style import COLOURS, INK, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GREY = "#999999"
_DECADE = 10.0
_MARKED = 60  # maximum number of points that are marked
_LOOKS = 2  # minimum number of records in an epoch for a curve within epochs
_PANELS = {
    "lr": "learning\nrate",
    "gradient_norm": "gradient\nnorm",
    "clipped": "clipped",
    "tokens_per_second": "tokens/s",
}
_ABOUT = ("kind", "step", "epoch", "seconds", "outside", *_PANELS)  # not measures of the model
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def learning_curve(
    lines: Sequence[Mapping[str, Any]],
    measure: str = "perplexity",
    better: Literal["less", "more"] = "less",
    *,
    path: Path | str | None = None,
) -> Figure:
    """Draw the lines of a `metrics.jsonl`: the measure against the epoch, and below it how training went.

    The panels below show the learning rate, the norm of the gradient before clipping, the share of clipped
    updates and the speed, as far as the lines have them. A measure of validation only, such as BLEU, has no
    training curve: what training measures is then drawn in a second panel.
    """
    epochs = _epochs(lines)
    train, valid = _build_training_curve(lines, measure, epochs), _curve(lines, "valid", measure, epochs)
    trained_by = None if len(train[0]) else _choose_training_measure(lines)
    panels = {name: _curve(lines, "train", name, epochs) for name in _PANELS}
    panels = {name: curve for name, curve in panels.items() if name == "lr" or len(curve[0])}
    with figure(7.0, (4.2 if trained_by is None else 6.0) + 0.85 * len(panels), path=path) as drawing:
        heights = [5, *([] if trained_by is None else [4]), *[1] * len(panels)]
        axes, *others = drawing.subplots(len(heights), sharex=True, height_ratios=heights)
        between, below = others[: -len(panels)], others[-len(panels) :]
        _curves(axes, train, valid, measure, better)
        best = None
        if len(valid[0]):
            best = int(valid[1].argmin() if better == "less" else valid[1].argmax())
            _mark_best(axes, *valid, best)
        axes.set_title(_title(valid, measure, best))
        if trained_by is not None:
            trained = _build_training_curve(lines, trained_by, epochs)
            _curves(between[0], trained, _curve(lines, "valid", trained_by, epochs), trained_by, "less")
        for panel, (name, curve) in zip(below, panels.items(), strict=True):
            _panel(panel, name, curve)
        below[-1].set_xlabel("epoch")
        below[-1].xaxis.get_major_locator().set_params(integer=True)
        drawing.align_ylabels([axes, *others])
        axes.margins(x=0.02)
    return drawing


def _panel(axes: Any, name: str, curve: Curve) -> None:
    axes.plot(*curve, color=_GREY, linewidth=1.2, marker="." if len(curve[0]) == 1 else "")
    axes.set_ylabel(_PANELS[name])
    if name == "gradient_norm" and len(curve[1]) and curve[1].max() > _DECADE * curve[1].min() > 0:
        axes.set_yscale("log")
        return
    axes.set_ylim(bottom=0)
    if name == "clipped":
        axes.set_ylim(0, 1.05)
        axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    else:
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 4), useMathText=True)


def _curves(axes: Any, train: Curve, valid: Curve, measure: str, better: Literal["less", "more"]) -> None:
    if len(train[0]):
        alone = "." if len(train[0]) == 1 else ""
        axes.plot(*train, color=COLOURS[0], linewidth=1.2, marker=alone, label="training")
    if len(valid[0]):
        dots = "." if len(valid[0]) <= _MARKED else ""
        axes.plot(*valid, color=COLOURS[1], marker=dots, label="validation")
    values = np.concatenate([train[1], valid[1]])
    if better == "less" and len(values) and values.max() > _DECADE * values.min() > 0:
        _logarithmic(axes)
    if better == "more":
        axes.margins(y=0.2)  # room for the label of the best value, at the top
    axes.set_ylabel(measure.replace("_", " "))
    if len(values):
        axes.legend(loc="upper right" if better == "less" else "lower right")


def learning_rates(
    rates: Sequence[float], losses: Sequence[float], suggested: float, *, path: Path | str | None = None
) -> Figure:
    """Draw the loss against an increasing learning rate, and mark the suggested rate."""
    x, y = np.asarray(rates, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    with figure(7.0, 4.2, path=path) as drawing:
        axes = drawing.add_subplot(xscale="log", xlabel="learning rate", ylabel="training loss")
        axes.plot(x, y, color=COLOURS[0])
        if len(y):
            # Losses that diverge at the end must not flatten the rest.
            start, low = float(np.median(y[:5])), float(y.min())
            room = max(start - low, 0.05 * abs(start))
            axes.set_ylim(low - 0.1 * room, max(start, float(y[: len(y) // 2].max())) + 0.3 * room)
        axes.axvline(suggested, color=COLOURS[1], linewidth=1.2)
        axes.set_title(f"The loss falls most steeply at a learning rate of {suggested:.2g}")
    return drawing


def _epochs(lines: Sequence[Mapping[str, Any]]) -> Curve:
    """Return steps and the epochs completed by then, for interpolation; validation records end an epoch.

    >>> lines = [{"kind": "valid", "step": 100, "epoch": 1}, {"kind": "train", "step": 150, "epoch": 2}]
    >>> np.interp([50, 100, 150], *_epochs(lines))
    array([0.5, 1. , 1.5])
    """
    ends = {0: 0} | {line["step"]: line["epoch"] for line in lines if line["kind"] != "train"}
    if len(ends) == 1:  # without validation: the last recorded step of each epoch
        ends |= {step: epoch for epoch, step in {line["epoch"]: line["step"] for line in lines}.items()}
    # An unfinished epoch is assumed to be as long as the others.
    end, reached = max(ends), max((line["step"] for line in lines), default=0)
    if reached > end > 0:
        ends[reached] = ends[end] * reached / end
    steps = sorted(ends)
    return np.array(steps, dtype=np.float64), np.array([ends[step] for step in steps], dtype=np.float64)


def _curve(lines: Sequence[Mapping[str, Any]], kind: str, name: str, epochs: Curve) -> Curve:
    """The epochs and values of a measure in one kind of record, without values that are null."""
    known = [line for line in lines if line["kind"] == kind and line.get(name) is not None]
    points = [(line["step"], line[name]) for line in known]
    steps, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return np.interp(steps, *epochs), values


def _build_training_curve(lines: Sequence[Mapping[str, Any]], name: str, epochs: Curve) -> Curve:
    """The training curve: one point for each record, or for each epoch if epochs are short."""
    curve, ends = (_curve(lines, *which, epochs) for which in (("train", name), ("epoch", f"train_{name}")))
    # Epochs record the loss under its own name only.
    return curve if len(curve[0]) >= _LOOKS * len(ends[0]) or not len(ends[0]) else ends


def _choose_training_measure(lines: Sequence[Mapping[str, Any]]) -> str | None:
    """The measure of training, if possible one that validation has too; the loss only if there is no other.

    >>> train = {"kind": "train", "step": 9, "epoch": 1, "loss": 2.0, "perplexity": 7.4, "lr": 0.1}
    >>> valid = {"kind": "valid", "step": 9, "epoch": 1, "bleu": 20.0, "perplexity": 8.1}
    >>> _choose_training_measure([train, valid])
    'perplexity'
    """
    kinds: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        kinds.setdefault(line["kind"], line)
    own = [name for name in kinds.get("train", {}) if name not in _ABOUT]
    choices = [name for name in own if name in kinds.get("valid", {})] or own
    return choices[-1] if choices else None


def _logarithmic(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _mark_best(axes: Any, epochs: NDArray[np.float64], values: NDArray[np.float64], best: int) -> None:
    axes.plot(epochs[best], values[best], "o", color=COLOURS[1], markersize=8, markeredgecolor=INK, zorder=5)
    axes.annotate(
        f"best {values[best]:,.4g}", (epochs[best], values[best]), xytext=(0, 10),
        textcoords="offset points", ha="center", va="bottom", fontweight="bold", zorder=6,
    )  # fmt: skip


def _title(valid: Curve, measure: str, best: int | None) -> str:
    measure = measure.replace("_", " ")
    if best is None:
        return f"Training {measure}"
    return f"Best validation {measure} {valid[1][best]:,.4g}, after epoch {valid[0][best]:.0f}"
