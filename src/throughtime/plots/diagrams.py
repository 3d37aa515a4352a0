"""Diagrams: the tree of a beam search, and a recurrence unrolled through time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from throughtime.plots.style import COLOURS, INK, figure, legend_line
from throughtime.text.texts import format_signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from throughtime.inspection.graph import UnrolledGraph, UnrolledNode
    from throughtime.inspection.translation import BeamTree, Candidate

_BEST, _CUT = COLOURS[0], "#8A8A8A"
_MAX_LENGTH = 14  # characters of a token


def beam(tree: BeamTree, *, path: Path | str | None = None) -> Figure:
    """Draw the tree of a beam search, a column for each step; rejected tokens are grey and crossed out."""
    rows = _rows(tree.nodes)
    deepest = max(rows) if rows else 0
    with figure(1.2 + 1.12 * max(tree.steps, 3), 1.5 + 0.36 * (deepest + 1), path=path) as drawing:
        axes = drawing.subplots()
        for number, node in enumerate(tree.nodes):
            _draw_node(axes, tree.nodes, rows, number, node)
        limits: dict[str, Any] = {"xlim": (-0.3, tree.steps + 0.6), "ylim": (deepest + 0.7, -0.7)}
        axes.set(xticks=range(1, tree.steps + 1), yticks=[], **limits)
        axes.set_xlabel("step; below each token, ln P of the hypothesis")
        axes.grid(visible=False)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)
        best = tree.results[0]
        score = f"score {format_signed(best.score)}"
        axes.set_title(f"{best.text}   (beam of {tree.width}, {score})", fontsize=11)
        _beam_legend(axes)
    return drawing


def _rows(nodes: Sequence[Candidate]) -> list[int]:
    """The row of each node: in every step kept candidates first, best first, then rejected ones."""
    rows, used = [0] * len(nodes), Counter[int]()
    for number, node in sorted(
        enumerate(nodes), key=lambda pair: (pair[1].status == "cut", -pair[1].log_prob)
    ):
        rows[number] = used[node.step]
        used[node.step] += 1
    return rows


def _draw_node(axes: Any, nodes: Sequence[Candidate], rows: list[int], number: int, node: Candidate) -> None:
    colour = _BEST if node.best else _CUT if node.status == "cut" else INK
    start = (0.0, 0.0) if node.parent is None else (nodes[node.parent].step + 0.3, rows[node.parent])
    end = (node.step - 0.36, rows[number])
    dashed = node.status == "cut"
    axes.plot(
        [start[0], end[0]], [start[1], end[1]], color=colour, linewidth=2.2 if node.best else 0.9,
        linestyle=(0, (2, 2)) if dashed else "-", alpha=0.55 if dashed else 1, zorder=3 if node.best else 1,
    )  # fmt: skip
    text = node.label if len(node.label) <= _MAX_LENGTH else f"{node.label[: _MAX_LENGTH - 1]}…"
    axes.text(
        node.step, rows[number] - 0.1, f"{text} ✕" if dashed else text, ha="center", va="center",
        color=colour, fontsize=9, fontweight="bold" if node.best else "normal", zorder=5,
        bbox={"boxstyle": "round,pad=0.18", "facecolor": "white", "linewidth": 1.2,
              "edgecolor": colour if node.status == "ended" else "none"},
    )  # fmt: skip
    axes.text(
        node.step, rows[number] + 0.3, format_signed(node.log_prob), ha="center", va="center", color=colour,
        fontsize=6.5, zorder=5,
    )  # fmt: skip


def _beam_legend(axes: Any) -> None:
    # The best hypothesis ends too, with a blue frame: so the legend shows a frame without a colour.
    frame: dict[str, Any] = {"marker": "s", "markersize": 9, "linestyle": "", "markeredgecolor": INK}
    handles = [
        legend_line("the best", color=_BEST, linewidth=2.2),
        legend_line("kept", color=INK, linewidth=0.9),
        legend_line("ended", color="white", **frame),
        legend_line("cut ✕", color=_CUT, linewidth=0.9, linestyle=(0, (2, 2))),
    ]
    axes.legend(handles=handles, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.11), fontsize=9)


_COLOUR = {
    "weight": COLOURS[1], "input": COLOURS[0], "gate": COLOURS[4], "state": COLOURS[2],
    "output": COLOURS[3], "loss": "#666666",
}  # fmt: skip
_NAME = {"gate": "gate or candidate", "weight": "weights, shared by all steps"}
_WIDTH, _BOX = 3.7, 2.9  # of one step, and of the box in it
_LEVEL = {"x": -1.45, r"\hat y": 3.95, "L": 5.0, "total": 6.1}
_RAIL = {"w_h": -0.55, "w_y": 3.3}
_RADIUS = 0.29


def graph(graph: UnrolledGraph, *, title: str = "", path: Path | str | None = None) -> Figure:
    """Draw an unrolled graph, time from left to right, with lines from each shared weight to every step."""
    places = {node: _place(node, graph) for node in graph.nodes}
    left, right = -1.6, _WIDTH * graph.steps
    with figure(min(12.0, 2.0 + 1.95 * graph.steps), 5.4, path=path) as drawing:
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
        _graph_legend(drawing, graph)
    return drawing


def _place(node: UnrolledNode, graph: UnrolledGraph) -> tuple[float, float]:
    if node.kind == "weight":
        return -1.15, _RAIL[node.letter]
    if node.step is None:
        return (graph.steps - 1) * _WIDTH / 2 + _state(graph)[0], _LEVEL["total"]
    start = (node.step - 1) * _WIDTH
    state_x, state_y = _state(graph)
    if node.kind == "state" and node.letter != "h":  # c, s_3, ...
        number = sorted({other.letter for other in graph.nodes if other.kind == "state"}).index(node.letter)
        if number > 1:  # below h
            return -1.15 if node.step == 0 else start + 0.45, state_y - 0.62 * (number - 1)
        return -1.15 if node.step == 0 else start + 1.35, 2.55
    match node.letter:
        case "x":
            return start + _BOX / 2, _LEVEL["x"]
        case r"\hat y" | "L":
            return start + state_x, _LEVEL[node.letter]
        case "h":
            return (-1.15 if node.step == 0 else start + state_x), state_y
    gates = list(dict.fromkeys(other.letter for other in graph.nodes if other.kind == "gate"))
    space = 2.05 / max(1, len(gates) - 1)
    # Each is a little higher than the one before, so that arrows from the left pass above.
    number = gates.index(node.letter)
    return start + 0.45 + number * min(space, 0.85), 0.42 + number * 0.2


def _state(graph: UnrolledGraph) -> tuple[float, float]:
    """The position of h in its box: in the middle, or to the right above the gates if there are any."""
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


def _rails(axes: Any, graph: UnrolledGraph, places: dict[UnrolledNode, tuple[float, float]]) -> None:
    """Draw one line from each weight along all steps, with an arrow into each."""
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
    """Draw an arrow between two circles, or with `free` exactly between two points."""
    (x, y), (to_x, to_y) = source, target
    length = max(((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 1e-9)
    along = ((to_x - x) / length, (to_y - y) / length)
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


def _circle(axes: Any, node: UnrolledNode, place: tuple[float, float]) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(place, _RADIUS, facecolor=_COLOUR[node.kind], edgecolor="white", zorder=3))
    letter, _, number = node.letter.partition("_") if node.kind == "state" else (node.letter, "", "")
    label = f"${letter}$" if node.step is None else f"${letter}_{{{number}{',' * bool(number)}{node.step}}}$"
    ink = "black" if node.kind in ("gate", "output") else "white"
    axes.text(*place, label, ha="center", va="center_baseline", color=ink, fontsize=11, zorder=4)


def _graph_legend(drawing: Any, graph: UnrolledGraph) -> None:
    kinds = [kind for kind in _COLOUR if any(node.kind == kind for node in graph.nodes)]
    handles = [
        legend_line(_NAME.get(kind, kind), linestyle="", marker="o", markersize=9, color=_COLOUR[kind])
        for kind in kinds
    ]
    drawing.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=10, labelcolor=INK)
