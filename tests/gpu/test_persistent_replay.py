"""Calls replayed from recordings, on the emulated GPU and on a real one."""

from __future__ import annotations

import gc
from functools import partial

import pytest
import torch
from tests.emulated import machine
from tests.gpu.test_persistent_layers import assert_near, build, everything, on_gpu, problem

from throughtime.errors import ThroughtimeError
from throughtime.gpu import persistent_replay
from throughtime.gpu.elements import KINDS
from throughtime.gpu.persistent import forget_programs, run_layers
from throughtime.gpu.persistent_call import Call
from throughtime.gpu.persistent_plan import Form
from throughtime.gpu.persistent_replay import RECORDINGS, Replay, Transfer

emulated = pytest.mark.skipif(machine.COMPILER is None, reason="no g++ on this machine")
LENGTHS = torch.tensor([4, 0, 2])


@pytest.fixture
def replays(plan, monkeypatch):
    """Record every call at its second time, as a function that does the same again; list the recordings."""
    made = []

    class Watched(Replay):
        def __init__(self, *given):
            super().__init__(*given)
            self.runs = 0
            made.append(self)

        def run_forward(self, given):
            self.runs += 1
            return super().run_forward(given)

    plan(machine.SMALL)
    monkeypatch.setattr(persistent_replay, "SEEN_BEFORE", 1)
    monkeypatch.setattr(persistent_replay, "is_replayable", lambda device: True)
    monkeypatch.setattr(persistent_replay, "get_stream", lambda device: 0)
    monkeypatch.setattr(persistent_replay, "make_place", lambda device: (None, None))
    monkeypatch.setattr(persistent_replay, "record", lambda work, *place: work)
    monkeypatch.setattr(persistent_replay, "Replay", Watched)
    return made


@emulated
@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shapes", [[(150, 1)], [(3,), (2, 5, 70), (65, 3)], [(7, 130)] * 9])
def test_a_transfer_copies_every_number_of_tensors_of_any_shape(shapes, dtype, out, plan):
    """Where a recording computes in 16 bits, states may be float32."""
    call = Call(Form.TANH, KINDS[dtype], -1, *[1] * 6, *[False] * 5)
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(3))
    wide = torch.float32 if len(shapes) == 3 else dtype
    memory, others = ([draw(shape).to(wide) for shape in shapes] for _ in range(2))
    expected = [one.clone() for one in (memory if out else others)]
    Transfer(call, memory, out=out)(others)
    for one, other, right in zip(memory, others, expected, strict=True):
        assert torch.equal(one, right)
        assert torch.equal(other, right)


def runner(stack, **options):
    return partial(run_layers, [layer.cells for layer in stack.layers], **options)


@emulated
@pytest.mark.parametrize(
    ("name", "hidden", "bidirectional", "lengths"),
    [
        ("lstm", 16, False, None),
        ("gru", 17, True, LENGTHS),
        ("rnn", 16, True, None),
        ("gru-before", 5, False, LENGTHS),
    ],
)
def test_a_replay_equals_the_reference(name, hidden, bidirectional, lengths, replays):  # law 1
    stack = build(name, hidden, layers=2, bidirectional=bidirectional)
    for seed in range(4):
        torch.manual_seed(seed)
        x, state = problem(stack)
        with torch.no_grad():
            x += torch.randn(())
            for weight in stack.parameters():
                weight += 0.1 * torch.randn(())
        found = everything(stack, runner(stack), x, state, lengths)
        assert_near(found, everything(stack, partial(stack, backend="reference"), x, state, lengths), 1e-5)
    assert [one.runs for one in replays] == [3]


@emulated
@pytest.mark.parametrize(("hidden", "recorded"), [(16, 0), (17, 1)])
def test_weights_on_any_address_are_recorded_if_they_are_copied_anyway(hidden, recorded, replays):
    """In cuDNN's layout, those of an odd number of units are not on boundaries of 16 bytes."""
    stack = build("gru", hidden, layers=1)
    for weight in stack.parameters():
        weight.data = torch.cat([weight.new_zeros(1), weight.detach().flatten()])[1:].view(weight.shape)
        assert weight.data_ptr() % 16 != 0
    x, state = problem(stack)
    reference = everything(stack, partial(stack, backend="reference"), x, state, None)
    for _ in range(3):
        assert_near(everything(stack, runner(stack), x, state, None), reference, 1e-5)
    assert [one.runs for one in replays] == [2] * recorded


@emulated
def test_two_calls_before_a_backward_pass_do_not_share_memory(replays):
    stack = build("gru", 16, layers=1)
    run, reference = runner(stack), partial(stack, backend="reference")
    weights = list(stack.parameters())
    inputs = [problem(stack)[0].detach() + number for number in range(3)]
    run(inputs[0], None, None)
    first, second = (run(x, None, None).outputs.square().sum() for x in inputs[:2])
    assert [one.runs for one in replays] == [1]
    for loss, x in ((second, inputs[1]), (first, inputs[0])):
        found = torch.autograd.grad(loss, weights)
        assert_near(found, torch.autograd.grad(reference(x).outputs.square().sum(), weights))
    run(inputs[2], None, None)
    assert [one.runs for one in replays] == [2]


@emulated
def test_a_retained_graph_keeps_its_memory(replays):
    stack = build("lstm", 16, layers=1)
    run, weights = runner(stack), list(stack.parameters())
    inputs = [problem(stack)[0].detach() + number for number in range(2)]
    run(inputs[0], None, None)
    loss = run(inputs[0], None, None).outputs.square().sum()
    first = torch.autograd.grad(loss, weights, retain_graph=True)
    run(inputs[1], None, None)
    assert [one.runs for one in replays] == [1]
    again = torch.autograd.grad(loss, weights)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, weights)
    run(inputs[1], None, None)
    assert [one.runs for one in replays] == [2]


@emulated
def test_memory_that_nobody_can_ask_for_is_free_again(replays):
    stack = build("lstm", 16, layers=1)
    run, x = runner(stack), problem(stack)[0].detach()
    for _ in range(3):
        outputs = run(x, None, None).outputs
        del outputs
        gc.collect()
    assert [one.runs for one in replays] == [2]


@emulated
def test_results_are_not_overwritten_by_the_next_replay(replays):
    stack = build("lstm", 16, layers=1)
    run = runner(stack)
    x = problem(stack)[0].detach()
    with torch.no_grad():
        run(x, None, None)
        before = run(x, None, None)
        kept = [part.clone() for part in (before.outputs, *before.state)]
        run(x + 1, None, None)
    assert [one.runs for one in replays] == [2]
    assert all(
        torch.equal(one, other) for one, other in zip((before.outputs, *before.state), kept, strict=True)
    )


@emulated
def test_a_weight_changed_before_the_backward_pass_is_noticed(replays):
    stack = build("rnn", 16, layers=1)
    run, x = runner(stack), problem(stack)[0].detach()
    run(x, None, None)
    loss = run(x, None, None).outputs.sum()
    with torch.no_grad():
        stack.layers[0].cells[0].weight_hh.mul_(2.0)
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


@emulated
def test_other_weights_are_another_call(replays):
    stack, other = build("rnn", 16, layers=1), build("rnn", 16, layers=1)
    x = problem(stack)[0].detach()
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(1.0)
        for _ in range(3):
            ours, theirs = runner(stack)(x, None, None), runner(other)(x, None, None)
    assert len(replays) == 2
    assert not torch.allclose(ours.outputs, theirs.outputs)
    assert torch.allclose(theirs.outputs, other(x, backend="reference").outputs, atol=1e-5)


@emulated
def test_second_derivatives_are_refused(replays):
    stack = build("rnn", 16, layers=1)
    run, x = runner(stack), problem(stack)[0]
    run(x, None, None)
    loss = run(x, None, None).outputs.sum()
    with pytest.raises(ThroughtimeError):
        torch.autograd.grad(loss, x, create_graph=True)


@emulated
def test_function_transforms_are_refused_and_what_they_leave_behind_is_read(replays):
    stack, left = build("rnn", 16, layers=1), []
    run, x = runner(stack), problem(stack)[0].detach()

    def add(given):
        left.append(x + given.sum())
        return left[-1].sum()

    with torch.no_grad():
        run(x, None, None)
    torch.func.grad(add)(torch.ones(()))
    assert torch._C._functorch.is_functorch_wrapped_tensor(left[0])
    with torch.no_grad():
        found = run(left[0], None, None).outputs
        assert torch.allclose(found, stack(x + 1, backend="reference").outputs, atol=1e-5)
        assert [one.runs for one in replays] == [1]
        with pytest.raises(RuntimeError, match="setup_context"):
            torch.func.grad(lambda given: run(given, None, None).outputs.sum())(x)
        run(x, None, None)
    assert [one.runs for one in replays] == [2]


@emulated
def test_the_number_of_recordings_is_bounded(replays, monkeypatch):
    monkeypatch.setattr(persistent_replay, "MAX_REPLAYS", 2)
    stack = build("rnn", 8, layers=1)
    with torch.no_grad():
        for steps in (1, 2, 3, 3, 2):
            x = problem(stack, steps=steps)[0]
            for _ in range(2):
                runner(stack)(x, None, None)
    assert len(replays) == 3
    assert len(RECORDINGS._replays) == 2


@emulated
def test_the_memory_of_recordings_is_bounded(replays, monkeypatch):
    stack = build("rnn", 8, layers=1)
    with torch.no_grad():
        for steps in (4, 5, 6):
            x = problem(stack, steps=steps)[0]
            for _ in range(2):
                runner(stack)(x, None, None)
            if steps == 4:
                monkeypatch.setattr(
                    persistent_replay, "MAX_BYTES", int(2.9 * persistent_replay.count_bytes(replays[0].call))
                )
    assert [one.call.steps for one in RECORDINGS._replays.values()] == [5, 6]


@emulated
def test_large_calls_and_those_that_cannot_be_recorded_run_as_they_are(replays, monkeypatch):
    stack = build("rnn", 8, layers=1)
    x = problem(stack)[0]
    truth = stack(x, backend="reference").outputs

    def fail(*given):
        raise RuntimeError("cannot be recorded")

    monkeypatch.setattr(persistent_replay, "MAX_REPLAYED_BYTES", 8)
    for _ in range(3):
        assert torch.allclose(runner(stack)(x, None, None).outputs, truth, atol=1e-5)
    monkeypatch.setattr(persistent_replay, "MAX_REPLAYED_BYTES", 1 << 20)
    monkeypatch.setattr(persistent_replay, "record", fail)
    forget_programs()
    for _ in range(3):
        assert torch.allclose(runner(stack)(x, None, None).outputs, truth, atol=1e-5)
    assert replays == []


@emulated
@pytest.mark.parametrize("fails", ["forward", "backward"])
def test_after_a_failure_another_pool_is_used(fails, replays, monkeypatch):
    """torch records nothing more with the pool of a recording that failed."""
    stack, places, records = build("rnn", 8, layers=1), [], []

    def record(work, stream, pool):
        records.append(pool)
        if len(records) == 1 + (fails == "backward"):
            raise RuntimeError("cannot be recorded")
        return work

    monkeypatch.setattr(RECORDINGS, "_places", {})
    monkeypatch.setattr(persistent_replay, "record", record)
    monkeypatch.setattr(
        persistent_replay, "make_place", lambda device: (None, places.append(None) or len(places))
    )
    for steps in (4, 5):
        x, state = problem(stack, steps=steps)
        expected = everything(stack, partial(stack, backend="reference"), x, state, None)
        for _ in range(3):
            assert_near(everything(stack, runner(stack), x, state, None), expected, 1e-5)
    assert records == ([1, 2, 2] if fails == "forward" else [1, 1, 2, 2])


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", ["rnn", "gru", "gru-before", "lstm"])
def test_on_a_gpu_replays_equal_plain_calls(name, bidirectional, dtype):
    stack = build(name, 72, layers=2, bidirectional=bidirectional).cuda()
    run = runner(stack, dtype=None if dtype is torch.float32 else dtype)
    lengths = torch.tensor([20, 0, 7], device="cuda")
    found = []
    for number in range(persistent_replay.SEEN_BEFORE + 4):
        x, state = problem(stack, steps=20, device="cuda")
        with torch.no_grad():
            x += number % 2
        found.append(everything(stack, run, x, state, lengths))
    assert len(RECORDINGS._replays) > 0
    for plain, replayed in zip(found[:4], found[-4:], strict=True):
        for one, other in zip(plain, replayed, strict=True):
            torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-3)
