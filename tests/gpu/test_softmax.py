"""The softmax's kernel against torch in float64: on the emulated GPU, and on a real one if there is one."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from throughtime.gpu import driver, softmax
from throughtime.gpu.elements import round_up_units
from throughtime.gpu.softmax import IGNORED, MAX_VECTORS, fits, softmax_

ROUNDING = {torch.float32: 1e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}
every_type = pytest.mark.parametrize("dtype", ROUNDING)


def examples(rows, words, dtype, device="cpu"):
    """Scores with rubbish past the words, as memory has it, and targets at both ends and between."""
    generator = torch.Generator().manual_seed(words)
    scores = 4 * torch.randn(rows, round_up_units(words), generator=generator)
    scores[:, words:] = 50.0
    targets = torch.randint(words, (rows, 1), generator=generator)
    targets[0], targets[-1] = 0, words - 1
    return scores.to(dtype).to(device), targets.to(device)


def expected(scores, targets, words, smoothing):
    exact = scores[:, :words].double().requires_grad_()
    losses = functional.cross_entropy(exact, targets[:, 0], label_smoothing=smoothing, reduction="sum")
    (errors,) = torch.autograd.grad(losses, exact)
    surprisals = functional.cross_entropy(exact, targets[:, 0], reduction="none").detach()
    return surprisals, exact.detach().gather(1, targets)[:, 0], errors


def assert_right(rows, words, dtype, smoothing, device="cpu"):
    scores, targets = examples(rows, words, dtype, device)
    surprisals, at_target, errors = expected(scores, targets, words, smoothing)
    untouched = scores.clone()
    judged = softmax_(scores, targets, words, smoothing, errors=False)
    assert torch.equal(scores, untouched)
    found = softmax_(scores, targets, words, smoothing, errors=True)
    for one in (judged, found):
        torch.testing.assert_close(one.surprisals.double(), surprisals, rtol=2e-6, atol=2e-6)
        torch.testing.assert_close(one.at_target.double(), at_target, rtol=0, atol=0)
    close = ROUNDING[dtype]
    torch.testing.assert_close(scores[:, :words].double(), errors, rtol=close, atol=close / 1000)
    assert scores[:, words:].eq(0).all()


@every_type
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("words", [1, 2, 7, 8, 13, 1151])
def test_surprisals_and_their_gradients_are_those_of_the_equation(words, smoothing, dtype, emulated):
    assert_right(3, words, dtype, smoothing)


@every_type
@pytest.mark.parametrize("missing", [0, 1])
def test_a_row_may_be_as_long_as_the_registers_hold(missing, dtype, emulated, monkeypatch):
    monkeypatch.setattr(softmax, "WARPS", (2,))
    longest = 2 * 32 * MAX_VECTORS * 16 // dtype.itemsize
    assert fits(longest, dtype)
    assert not fits(longest + 1, dtype)
    built, build = [], driver.build

    def watched(name, files, constants, device):
        built.append((constants["WARPS"], constants["VECTORS"]))
        return build(name, files, constants, device)

    monkeypatch.setattr(driver, "build", watched)
    assert_right(2, longest - missing, dtype, 0.1)
    assert set(built) == {(2, MAX_VECTORS)}


def test_what_no_kernel_knows_does_not_fit():
    assert fits(33_278, torch.float32)
    assert fits(70_000, torch.bfloat16)
    assert not fits(70_000, torch.float32)
    assert not fits(10, torch.float64)


@every_type
def test_far_scores_neither_overflow_nor_vanish(dtype, emulated):
    scores = torch.tensor([[3e4, -3e4, 0.0, 3e4] + 4 * [0.0]], dtype=dtype)
    for target, surprisal in ((0, 0.6931472), (1, 6e4 + 0.6931472)):
        found = softmax_(scores.clone(), torch.tensor([[target]]), 4, 0.0, errors=False)
        there = float(scores[0, 0] - scores[0, 1]) if target else 0.0
        assert float(found.surprisals) == pytest.approx(there + 0.6931472, rel=1e-6)
        assert float(found.surprisals) == pytest.approx(surprisal, rel=3e-2)


@every_type
@pytest.mark.parametrize("place", [0, 5, 200])
def test_a_bad_number_spoils_its_row_and_no_other(place, dtype, emulated):
    scores, targets = examples(3, 257, dtype)
    clean = softmax_(scores.clone(), targets, 257, 0.0, errors=False)
    scores[1, place] = float("nan")
    found = softmax_(scores, targets, 257, 0.0, errors=True)
    assert found.surprisals.isnan().tolist() == [False, True, False]
    assert torch.equal(found.surprisals[::2], clean.surprisals[::2])
    assert scores[1, :257].isnan().all()
    assert scores[::2].isfinite().all()


def test_targets_may_be_of_any_whole_type_and_lie_apart(emulated):
    scores, targets = examples(5, 13, torch.float32)
    expected = softmax_(scores.clone(), targets, 13, 0.0, errors=False)
    apart = torch.stack([targets, targets + 100], 1)[:, 0].to(torch.int32)
    found = softmax_(scores, apart, 13, 0.0, errors=False)
    assert torch.equal(found.surprisals, expected.surprisals)


@every_type
@pytest.mark.parametrize("words", [1, 13, 1151])
def test_rows_without_a_target_have_neither_surprisal_nor_gradient(words, dtype, emulated):
    scores, targets = examples(4, words, dtype)
    clean, untouched = scores.clone(), scores.clone()
    wanted = softmax_(clean, targets, words, 0.1, errors=True)
    ignored = torch.tensor([[False], [True], [True], [False]])
    scores[2] = float("nan")
    left_out = targets.masked_fill(ignored, IGNORED)
    found = softmax_(scores, left_out, words, 0.1, errors=True)
    zeros = ignored[:, 0].logical_not()
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other * zeros)
    assert torch.equal(scores, clean.masked_fill(ignored, 0.0))
    softmax_(untouched, left_out, words, 0.1, errors=False)
    assert torch.equal(untouched, examples(4, words, dtype)[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the emulated one is too slow")
@every_type
@pytest.mark.parametrize("words", [1, 300, 10_000, 33_278, 36_864])
def test_a_real_gpu_agrees(words, dtype):
    for smoothing in (0.0, 0.1):
        assert_right(200, words, dtype, smoothing, "cuda")
