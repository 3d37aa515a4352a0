"""When a stack hands all its layers to torch in one call, and when it must not."""

from __future__ import annotations

import copy
import importlib

import pytest
import torch

from throughtime.cells import GRU, LSTM, RNN
from throughtime.layers import stack as stack_module
from throughtime.layers.stack import Stack

scan_module = importlib.import_module("throughtime.recurrence.scan")  # the package's name is the function's
X = torch.randn(6, 2, 4, dtype=torch.float64)


@pytest.fixture
def calls(monkeypatch):
    """The layers of each single call, with the CPU taken for a GPU on which torch is faster than we are."""
    seen = []
    run = scan_module.run_layers

    def watched(layers, *others):
        seen.append(len(layers))
        return run(layers, *others)

    monkeypatch.setattr(scan_module, "run_layers", watched)
    monkeypatch.setattr(scan_module, "together", lambda layers, x: True)
    monkeypatch.setattr(stack_module, "LAYERED", ("cpu",))
    return seen


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True}, {"initial": "learned"}, {"batch_first": True}]
)
@pytest.mark.parametrize("lengths", [None, torch.tensor([3, 5])])
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


def test_a_single_layer_drops_nothing_between_layers(calls):
    Stack("gru", 4, 4, dropout=0.5).double()(X)
    assert calls == []  # one cell: nothing to run side by side
    Stack("gru", 4, 4, dropout=0.5, bidirectional=True).double()(X)
    assert calls == [1]


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


def test_where_ours_pays_the_layers_are_scanned_one_by_one(calls, monkeypatch):
    asked = []
    monkeypatch.setattr(scan_module, "together", lambda layers, x: asked.append(x.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        Stack("lstm", 4, 4, 2)(X.float())
    assert calls == []
    assert asked == [torch.bfloat16]  # in the precision that would run


def test_on_a_cpu_nobody_is_asked(calls, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(stack_module, "scan_layers", lambda *_: pytest.fail("layers run in turn on a CPU"))
    Stack("lstm", 4, 4, 2).double()(X)


def test_a_copy_runs_with_its_own_weights(calls):
    stack = Stack("gru", 4, 4, 2).double()
    twin = copy.deepcopy(stack)
    for weight in twin.parameters():
        torch.nn.init.zeros_(weight)
    assert not twin(X).outputs.any()
    assert calls == [2]
