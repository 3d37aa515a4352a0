"""The computation graph of a recurrence, unrolled: which value is computed from which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from throughtime.cells import CELLS
from throughtime.cells.base import Cell
from throughtime.errors import check_whole
from throughtime.inspection.gates import random_step, step_gates

Sources = dict[str, tuple[str, ...]]
"""The values of one step, each with the values that it is computed from; `h-` is the h of the step before."""


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
    check_whole("steps", steps)
    with torch.random.fork_rng(devices=[]):
        built = CELLS[cell](2, 4).double()
    edges = tuple(_edges(find_sources(built), built.state_names, steps))
    nodes = tuple(dict.fromkeys(node for edge in edges for node in edge))
    return UnrolledGraph(cell, steps, nodes, edges)


@torch.no_grad()
def find_sources(cell: Cell) -> Sources:
    """Find what each value of a step is computed from: it changes with them while the other values are held.

    >>> from throughtime.cells import GRU
    >>> find_sources(GRU(2, 3))
    {'r': ('x', 'h-'), 'n': ('x', 'h-', 'r'), 'z': ('x', 'h-'), 'h': ('h-', 'z', 'n')}
    """
    states = cell.state_names
    x, state = random_step(cell)
    inputs = {"x": x} | {f"{letter}-": tensor for letter, tensor in zip(states, state, strict=True)}
    values = step_gates(cell, cell.project(x)[0], state)[1]
    gates = [letter for letter in values if letter not in states]
    sources: dict[str, list[str]] = {letter: [] for letter in values}
    for source in (*inputs, *gates):
        held = {**inputs, **values}
        held[source] = held[source] + 1
        old_state = tuple(held[f"{letter}-"] for letter in states)
        now = step_gates(cell, cell.project(held["x"])[0], old_state, held=held)[1]
        for letter in values.keys() - {source}:
            if not torch.equal(now[letter], values[letter]):
                sources[letter].append(_drawn_as(source))

    def rank(gate: str) -> int:
        """A gate comes directly after those that it is computed from."""
        return max((rank(source) for source in sources[gate] if source in gates), default=gates.index(gate))

    drawn = sorted((gate for gate in gates if gate == _drawn_as(gate)), key=rank)
    return {letter: tuple(dict.fromkeys(sources[letter])) for letter in (*drawn, *reversed(states))}


def _drawn_as(letter: str) -> str:
    """The value that is drawn in place of the tanh of a state, or of 1 - a gate."""
    return letter.removeprefix("tanh ").removeprefix("1 - ")


def _edges(
    sources: Sources, states: tuple[str, ...], steps: int
) -> Iterator[tuple[UnrolledNode, UnrolledNode]]:
    recurrent, out = UnrolledNode("w_h", None, "weight"), UnrolledNode("w_y", None, "weight")
    total = UnrolledNode("L", None, "loss")
    for step in range(1, steps + 1):
        nodes = {
            letter: UnrolledNode(letter, step, "state" if letter in states else "gate") for letter in sources
        }
        nodes["x"] = UnrolledNode("x", step, "input")
        nodes |= {f"{letter}-": UnrolledNode(letter, step - 1, "state") for letter in states}
        for letter, needed in sources.items():
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
