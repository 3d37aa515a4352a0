"""The unrolled computation graph, drawn: time from left to right, one colour for what is shared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.plots.style import COLOURS, INK, figure, save

if TYPE_CHECKING:
    from throughtime.inspection.graph import Graph, Node

_COLOUR = {
    "weight": COLOURS[1], "input": COLOURS[0], "gate": COLOURS[4], "state": COLOURS[2],
    "output": COLOURS[3], "loss": "#666666",
}  # fmt: skip
_NAME = {"gate": "gate or candidate"}
_WIDTH, _BOX = 3.7, 2.9  # of one step, and of the box in it
_LEVEL = {"x": -1.45, r"\hat y": 3.95, "L": 5.0, "total": 6.1}
_RAIL = {"w_h": -0.55, "w_y": 3.3}
_RADIUS = 0.29


def graph_plot(graph: Graph, path: Path | str, title: str) -> Path:
    """Draw the graph; the two weights are one node each, whose rail leads to every step."""
    places = {node: _place(node, graph) for node in graph.nodes}
    left, right = -1.6, _WIDTH * graph.steps
    with figure(min(12.0, 2.0 + 1.95 * graph.steps), 5.4) as drawing:
        axes = drawing.add_subplot(xlim=(left, right + 0.1), ylim=(-1.95, 6.5), aspect="equal")
        axes.axis("off")
        axes.set_title(title)
        for step in range(graph.steps):
            _box(axes, step)
        _rails(axes, graph, places)
        for source, target in graph.edges:
            if source.kind != "weight":
                _arrow(axes, places[source], places[target], _COLOUR[source.kind])
        for node, place in places.items():
            _circle(axes, node, place)
        _legend(drawing, graph)
        return save(drawing, path)


def _place(node: Node, graph: Graph) -> tuple[float, float]:
    if node.kind == "weight":
        return -1.15, _RAIL[node.letter]
    if node.step is None:
        return (graph.steps - 1) * _WIDTH / 2 + _state(graph)[0], _LEVEL["total"]
    start = (node.step - 1) * _WIDTH
    state_x, state_y = _state(graph)
    if node.step == 0:
        return -1.15, state_y if node.letter == "h" else 2.55
    match node.letter:
        case "x":
            return start + _BOX / 2, _LEVEL["x"]
        case r"\hat y" | "L":
            return start + state_x, _LEVEL[node.letter]
        case "h":
            return start + state_x, state_y
        case "c":
            return start + 1.35, 2.55
    gates = list(dict.fromkeys(other.letter for other in graph.nodes if other.kind == "gate"))
    space = 2.05 / max(1, len(gates) - 1)
    # Each stands a little higher than the one before, so that arrows from the left pass above.
    number = gates.index(node.letter)
    return start + 0.45 + number * min(space, 0.85), 0.42 + number * 0.2


def _state(graph: Graph) -> tuple[float, float]:
    """Where h stands in its box: in the middle when it stands alone, else to the right above the gates."""
    alone = not any(node.kind == "gate" for node in graph.nodes)
    return (_BOX / 2, 1.5) if alone else (2.5, 1.9)


def _box(axes: Any, step: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (step * _WIDTH, 0), _BOX, 3.0, boxstyle="round,pad=0,rounding_size=0.2",
            facecolor="#F4F4F4", edgecolor="#AAAAAA", linewidth=1.0, zorder=0,
        )
    )  # fmt: skip


def _rails(axes: Any, graph: Graph, places: dict[Node, tuple[float, float]]) -> None:
    """One line from each weight past all steps, with an arrow into each."""
    for node, (x, y) in places.items():
        if node.kind != "weight":
            continue
        colour = _COLOUR["weight"]
        for step in range(graph.steps):
            start = step * _WIDTH
            if node.letter == "w_h":
                _arrow(axes, (start + 0.55, y), (start + 0.55, 0.0), colour, free=True)
                end = start + 0.55
            else:
                output_x = start + _state(graph)[0]
                _arrow(axes, (output_x - 0.75, y), (output_x, _LEVEL[r"\hat y"]), colour, begin=0.0)
                end = output_x - 0.75
        axes.plot([x, end], [y, y], color=colour, linewidth=1.6, zorder=1, solid_capstyle="round")


def _arrow(
    axes: Any,
    source: tuple[float, float],
    target: tuple[float, float],
    colour: str,
    free: bool = False,
    begin: float = _RADIUS,
) -> None:
    """An arrow between two circles; a free one ends exactly where it is told to."""
    (x, y), (toutput_x, to_y) = source, target
    length = max(((toutput_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 1e-9)
    along = ((toutput_x - x) / length, (to_y - y) / length)
    start, stop = (0.0, length) if free else (begin, length - _RADIUS - 0.03)
    axes.annotate(
        "",
        xy=(x + along[0] * stop, y + along[1] * stop),
        xytext=(x + along[0] * start, y + along[1] * start),
        arrowprops={
            "arrowstyle": "-|>,head_length=0.35,head_width=0.16", "color": colour, "linewidth": 1.2,
            "shrinkA": 0, "shrinkB": 0,
        },
        zorder=2,
    )  # fmt: skip


def _circle(axes: Any, node: Node, place: tuple[float, float]) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(place, _RADIUS, facecolor=_COLOUR[node.kind], edgecolor="white", zorder=3))
    label = f"${node.letter}$" if node.step is None else f"${node.letter}_{{{node.step}}}$"
    ink = "black" if node.kind in ("gate", "output") else "white"
    axes.text(*place, label, ha="center", va="center_baseline", color=ink, fontsize=11, zorder=4)


def _legend(drawing: Any, graph: Graph) -> None:
    from matplotlib.lines import Line2D

    kinds = [kind for kind in _COLOUR if any(node.kind == kind for node in graph.nodes)]
    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=9, color=_COLOUR[kind],
               label="weights, shared by all steps" if kind == "weight" else _NAME.get(kind, kind))
        for kind in kinds
    ]  # fmt: skip
    drawing.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=10, labelcolor=INK)
