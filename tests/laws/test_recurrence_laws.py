"""The laws of recurrence, over every registered cell and backend: registering one is testing it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from throughtime.cells import CELLS, RNN, LinearCell
from throughtime.errors import ThroughtimeError
from throughtime.recurrence import BACKENDS, scan

INPUT, HIDDEN = 3, 4
TOLERANCE = {  # relative, and a floor near zero
    torch.float64: (1e-9, 1e-10),
    torch.float32: (1e-5, 2e-5),
    torch.bfloat16: (2e-2, 2e-2),
}


def build(name, hidden=HIDDEN, dtype=torch.float64, initial="zero", inputs=INPUT):
    torch.manual_seed(len(name) + hidden)
    return CELLS[name](inputs, max(hidden, 2) if "projected" in name else hidden, initial=initial).to(dtype)


def problem(cell, steps, batch, ragged, seed=0, dtype=torch.float64):
    """Inputs, an initial state and lengths, all random, for one cell."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(steps, batch, cell.input_size, generator=source, dtype=dtype).requires_grad_()
    state = tuple(part.to(dtype).requires_grad_() for part in cell.draw_state(batch, source))
    lengths = torch.randint(0, steps + 1, (batch,), generator=source) if ragged else None
    return x, state, lengths


def everything(cell, x, state, lengths, carry=None, **options):
    """Outputs, final state, and the gradients of a random function of both."""
    outputs, last = scan(cell, x, state, lengths, carry=carry, **options)
    source = torch.Generator().manual_seed(99)
    loss = sum(
        (part * torch.randn(part.shape, generator=source, dtype=part.dtype)).sum()
        for part in (outputs, *last)
    )
    wanted = {"x": x, **{f"state{i}": part for i, part in enumerate(state)}, **cell.weights()}
    gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
    named = {"outputs": outputs, **{f"last{i}": part for i, part in enumerate(last)}}
    return {**named, **{f"d {name}": g for name, g in zip(wanted, gradients, strict=True)}}


def assert_same(ours, theirs, dtype=torch.float64):
    relative, floor = TOLERANCE[dtype]
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        scale = float(value.detach().abs().max()) if value.numel() else 0.0
        torch.testing.assert_close(
            ours[name],
            value,
            rtol=relative,
            atol=max(floor * scale, 1e-12),
            msg=lambda m, n=name: f"{n}: {m}",
        )


def servants(**conditions):
    """Pairs of cell and backend, other than the reference, that do not refuse such a problem."""
    found = []
    for name in CELLS:
        cell = build(name)
        x, _, lengths = problem(cell, 5, 2, conditions.get("ragged", False))
        carry = torch.ones(5, 2) if conditions.get("carry") else None
        able = (backend for backend in BACKENDS if BACKENDS[backend].refuses(cell, x, lengths, carry) is None)
        found += [pytest.param(name, one, id=f"{name}-{one}") for one in able if one != "reference"]
    return found


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(1, 1, 1), (63, 3, 5), (7, 1, 4), (2, 6, 1)])
@pytest.mark.parametrize(("name", "backend"), servants())
def test_every_backend_equals_the_reference(name, backend, steps, batch, hidden, dtype):  # law 1
    cell = build(name, hidden, dtype)
    if name == "rnn-relu" and dtype is torch.bfloat16:
        steps = min(steps, 7)  # so rounded, a sum near relu's corner soon falls on the other side of it
    data = problem(cell, steps, batch, ragged=False, dtype=dtype)
    assert_same(everything(cell, *data, backend=backend), everything(cell, *data, backend="reference"), dtype)


@settings(max_examples=15, deadline=None)
@given(steps=st.integers(1, 12), batch=st.integers(1, 5), seed=st.integers(0, 99), reverse=st.booleans())
@pytest.mark.parametrize(("name", "backend"), servants(ragged=True))
def test_every_backend_equals_the_reference_on_ragged_batches(
    name, backend, steps, batch, seed, reverse
):  # law 1
    cell = build(name)
    data = problem(cell, steps, batch, ragged=True, seed=seed)
    ours = everything(cell, *data, backend=backend, reverse=reverse)
    assert_same(ours, everything(cell, *data, backend="reference", reverse=reverse))


@pytest.mark.parametrize("activation", [torch.nn.SiLU(), torch.sin], ids=["module", "function"])
def test_every_backend_refuses_or_computes_an_activation_of_ones_own(activation):  # law 1
    cell = RNN(INPUT, HIDDEN, activation).double()
    x, state, _ = data = problem(cell, 5, 2, ragged=False)
    (h,), outputs = state, []
    for projected in cell.project(x):
        h = activation(projected + h @ cell.weight_hh.T)
        outputs.append(h)
    able = [name for name in BACKENDS if BACKENDS[name].refuses(cell, x, None, None) is None]
    for backend in (*able, "auto"):
        found = everything(cell, *data, backend=backend)
        torch.testing.assert_close(found["outputs"], torch.stack(outputs))
        assert_same(found, everything(cell, *data, backend="reference"))


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(("name", "backend"), servants(ragged=True, carry=True))
def test_every_backend_scales_the_recurrent_gradient_alike(name, backend, ragged):  # law 1
    cell = build(name)
    data = problem(cell, 9, 3, ragged)
    carry = torch.rand(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2
    assert_same(
        everything(cell, *data, carry, backend=backend), everything(cell, *data, carry, backend="reference")
    )


@pytest.mark.parametrize(("name", "backend"), servants())
def test_second_derivatives_are_right_or_refused(name, backend):  # law 1
    cell = build(name)
    data = problem(cell, 4, 2, ragged=False)

    def second(backend):
        outputs, _ = scan(cell, *data, backend=backend)
        (first,) = torch.autograd.grad(outputs.square().sum(), data[0], create_graph=True)
        return torch.autograd.grad(first.square().sum(), data[0])[0]

    try:
        found = second(backend)
    except (ThroughtimeError, RuntimeError):  # said so, instead of giving zeros
        return
    torch.testing.assert_close(found, second("reference"), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", CELLS)
def test_gradients_agree_with_finite_differences(name):  # law 1
    cell = build(name)
    x, state, _ = problem(cell, 3, 2, ragged=False)
    lengths = torch.tensor([3, 2])
    names, values = zip(*cell.weights().items(), strict=True)

    def run(x, *rest):
        with cell.replacing(dict(zip(names, rest[len(state) :], strict=True))):
            outputs, last = scan(cell, x, rest[: len(state)], lengths, backend="reference")
        return (outputs, *last)

    assert torch.autograd.gradcheck(run, (x, *state, *values), atol=1e-6)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", CELLS)
def test_a_weight_that_replaces_another_is_used_like_it(name, backend):
    cell = build(name)
    x, state, _ = problem(cell, 4, 2, ragged=False)
    for replaced, weight in cell.weights().items():
        other = weight.detach() + torch.rand(weight.shape, dtype=weight.dtype)
        before, _ = scan(cell, x, state, backend=backend)
        with cell.replacing({replaced: other}):
            outputs, last = scan(cell, x, state, backend=backend)
        assert not torch.allclose(outputs, before), replaced
        with torch.no_grad():
            weight.copy_(other)
        expected = scan(cell, x, state, backend=backend)
        for ours, theirs in zip((outputs, *last), (expected[0], *expected[1]), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", CELLS)
def test_whole_is_step_by_step_is_in_chunks(name, backend):  # law 2
    cell = build(name)
    x, state, _ = problem(cell, 10, 3, ragged=False)
    outputs, last = scan(cell, x, state, backend=backend)
    stepped, now = [], state
    for t in range(10):
        now = cell.step(cell.project(x[t : t + 1])[0], now)
        stepped.append(now[0])
    torch.testing.assert_close(torch.stack(stepped), outputs, rtol=1e-9, atol=1e-12)
    chunks, now = [], state
    for part in x.split([4, 1, 5]):
        piece, now = scan(cell, part, now, backend=backend)
        chunks.append(piece)
    torch.testing.assert_close(torch.cat(chunks), outputs, rtol=1e-9, atol=1e-12)
    for ours, theirs in zip(now, last, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", CELLS)
def test_a_padded_batch_is_each_row_alone(name, backend, reverse):  # law 3
    cell = build(name)
    x, state, _ = problem(cell, 8, 4, ragged=False)
    lengths = torch.tensor([8, 3, 0, 5])
    outputs, last = scan(cell, x, state, lengths, reverse=reverse, backend=backend)
    for row, length in enumerate(lengths.tolist()):
        own = tuple(part[row : row + 1] for part in state)
        assert not outputs[length:, row].any()
        alone, end = scan(cell, x[:length, row : row + 1], own, reverse=reverse) if length else (None, own)
        if alone is not None:
            torch.testing.assert_close(outputs[:length, row : row + 1], alone, rtol=1e-9, atol=1e-12)
        for ours, theirs in zip(last, end, strict=True):
            torch.testing.assert_close(ours[row : row + 1], theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in CELLS if isinstance(build(name), LinearCell)])
def test_step_and_parallel_form_agree_for_any_initial_state(name):  # law 4
    cell = build(name)
    x, state, _ = problem(cell, 200, 2, ragged=False)
    state = tuple(100 * part for part in state)
    assert_same(
        everything(cell, x, state, None, backend="associative"),
        everything(cell, x, state, None, backend="reference"),
    )


@pytest.mark.parametrize("name", CELLS)
def test_saved_and_loaded_gives_the_same_numbers(name, tmp_path):  # law 6
    from safetensors.torch import load_file, save_file

    cell, other = build(name, initial="learned"), build(name, initial="learned")
    with torch.no_grad():
        for weight in cell.parameters():
            weight.add_(torch.rand(weight.shape, dtype=weight.dtype))
    save_file(cell.state_dict(), tmp_path / "cell.safetensors")
    other.load_state_dict(load_file(tmp_path / "cell.safetensors"))
    x, _, lengths = problem(cell, 6, 3, ragged=True)
    assert torch.equal(scan(cell, x, None, lengths)[0], scan(other, x, None, lengths)[0])
