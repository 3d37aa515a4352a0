"""A beam search as a picture: one column a step, what was kept, what was cut, and the way to the best."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.plots.style import COLOURS, INK, figure, save
from throughtime.text.numbers import signed

if TYPE_CHECKING:
    from throughtime.inspection.beam_tree import BeamTree, Weighed

_BEST, _CUT = COLOURS[0], "#8A8A8A"
_LONGEST = 14  # letters of a token


def beam_plot(tree: BeamTree, path: Path | str) -> Path:
    """Draw the tree of a search; what was cut is grey and struck with a cross, what ended has a frame."""
    rows = _rows(tree.nodes)
    deepest = max(rows) if rows else 0
    with figure(1.2 + 1.12 * max(tree.steps, 3), 1.5 + 0.36 * (deepest + 1)) as drawing:
        axes = drawing.subplots()
        for place, node in enumerate(tree.nodes):
            _draw(axes, tree.nodes, rows, place, node)
        axes.set(xlim=(-0.3, tree.steps + 0.6), ylim=(deepest + 0.7, -0.7))
        axes.set_xticks(range(1, tree.steps + 1))
        axes.set_xlabel("step: the ln P of each way stands below its token")
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)
        best = tree.results[0]
        axes.set_title(f"{best.text}   (beam of {tree.width}, score {signed(best.score)})", fontsize=11)
        _legend(axes)
        return save(drawing, path)


def _rows(nodes: Sequence[Weighed]) -> list[int]:
    """The height of each node: in every step those that went on first, best first, then what was cut."""
    rows = [0] * len(nodes)
    steps: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        steps.setdefault(node.step, []).append(place)
    for places in steps.values():
        order = sorted(places, key=lambda place: (nodes[place].status == "cut", -nodes[place].log_prob))
        for row, place in enumerate(order):
            rows[place] = row
    return rows


def _draw(axes: Any, nodes: Sequence[Weighed], rows: list[int], place: int, node: Weighed) -> None:
    colour = _BEST if node.best else _CUT if node.status == "cut" else INK
    start = (0.0, 0.0) if node.parent is None else (nodes[node.parent].step + 0.3, rows[node.parent])
    end = (node.step - 0.36, rows[place])
    dashed = node.status == "cut"
    axes.plot(
        [start[0], end[0]], [start[1], end[1]], color=colour, linewidth=2.2 if node.best else 0.9,
        linestyle=(0, (2, 2)) if dashed else "-", alpha=0.55 if dashed else 1, zorder=3 if node.best else 1,
    )  # fmt: skip
    text = node.label if len(node.label) <= _LONGEST else f"{node.label[: _LONGEST - 1]}…"
    axes.text(
        node.step, rows[place] - 0.1, f"{text} ✕" if dashed else text, ha="center", va="center",
        color=colour, fontsize=9, fontweight="bold" if node.best else "normal", zorder=5,
        bbox={"boxstyle": "round,pad=0.18", "facecolor": "white", "linewidth": 1.2,
              "edgecolor": colour if node.status == "ended" else "none"},
    )  # fmt: skip
    axes.text(
        node.step, rows[place] + 0.3, signed(node.log_prob), ha="center", va="center", color=colour,
        fontsize=6.5, zorder=5,
    )  # fmt: skip


def _legend(axes: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    # The best way ends too, with a blue frame: so the key tells a frame, not a colour.
    frame = Patch(facecolor="white", edgecolor=INK, linewidth=1.2, label="ended")
    handles = [
        Line2D([], [], color=_BEST, linewidth=2.2, label="the best"),
        Line2D([], [], color=INK, linewidth=0.9, label="kept"),
        frame,
        Line2D([], [], color=_CUT, linewidth=0.9, linestyle=(0, (2, 2)), label="cut ✕"),
    ]
    axes.legend(handles=handles, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.11), fontsize=9)
