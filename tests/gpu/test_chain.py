"""The kernels of the chain of tags against torch in float64: on the emulated GPU, and on a real one."""

from __future__ import annotations

import pytest
import torch

from throughtime.gpu import chain
from throughtime.gpu.chain import ChainSurprisals
from throughtime.layers.crf import LinearChain

INFINITY = float("inf")


def draw(steps, lengths, tags, device="cpu", spread=2.0):
    """A chain with weights, scores and tags; past the end of a row there is rubbish, as memory has it."""
    source = torch.Generator().manual_seed(100 * tags + steps)
    rows = len(lengths)
    own = LinearChain(tags)
    with torch.no_grad():
        for weight in own.parameters():
            weight.normal_(generator=source).mul_(spread)
    scores = spread * torch.randn(steps, rows, tags, generator=source)
    path = torch.randint(tags, (steps, rows), generator=source)
    outer = torch.randn(rows, generator=source)
    past = torch.arange(steps)[:, None] >= torch.tensor(lengths)
    scores[past] = 1e30
    parts = scores, path, torch.tensor(lengths), outer
    return own.to(device), [part.to(device) for part in parts]


def by_torch(own, scores, path, lengths, outer):
    """The surprisals and all gradients by the equations, in float64."""
    exact = LinearChain(len(own.first)).to(scores.device).double()
    exact.load_state_dict(own.state_dict())
    inside = torch.arange(len(scores), device=scores.device)[:, None, None] < lengths[None, :, None]
    given = torch.where(inside, scores, 0.0).double().requires_grad_()
    found = exact.log_partition(given, lengths) - exact.score(given, path, lengths)
    found = torch.where(lengths > 0, found, 0.0)
    weights = [given, exact.transitions, exact.first, exact.last]
    return found.detach(), torch.autograd.grad((found * outer).sum(), weights)


def by_kernels(own, scores, path, lengths, outer):
    given = scores.clone().requires_grad_()
    ends = torch.stack([own.first, own.last])
    found = ChainSurprisals.apply(given, path, lengths, own.transitions, ends)
    weights = [given, own.transitions, own.first, own.last]
    return found.detach(), torch.autograd.grad((found * outer).sum(), weights)


def assert_right(steps, lengths, tags, device="cpu", spread=2.0):
    own, parts = draw(steps, lengths, tags, device, spread)
    (wanted, gradients), (found, own_gradients) = by_torch(own, *parts), by_kernels(own, *parts)
    rounding = 1e-6 * spread * max(steps, 10)  # of a sum of all scores, whose exponential a gradient is
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=rounding)
    torch.testing.assert_close(own_gradients[0].double(), gradients[0], rtol=1e-4, atol=rounding)
    for one, other in zip(own_gradients[1:], gradients[1:], strict=True):  # sums over all rows and steps
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=10 * rounding)


@pytest.mark.parametrize("tags", [1, 5, 32, 33, 70])
def test_surprisals_and_gradients_are_those_of_the_equations(tags, emulated):
    assert_right(6, [6, 1, 4, 0, 2], tags)


@pytest.mark.parametrize("steps", [1, 2, 40])
def test_rows_of_any_length(steps, emulated):
    assert_right(steps, [steps, 0, 1], 4)


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_block_takes_several_rows(blocks, emulated, monkeypatch):
    monkeypatch.setattr(chain, "MAX_COUNTS", blocks * 5**2)
    assert_right(4, [4, 2, 0, 3, 1, 4, 4], 5)


def test_more_tags_than_threads(emulated, monkeypatch):
    monkeypatch.setattr(chain, "MAX_WARPS", 1)
    assert_right(3, [3, 2], 70)


def test_far_scores_neither_overflow_nor_vanish(emulated):
    assert_right(5, [5, 3], 4, spread=200.0)


def test_a_transition_that_cannot_happen(emulated):
    own, parts = draw(5, [5, 4], 4)
    parts[1] %= 2
    with torch.no_grad():
        own.transitions[2, :] = -INFINITY  # no tag follows the third, so it can only be the last
    (wanted, gradients), (found, own_gradients) = by_torch(own, *parts), by_kernels(own, *parts)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)
    for one, other in zip(own_gradients, gradients, strict=True):
        torch.testing.assert_close(one.double(), other.nan_to_num(), rtol=1e-4, atol=2e-5)


def test_a_bad_number_spoils_its_row_and_no_other(emulated):
    own, parts = draw(4, [4, 4, 4], 5)
    clean, _ = by_kernels(own, *parts)
    parts[0][2, 1, 3] = float("nan")
    found, (into_scores, *_) = by_kernels(own, *parts)
    assert found.isnan().tolist() == [False, True, False]
    assert torch.equal(found[::2], clean[::2])
    assert into_scores[:, ::2].isfinite().all()


def test_tags_may_be_of_any_whole_type_and_lie_apart(emulated):
    own, (scores, path, lengths, outer) = draw(4, [4, 2, 3], 5)
    wanted, _ = by_kernels(own, scores, path, lengths, outer)
    apart = torch.stack([path, path + 100], -1)[..., 0].to(torch.int32)
    turned = scores.transpose(0, 2).contiguous().transpose(0, 2)
    found, _ = by_kernels(own, turned, apart, lengths.to(torch.int32), outer)
    assert torch.equal(found, wanted)


def test_the_layer_gives_the_kernels_all_that_it_scores(emulated, monkeypatch):
    own, (scores, path, lengths, _) = draw(4, [4, 2, 0], 5)
    inside = torch.arange(4)[:, None, None] < lengths[None, :, None]
    scores = torch.where(inside, scores, 0.0)
    wanted = own.surprisals(scores, path, lengths)
    expected = torch.autograd.grad(wanted.sum(), list(own.parameters()))
    monkeypatch.setattr("throughtime.gpu.chain.has_kernels", lambda scores: True)
    found = own.surprisals(scores, path, lengths)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    gradients = torch.autograd.grad(found.sum(), list(own.parameters()))
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the emulated one is too slow")
@pytest.mark.parametrize("tags", [1, 17, 72, 200])
def test_a_real_gpu_agrees(tags):
    lengths = [*range(30), 30, 30]
    assert_right(30, lengths, tags, "cuda")
    own, (scores, path, sizes, _) = draw(30, lengths, tags, "cuda")
    judged = own.surprisals(scores.bfloat16(), path, sizes)  # as autocast has them
    assert judged.dtype == torch.float32
    assert torch.equal(judged, own.surprisals(scores.bfloat16().float(), path, sizes))
