"""The steps of a decoder against torch in float64: on the emulated GPU, and on a real one if there is one."""

from __future__ import annotations

import warnings

import pytest
import torch

from throughtime.errors import ThroughtimeError
from throughtime.gpu import decoder, driver
from throughtime.gpu.elements import KINDS
from throughtime.models.gate_steps import GRUGates, LSTMGates

ROUNDING = {torch.float32: 5e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
every_type = pytest.mark.parametrize("dtype", ROUNDING)
LENGTHS = [5, 0, 3]


class Example:
    """A step of attention, with rubbish where nothing must be read, and its gradients by autograd."""

    def __init__(self, dtype, places, size, width, shown, lengths, device="cpu", additive=True):
        generator, rows = torch.Generator().manual_seed(places), len(lengths)

        def draw(*shape, dtype=dtype):
            return torch.randn(*shape, generator=generator).to(dtype).to(device)

        self.query, self.sums = draw(rows, size + 6)[:, 4 : 4 + size], draw(rows, width + 2)[:, :width]
        if not additive:
            self.query *= size**-0.5  # a product of long vectors would leave one weight alone
        self.keys, self.values = draw(rows, places, size, dtype=torch.float32), draw(rows, places, width)
        self.energy = draw(size, dtype=torch.float32) if additive else None
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
        names = ("query", "keys", "values", "sums", *(["energy"] if self.energy is not None else []))
        exact = {name: getattr(self, name).double().requires_grad_() for name in names}
        seen = torch.einsum("bd,btd->bt", exact["query"], exact["keys"])
        if self.energy is not None:
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


def assert_attends(dtype, places, size, width, shown, lengths, device="cpu", additive=True):
    one = Example(dtype, places, size, width, shown, lengths, device, additive)
    weights, sums, wanted = one.expected()
    found, by_padding = (torch.full_like(one.hidden, torch.nan) for _ in range(2))
    given, copies = one.sums.clone(), (one.sums.clone(), None if one.shown is None else one.shown.clone())
    decoder.attend(one.query, one.keys, one.values, one.energy, one.hidden != 0, by_padding, *copies)
    decoder.attend(one.query, one.keys, one.values, one.energy, one.hidden, found, one.sums, one.shown)
    assert torch.equal(by_padding, found)
    assert torch.equal(copies[0], one.sums)
    assert not torch.equal(given, one.sums)
    assert_close(found, weights, torch.float32)
    assert found[one.hidden != 0].eq(0).all()
    assert_close(one.sums, sums, dtype)
    if shown:
        assert_close(one.shown, sums.tanh(), dtype)
    into_query, into_sums = one.gradients[:, :size], one.gradients[:, size : size + width]
    into_sums.copy_(1 - one.shown.square() if shown else one.given)
    untouched = one.gradients[:, size + width :].clone()
    added = {name: start.clone() for name, start in one.before.items()}
    start, into_scores = into_query.clone(), torch.full_like(found, torch.nan)
    decoder.attend_backward(
        *(one.query, one.keys, one.values, one.energy, found),
        (one.from_shown, one.too) if shown else None,
        *(one.from_weights, into_sums, into_query, into_scores),
        *((added["into_keys"], added["into_energy"]) if additive else (None, None)),
    )
    assert torch.equal(one.gradients[:, size + width :], untouched)
    assert_close(into_sums, wanted["sums"], dtype)
    if not additive:
        assert_close(into_query, wanted["query"] + start, dtype)
        into_keys = torch.einsum("bt,bd->btd", into_scores, one.query.float())
        assert_close(into_keys, wanted["keys"], dtype)
        return
    assert_close(into_query, wanted["query"], dtype)
    # The sums that these build on were rounded only where they are shown. They were added to numbers near 1.
    close = dtype if shown else torch.float32
    into_keys, into_energy = (added[name] - start for name, start in one.before.items())
    assert_close(into_keys * one.energy, wanted["keys"], close, floor=1.0)
    assert_close(into_energy.sum(0), wanted["energy"], close, floor=1.0)


@every_type
@pytest.mark.parametrize(
    ("places", "size", "width", "shown", "additive"),
    [(5, 8, 140, True, True), (11, 134, 6, False, True), (7, 134, 12, True, False)],
)
def test_attention_and_its_gradients_are_those_of_the_equation(
    places, size, width, shown, additive, dtype, emulated_decoder
):
    lengths = [min(length, places) for length in LENGTHS]
    assert_attends(dtype, places, size, width, shown, lengths, additive=additive)


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
        *(None, into_sums, into_query, torch.empty_like(weights), *fresh),
    )
    assert_close(into_query, wanted["query"], torch.float32)


def assert_steps(dtype, rows, units, gates_of, device="cpu"):
    """Sums are columns of a wider matrix, and so are their gradients."""
    generator, parts = torch.Generator().manual_seed(units), gates_of.states

    def draw(width):
        return torch.randn(rows, width, generator=generator).to(dtype).to(device)

    sums, gradients, more = 2 * draw(4 * units + 2), draw(4 * units + 4), draw(units)
    before, flowing = (tuple(draw(units) for _ in range(parts)) for _ in range(2))
    exact, *entering = (part.double().requires_grad_() for part in (sums[:, : 4 * units], *before))
    reached = equations(gates_of, exact, entering)
    loss = sum(
        (part * given).sum() for part, given in zip((*reached, reached[0]), (*flowing, more), strict=True)
    )
    wanted = torch.autograd.grad(loss, (exact, *entering), allow_unused=True, materialize_grads=True)
    plain = sums.double()[:, : 4 * units].clone()
    gates_of.activate(
        plain, tuple(one.double() for one in before), tuple(one.detach().clone() for one in reached)
    )
    gates, after = sums[:, : 4 * units], tuple(torch.full_like(part, torch.nan) for part in before)
    decoder.activate_gates(gates, before, after)
    assert_close(gates, plain, dtype)
    for found, value in zip(after, reached, strict=True):
        assert_close(found, value.detach(), dtype)
    into_sums, state = gradients[:, : 4 * units], tuple(part.clone() for part in flowing)
    rest = gradients[:, 4 * units :].clone()
    decoder.retreat_gates(gates, before, after, into_sums, state, more)
    for found, value in zip((into_sums, *state), wanted, strict=True):
        assert_close(found, value, dtype)
    assert torch.equal(gradients[:, 4 * units :], rest)


def equations(gates_of, sums, entering):
    if gates_of is GRUGates:
        q, r, z, n = sums.chunk(4, 1)
        n = torch.tanh(n + r.sigmoid() * q)
        return (n + z.sigmoid() * (entering[0] - n),)
    i, f, g, o = sums.chunk(4, 1)
    c = f.sigmoid() * entering[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@every_type
@pytest.mark.parametrize("gates_of", [GRUGates, LSTMGates])
@pytest.mark.parametrize(("rows", "units"), [(3, 66), (70, 2)])
def test_gates_and_their_gradients_are_those_of_the_equation(rows, units, gates_of, dtype, emulated_decoder):
    assert_steps(dtype, rows, units, gates_of)


def test_what_the_kernels_know():
    assert decoder.supports(torch.bfloat16, 512, 256)
    assert not decoder.supports(torch.float64, 512, 256)
    assert not decoder.supports(torch.float32, 512, 255)
    assert decoder.fits(3000, 1024, 3072)
    assert not decoder.fits(20_000, 512, 256)
    assert not decoder.is_available(torch.device("cpu"))
    assert set(KINDS) == set(ROUNDING)


@pytest.mark.parametrize("fails", [False, True])
def test_kernels_that_do_not_compile_are_left_out_with_one_warning(fails, emulated_decoder, monkeypatch):
    built, gpu, build = [], torch.device("cuda", 0), driver.build

    def watched(name, *rest):
        built.append(name)
        if fails and name == "attend_backward":
            raise ThroughtimeError("a GPU kernel did not compile: too new\nand more")
        return build(name, *rest)

    monkeypatch.setattr(driver, "unavailable", lambda device: None)
    monkeypatch.setattr(driver, "build", watched)
    decoder._compiles.cache_clear()
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        assert [decoder.is_available(gpu) for _ in range(2)] == [not fails] * 2
    decoder._compiles.cache_clear()
    assert set(built) == {"gates_forward", "gates_backward", "attend_forward", "attend_backward"}
    assert [str(one.message).endswith("too new") for one in given] == [True] * fails


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the emulated one is too slow")
@every_type
@pytest.mark.parametrize(
    ("places", "size", "width"), [(1, 2, 2), (15, 512, 256), (40, 512, 1536), (900, 64, 30)]
)
def test_a_real_gpu_agrees(places, size, width, dtype):
    lengths = [min(places, 1 + 7 * row % places) for row in range(63)] + [0]
    for shown in (True, False):
        for additive in (True, False):
            assert_attends(dtype, places, size, width, shown, lengths, "cuda", additive)
    for gates_of in (GRUGates, LSTMGates):
        assert_steps(dtype, 64, size, gates_of, "cuda")
