"""Clipping of the global norm."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from throughtime.fit.optimizers import clip_gradients


def with_gradients(scale: float, seed: int = 0) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((3, 5), (7,), ())]
    for parameter in parameters:
        parameter.grad = scale * torch.randn(parameter.shape, generator=generator)
    return [*parameters, torch.nn.Parameter(torch.zeros(2))]  # the last has no gradient


def flat(parameters: list[torch.nn.Parameter]) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])


@settings(max_examples=50, deadline=None)
@given(scale=st.floats(1e-3, 1e3), largest=st.floats(1e-2, 1e2), seed=st.integers(0, 99))
def test_it_is_the_formula_and_agrees_with_torch(scale, largest, seed):  # R44
    ours, theirs = with_gradients(scale, seed), with_gradients(scale, seed)
    before = flat(ours).clone()
    norm = clip_gradients(ours, largest)
    reference = torch.nn.utils.clip_grad_norm_(theirs, largest)
    assert torch.equal(norm, reference)
    # torch divides by |g| + 1e-6
    torch.testing.assert_close(flat(ours), flat(theirs), rtol=2e-6 / min(1.0, norm.item()) + 1e-6, atol=0)
    expected = min(1.0, largest / before.double().norm().item()) * before.double()
    torch.testing.assert_close(flat(ours).double(), expected, rtol=1e-6, atol=0)


def test_the_direction_is_kept_and_the_bound_reached():  # R44
    parameters = with_gradients(100.0)
    before = flat(parameters).clone()
    clip_gradients(parameters, 0.25)
    after = flat(parameters)
    assert after.norm().item() == pytest.approx(0.25)
    assert torch.cosine_similarity(before, after, dim=0).item() == pytest.approx(1.0)


@pytest.mark.parametrize("excess", [1.01, 1.25, 2.0])
def test_a_norm_a_little_above_the_bound_is_clipped_too(excess):  # R44
    parameters = with_gradients(1.0)
    bound = flat(parameters).norm().item() / excess
    clip_gradients(parameters, bound)
    assert flat(parameters).norm().item() == pytest.approx(bound)


def test_nothing_is_changed_below_the_bound():  # R44
    parameters = with_gradients(0.1)
    before = flat(parameters).clone()
    norm = clip_gradients(parameters, before.norm().item() * 1.001)
    assert torch.equal(flat(parameters), before)
    assert torch.equal(clip_gradients(parameters, norm.item()), norm)  # at the bound itself
    assert torch.equal(flat(parameters), before)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_norm_that_is_no_number_stays_visible(bad):
    parameters = with_gradients(1.0)
    parameters[1].grad[3] = bad
    assert not torch.isfinite(clip_gradients(parameters, 1.0))
    assert not torch.isfinite(flat(parameters)).all()


def test_zero_gradients_and_none_at_all():
    parameters = with_gradients(0.0)
    assert clip_gradients(parameters, 1.0).item() == 0
    assert torch.equal(flat(parameters), torch.zeros(23))
    assert clip_gradients([], 1.0).item() == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu_nothing_waits_for_the_host():
    parameters = [torch.nn.Parameter(torch.zeros(5, device="cuda")) for _ in range(3)]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 2.0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        norm = clip_gradients(parameters, 1.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert norm.is_cuda
    assert flat(parameters).norm().item() == pytest.approx(1.0)


def test_rows_of_an_embedding_are_clipped_as_the_whole_table():  # R44
    ids = torch.tensor([1, 4, 1])  # a word twice: its two gradients are one row
    grads = []
    for sparse in (False, True):
        torch.manual_seed(0)
        table, other = torch.nn.Embedding(6, 3, sparse=sparse), torch.nn.Parameter(torch.ones(2))
        (9 * table(ids).sin().sum() + other.sum()).backward()
        norm = clip_gradients([table.weight, other], 0.5)
        whole = table.weight.grad.to_dense() if sparse else table.weight.grad
        grads.append((norm, whole, other.grad))
    torch.testing.assert_close(grads[0], grads[1])
