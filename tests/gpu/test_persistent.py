"""The persistent kernels on a CPU: every thread of every block takes its turn, and the equations come out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.emulated import machine
from tests.emulated.machine import SMALL
from tests.refusals import refuses

from throughtime.cells import GRU, LSTM, RNN, CoupledLSTM
from throughtime.errors import ThroughtimeError
from throughtime.gpu import driver
from throughtime.gpu.elements import KINDS, ElementKind, round_up_units
from throughtime.gpu.persistent import Persistent, find_form
from throughtime.gpu.persistent_choice import best, candidates, microseconds
from throughtime.gpu.persistent_plan import Form, KernelTask, Plan, fit_plan
from throughtime.recurrence import scan
from throughtime.recurrence.backend import Reference

emulated = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")

CELLS = {
    "rnn": RNN,
    "rnn-relu": partial(RNN, activation="relu"),
    "gru": GRU,
    "gru-before": partial(GRU, reset="before"),
    "lstm": LSTM,
}
LARGE = Plan(units=32, rows=16, passes=2, warps=2, held=1, staged=0, ring=1, batch=2)
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def problem(cell, steps, batch, ragged=False, carry=False, dtype=torch.float32):
    source = torch.Generator().manual_seed(steps + batch)
    draw = partial(torch.randn, generator=source)
    x = draw(steps, batch, cell.input_size).to(dtype).requires_grad_()
    state = tuple(draw(batch, size).to(dtype).requires_grad_() for size in cell.state_sizes)
    lengths = torch.randint(0, steps + 1, (batch,), generator=source) if ragged else None
    factors = 2 * torch.rand(steps, batch, generator=source).to(dtype) if carry else None
    return x, state, lengths, factors


def everything(backend, cell, x, state, lengths, carry):
    """Outputs, last state, and every gradient of a random function of both."""
    outputs, last = backend.run(cell, x, state, lengths, carry)
    source = torch.Generator().manual_seed(7)
    loss = sum(
        (part * torch.randn(part.shape, generator=source).to(part.dtype)).sum() for part in (outputs, *last)
    )
    wanted = {"x": x, **{f"state{i}": part for i, part in enumerate(state)}, **cell.weights()}
    gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return {
        "outputs": outputs,
        "last": last[0],
        "memory": last[-1],
        **dict(zip(wanted, gradients, strict=True)),
    }


def assert_equals_reference(cell, *data, tolerance=2e-6):
    ours = everything(Persistent(), cell, *data)
    for name, truth in everything(Reference(), cell, *data).items():
        assert ours[name].shape == truth.shape, name
        error = (ours[name].float() - truth.float()).abs().max()
        assert error <= tolerance * max(1.0, float(truth.detach().abs().max())), f"{name}: {error}"


def build(name, hidden, dtype=torch.float32):
    torch.manual_seed(hidden)
    return CELLS[name](3, hidden).to(dtype)


@emulated
@pytest.mark.parametrize(("ragged", "carry"), [(False, False), (True, True)])
@pytest.mark.parametrize("name", CELLS)
def test_many_blocks_and_groups_equal_the_reference(name, ragged, carry, plan):  # law 1, R105
    plan(SMALL)
    cell = build(name, 40)  # three blocks, the last one half empty; nine rows are two groups
    assert_equals_reference(cell, *problem(cell, 5, 9, ragged, carry))


@emulated
@pytest.mark.parametrize(
    ("name", "hidden", "batch"),
    [
        ("rnn-relu", 5, 3),
        ("gru", 17, 17),
        ("gru-before", 5, 3),
        ("lstm", 17, 1),
    ],
)
def test_odd_sizes_equal_the_reference(name, hidden, batch, plan):  # law 1
    plan(SMALL)
    cell = build(name, hidden)
    assert_equals_reference(cell, *problem(cell, 3, batch, ragged=True))


@emulated
@pytest.mark.parametrize("name", ["lstm", "gru-before"])
def test_several_passes_and_wide_tiles_equal_the_reference(name, plan):
    plan(LARGE)
    cell = build(name, 40)
    assert_equals_reference(cell, *problem(cell, 3, 33, ragged=True, carry=True))


def fit_alone(name, hidden, warps, groups, kind=ElementKind.FLOAT, rows=5):
    """Plans for blocks that have all units, forward and backward."""
    form, width = find_form(CELLS[name](1, 1)), round_up_units(hidden)
    tasks = [KernelTask(form, kind, width, 1, backward) for backward in (False, True)]
    return [fit_plan(task, width, rows, 1, warps, machine.SHARED, groups=groups) for task in tasks]


@emulated
@pytest.mark.parametrize(("warps", "groups", "rows"), [(2, 2, 1), (4, 2, 3), (6, 3, 8)])
@pytest.mark.parametrize("name", CELLS)
def test_blocks_that_have_all_units_equal_the_reference(name, warps, groups, rows, plan):  # law 1
    plan(*fit_alone(name, 37, warps, groups, rows=rows))
    cell = build(name, 37)
    assert_equals_reference(cell, *problem(cell, 5, 9, ragged=groups > 2, carry=groups > 2))


@emulated
@pytest.mark.parametrize("name", ["gru", "gru-before", "lstm"])
def test_blocks_that_have_all_units_may_keep_weights_in_shared_memory(name, plan):
    fitted = fit_alone(name, 24, 2, 2)
    plan(*(replace(one, held=1, staged=9, held_n=1, staged_n=9, batch=1) for one in fitted))
    cell = build(name, 24)
    assert_equals_reference(cell, *problem(cell, 3, 8, ragged=True))


@emulated
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(("name", "dtype"), [("lstm", torch.bfloat16), ("gru", torch.float16)])
def test_half_precision_is_near_the_reference_in_float32(name, dtype, alone, plan):
    plan(*(fit_alone(name, 40, 4, 2, KINDS[dtype]) if alone else [SMALL]))
    cell = build(name, 40, dtype)
    x, state, lengths, _ = problem(cell, 6, 3, dtype=dtype)
    ours = everything(Persistent(), cell, x, state, lengths, None)
    exact = build(name, 40)
    exact.load_state_dict(cell.state_dict())
    upcast = [part.detach().float().requires_grad_() for part in (x, *state)]
    truth = everything(Reference(), exact, upcast[0], tuple(upcast[1:]), lengths, None)
    for part, value in truth.items():
        assert ours[part].dtype is dtype
        error = (ours[part].float() - value).norm() / value.norm()
        assert error < TOLERANCE[dtype], f"{part}: {error}"


@emulated
@pytest.mark.parametrize(
    ("name", "inputs", "hidden"),
    [("lstm", 8, 16), ("gru", 8, 16), ("gru-before", 8, 16), ("rnn", 11, 16), ("gru", 8, 17)],
)
def test_sizes_that_need_no_padding_or_little_equal_the_reference(name, inputs, hidden, plan):  # law 1
    plan(SMALL)
    torch.manual_seed(1)
    cell = CELLS[name](inputs, hidden)
    assert_equals_reference(cell, *problem(cell, 3, 2, ragged=True))


@emulated
@pytest.mark.parametrize("hidden", [16, 17])
def test_inputs_may_lie_anywhere_in_memory(hidden, plan):
    plan(SMALL)
    cell = LSTM(8, hidden, initial="learned")
    large = torch.randn(1 + 2 * 4 * 8)
    x = large[1:].view(2, 4, 8).transpose(0, 1).requires_grad_()  # no row of it begins on a boundary
    for name, weight in cell.weights().items():
        part = torch.empty(1 + weight.numel())[1:].view(weight.shape)
        setattr(cell, name, torch.nn.Parameter(part.copy_(weight.detach())))
    assert cell.weight_hh.data_ptr() % 16 != 0
    assert_equals_reference(cell, x, cell.initial_state(2), None, None)


@emulated
@pytest.mark.parametrize("hidden", [16, 17])
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_only_what_is_asked_for_is_needed(name, hidden, plan):
    plan(SMALL)
    cell = build(name, hidden)
    x, state, _, _ = problem(cell, 3, 2)
    x, state = x.detach(), tuple(part.detach() for part in state)
    found = []
    for one in (Persistent(), Reference()):
        outputs, last = one.run(cell, x, state, None, None)
        weights = list(cell.parameters())
        found.append(
            [
                *torch.autograd.grad(outputs.sum(), weights, retain_graph=True),  # a gradient without memory
                *torch.autograd.grad(last[-1].square().sum(), weights),
            ]
        )
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


@emulated
@pytest.mark.parametrize("hidden", [16, 17])
def test_editing_the_outputs_never_spoils_gradients_in_silence(hidden, plan):
    plan(SMALL)
    cell = build("gru", hidden)
    x, state, _, _ = problem(cell, 3, 2)
    truth = torch.autograd.grad(Persistent().run(cell, x, state, None, None).outputs.sum(), x)
    outputs = Persistent().run(cell, x, state, None, None).outputs
    outputs.detach().mul_(5.0)
    if hidden == 16:  # the outputs are what the backward pass reads
        with pytest.raises(RuntimeError, match="inplace"):
            torch.autograd.grad(outputs.sum(), x)
    else:
        assert torch.equal(torch.autograd.grad(outputs.sum(), x)[0], truth[0])


@emulated
@pytest.mark.parametrize("alone", [False, True])
def test_tf32_rounds_and_no_more(alone, plan, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    plan(*(fit_alone("lstm", 40, 4, 2, ElementKind.TF32) if alone else [SMALL]))
    cell = build("lstm", 40)
    data = problem(cell, 4, 2)
    assert_equals_reference(cell, *data, tolerance=4e-3)
    with pytest.raises(AssertionError):
        assert_equals_reference(cell, *data, tolerance=1e-6)


@emulated
def test_what_is_not_a_number_comes_out_and_stops_nothing(plan):
    plan(SMALL)
    cell = build("gru", 17)
    x, (h,), _, _ = problem(cell, 4, 3)
    with torch.no_grad():
        x[1, 0] = float("nan")
        h.view(torch.int32)[2, 5] = -1  # the very word that means "not yet written"
    outputs, (last,) = Persistent().run(cell, x, (h,), None, None)
    assert outputs[1:, 0].isnan().all()
    assert outputs[:, 2].isnan().all()
    assert not outputs[:, 1].isnan().any()
    assert last[0].isnan().all()


@emulated
def test_the_same_call_gives_the_same_bits_and_leaves_its_inputs_alone(plan):
    plan(SMALL)
    cell = build("lstm", 40)
    data = problem(cell, 4, 9, ragged=True)
    before = [data[0].clone(), *(part.clone() for part in data[1])]
    first, second = everything(Persistent(), cell, *data), everything(Persistent(), cell, *data)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(torch.equal(old, new) for old, new in zip(before, [data[0], *data[1]], strict=True))


@emulated
def test_without_gradients_nothing_is_kept(plan):
    plan(SMALL)
    cell = build("lstm", 17).requires_grad_(False)
    x, state, lengths, _ = problem(cell, 4, 3, ragged=True)
    with torch.no_grad():
        ours, theirs = (one.run(cell, x, state, lengths, None) for one in (Persistent(), Reference()))
    torch.testing.assert_close(ours.outputs, theirs.outputs, rtol=1e-5, atol=1e-6)
    assert ours.outputs.grad_fn is None


@emulated
def test_second_derivatives_are_refused(plan):
    plan(SMALL)
    cell = build("rnn", 5)
    x, state, _, _ = problem(cell, 2, 1)
    outputs = Persistent().run(cell, x, state, None, None).outputs
    with refuses("create_graph=True", "backend='reference'", error=ThroughtimeError):
        torch.autograd.grad(outputs.sum(), x, create_graph=True)


def test_on_a_cpu_it_says_that_it_needs_a_gpu():
    with refuses("backend 'persistent'"):
        scan(LSTM(3, 4), torch.zeros(2, 1, 3), backend="persistent")


def test_it_says_which_cells_and_numbers_it_knows(monkeypatch):
    monkeypatch.setattr(driver, "unavailable", lambda device: None)
    monkeypatch.setattr(driver, "limits", lambda device: (machine.MULTIPROCESSORS, machine.SHARED))

    class Elsewhere:
        device, shape = torch.device("cuda"), (4, 8, 3)

        def __init__(self, dtype=torch.float32):
            self.dtype = dtype

        def get_device(self):
            return 0

    def reason(cell, x):
        return Persistent().refuses(cell, x, None, None)

    for cell in (RNN(3, 4), GRU(3, 4), GRU(3, 4, reset="before"), LSTM(3, 2056)):
        assert reason(cell, Elsewhere()) is None
    assert "RNN with tanh or relu" in reason(RNN(3, 4, torch.sin), Elsewhere())
    assert "GRU and LSTM only" in reason(CoupledLSTM(3, 4), Elsewhere())
    assert "not torch.float64" in reason(LSTM(3, 4), Elsewhere(torch.float64))
    monkeypatch.setattr(driver, "limits", lambda device: (8, machine.SHARED))
    assert reason(RNN(3, 1000), Elsewhere()) == "1000 units do not fit the GPU's 8 multiprocessors"


tasks = st.builds(
    KernelTask,
    form=st.sampled_from(Form),
    kind=st.sampled_from(ElementKind),
    width=st.integers(1, 257).map(lambda number: 8 * number),
    batch=st.integers(1, 300),
    backward=st.booleans(),
)


@given(tasks)
def test_every_plan_fits_the_chip_and_covers_the_work(task):
    found = candidates(task, machine.MULTIPROCESSORS, machine.SHARED)
    assert found
    assert [microseconds(task, plan) for plan in found] == sorted(microseconds(task, plan) for plan in found)
    for plan in found:
        assert plan.blocks(task) <= machine.MULTIPROCESSORS
        assert plan.shared_bytes(task) <= machine.SHARED
        assert plan.unit_blocks(task) // plan.split * plan.units >= task.width
        assert plan.blocks(task) // plan.unit_blocks(task) * plan.rows * plan.passes >= task.batch
        for depth, held, staged in zip(
            plan.depths(task), (plan.held, plan.held_n), (plan.staged, plan.staged_n), strict=True
        ):
            assert held + staged >= plan.chunks_per_warp(depth) or plan.ring > 0


def test_no_plan_where_there_are_more_units_than_multiprocessors_can_hold():
    assert (
        best(KernelTask(Form.TANH, ElementKind.BF16, 132 * 32 + 8, 1, backward=False), 132, machine.SHARED)
        is None
    )
