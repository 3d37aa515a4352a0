"""Full, truncated and randomised back-propagation through time."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from torch import Tensor

import throughtime as tt
from throughtime.cells import CELLS, GRU, Cell
from throughtime.layers.stack import Stack
from throughtime.recurrence import scan
from throughtime.recurrence.backpropagation import Full, Randomised, Truncated, carries, scan_sliding

STEPS, BATCH = 11, 2


def made(name: str, steps: int = STEPS, batch: int = BATCH) -> tuple[Cell, Tensor, Tensor]:
    torch.manual_seed(3)
    cell = CELLS[name](3, 4).double()
    return cell, torch.randn(steps, batch, 3).double(), torch.randn(steps, batch, cell.output_size).double()


def gradients(cell: Cell, x: Tensor, target: Tensor, carry: Tensor | None) -> Tensor:
    loss = (scan(cell, x, carry=carry).outputs * target).sum()
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(cell.weights().values()))])


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("tau", [1, 3, 4])
def test_truncation_equals_chunks_with_a_carried_and_detached_state(name: str, tau: int) -> None:
    # R51
    cell, x, target = made(name)
    state, loss = None, torch.zeros((), dtype=torch.float64)
    for part, wanted in zip(x.split(tau), target.split(tau), strict=True):
        outputs, last = scan(cell, part, state)
        loss = loss + (outputs * wanted).sum()
        state = tuple(value.detach() for value in last)
    in_chunks = torch.autograd.grad(loss, list(cell.weights().values()))
    flat = torch.cat([part.flatten() for part in in_chunks])
    carry = carries(Truncated(tau), STEPS, BATCH, dtype=torch.float64)
    torch.testing.assert_close(gradients(cell, x, target, carry), flat, rtol=1e-9, atol=1e-9)
    if name != "rnn-relu":  # whose units may all be silent
        assert not torch.allclose(flat, gradients(cell, x, target, None))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("tau", [STEPS, STEPS + 1, 1000])
def test_a_tau_of_all_steps_or_more_is_full(name: str, tau: int) -> None:
    # R51
    cell, x, target = made(name)
    carry = carries(Truncated(tau), STEPS, BATCH, dtype=torch.float64)
    full = gradients(cell, x, target, carries(Full(), STEPS, BATCH))
    torch.testing.assert_close(gradients(cell, x, target, carry), full, rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=50)
@given(steps=st.integers(1, 40), tau=st.integers(1, 45), batch=st.integers(1, 3))
def test_cuts_lie_at_multiples_of_tau(steps: int, tau: int, batch: int) -> None:
    carry = carries(Truncated(tau), steps, batch)
    assert carry is not None
    cut = [t for t in range(steps) if (carry[t] == 0).all()]
    assert cut == list(range(tau, steps, tau))
    assert bool(((carry == 0) | (carry == 1)).all())


def test_xi_is_zero_or_one_over_pi_and_one_on_average() -> None:
    # R52
    pi = [0.1, 0.3, 0.9, 1.0]
    drawn = carries(Randomised(pi), 4, 100_000, dtype=torch.float64)
    assert drawn is not None
    for value, row in zip(pi, drawn, strict=True):
        assert row.unique().tolist() == pytest.approx([0, 1 / value] if value < 1 else [1])
        error = ((1 - value) / value / 100_000) ** 0.5
        assert abs(row.mean().item() - 1) <= 4 * error


def standard_scores(factor_of_a_kept_step: float | None) -> Tensor:
    """How many standard errors the mean of many randomised gradients lies from the full one, by weight."""
    draws, pi = 4000, 0.7
    torch.manual_seed(1)
    cell = CELLS["rnn"](2, 2).double()
    x, target = torch.randn(8, 1, 2).double(), torch.randn(8, 1, 2).double()
    full = gradients(cell, x, target, None)
    generator = torch.Generator().manual_seed(5)
    group, means = 20, []
    for _ in range(draws // group):
        carry = carries(Randomised(pi), 8, group, generator, dtype=torch.float64)
        assert carry is not None
        if factor_of_a_kept_step is not None:
            carry = torch.where(carry > 0, factor_of_a_kept_step, 0.0)
        means.append(gradients(cell, x.expand(-1, group, -1), target.expand(-1, group, -1), carry) / group)
    drawn = torch.stack(means)
    # Weights of the input's first step and biases of the last all vary: no error is 0.
    return (drawn.mean(0) - full) / (drawn.std(0) / len(drawn) ** 0.5)


def test_the_randomised_gradient_is_right_on_average() -> None:
    # R52
    assert float(standard_scores(None).abs().max()) < 3


def test_without_one_over_pi_it_would_be_wrong_and_be_seen() -> None:
    # R52
    assert float(standard_scores(1.0).abs().max()) > 10


def test_a_seed_means_the_same_draws_and_a_generator_goes_on() -> None:
    strategy = Randomised(0.5, seed=7)
    first, again = carries(strategy, 20, 3), carries(strategy, 20, 3)
    other = carries(Randomised(0.5, seed=8), 20, 3)
    assert first is not None
    assert again is not None
    assert other is not None
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    generator = strategy.generator()
    begun, followed = carries(strategy, 20, 3, generator), carries(strategy, 20, 3, generator)
    assert begun is not None
    assert followed is not None
    assert torch.equal(begun, first)
    assert not torch.equal(followed, first)


def test_other_bad_numbers_are_refused() -> None:
    with refuses("tau", "0", "1"):
        Truncated(0)
    with refuses("pi", "2", "3"):
        carries(Randomised([0.5, 0.5]), 3, 1)


@pytest.mark.parametrize("tau", [1, 3, 9, 20])
def test_a_sliding_truncation_ends_at_the_same_distance_for_every_step(tau: int) -> None:  # R51
    torch.manual_seed(0)
    cell = GRU(2, 3).double()
    x = torch.randn(9, 2, 2, dtype=torch.float64, requires_grad=True)
    state = tuple(part.double() for part in cell.initial_state(2))
    outputs = scan_sliding(partial(scan, cell), x, state, tau).outputs
    assert torch.allclose(outputs, scan(cell, x).outputs, atol=1e-12)
    for t in range(9):
        (reached,) = torch.autograd.grad(outputs[t].sum(), x, retain_graph=True)
        seen = [bool(step.any()) for step in reached]
        assert seen == [t - tau < s <= t for s in range(9)]


def test_a_sliding_truncation_of_the_whole_sequence_is_full_back_propagation() -> None:  # R51
    torch.manual_seed(0)
    stack = Stack("lstm", 2, 3, num_layers=2, initial="learned").double()
    x, weights = torch.randn(6, 2, 2, dtype=torch.float64), torch.randn(6, 2, 3, dtype=torch.float64)
    gradients = []
    for run in (lambda: stack(x)[0], lambda: scan_sliding(stack, x, stack.initial_state(2), 6).outputs):
        stack.zero_grad()
        (run() * weights).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in stack.parameters()])
    for full, sliding in zip(*gradients, strict=True):
        assert torch.allclose(full, sliding, rtol=1e-9, atol=1e-12)


def test_language_models_train_with_sliding_windows_and_one_pi_a_step() -> None:  # R51, R52
    lines = ["one two three four", "two three four five"] * 12
    tiny = {"epochs": 1, "batch_size": 2, "num_steps": 5, "hidden_size": 4, "progress": "none"}
    tiny |= {"input_dropout": 0, "output_dropout": 0, "weight_drop": 0}
    for how in (
        {"truncation": "sliding", "tau": 2},
        {"truncation": "randomised", "pi": [1, 0.9, 0.8, 0.7, 0.6]},
    ):
        model = tt.train("language", lines, **tiny, **how)
        assert math.isfinite(model.score("one two")[0].total)
    with refuses("pi", "2", "num_steps=5"):
        tt.train("language", lines, **tiny, truncation="randomised", pi=[0.5, 0.5])
    # A tau as long as the row is full back-propagation: the same weights.
    full = tt.train("language", lines, **tiny)
    sliding = tt.train("language", lines, **tiny, truncation="sliding", tau=5)
    for one, other in zip(full.model.parameters(), sliding.model.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)
