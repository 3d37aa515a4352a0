"""What cells say of themselves holds for every registered one."""

from __future__ import annotations

import pytest
from tests.refusals import refuses

from throughtime.cells import CELLS, LSTM


@pytest.mark.parametrize("name", CELLS)
def test_gates_name_the_rows_of_the_weights(name):
    cell = CELLS[name](3, 4)
    weights = cell.weights()
    for weight in ("weight_ih", "weight_hh", "bias"):
        if weight in weights:
            assert len(weights[weight]) == len(cell.gates) * cell.hidden_size
    if cell.keeping_gate is not None:
        assert cell.keeping_gate in {part for parts in cell.activations for part in parts}
    operator = cell.graph_operator()
    assert operator is None or sorted(operator.gates) == sorted(cell.gates)


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_can_be_exported(name):
    assert CELLS[name](3, 4).graph_problem() is None


def test_a_graph_of_other_equations_is_not_inherited():
    class Own(LSTM):
        def project(self, x):
            return super().project(x) * 2

    assert "`graph_project`" in Own(3, 4).graph_problem()


def test_an_unknown_name_offers_the_nearest():
    with refuses("cell", "'grue'", "'gru'"):
        CELLS["grue"]
