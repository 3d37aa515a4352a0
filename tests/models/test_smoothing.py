"""Label smoothing, by torch's cross entropy."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch.nn import functional

from throughtime.models.heads import IGNORED, SoftmaxHead
from throughtime.models.other_heads import AdaptiveHead


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("chunk", [None, 1, 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_both_sums_and_all_gradients_are_right(bias, chunk, smoothing):
    torch.manual_seed(0)
    head = SoftmaxHead(5, 11, bias=bias, chunk=chunk).double()
    if bias:
        torch.nn.init.normal_(head.bias)
    hidden = torch.randn(8, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([3, 0, IGNORED, 10, 3, IGNORED, 7, 1])
    inputs = [hidden, *head.parameters()]
    logits = functional.linear(hidden, head.weight, head.bias)
    expected = functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    found = head.smoothed_loss(hidden, labels, smoothing)
    torch.testing.assert_close(found.smoothed, expected)
    torch.testing.assert_close(found.surprisal, functional.cross_entropy(logits, labels, reduction="sum"))
    assert not found.surprisal.requires_grad
    torch.testing.assert_close(
        torch.autograd.grad(3 * found.smoothed, inputs), torch.autograd.grad(3 * expected, inputs)
    )
    with torch.no_grad():
        torch.testing.assert_close(head.smoothed_loss(hidden, labels, smoothing).smoothed, expected.detach())


def test_bf16_products_lose_little():
    torch.manual_seed(0)
    head = SoftmaxHead(64, 300)
    hidden, labels = torch.randn(40, 64, requires_grad=True), torch.randint(300, (40,))
    exact = head.smoothed_loss(hidden, labels, 0.1).smoothed
    gradient = torch.autograd.grad(exact, head.weight)[0]
    with torch.autocast("cpu", torch.bfloat16):
        rough = head.smoothed_loss(hidden, labels, 0.1).smoothed
    torch.testing.assert_close(rough, exact, rtol=2e-2, atol=0)
    error = torch.autograd.grad(rough, head.weight)[0] - gradient
    assert error.norm() < 2e-2 * gradient.norm()


def test_a_head_without_it_says_so():
    with refuses("label_smoothing", "0.1", "AdaptiveHead"):
        AdaptiveHead(64, 300).smoothed_loss(torch.randn(2, 64), torch.tensor([1, 2]), 0.1)
