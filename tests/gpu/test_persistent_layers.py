"""Several layers as one function of the persistent kernels, on the emulated GPU and on a real one."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.emulated import machine
from tests.gpu.test_persistent import CELLS

from throughtime.gpu import batched_copies as moves
from throughtime.gpu import driver, persistent, persistent_call, weight_gradients
from throughtime.gpu.persistent import Persistent, run_layers
from throughtime.gpu.persistent_choice import Arrangement, arrange
from throughtime.layers import stack as stack_module
from throughtime.layers.stack import Stack
from throughtime.recurrence.choice import BACKENDS

emulated = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")

LENGTHS = torch.tensor([4, 0, 2])
every_cell = pytest.mark.parametrize("name", CELLS)
# Rounded, a sum near relu's corner falls on the other side of it.
smooth_cell = pytest.mark.parametrize("name", [name for name in CELLS if name != "rnn-relu"])


@pytest.fixture
def stays(plan, monkeypatch):
    """Take a CPU for a GPU on which the persistent kernels are always faster."""
    plan(machine.SMALL)
    monkeypatch.setattr(Persistent, "refuses", lambda *_: None)
    monkeypatch.setattr(stack_module, "prefers_one_call", lambda x: True)
    monkeypatch.setattr(
        "throughtime.recurrence.choice.choose_portable_backend", lambda *_: persistent.BACKEND
    )


@pytest.fixture
def calls(monkeypatch):
    """How many layers each call of the persistent kernels had."""
    counts = []

    def counted(layers, *others, **options):
        counts.append(len(layers))
        return run_layers(layers, *others, **options)

    monkeypatch.setattr(persistent, "run_layers", counted)
    return counts


def build(name, hidden, layers=3, inputs=3, **options):
    torch.manual_seed(hidden)
    return Stack(CELLS[name], inputs, hidden, layers, **options)


def everything(stack, run, x, state, lengths=None):
    """Outputs, last state, and every gradient of a random function of both."""
    outputs, last = run(x, state, lengths)
    source = torch.Generator(x.device).manual_seed(7)
    loss = sum(
        (part * torch.randn(part.shape, generator=source, device=part.device)).sum()
        for part in (outputs, *last)
    )
    wanted = [x, *(state or ()), *stack.parameters()]
    return [outputs, *last, *torch.autograd.grad(loss, wanted)]


def problem(stack, steps=4, batch=3, device="cpu"):
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(5))
    x = draw(steps, batch, stack.input_size).to(device).requires_grad_()
    return x, tuple(draw(batch, size).to(device).requires_grad_() for size in stack.state_sizes)


@contextmanager
def count_launches(monkeypatch):
    """How often each kernel of a recurrence is launched in the block."""
    counts = Counter()

    def build(name, *others, **options):
        kernel = machine.build(name, *others, **options)

        def launch(*given):
            if name != "moves":
                counts[name] += 1
            kernel(*given)

        return launch

    with monkeypatch.context() as patch:
        patch.setattr(driver, "build", build)
        weight_gradients._prepare_kernel.cache_clear()
        persistent.forget_programs()
        yield counts


def assert_near(found, truth, tolerance=3e-6):
    for ours, theirs in zip(found, truth, strict=True):
        assert ours.shape == theirs.shape
        error = (ours - theirs).abs().max()
        assert error <= tolerance * max(1.0, float(theirs.detach().abs().max()))


@emulated
@pytest.mark.parametrize(("hidden", "lengths"), [(16, LENGTHS), (17, None)])
@every_cell
def test_three_layers_at_once_equal_the_reference(name, hidden, lengths, stays, calls):  # law 1, R105
    stack = build(name, hidden)
    x, state = problem(stack)
    found = everything(stack, stack, x, state, lengths)
    assert calls == [3]
    assert_near(found, everything(stack, partial(stack, backend="reference"), x, state, lengths))


@emulated
@pytest.mark.parametrize(("lengths", "spans", "split"), [(None, 2, 1), (LENGTHS, 3, 2)])
@every_cell
def test_layers_side_by_side_in_spans_equal_the_reference(name, lengths, spans, split, plan, stays, calls):
    plan(machine.SMALL, replace(machine.SMALL, split=split if name == "lstm" else 1), spans=spans)
    stack = build(name, 17)
    x, state = problem(stack, steps=5)
    factors = 2 * torch.rand(5, 3, generator=torch.Generator().manual_seed(3))
    found = everything(stack, partial(stack, carry=factors), x, state, lengths)
    assert calls == [3]
    truth = everything(stack, partial(stack, carry=factors, backend="reference"), x, state, lengths)
    assert_near(found, truth)
    with torch.no_grad():
        for ours, theirs in zip(stack(x, state, lengths)[1], truth[1:], strict=False):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@emulated
def test_the_number_of_spans_changes_results_by_rounding_only(plan, stays):
    stack = build("lstm", 16)
    x, state = problem(stack, steps=6)
    found = []
    for spans in (1, 2, 6):
        persistent.forget_programs()
        plan(machine.SMALL, spans=spans)
        found.append(everything(stack, stack, x, state, torch.tensor([6, 1, 4])))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


@emulated
@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("hidden", [17])
@every_cell
def test_both_directions_at_once_equal_the_reference(name, hidden, lengths, stays, calls):  # law 1, R105
    stack = build(name, hidden, layers=2, bidirectional=True)
    x, state = problem(stack)
    found = everything(stack, stack, x, state, lengths)
    assert calls == [2]
    assert_near(found, everything(stack, partial(stack, backend="reference"), x, state, lengths))
    found = everything(stack, stack, x, None, lengths)
    assert_near(found, everything(stack, partial(stack, backend="reference"), x, None, lengths))


@emulated
@every_cell
def test_a_group_of_rows_that_ends_before_the_others_equals_the_reference(name, stays, calls):
    stack = build(name, 16, layers=1, bidirectional=True)
    x, state = problem(stack, batch=9)  # eight rows are a group
    lengths = torch.tensor([4] * 8 + [2])
    found = everything(stack, stack, x, state, lengths)
    assert calls == [1]
    assert_near(found, everything(stack, partial(stack, backend="reference"), x, state, lengths))


@emulated
@pytest.mark.parametrize("bidirectional", [False, True])
@every_cell
def test_factors_on_the_gradient_leave_the_layers_one_call(name, bidirectional, stays, calls):  # law 1
    stack = build(name, 9, layers=2, bidirectional=bidirectional)
    x, state = problem(stack)
    factors = 2 * torch.rand(4, 3, generator=torch.Generator().manual_seed(3))
    found = everything(stack, partial(stack, carry=factors), x, state, LENGTHS)
    assert calls == [2]
    truth = everything(stack, partial(stack, carry=factors, backend="reference"), x, state, LENGTHS)
    assert_near(found, truth)


@emulated
def test_directions_one_after_the_other_equal_both_at_once(stays, monkeypatch):
    stack = build("gru", 17, layers=2, bidirectional=True)
    x, state = problem(stack)
    with count_launches(monkeypatch) as launched:
        together = everything(stack, stack, x, state, LENGTHS)
    assert launched == {"forward": 2, "backward": 2, "gradients": 1}
    monkeypatch.setattr(persistent_call, "arrange", lambda *_: Arrangement(machine.SMALL))
    with count_launches(monkeypatch) as launched:
        apart = everything(stack, stack, x, state, LENGTHS)
    assert launched == {"forward": 4, "backward": 4, "gradients": 1}
    assert all(torch.equal(one, other) for one, other in zip(apart, together, strict=True))


@emulated
@pytest.mark.parametrize("inputs", [8, 11])
@every_cell
def test_without_a_state_it_begins_with_zeros(name, inputs, stays, calls):
    stack = build(name, 16, layers=2, inputs=inputs)
    x, _ = problem(stack)
    found = everything(stack, stack, x, None)
    assert calls == [2]
    assert_near(found, everything(stack, partial(stack, backend="reference"), x, None))


@emulated
@pytest.mark.parametrize(("hidden", "bidirectional", "stateful"), [(16, False, True), (17, True, False)])
@smooth_cell
def test_under_autocast_the_kernels_convert_by_themselves(
    name, hidden, bidirectional, stateful, stays, calls
):
    stack = build(name, hidden, layers=2, bidirectional=bidirectional)
    x, state = problem(stack)
    state = state if stateful else None
    with torch.autocast("cpu", torch.bfloat16):
        outputs, *others = everything(stack, stack, x, state)
    assert calls == [2]
    assert outputs.dtype is torch.bfloat16
    truth = everything(stack, partial(stack, backend="reference"), x, state)
    for ours, theirs in zip([outputs, *others], truth, strict=True):
        assert ours.dtype is torch.float32 or ours is outputs
        assert (ours.float() - theirs).norm() / theirs.norm() < 4e-2


@emulated
def test_a_learned_state_learns(stays, calls):
    stack = build("lstm", 17, layers=2, initial="learned")
    x, _ = problem(stack)
    found = everything(stack, stack, x, None)
    assert calls == [2]
    assert_near(found, everything(stack, partial(stack, backend="reference"), x, None))


@emulated
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_the_gradient_of_a_lower_state_alone_is_right(name, stays):
    stack = build(name, 17, layers=2)
    x, state = problem(stack)

    def below(run):
        last = run(x, state, None).state[0]
        weights = list(stack.layers[0].parameters())
        return torch.autograd.grad(last.square().sum(), [x, *state[:1], *weights], materialize_grads=True)

    assert_near(below(stack), below(partial(stack, backend="reference")))


@emulated
def test_as_many_layers_as_one_launch_cannot_copy_for(stays, calls):
    layers = moves.MAX_MOVES // 4
    stack = build("gru-before", 5, layers=layers)
    x, state = problem(stack, steps=2, batch=2)
    found = everything(stack, stack, x, state)
    assert calls == [layers]
    assert_near(found, everything(stack, partial(stack, backend="reference"), x, state), tolerance=2e-5)


@emulated
@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"residual": True}])
def test_what_happens_between_layers_keeps_them_apart(options, stays, calls):
    stack = build("gru", 16, layers=2, **options)
    outputs, _ = stack(problem(stack)[0])
    assert set(calls) == {1}
    assert outputs.shape == (4, 3, stack.output_size)


@emulated
def test_in_evaluation_nothing_is_kept_and_the_layers_are_one_call(stays, calls):
    stack = build("lstm", 17, layers=2, dropout=0.5).eval()
    x, state = problem(stack)
    with torch.no_grad():
        ours, theirs = stack(x, state), stack(x, state, backend="reference")
    assert calls == [2]
    assert_near([ours.outputs, *ours.state], [theirs.outputs, *theirs.state])
    assert ours.outputs.grad_fn is None


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")


@on_gpu
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [None, torch.tensor([30, 0, 9])])
@pytest.mark.parametrize("hidden", [64, 650])
@every_cell
def test_on_a_gpu_all_layers_at_once_equal_the_reference(
    name, hidden, lengths, bidirectional, monkeypatch, allow_tf32
):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    allow_tf32(False)
    stack = build(name, hidden, layers=2, bidirectional=bidirectional).cuda()
    x, state = problem(stack, steps=30, device="cuda")
    assert BACKENDS["persistent"].refuses(stack.layers[0].cells[0], x, None, None) is None
    rows = None if lengths is None else lengths.cuda()
    found = everything(stack, partial(run_layers, [layer.cells for layer in stack.layers]), x, state, rows)
    assert_near(found, everything(stack, partial(stack, backend="reference"), x, state, rows), 1e-4)


@on_gpu
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("hidden", [64, 90])
@smooth_cell
def test_on_a_gpu_the_kernels_convert_under_autocast(name, hidden, bidirectional):
    stack = build(name, hidden, layers=2, bidirectional=bidirectional).cuda()
    x, state = problem(stack, steps=20, device="cuda")
    run = partial(run_layers, [layer.cells for layer in stack.layers], dtype=torch.bfloat16)
    found = everything(stack, run, x, state)
    truth = everything(stack, partial(stack, backend="reference"), x, state)
    for ours, theirs in zip(found, truth, strict=True):
        assert (ours.float() - theirs).norm() / theirs.norm() < 5e-2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@smooth_cell
def test_on_a_gpu_layers_side_by_side_equal_layers_one_after_the_other(name, dtype, lengths, monkeypatch):
    stack = build(name, 72, inputs=72).to("cuda", dtype)
    x, state = problem(stack, steps=61, batch=5, device="cuda")
    x, state = (
        x.detach().to(dtype).requires_grad_(),
        tuple(part.detach().to(dtype).requires_grad_() for part in state),
    )
    rows = torch.tensor([61, 1, 30, 0, 60], device="cuda") if lengths else None
    found = []
    for spans in (1, 4):

        def choose(task, layers, steps, *limits, spans=spans):
            return Arrangement(arrange(task, 1, steps, limits[0] // 4, limits[1]).plan, spans)

        monkeypatch.setattr(persistent_call, "arrange", choose)
        persistent.forget_programs()
        for _ in range(12):  # from the ninth on, the call is replayed
            last = everything(stack, partial(stack, backend="persistent"), x, state, rows)
        found.append(last)
    persistent.forget_programs()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2 if dtype is torch.bfloat16 else 1e-4, atol=1e-4)
