"""When a stack runs all its layers in one call, here of torch's, and when it must not."""

from __future__ import annotations

import importlib

import pytest
import torch

from throughtime.cells import GRU, LSTM, RNN
from throughtime.layers import layer as layer_module
from throughtime.layers import stack as stack_module
from throughtime.layers.layer import Layer
from throughtime.layers.stack import Stack
from throughtime.recurrence.backend import Result
from throughtime.recurrence.choice import BACKENDS
from throughtime.recurrence.scan import scan_layers

scan_module = importlib.import_module("throughtime.recurrence.scan")  # the package's name is the function's
X = torch.randn(6, 2, 4, dtype=torch.float64)


@pytest.fixture
def calls(monkeypatch):
    """The layers of each single call, with the CPU taken for a GPU on which torch is faster than we are."""
    seen = []

    def watched(layers, *others):
        result = scan_layers(layers, *others)
        if result is not None:
            seen.append(len(layers))
        return result

    monkeypatch.setattr(scan_module, "choose_for_layers", lambda *given: BACKENDS["native"])
    for module in (stack_module, layer_module):
        monkeypatch.setattr(module, "scan_layers", watched)
        monkeypatch.setattr(module, "prefers_one_call", lambda x: True)
    return seen


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True}, {"initial": "learned"}, {"batch_first": True}]
)
@pytest.mark.parametrize("lengths", [None, *map(torch.tensor, ([3, 5], [6, 0], [4, 4]))])
def test_at_once_it_gives_what_it_gives_layer_by_layer(name, options, lengths, calls):
    stack = Stack(name, 4, 4, 3, **options).double()
    for weight in stack.parameters():
        torch.nn.init.normal_(weight, 0.0, 0.3)
    x = X.transpose(0, 1) if stack.batch_first else X
    results = [stack(x, None, lengths, backend=backend) for backend in ("auto", "reference")]
    assert calls == [3]
    torch.testing.assert_close(*results)
    ours, theirs = (
        torch.autograd.grad(y.square().sum() + sum(part.sum() for part in last), list(stack.parameters()))
        for y, last in results
    )
    torch.testing.assert_close(ours, theirs)


def test_a_state_is_given_and_comes_back_flat(calls):
    stack = Stack("lstm", 4, 5, 2, bidirectional=True).double()
    state = tuple(torch.randn(2, size, dtype=torch.float64) for size in stack.state_sizes)
    torch.testing.assert_close(stack(X, state), stack(X, state, backend="reference"))
    assert calls == [2]


@pytest.mark.parametrize(
    ("options", "trained", "evaluated"),
    [
        ({}, [2], [2]),
        ({"dropout": 0.5}, [], [2]),
        ({"dropout": 0.5, "variational": True}, [], [2]),
        ({"weight_drop": 0.5}, [], [2]),
        ({"residual": True}, [], []),
        ({"layer_norm": True}, [], []),
    ],
)
def test_what_happens_between_layers_or_in_them_keeps_them_apart(options, trained, evaluated, calls):
    stack = Stack("gru", 4, 4, 2, **options).double()
    stack(X)
    assert calls == trained
    calls.clear()
    stack.eval()(X)
    assert calls == evaluated


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"residual": True}, {"weight_drop": 0.5}])
def test_both_directions_of_a_layer_run_at_once_where_layers_do_not(options, calls):
    stack = Stack("lstm", 4, 4, 2, bidirectional=True, **options).double()
    results = []
    for backend in ("auto", "reference"):
        torch.manual_seed(3)
        outputs, state = stack(X, None, torch.tensor([3, 6]), backend=backend)
        loss = outputs.square().sum() + sum(part.sum() for part in state)
        results.append([outputs, *state, *torch.autograd.grad(loss, list(stack.parameters()))])
    assert calls == [1, 1]
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_backend_that_is_named_is_taken_layer_by_layer(backend, calls):
    Stack("lstm", 4, 4, 2).double()(X, backend=backend)
    assert calls == []


def test_a_carry_goes_layer_by_layer(calls):
    Stack("gru", 4, 4, 2).double()(X, carry=torch.ones(6, 2, dtype=torch.float64))
    assert calls == []


@pytest.mark.parametrize(
    "cells",
    [
        [LSTM(4, 5), LSTM(5, 4)],
        [LSTM(4, 4), GRU(4, 4)],
        [RNN(4, 4), RNN(4, 4, "relu")],
        [GRU(4, 4), GRU(4, 4, reset="before")],
    ],
)
def test_unequal_cells_go_layer_by_layer(cells, calls):
    Stack.of(cells).double()(X)
    assert calls == []


def test_who_watches_a_layer_sees_it_run(calls):
    stack, seen = Stack("gru", 4, 4, 2).double(), []
    hook = stack.layers[0].register_forward_hook(lambda layer, given, result: seen.append(result))
    stack(X)
    assert (len(seen), calls) == (1, [])
    hook.remove()
    stack(X)
    assert (len(seen), calls) == (1, [2])


def test_a_backend_that_knows_one_cell_scans_layer_by_layer(calls, monkeypatch):
    asked = []
    monkeypatch.setattr(
        scan_module,
        "choose_for_layers",
        lambda layers, x, *others: asked.append(x.dtype) or BACKENDS["associative"],
    )
    with torch.autocast("cpu", torch.bfloat16):
        Stack("lstm", 4, 4, 2)(X.float())
    assert calls == []
    assert asked == [torch.bfloat16]  # in the precision that would run


def test_on_a_cpu_nobody_is_asked(calls, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(stack_module, "scan_layers", lambda *_: pytest.fail("layers run in turn on a CPU"))
    Stack("lstm", 4, 4, 2).double()(X)


def random_stack(*options, **named):
    stack = Stack(*options, **named).double()
    for weight in stack.parameters():
        torch.nn.init.normal_(weight, 0.0, 0.5)
    return stack


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_after_inference_and_a_change_of_type_it_trains(name, layers, calls):
    stack = random_stack(name, 4, 4, layers)
    with torch.inference_mode():
        stack(X)
    for dtype in (torch.float32, torch.float64):  # of the last call nothing may be left: no type, no mode
        stack.to(dtype)
        with torch.no_grad():
            stack(X.to(dtype))
        y, last = stack(X.to(dtype))
        assert {part.dtype for part in (y, *last)} == {dtype}
        truth = stack(X.to(dtype), backend="reference").outputs
        gradients, wanted = (
            torch.autograd.grad(one.square().sum(), list(stack.parameters())) for one in (y, truth)
        )
        torch.testing.assert_close(gradients, wanted)
        with torch.inference_mode():
            torch.testing.assert_close(stack(X.to(dtype)).outputs, truth)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("lengths", [None, torch.tensor([3, 0])])
def test_who_writes_into_a_state_changes_no_later_call(name, layers, lengths, calls):
    stack = random_stack(name, 4, 4, layers)
    with torch.no_grad():
        first = stack(X, lengths=lengths)
        kept = [part.clone() for part in (first.outputs, *first.state)]
        for written in (first.state, stack.initial_state(2)):
            for part in written:
                part.fill_(7.0)
        again = stack(X, lengths=lengths)
    torch.testing.assert_close([again.outputs, *again.state], kept, rtol=0, atol=0)


def test_parts_of_an_initial_state_share_no_version():
    state = Stack("lstm", 4, 4, 2).initial_state(2)
    saved = state[0].clone().requires_grad_() * state[1]
    for part in state[2:]:
        part.add_(1.0)
    saved.sum().backward()  # autograd would refuse, had writing into the others counted for this one


@pytest.mark.parametrize("layers", [1, 2])
def test_a_layer_or_cell_that_is_exchanged_is_the_one_that_runs(layers, calls):
    stack, other = random_stack("gru", 4, 4, layers), random_stack("gru", 4, 4, layers)
    stack(X)
    stack.layers[0] = other.layers[0]
    torch.testing.assert_close(stack(X), stack(X, backend="reference"))
    cell = GRU(4, 4).double()
    stack.layers[layers - 1].from_left = cell
    torch.testing.assert_close(stack(X), stack(X, backend="reference"))
    grown = random_stack("gru", 4, 4, bidirectional=True)
    grown.layers[0].from_right = cell
    torch.testing.assert_close(grown(X), grown(X, backend="reference"))


@pytest.mark.parametrize("name", ["gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 2])
def test_weights_that_stand_in_are_used_while_they_do(name, layers, calls):
    stack = random_stack(name, 4, 4, layers)
    cell, before = stack.layers[0].from_left, stack(X)
    with cell.replacing({"bias": cell.bias + 1.0, "weight_hh": 2.0 * cell.weight_hh}):
        inside = stack(X)
        torch.testing.assert_close(inside, stack(X, backend="reference"))
    assert not torch.allclose(inside.outputs, before.outputs)
    torch.testing.assert_close(stack(X), before, rtol=0, atol=0)


def test_where_some_states_are_learned_the_others_are_zero(calls):
    stack = Stack.of([LSTM(4, 4), LSTM(4, 4, initial="learned")]).double()
    for learned in stack.layers[1].from_left.learned_state:
        torch.nn.init.normal_(learned)
    ours, truth = stack(X), stack(X, backend="reference")
    assert calls == [2]
    torch.testing.assert_close(ours, truth)
    assert not torch.allclose(ours.outputs, stack(X, tuple(torch.zeros_like(part) for part in ours.state))[0])


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["forward_pre_hook", "forward_hook", "full_backward_hook"])
@pytest.mark.parametrize("of_cell", [False, True])
def test_every_hook_on_a_layer_or_its_cell_is_called(kind, of_cell, layers, calls):
    stack, seen = Stack("gru", 4, 4, layers).double(), []
    watched = stack.layers[0].from_left if of_cell else stack.layers[0]
    getattr(watched, f"register_{kind}")(lambda *given: seen.append(given))
    stack(X.clone().requires_grad_()).outputs.sum().backward()
    assert (len(seen), calls) == (1, [])


@pytest.mark.parametrize("layers", [1, 2])
def test_who_watches_all_modules_sees_every_layer_and_cell(layers, calls):
    stack, seen = Stack("gru", 4, 4, layers).double(), []
    hook = torch.nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        stack(X)
    finally:
        hook.remove()
    assert [part for layer in stack.layers for part in (layer.from_left, layer)] + [stack] == seen


def test_a_layer_that_runs_in_its_own_way_does(calls):
    class Silent(Layer):
        def forward(self, x, state, *others):
            return Result(0.0 * x, state)

    for layers in (1, 2):
        stack = Stack("gru", 4, 4, layers).double()
        stack.layers[layers - 1] = Silent(GRU(4, 4)).double()
        assert not stack(X).outputs.any()
    assert calls == []


class Doubled(torch.nn.Module):
    """A module of another kind in the place of a layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.state_sizes = layer, layer.state_sizes

    def initial_state(self, batch):
        return self.layer.initial_state(batch)

    def forward(self, *given):
        outputs, state = self.layer(*given)
        return 2 * outputs, state


def test_a_stack_with_a_module_of_another_kind_can_be_moved():
    stack, x = Stack("gru", 3, 4, 2), torch.randn(5, 2, 3)
    wanted = stack(x).outputs
    stack.layers[1] = Doubled(stack.layers[1])
    assert torch.allclose(stack.double()(x.double()).outputs.float(), 2 * wanted, atol=1e-5)
