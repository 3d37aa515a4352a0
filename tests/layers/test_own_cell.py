"""A stack of cells that somebody else wrote."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import nn
from torch.nn.functional import linear

from throughtime.cells import CELLS, LSTM, Cell, ProjectedLSTM
from throughtime.inspection.gates import gates
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack


class Leaky(Cell):
    """h = a h + (1 - a) tanh(W x + U h): no more than a cell must have."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.leak = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()

    def project(self, x):
        return linear(x, self.weights()["weight_ih"])

    def step(self, projected, state):
        (h,), w = state, self.weights()
        kept = torch.sigmoid(w["leak"])
        return (kept * h + (1 - kept) * torch.tanh(projected + linear(h, w["weight_hh"])),)


class LeakyFromAnywhere(Leaky):
    """The same, with a first state that may be learned."""

    def __init__(self, input_size: int, hidden_size: int, *, initial: str = "zero") -> None:
        Cell.__init__(self, input_size, hidden_size, initial=initial)
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, hidden_size))
        self.leak = nn.Parameter(torch.empty(hidden_size))
        self.reset_parameters()


def by_hand(cell, x):
    """The outputs of one row [T, I], from the equation."""
    h, found = torch.zeros(cell.hidden_size, dtype=x.dtype), []
    for x_t in x:
        a = torch.sigmoid(cell.leak)
        h = a * h + (1 - a) * torch.tanh(cell.weight_ih @ x_t + cell.weight_hh @ h)
        found.append(h)
    return torch.stack(found)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_layers_of_an_own_cell_follow_its_equation(num_layers, bidirectional):
    torch.manual_seed(0)
    stack = Stack(Leaky, 3, 4, num_layers, bidirectional=bidirectional).double()
    x, lengths = torch.randn(6, 2, 3, dtype=torch.float64), torch.tensor([6, 4])
    y, state = stack(x, lengths=lengths)
    assert len(state) == num_layers * (1 + bidirectional)
    for row, length in enumerate(lengths.tolist()):
        expected = x[:length, row]
        for layer in stack.layers:
            parts = [by_hand(layer.from_left, expected)]
            if bidirectional:
                parts.append(by_hand(layer.from_right, expected.flip(0)).flip(0))
            expected = torch.cat(parts, dim=-1)
        torch.testing.assert_close(y[:length, row], expected, rtol=1e-9, atol=1e-12)
    y.sum().backward()
    assert all(weight.grad is not None for weight in stack.parameters())


def test_the_options_of_a_stack_serve_an_own_cell():
    torch.manual_seed(0)
    given = {"dropout": 0.3, "variational": True, "weight_drop": 0.2, "residual": True, "layer_norm": True}
    stack = Stack(Leaky, 4, 4, 2, **given)
    y, _ = stack(torch.randn(5, 2, 4))
    y.sum().backward()
    stack.eval()
    x = torch.randn(5, 2, 4)
    whole, state = stack(x), stack.initial_state(2)
    for x_t, y_t in zip(x, whole.outputs, strict=True):
        stepped, state = stack.step(x_t, state)
        torch.testing.assert_close(stepped, y_t)


class Halved(Layer):
    """A layer of one's own, which takes no more than what a step needs."""

    def step(self, x, state):
        return super().step(x / 2, state)


def test_a_layer_that_steps_in_its_own_way_does():
    torch.manual_seed(0)
    stack, cell, x = Stack("lstm", 3, 4), LSTM(3, 4), torch.randn(2, 3)
    stack.layers[0] = Halved(cell)
    y, _ = stack.step(x, stack.initial_state(2))
    torch.testing.assert_close(y, cell.step(cell.project(x[None] / 2)[0], cell.initial_state(2))[0])


def test_a_language_model_is_built_of_a_registered_cell(monkeypatch):
    from throughtime.models.language import RecurrentLanguageModel

    monkeypatch.setitem(CELLS._loaded, "leaky", Leaky)
    model = RecurrentLanguageModel(7, cell="leaky", embedding_size=4, hidden_size=5)
    assert [type(layer.from_left) for layer in model.stack.layers] == [Leaky] * len(model.stack.layers)


def test_a_learned_first_state_is_for_cells_that_take_one():
    stack = Stack(LeakyFromAnywhere, 3, 4, 2, initial="learned")
    assert [len(layer.from_left.learned_state) for layer in stack.layers] == [1, 1]
    with refuses("initial", "'learned'", "Leaky"):
        Stack(Leaky, 3, 4, initial="learned")


@pytest.mark.parametrize(
    ("builder", "facts"),
    [
        (nn.LSTM, ("cell", "LSTM")),
        (
            ProjectedLSTM,
            ("cell", "ProjectedLSTM", "'projection_size'"),
        ),
        (LSTM(3, 4), ("cell", "Stack.of")),
        (3, ("cell", "3")),
        ("lsmt", ("cell", "'lsmt'", "'lstm'")),
    ],
)
def test_what_builds_no_cell_is_refused(builder, facts):
    with refuses(*facts):
        Stack(builder, 3, 4)


class Named(Leaky):
    """With names for those who look inside."""

    activations = (("a",), ("n",))
    keeping_gate = "a"


def test_an_own_cell_names_its_gates_or_shows_its_states():
    x = torch.randn(6, 3)
    assert set(gates(Leaky(3, 4), x)) == {"h"}
    named = Named(3, 4)
    found = gates(named, x)
    assert set(found) == {"a", "n", "h"}
    before = torch.cat([torch.zeros(1, 4), found["h"][:-1]])
    torch.testing.assert_close(found["h"], found["a"] * before + (1 - found["a"]) * found["n"])
    named.activations = (("a",),)
    with refuses("Named", "1", "2"):
        gates(named, x)
