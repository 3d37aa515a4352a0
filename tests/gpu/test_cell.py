"""One step of a cell in a kernel against its equations: on the emulated GPU, and on a real one."""

from __future__ import annotations

import pytest
import torch

from throughtime.cells.gru import GRU
from throughtime.cells.lstm import LSTM
from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu import cell, driver

KINDS = [GRU, LSTM]
ROUNDING = {
    torch.float32: 2e-6,
    torch.bfloat16: 2e-6,
    torch.float16: 2e-6,
}  # of the state, not of the products
every_cell = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def emulated_cell(emulated, monkeypatch):
    """The kernel runs on a GPU that is none."""
    monkeypatch.setattr(driver, "unavailable", lambda device: None)
    cell._prepare_kernel.cache_clear()
    yield
    cell._prepare_kernel.cache_clear()


def example(kind, rows, units, dtype, device="cpu"):
    """A cell in float64, both products, and a state."""
    source = torch.Generator().manual_seed(rows * units)
    own = kind(3, units).double().to(device)
    if kind is GRU:
        with torch.no_grad():
            own.bias_hn.copy_(torch.randn(units, generator=source))
    width = len(own.gates) * units
    products = [torch.randn(rows, width, generator=source).to(dtype).to(device) for _ in range(2)]
    state = tuple(torch.randn(rows, units, generator=source).to(device) for _ in own.state_sizes)
    return own, products, state


def expected(own, products, state):
    """What the cell says, if its products were these."""
    from_input, from_state = (part.double() for part in products)
    units = own.hidden_size
    if len(state) == 2:
        i, f, g, o = (from_input + from_state).chunk(4, dim=1)
        c = f.sigmoid() * state[1].double() + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    r, z = (from_input + from_state)[:, : 2 * units].sigmoid().chunk(2, dim=1)
    n = (from_input[:, 2 * units :] + r * (from_state[:, 2 * units :] + own.bias_hn)).tanh()
    return ((1 - z) * n + z * state[0].double(),)


def check(kind, rows, units, dtype, device="cpu"):
    own, products, state = example(kind, rows, units, dtype, device)
    bias = own.bias_hn.detach().float() if kind is GRU else None
    found = cell.compute_next(*products, state, bias)
    for part, exact in zip(found, expected(own, products, state), strict=True):
        torch.testing.assert_close(part.double(), exact, rtol=0, atol=ROUNDING[dtype])


@every_cell
@pytest.mark.parametrize("dtype", ROUNDING)
def test_the_kernel_computes_the_equations(kind, dtype, emulated_cell):
    for rows, units in ((1, 2), (3, 6), (5, 130)):
        check(kind, rows, units, dtype)


@every_cell
def test_what_does_not_fit_is_left_to_torch(kind, emulated_cell):
    own, (first, second), state = example(kind, 3, 6, torch.float32)
    bias = own.bias_hn.detach().float() if kind is GRU else None
    assert cell.compute_next(first, second, state, bias) is not None
    wide = tuple(part.double() for part in state)
    assert cell.compute_next(first, second, wide, bias) is None
    assert cell.compute_next(first, second.bfloat16(), state, bias) is None
    assert cell.compute_next(first.double(), second.double(), state, bias) is None
    assert cell.compute_next(first.T.contiguous().T, second, state, bias) is None
    _, products, state = example(kind, 3, 5, torch.float32)
    assert cell.compute_next(*products, state) is None


def test_without_a_compiler_torch_computes_it(emulated_cell, monkeypatch):
    def fail(*given, **options):
        raise ThroughtimeError("a GPU kernel did not compile")

    monkeypatch.setattr(driver, "build", fail)
    _, products, state = example(LSTM, 3, 6, torch.float32)
    with pytest.warns(ThroughtimeWarning):
        assert cell.compute_next(*products, state) is None
    assert cell.compute_next(*products, state) is None  # which was said once


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the emulated one is too slow")
@every_cell
@pytest.mark.parametrize("dtype", ROUNDING)
def test_a_real_gpu_agrees(kind, dtype):
    for rows, units in ((1, 2), (7, 94), (320, 512)):
        check(kind, rows, units, dtype, "cuda")
    own = kind(8, 16).cuda().eval()
    x, state = torch.randn(5, 8, device="cuda"), own.initial_state(5)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=dtype == torch.bfloat16):
        for _ in range(3):
            found = own.step_from(x, state)
            for part, exact in zip(found, own.step(own.project(x), state), strict=True):
                torch.testing.assert_close(
                    part, exact.float(), rtol=0, atol=1e-4 if x.dtype == dtype else 2e-2
                )
            state = found
