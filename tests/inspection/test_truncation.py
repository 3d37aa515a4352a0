"""What a truncation costs and how wrong it is."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses

from throughtime.inspection.truncation import (
    Problem,
    SavedBytes,
    compare_strategies,
    cost,
    gradient,
    gradient_error,
    gradient_in_chunks,
    random_problem,
)
from throughtime.recurrence.backpropagation import Full, Randomised, Truncated, carries


@pytest.fixture(scope="module")
def problem() -> Problem:
    return random_problem("gru", 48, hidden=8, batch=3)


def test_chunks_give_the_truncated_gradient(problem: Problem) -> None:
    # R51
    whole = gradient(problem, carries(Truncated(10), 48, 3))
    torch.testing.assert_close(gradient_in_chunks(problem, 10)[0], whole, rtol=1e-4, atol=1e-6)


def test_truncation_is_biased_and_certain_randomising_unbiased_and_uncertain(problem: Problem) -> None:
    # R50, R51, R52
    full, cut, drawn = (
        gradient_error(problem, strategy, 640) for strategy in (Full(), Truncated(6), Randomised(0.8))
    )
    assert full.bias == full.deviation == 0
    assert cut.bias > 0.1
    assert cut.deviation == 0
    assert drawn.deviation > 0.1
    # The norm of a mean of n draws around 0 is about one standard error.
    assert drawn.bias < 3 * drawn.chance < cut.bias


def test_full_memory_grows_with_the_steps_and_truncated_memory_does_not(problem: Problem) -> None:
    # R50
    full = [cost(problem.first(steps), Full(), 1) for steps in (12, 24, 48)]
    cut = [cost(problem.first(steps), Truncated(12), 1) for steps in (12, 24, 48)]
    assert full[1].saved == pytest.approx(2 * full[0].saved, rel=0.1)
    assert full[2].saved == pytest.approx(4 * full[0].saved, rel=0.1)
    assert cut[2].saved == pytest.approx(cut[0].saved, rel=0.1)
    assert all(part.seconds > 0 for part in full + cut)


def test_the_comparison_has_all_three_against_the_length(problem: Problem) -> None:
    rows = compare_strategies(problem, tau=12, pi=0.9, draws=64)
    assert [row.name for row in rows] == ["full", "truncated", "randomised"]
    assert [part.steps for part in rows[0].growth] == [12, 24, 36, 48]  # R50
    assert rows[0].error.bias == 0


def test_weights_and_inputs_are_not_counted_as_saved(problem: Problem) -> None:
    weight = problem.cell.weights()["weight_ih"]
    with SavedBytes(problem) as saved:
        product = problem.x @ weight.T
        _ = product.tanh()
    assert saved.bytes == product.numel() * 4


def test_too_few_draws_are_refused(problem: Problem) -> None:
    with refuses("draws", "10", "64"):
        gradient_error(problem, Randomised(0.9), 10)
