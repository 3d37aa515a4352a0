"""How far the first input is from the last output, and what the way costs: theory against the layers."""

from __future__ import annotations

import pytest
import torch
from benchmarks.complexity import ORDERS, Attention, Convolution, exponent, kept_bytes, layers, theory
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from throughtime.cells import RNN
from throughtime.recurrence import scan
from throughtime.recurrence.associative import scan_linear

WIDTH = 4


def reaches(layer: nn.Module, n: int, depth: int) -> list[bool]:
    """Which of n inputs the last output of `depth` such layers depends on, by its gradient."""
    x = torch.randn(n, 1, WIDTH, requires_grad=True)
    y = x
    for _ in range(depth):
        y = layer(y)
    y[-1].sum().backward()
    assert x.grad is not None
    return [bool(step) for step in x.grad.abs().sum(dim=(1, 2)) > 0]


def test_x1_and_x5_lie_inside_the_receptive_field_of_two_layers_with_kernel_3() -> None:  # R103
    convolution = Convolution(WIDTH, 3)
    assert reaches(convolution, 5, depth=2) == [True] * 5
    assert reaches(convolution, 5, depth=1) == [False, False, True, True, True]
    assert reaches(convolution, 6, depth=2) == [False] + [True] * 5
    assert theory("convolution", 5, k=3).path == 2


@pytest.mark.parametrize(("n", "kernel"), [(5, 3), (6, 3), (9, 3), (9, 2), (13, 5), (2, 7)])
def test_a_convolution_needs_the_layers_that_theory_says(n: int, kernel: int) -> None:  # R103
    depth = theory("convolution", n, k=kernel).path
    convolution = Convolution(WIDTH, kernel)
    assert reaches(convolution, n, depth)[0]
    assert not reaches(convolution, n, depth - 1)[0]


def test_attention_reaches_everything_in_one_layer() -> None:  # R103
    assert theory("self-attention", 40).path == 1
    assert all(reaches(Attention(WIDTH), 40, depth=1))


@pytest.mark.parametrize("n", [2, 5, 17])
def test_a_recurrence_takes_one_step_after_the_other(n: int) -> None:  # R103
    # Cutting any one of the n - 1 links between the n steps cuts the last output off from the first input.
    cell = RNN(2, 3)

    def reached(carry: Tensor) -> bool:
        x = torch.ones(n, 1, 2, requires_grad=True)
        scan(cell, x, carry=carry).outputs[-1].sum().backward()
        assert x.grad is not None
        return bool(x.grad[0].any())

    whole = torch.ones(n, 1)
    assert reached(whole)
    links = [step for step in range(1, n) if not reached(whole.index_fill(0, torch.tensor(step), 0.0))]
    assert 1 + len(links) == theory("recurrence", n).path == n


@pytest.mark.parametrize("n", [1, 63, 64, 100, 1000, 5000])
def test_the_parallel_recurrence_makes_as_many_calls_as_theory_says(n: int) -> None:  # R103
    calls = []

    class Counting(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
            calls.append(function is torch.addcmul)
            return function(*arguments, **(options or {}))

    with Counting():
        scan_linear(torch.rand(n, 1, 1), torch.rand(n, 1, 1), torch.zeros(1, 1), torch.empty(n, 1, 1))
    assert sum(calls) == theory("parallel recurrence", n).sequential


def test_the_theory_in_numbers() -> None:  # R103
    n, d, k = 1000, 64, 3
    assert {name: theory(name, n, d, k) for name in ORDERS} == {
        "convolution": (12_288_000, 1, 500),
        "recurrence": (4_096_000, 1000, 1000),
        "parallel recurrence": (4_096_000, 100, 100),
        "self-attention": (64_000_000, 1, 1),
    }
    # Attention costs less than a recurrence as long as the sequence is shorter than the layer is wide.
    assert theory("self-attention", d, d).operations == theory("recurrence", d, d).operations
    assert theory("parallel recurrence", 10**6).sequential < 250


def test_measured_memory_grows_as_theory_says() -> None:  # R103
    torch.manual_seed(0)
    lengths = (2048, 4096)
    for name, (_, layer) in layers().items():
        grows = exponent(lengths, [kept_bytes(layer, n) for n in lengths])
        assert grows == pytest.approx(2 if name == "self-attention" else 1, abs=0.15), name


def test_the_exponent_of_a_power_is_found() -> None:
    lengths = (1, 2, 4, 8, 16)
    assert exponent(lengths, [9.0] + [3 * n**1.5 for n in lengths[1:]]) == pytest.approx(1.5)
