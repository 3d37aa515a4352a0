"""The steps of a decoder against torch in float64: on the emulated GPU, and on a real one if there is one."""

from __future__ import annotations

import pytest
import torch

from throughtime.kernels import decoder
from throughtime.kernels.elements import KINDS
from throughtime.models.gate_steps import GRUGates

ROUNDING = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
every_type = pytest.mark.parametrize("dtype", ROUNDING)
LENGTHS = [5, 0, 3]


class Example:
    """A step of attention, with rubbish where nothing must be read, and its gradients by autograd."""

    def __init__(self, dtype, places, size, width, shown, lengths, device="cpu"):
        generator, rows = torch.Generator().manual_seed(places), len(lengths)

        def draw(*shape, dtype=dtype):
            return torch.randn(*shape, generator=generator).to(dtype).to(device)

        self.query, self.sums = draw(rows, size + 6)[:, 4 : 4 + size], draw(rows, width + 2)[:, :width]
        self.keys, self.values = draw(rows, places, size, dtype=torch.float32), draw(rows, places, width)
        self.energy = draw(size, dtype=torch.float32)
        past = torch.arange(places)[None] >= torch.tensor(lengths)[:, None]
        self.hidden = (past * torch.finfo(torch.float32).min).to(device)
        self.shown = draw(rows, width) if shown else None
        self.from_shown, self.too = (draw(rows, width) if shown else None for _ in range(2))
        self.from_weights = draw(rows, places, dtype=torch.float32)
        self.given = draw(rows, width)  # the gradient of the sums, if nothing is shown
        self.gradients = draw(rows, size + width + 2)
        self.before = {"into_keys": draw(rows, places, size, dtype=torch.float32)}
        self.before["into_energy"] = draw(rows, size, dtype=torch.float32)

    def expected(self):
        names = ("query", "keys", "values", "energy", "sums")
        exact = {name: getattr(self, name).double().requires_grad_() for name in names}
        seen = (exact["query"][:, None] + exact["keys"]).sigmoid() @ exact["energy"]
        weights = torch.softmax(seen + self.hidden, 1) * (self.hidden == 0)
        sums = exact["sums"] + torch.einsum("bt,btv->bv", weights, exact["values"])
        loss = (weights * self.from_weights).sum()
        if self.shown is None:
            loss = loss + (sums * self.given).sum()
        else:
            loss = loss + (sums.tanh() * (self.from_shown.double() + self.too)).sum()
        wanted = dict(zip(exact, torch.autograd.grad(loss, list(exact.values())), strict=True))
        return weights.detach(), sums.detach(), wanted


def assert_close(found, wanted, dtype, floor=1e-3):
    scale = float(wanted.abs().max()) + floor
    torch.testing.assert_close(found.double(), wanted, rtol=ROUNDING[dtype], atol=ROUNDING[dtype] * scale)


def assert_attends(dtype, places, size, width, shown, lengths, device="cpu"):
    one = Example(dtype, places, size, width, shown, lengths, device)
    weights, sums, wanted = one.expected()
    found = torch.full_like(one.hidden, torch.nan)
    decoder.attend(one.query, one.keys, one.values, one.energy, one.hidden, found, one.sums, one.shown)
    assert_close(found, weights, torch.float32)
    assert found[one.hidden != 0].eq(0).all()
    assert_close(one.sums, sums, dtype)
    if shown:
        assert_close(one.shown, sums.tanh(), dtype)
    into_query, into_sums = one.gradients[:, :size], one.gradients[:, size : size + width]
    into_sums.copy_(1 - one.shown.square() if shown else one.given)
    untouched = one.gradients[:, size + width :].clone()
    added = {name: start.clone() for name, start in one.before.items()}
    decoder.attend_backward(
        *(one.query, one.keys, one.values, one.energy, found),
        (one.from_shown, one.too) if shown else None,
        *(one.from_weights, into_sums, into_query, added["into_keys"], added["into_energy"]),
    )
    assert torch.equal(one.gradients[:, size + width :], untouched)
    assert_close(into_sums, wanted["sums"], dtype)
    assert_close(into_query, wanted["query"], dtype)
    # The sums that these build on were rounded only where they are shown. They were added to numbers near 1.
    close = dtype if shown else torch.float32
    into_keys, into_energy = (added[name] - start for name, start in one.before.items())
    assert_close(into_keys * one.energy, wanted["keys"], close, floor=1.0)
    assert_close(into_energy.sum(0), wanted["energy"], close, floor=1.0)


@every_type
@pytest.mark.parametrize(
    ("places", "size", "width", "shown"), [(5, 8, 140, True), (11, 134, 6, False), (1, 2, 2, True)]
)
def test_attention_and_its_gradients_are_those_of_the_equation(
    places, size, width, shown, dtype, emulated_decoder
):
    lengths = [min(length, places) for length in LENGTHS]
    assert_attends(dtype, places, size, width, shown, lengths)


def test_gradients_that_are_missing_are_zero(emulated_decoder):
    one = Example(torch.float32, 4, 6, 4, True, [4, 2])
    one.from_weights, one.too = torch.zeros_like(one.from_weights), torch.zeros_like(one.too)
    _, _, wanted = one.expected()
    weights = torch.empty_like(one.hidden)
    decoder.attend(one.query, one.keys, one.values, one.energy, one.hidden, weights, one.sums, one.shown)
    into_query, into_sums = one.gradients[:, :6], one.gradients[:, 6:10]
    into_sums.copy_(1 - one.shown.square())
    fresh = torch.zeros_like(one.keys), torch.zeros_like(one.query)
    decoder.attend_backward(
        *(one.query, one.keys, one.values, one.energy, weights, (one.from_shown, None)),
        *(None, into_sums, into_query, *fresh),
    )
    assert_close(into_query, wanted["query"], torch.float32)


def assert_steps(dtype, rows, units, device="cpu"):
    generator = torch.Generator().manual_seed(units)
    sums = 2 * torch.randn(rows, 4 * units + 2, generator=generator)
    before, flowing, gradients = (
        torch.randn(rows, width, generator=generator).to(dtype).to(device)
        for width in (units, units, 4 * units + 4)
    )
    gates = sums.clone().to(dtype).to(device)[:, : 4 * units]
    h, exact = before.double().requires_grad_(), gates.double().requires_grad_()
    q, r, z, n = exact.chunk(4, 1)
    n = torch.tanh(n + r.sigmoid() * q)
    next_state = n + z.sigmoid() * (h - n)
    wanted = torch.autograd.grad((next_state * flowing).sum(), (exact, h))
    after = torch.full_like(before, torch.nan)
    decoder.advance_gru(gates, before, after)
    assert_close(after, next_state.detach(), dtype)
    plain, reached = sums.double()[:, : 4 * units].clone(), torch.empty(rows, units, dtype=torch.float64)
    GRUGates.advance(plain, (before.double().cpu(),), (reached,))
    assert_close(gates.cpu(), plain, dtype)
    into_sums, state = gradients[:, : 4 * units], flowing.clone()
    rest = gradients[:, 4 * units :].clone()
    decoder.retreat_gru(gates, before, into_sums, state)
    assert_close(into_sums, wanted[0], dtype)
    assert_close(state, wanted[1], dtype)
    assert torch.equal(gradients[:, 4 * units :], rest)


@every_type
@pytest.mark.parametrize(("rows", "units"), [(1, 2), (3, 66), (70, 4)])
def test_gates_and_their_gradients_are_those_of_the_equation(rows, units, dtype, emulated_decoder):
    assert_steps(dtype, rows, units)


def test_what_the_kernels_know():
    assert decoder.supports(torch.bfloat16, 512, 256)
    assert not decoder.supports(torch.float64, 512, 256)
    assert not decoder.supports(torch.float32, 512, 255)
    assert decoder.fits(3000, 1024, 3072)
    assert not decoder.fits(20_000, 512, 256)
    assert not decoder.is_available(torch.device("cpu"))
    assert set(KINDS) == set(ROUNDING)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the emulated one is too slow")
@every_type
@pytest.mark.parametrize(
    ("places", "size", "width"), [(1, 2, 2), (15, 512, 256), (40, 512, 1536), (900, 64, 30)]
)
def test_a_real_gpu_agrees(places, size, width, dtype):
    lengths = [min(places, 1 + 7 * row % places) for row in range(63)] + [0]
    for shown in (True, False):
        assert_attends(dtype, places, size, width, shown, lengths, "cuda")
    assert_steps(dtype, 64, size, "cuda")
