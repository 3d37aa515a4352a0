"""The computation graph of a recurrence, unrolled: which value is computed from which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from throughtime.errors import check_whole, unknown

Parts = dict[str, tuple[str, ...]]

_GRU: Parts = {"r": ("x", "h-"), "n": ("x", "h-", "r"), "z": ("x", "h-"), "h": ("h-", "n", "z")}
_LSTM: Parts = {
    "f": ("x", "h-"), "i": ("x", "h-"), "g": ("x", "h-"), "o": ("x", "h-"),
    "c": ("c-", "f", "i", "g"), "h": ("c", "o"),
}  # fmt: skip

STEPS: dict[str, Parts] = {
    "rnn": {"h": ("x", "h-")},
    "gru": _GRU,
    "gru-before": _GRU,
    "lstm": _LSTM,
    "lstm-coupled": {
        "f": ("x", "h-"), "g": ("x", "h-"), "o": ("x", "h-"), "c": ("c-", "f", "g"), "h": ("c", "o")
    },
    "mingru": {"z": ("x",), r"\tilde h": ("x",), "h": ("h-", "z", r"\tilde h")},
}  # fmt: skip
"""The values of one step, each with the values it is computed from; `h-` is the h of the step before."""

STATES = ("h", "c")


@dataclass(frozen=True)
class UnrolledNode:
    """A value. Weights and the total loss belong to all steps, so their `step` is None."""

    letter: str
    step: int | None
    kind: str  # weight, input, gate, state, output or loss


@dataclass(frozen=True)
class UnrolledGraph:
    """Values, and arrows from each value to those computed from it."""

    cell: str
    steps: int
    nodes: tuple[UnrolledNode, ...]
    edges: tuple[tuple[UnrolledNode, UnrolledNode], ...]

    def uses(self, node: UnrolledNode) -> int:
        """Return how many values are computed from this one; its gradient is a sum of as many terms."""
        return sum(source == node for source, _ in self.edges)

    def depth(self) -> int:
        """Return the length of the longest path to the total loss, which grows with the steps."""
        longest = dict.fromkeys(self.nodes, 0)
        for source, target in self.edges:  # sorted: every value comes after those it needs
            longest[target] = max(longest[target], longest[source] + 1)
        return max(longest.values())


def unroll(cell: str, steps: int) -> UnrolledGraph:
    """Build the graph of a recurrence with a loss at every step.

    >>> graph = unroll("rnn", steps=3)
    >>> graph.uses(UnrolledNode("w_h", None, "weight")), graph.depth()
    (3, 6)
    """
    if cell not in STEPS:
        raise unknown("cell for a graph", cell, STEPS)
    check_whole("steps", steps)
    edges = tuple(_edges(STEPS[cell], steps))
    nodes = tuple(dict.fromkeys(node for edge in edges for node in edge))
    return UnrolledGraph(cell, steps, nodes, edges)


def _edges(parts: Parts, steps: int) -> Iterator[tuple[UnrolledNode, UnrolledNode]]:
    recurrent, out = UnrolledNode("w_h", None, "weight"), UnrolledNode("w_y", None, "weight")
    total = UnrolledNode("L", None, "loss")
    for step in range(1, steps + 1):
        nodes = {
            letter: UnrolledNode(letter, step, "state" if letter in STATES else "gate") for letter in parts
        }
        nodes["x"] = UnrolledNode("x", step, "input")
        nodes |= {f"{letter}-": UnrolledNode(letter, step - 1, "state") for letter in STATES}
        for letter, needed in parts.items():
            # Weights are used where the input is; h and c of gated cells only combine other values.
            if "x" in needed:
                yield recurrent, nodes[letter]
            for source in needed:
                yield nodes[source], nodes[letter]
        output, loss = UnrolledNode(r"\hat y", step, "output"), UnrolledNode("L", step, "loss")
        yield out, output
        yield nodes["h"], output
        yield output, loss
        yield loss, total
