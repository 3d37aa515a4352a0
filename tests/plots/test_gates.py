"""The picture of gates at work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from throughtime import plots

GENERATOR = np.random.default_rng(0)
VALUES = {"z": GENERATOR.random((9, 20)), "h": GENERATOR.normal(size=(9, 20))}


@pytest.fixture
def drawn() -> Any:
    return plots.gates(VALUES, "she reads", title="GRU", units=5, meanings={"z": "update"})


def test_units_stand_against_tokens(drawn: Any) -> None:
    gate, state = (axes for axes in drawn.axes if axes.images and axes.get_ylabel())
    assert gate.images[0].get_array().shape == (5, 9)
    assert gate.get_ylabel() == "$z$\nupdate"
    assert [label.get_text() for label in state.get_xticklabels()] == list("she␣reads")


def test_the_liveliest_units_are_shown_and_they_are_the_same_in_every_row(drawn: Any) -> None:
    gate, state = (axes.images[0].get_array() for axes in drawn.axes if axes.images and axes.get_ylabel())
    expected = set(np.argsort(-VALUES["z"].var(axis=0))[:5].tolist())
    rows = [next(unit for unit in range(20) if np.allclose(VALUES["z"][:, unit], row)) for row in gate]
    assert set(rows) == expected
    np.testing.assert_allclose(state, VALUES["h"][:, rows].T)


def test_what_has_a_sign_has_colours_on_both_sides_of_white(drawn: Any) -> None:
    gate, state = (axes.images[0] for axes in drawn.axes if axes.images and axes.get_ylabel())
    assert gate.get_clim() == (0, 1)
    low, high = state.get_clim()
    assert low == -high
