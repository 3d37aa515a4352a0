"""Vanishing, exploding, what clipping does, and how far a step of descent can change a loss."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from torch.nn.functional import logsigmoid

from throughtime.cells import CELLS
from throughtime.cells.base import Cell, State
from throughtime.inspection.gates import check_keeping_gate, gates
from throughtime.inspection.gradients import GAINS, Curve, descent_bound, keeps, lag_curve, random_cell

SMALL, LARGE = GAINS["small"], GAINS["large"]


def curve(name: str, gain: float, keep: float | None = None) -> Curve:
    return lag_curve(name, gain, steps=60, hidden=24, keep=keep, seeds=2)


def test_small_weights_vanish_and_large_ones_explode_in_the_plain_network() -> None:
    # R47
    assert curve("rnn", SMALL).verdict == "vanishes"
    assert curve("rnn", LARGE).verdict == "explodes"


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_open_gates_keep_the_gradient_where_the_plain_network_loses_it(name: str) -> None:
    # R47
    assert curve(name, SMALL, keep=0.98).verdict == "holds"
    assert curve(name, SMALL).verdict == "vanishes"
    assert curve(name, LARGE, keep=0.98).norms[-1] < 1e-2 * curve("rnn", LARGE).norms[-1]


def test_clipping_cures_the_explosion_only() -> None:
    # R47
    exploding, vanishing = curve("rnn", LARGE), curve("rnn", SMALL)
    assert exploding.gradient > 100
    assert exploding.clipped == pytest.approx(1, rel=1e-5)
    assert vanishing.clipped <= 1 + 1e-9
    # The far steps stay as far behind the near ones as they were.
    before, after = vanishing.added, vanishing.added_clipped
    assert after[-1] / after[0] == pytest.approx(before[-1] / before[0])
    assert after[-1] < 1e-12


def test_the_linear_gate_shrinks_by_exactly_what_it_keeps() -> None:
    # In a minGRU without weights, dh_T/dh_t = keep^lag.
    found = lag_curve("mingru", 1.0, steps=10, hidden=400, keep=0.9, seeds=1)
    assert found.norms[0] == 1
    assert found.factor == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_can_be_followed(name: str) -> None:
    found = lag_curve(name, 1.0, steps=5, hidden=6, keep=0.9 if keeps(name) else None, seeds=1)
    assert (len(found.norms), len(found.added)) == (6, 5)
    assert all(value >= 0 for value in found.norms + found.added)


def test_bad_options_get_a_sentence_and_threads_are_given_back() -> None:
    with refuses("cell", "'lstn'", "'lstm'"):
        curve("lstn", 1.0)
    with refuses("keep", "1.5"):
        curve("lstm", 1.0, keep=1.5)
    threads = torch.get_num_threads()
    lag_curve("rnn", 1.0, steps=2, hidden=2, seeds=1)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", [name for name in CELLS if keeps(name)])
def test_the_gate_that_keeps_the_state_is_set_through_its_bias(name: str) -> None:
    cell = random_cell(name, 1.0, 6, 0.9, seed=0)
    assert cell.keeping_gate is not None
    found = gates(cell, torch.zeros(1, 16, dtype=torch.float64))[cell.keeping_gate]
    torch.testing.assert_close(found, torch.full_like(found, 0.9))


class Normalised(Cell):
    """A cell whose keeping gate is set by two biases together, so by none alone."""

    gates = ("i", "f", "candidate")
    activations = (("k",),)
    keeping_gate = "k"

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.add_weights(recurrent=False)
        self.reset_parameters()

    def step(self, projected: torch.Tensor, state: State) -> State:
        i, f, new = projected.chunk(3, dim=-1)
        kept = torch.sigmoid(logsigmoid(f) - i)
        return (new + kept * (state[0] - new),)


def test_a_gate_of_two_biases_is_followed_as_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CELLS._added, "normalised", Normalised)
    check_keeping_gate(Normalised(3, 4))
    assert not keeps("normalised")
    assert len(curve("normalised", 1.0).norms) == 61
    with refuses("keep", "normalised"):
        curve("normalised", 1.0, keep=0.9)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), eta=st.floats(1e-3, 10), clip=st.none() | st.floats(0.01, 2))
def test_a_step_changes_a_loss_by_no_more_than_l_eta_g(seed: int, eta: float, clip: float | None) -> None:
    # R45: tanh has slope at most 1, so |u| |W| is a Lipschitz constant of u . tanh(W x).
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    u = torch.randn(5, generator=generator, dtype=torch.float64)
    point = torch.randn(4, generator=generator, dtype=torch.float64)
    lipschitz = float(u.norm() * torch.linalg.matrix_norm(w, 2))
    change, bound = descent_bound(lambda x: u @ torch.tanh(w @ x), point, eta, lipschitz, clip)
    assert change <= bound * (1 + 1e-12)
    if clip is not None:
        assert bound <= lipschitz * eta * clip * (1 + 1e-12)


def test_the_bound_is_broken_by_a_constant_that_is_too_small() -> None:
    # R45
    change, bound = descent_bound(lambda x: 3 * x.abs().sum(), torch.tensor([2.0]), 0.1, lipschitz=2)
    assert change > bound


def test_a_flat_place_has_nothing_to_clip():
    assert descent_bound(lambda x: (0 * x).sum(), torch.ones(2), 0.1, lipschitz=1, clip=1.0) == (0.0, 0.0)
