"""One whole step of a cell, which a GPU may compute in fewer kernels and a CPU in place."""

from __future__ import annotations

import pytest
import torch

from throughtime.cells import CELLS
from throughtime.cells.gru import GRU
from throughtime.recurrence.steps import MIN_ALIKE, AlikeRows, tanh_by_sigmoid_

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
    ),
]


class Inverted(GRU):
    """A cell of one's own, with equations of its own."""

    def step(self, projected, state):
        return tuple(-part for part in super().step(projected, state))


def both(cell, x, state):
    with torch.no_grad():
        return cell.step_from(x, state), cell.step(cell.project(x[None])[0], state)


def examples(cell, device, dtype):
    torch.manual_seed(0)
    x = torch.randn(5, cell.input_size, device=device, dtype=dtype)
    return x, tuple(torch.randn(5, size, device=device, dtype=dtype) for size in cell.state_sizes)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*CELLS, "own"])
def test_it_is_a_projection_and_a_step(name, device):
    cell = (Inverted if name == "own" else CELLS[name])(6, 8).to(device, torch.float64)
    found, expected = both(cell, *examples(cell, device, torch.float64))
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_weights_may_be_replaced_and_gradients_flow(name, device):
    cell = CELLS[name](6, 8).to(device, torch.float64)
    x, state = examples(cell, device, torch.float64)
    cell.step_from(x, state)[0].sum().backward()
    assert all(weight.grad is not None for weight in cell.parameters())
    with cell.replacing({name: 2 * weight for name, weight in cell.weights().items()}):
        found, expected = both(cell, x, state)
    torch.testing.assert_close(found[0], expected[0])


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_a_step_in_place_leaves_its_inputs_alone(name):  # R114
    cell = CELLS[name](6, 8)
    x, state = examples(cell, "cpu", torch.float32)
    before = [part.clone() for part in (x, *state)]
    with torch.inference_mode():
        cell.step_from(x, state)
    assert all(map(torch.equal, (x, *state), before))


@pytest.mark.parametrize("tokens", [5, MIN_ALIKE])  # many rows are alike, or few
@pytest.mark.parametrize("columns", [4, 6])
@pytest.mark.parametrize("name", [*CELLS])
def test_rows_that_are_alike_are_projected_once(name, columns, tokens, monkeypatch):  # R114
    torch.manual_seed(0)
    cell = CELLS[name](6, 8).double()
    ids = torch.arange(MIN_ALIKE + 3) * 7 % tokens
    x = torch.randn(len(ids), 6, dtype=torch.float64)
    x[:, :columns] = torch.randn(tokens, columns, dtype=torch.float64)[ids]
    state = tuple(torch.randn(len(ids), size, dtype=torch.float64) for size in cell.state_sizes)
    expected = cell.step_from(x, state)
    if cell.equations in ("gru", "lstm") and tokens == 5 and getattr(cell, "reset", "after") == "after":
        monkeypatch.setattr(cell, "project", None)  # the whole product is not computed
    with torch.inference_mode():
        found = cell.step_from(x, state, AlikeRows(ids, columns))
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_the_state_keeps_its_precision_in_bf16(name, device):
    cell = CELLS[name](6, 8).to(device)
    with torch.autocast(device, torch.bfloat16):
        found, expected = both(cell, *examples(cell, device, torch.float32))
    for own, other in zip(found, expected, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own, other, rtol=0.02, atol=0.02, check_dtype=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tanh_in_16_bits_is_torchs(dtype):
    x = torch.linspace(-6, 6, 4_001).to(dtype)
    assert torch.equal(tanh_by_sigmoid_(x.clone()), torch.tanh(x))


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_states_may_be_mapped_over(name):
    cell, x = CELLS[name](6, 8).double(), torch.randn(5, 6, dtype=torch.float64)
    states = tuple(torch.randn(3, 5, size, dtype=torch.float64) for size in cell.state_sizes)
    with torch.no_grad():
        found = torch.vmap(lambda *state: cell.step_from(x, state))(*states)
        for number in range(3):
            expected = cell.step_from(x, tuple(part[number] for part in states))
            for own, other in zip(found, expected, strict=True):
                torch.testing.assert_close(own[number], other)


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("columns", [32, 48])  # outputs are fed to the rest, or there is none
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_in_bf16_a_row_does_not_depend_on_its_companions(name, columns, autocast):
    torch.manual_seed(0)
    cell, rows, ids = CELLS[name](48, 64), 80, torch.arange(80) % 5
    cell = cell if autocast else cell.bfloat16()
    x = torch.randn(rows, 48).bfloat16()
    x[:, :columns] = x[:5, :columns].repeat(16, 1)
    state = tuple(torch.randn(rows, size).to(cell.bias.dtype) for size in cell.state_sizes)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        together = cell.step_from(x, state, AlikeRows(ids, columns))
        each = [slice(row, row + 1) for row in range(rows)]
        alone = [cell.step_from(x[one], tuple(part[one] for part in state)) for one in each]
    for own, others in zip(together, zip(*alone, strict=True), strict=True):
        # Sums of another order may be rounded differently, but seldom are.
        assert torch.isclose(own, torch.cat(others), rtol=1e-5, atol=1e-6).float().mean() > 0.98
