"""Gates are read from the cell itself, and the graph says what the cell computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.refusals import refuses

from throughtime.cells import CELLS, GRU, Cell, MogrifierLSTM
from throughtime.inspection.gates import check_keeping_gate, gates
from throughtime.inspection.graph import UnrolledNode, unroll
from throughtime.recurrence import scan


def recorded(name: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    cell, x = CELLS[name](3, 4).double(), torch.randn(6, 3, dtype=torch.float64)
    found = gates(cell, x)
    torch.testing.assert_close(found["h"], scan(cell, x[:, None]).outputs[:, 0])
    return found


def before(values: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.zeros_like(values[:1]), values[:-1]])


def test_a_gru_is_made_of_its_gates() -> None:
    for name in ("gru", "gru-before"):
        g = recorded(name)
        torch.testing.assert_close(g["h"], (1 - g["z"]) * g["n"] + g["z"] * before(g["h"]))
        assert 0 < float(g["r"].min()) < float(g["r"].max()) < 1


def test_an_lstm_is_made_of_its_gates() -> None:
    for name in ("lstm", "lstm-coupled"):
        g = recorded(name)
        torch.testing.assert_close(g["c"], g["f"] * before(g["c"]) + g["i"] * g["g"])
        torch.testing.assert_close(g["h"], g["o"] * torch.tanh(g["c"]))


def test_forced_biases_show_in_the_gate_of_that_name() -> None:
    cell = CELLS["gru"](3, 4)
    with torch.no_grad():
        cell.weights()["bias"][:4] = 50.0
    found = gates(cell, torch.randn(5, 3))
    assert bool((found["r"] > 0.999).all())
    assert bool((found["z"] < 0.999).any())


def test_the_others() -> None:
    assert set(recorded("rnn")) == {"h"}
    found = recorded("mingru")
    torch.testing.assert_close(found["z"], 1 - found["1 - z"])
    found = recorded("minlstm")
    torch.testing.assert_close(found["i"], 1 - found["f"])
    for name in ("lstm-layernorm", "lstm-projected", "lstm-mogrifier"):
        g = recorded(name)
        torch.testing.assert_close(g["c"], g["f"] * before(g["c"]) + g["i"] * g["g"])
    g = recorded("lstm-mogrifier")
    torch.testing.assert_close(g["h"], g["o"] * torch.tanh(g["c"]))


@pytest.mark.parametrize("name", CELLS)
def test_every_registered_cell_tells_its_gates_or_has_none(name: str) -> None:
    found, cell = recorded(name), CELLS[name](3, 4)
    letters = {letter for part in cell.activations for letter in part}
    states = ("h", "c", *(f"s_{number}" for number in range(3, len(cell.state_sizes) + 1)))
    assert set(found) == letters | set(states[: len(cell.state_sizes)])
    assert cell.keeping_gate is None or cell.keeping_gate in letters
    for letter in letters:
        assert found[letter].shape == (6, cell.hidden_size)


def test_all_cells_but_the_plain_ones_have_a_gate_that_keeps() -> None:
    assert {name for name in CELLS.own if CELLS[name](3, 4).keeping_gate is None} == {"rnn", "rnn-relu"}


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_the_rounds_of_a_mogrifier_are_no_gates_of_its_units(rounds: int) -> None:
    found = gates(MogrifierLSTM(3, 4, rounds), torch.randn(5, 3))
    assert set(found) == {"f", "i", "g", "o", "tanh c", "h", "c"}


@pytest.mark.parametrize("name", CELLS)
def test_the_graph_depends_on_what_the_cell_depends_on(name: str) -> None:
    # R54: state by state, an arrow path exists exactly where autograd finds a gradient.
    torch.manual_seed(0)
    cell = CELLS[name](2, 3).double()
    x = torch.randn(1, 2, dtype=torch.float64, requires_grad=True)
    state = tuple(torch.randn(1, size, dtype=torch.float64, requires_grad=True) for size in cell.state_sizes)
    values = dict(zip(("h", "c"), cell.step(cell.project(x[None])[0], state), strict=False))
    sources = {"x": x} | {f"{letter}-": part for letter, part in zip(("h", "c"), state, strict=False)}
    for letter, value in values.items():
        found = torch.autograd.grad(value.sum(), list(sources.values()), retain_graph=True, allow_unused=True)
        reached = {source for source, part in zip(sources, found, strict=True) if part is not None}
        assert reached == {source for source in ancestors(name, letter) if source in sources}


def ancestors(name: str, letter: str) -> set[str]:
    """What a value of the first step depends on, by way of any others; `h-` is the first state."""
    edges, reached, left = unroll(name, 1).edges, set[UnrolledNode](), [UnrolledNode(letter, 1, "state")]
    while left:
        node = left.pop()
        left += [source for source, target in edges if target == node and source not in reached]
        reached.add(node)
    return {f"{node.letter}-" if node.step == 0 else node.letter for node in reached}


def test_weights_are_one_node_and_the_way_back_grows_with_the_steps() -> None:
    # R54
    short, long = unroll("lstm", 2), unroll("lstm", 5)
    weights = [node for node in long.nodes if node.kind == "weight"]
    assert [node.letter for node in weights] == ["w_h", "w_y"]
    assert long.uses(UnrolledNode("w_h", None, "weight")) == 4 * 5
    assert long.uses(UnrolledNode("w_y", None, "weight")) == 5
    assert long.depth() - short.depth() == 3 * 3
    with refuses("cell", "'gur'", "'gru'"):
        unroll("gur", 3)
    with refuses("steps", "0"):
        unroll("gru", 0)


class Shouting(GRU):
    """A GRU that calls its reset gate the keeping one."""

    keeping_gate = "r"


class Doubled(GRU):
    """A GRU that keeps twice as much as its gate says."""

    def step(self, projected: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        (h,) = state
        return (super().step(projected, state)[0] + super().step(projected, (2 * h,))[0],)

    activations = (*GRU.activations, (), ())


@pytest.mark.parametrize("name", CELLS)
def test_the_keeping_gate_of_every_cell_is_the_share_that_it_keeps(name: str) -> None:
    check_keeping_gate(CELLS[name](3, 4))


@pytest.mark.parametrize("kind", [Shouting, Doubled])
def test_a_wrong_keeping_gate_is_refused(kind: Any) -> None:
    with refuses(kind.__name__, repr(kind.keeping_gate)):
        check_keeping_gate(kind(3, 4))


class Threefold(Cell):
    """A cell with three tensors of state, each the exponential mean of the one before."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, state_sizes=(hidden_size,) * 3)
        self.gates = ("h",)
        self.add_weights(recurrent=False)
        self.reset_parameters()

    def step(self, projected: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        first, second, third = state
        return 0.5 * first + second, 0.5 * second + third, 0.5 * third + projected


def test_every_tensor_of_a_state_has_a_letter_and_a_place_in_the_graph(monkeypatch) -> None:
    monkeypatch.setitem(CELLS._added, "threefold", Threefold)
    assert set(gates(Threefold(3, 4), torch.randn(5, 3))) == {"h", "c", "s_3"}
    edges = {(str(source.letter), target.letter) for source, target in unroll("threefold", 2).edges}
    assert {("h", "h"), ("c", "h"), ("c", "c"), ("s_3", "c"), ("s_3", "s_3"), ("x", "s_3")} <= edges
    assert ("x", "h") not in edges
