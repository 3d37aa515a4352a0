"""What layers and cells cost: theory against measurement, and the commands that show both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.refusals import refuses
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from throughtime.cells import RNN
from throughtime.inspection.cost import (
    COMPARED_CELLS,
    ORDERS,
    CellCost,
    Convolution,
    SelfAttention,
    build_layers,
    compare_cells,
    count_kept_bytes,
    fit_exponent,
    measure_layers,
    theory,
)
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
    assert all(reaches(SelfAttention(WIDTH), 40, depth=1))


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
    for name, (_, layer) in build_layers().items():
        grows = fit_exponent(lengths, [count_kept_bytes(layer, n) for n in lengths])
        assert grows == pytest.approx(2 if name == "self-attention" else 1, abs=0.15), name


def test_the_exponent_of_a_power_is_found() -> None:
    lengths = (1, 2, 4, 8, 16)
    assert fit_exponent(lengths, [9.0] + [3 * n**1.5 for n in lengths[1:]]) == pytest.approx(1.5)


def test_growth_needs_two_lengths() -> None:
    with refuses("lengths", "1", "2"):
        measure_layers((64,))


@pytest.fixture(scope="module")
def cells() -> dict[str, CellCost]:
    """Weights and memory at the sizes of the documented table, speed at a tiny one."""
    return dict(compare_cells(steps=2, batch_size=1, repetitions=1))


def test_lstm_against_gru_has_its_counts(cells: dict[str, CellCost]) -> None:  # R61
    lstm, gru, before = (cells[name] for name in ("lstm", "gru", "gru-before"))
    h = 256
    assert (lstm.weights, lstm.biases) == (4 * h * (h + h), 4 * h)
    # 3/4 but for biases: with the reset after the product, the bias of the candidate's state stands alone.
    assert gru.weights == before.weights == lstm.weights * 3 // 4
    assert (gru.biases, before.biases) == (3 * h + h, 3 * h)


def test_gates_that_keep_the_state_remember_longer(cells: dict[str, CellCost]) -> None:  # R61
    for one in (cells[name] for name in COMPARED_CELLS):
        assert one.left < 1e-20
        assert one.left_when_kept is not None
        assert one.left_when_kept > 1e-2
        assert one.milliseconds > 0


def test_a_cell_without_such_a_gate_shows_none() -> None:
    found = compare_cells(["rnn"], steps=1, batch_size=1, hidden_size=2, repetitions=1, lag=2)
    assert found["rnn"].left_when_kept is None


def test_inspect_cells_and_cost_print_one_object(throughtime: Callable[..., Any], tmp_path: Path) -> None:
    tiny = "--hidden-size 3 --steps 2 --repetitions 1 --lag 3 --json".split()
    values = throughtime("inspect", "cells", "--cell", "rnn", "--cell", "lstm", *tiny).json
    assert list(values["cells"]) == ["rnn", "lstm"]
    assert values["cells"]["lstm"]["weights"] == 4 * 3 * 6
    plot = tmp_path / "cost.png"
    sizes = ("--longest", 300, "--width", 4, "--plot", plot)
    values = throughtime("inspect", "cost", *sizes, "--json").json
    assert values["lengths"] == [128, 256]
    assert values["layers"]["self-attention"]["operations"] == 256 * 256 * 4
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("cells --cell lstn", "lstn"),
        ("cells --steps 0", "--steps"),
        ("cost --longest 200", "--longest"),
        ("cost --plot c.foo", "c.foo"),
    ],
)
def test_bad_options_are_refused_before_measuring(
    words: str, named: str, throughtime: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("throughtime.inspection.cost._time_training", lambda *_: pytest.fail("measured"))
    done = throughtime("inspect", *words.split())
    assert done.code == 2
    assert named in done.err
