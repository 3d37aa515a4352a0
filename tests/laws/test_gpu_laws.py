"""The laws on a GPU: what serves there equals the reference, with lengths on either side."""

from __future__ import annotations

import pytest
import torch

from throughtime.cells import CELLS
from throughtime.recurrence import BACKENDS, scan

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")

LENGTHS = {
    "full": None,
    "ragged": torch.tensor([33, 1, 0, 20, 7]),
}


@pytest.fixture(autouse=True)
def exact_products(monkeypatch, allow_tf32):
    allow_tf32(False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


TOLERANCE = {torch.float64: (1e-9, 1e-10), torch.float32: (1e-4, 1e-4)}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("lengths_on", ["cpu", "cuda"])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", CELLS)
def test_every_backend_equals_the_reference_on_a_gpu(name, lengths, lengths_on, dtype):  # law 1, R105
    torch.manual_seed(0)
    cell = CELLS[name](12, 16).to("cuda", dtype)
    x = torch.randn(33, 5, 12, device="cuda", dtype=dtype, requires_grad=True)
    rows = None if LENGTHS[lengths] is None else LENGTHS[lengths].to(lengths_on)

    def everything(backend):
        outputs, state = scan(cell, x, None, rows, backend=backend)
        loss = outputs.square().sum() + sum(part.sum() for part in state)
        return [outputs, *state, *torch.autograd.grad(loss, [x, *cell.parameters()])]

    expected = everything("reference")
    for backend in (*BACKENDS, "auto"):
        if backend == "auto" or BACKENDS[backend].refuses(cell, x, rows, None) is None:
            for ours, theirs in zip(everything(backend), expected, strict=True):
                relative, floor = TOLERANCE[dtype]
                torch.testing.assert_close(
                    ours, theirs, rtol=relative, atol=floor * max(1.0, float(theirs.detach().abs().max()))
                )
