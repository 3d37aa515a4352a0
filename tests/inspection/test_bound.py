"""How far a step of descent can change a loss."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from throughtime.inspection.descent_bound import descent_bound


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
