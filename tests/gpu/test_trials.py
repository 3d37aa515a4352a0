"""Kernels that do not compile or start: `auto` gives the reason once and runs the next backend."""

from __future__ import annotations

import warnings

import pytest
import torch

from throughtime.cells import GRU, LSTM
from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.gpu import trials
from throughtime.recurrence.backend import BACKEND as REFERENCE

X = torch.zeros(9, 3, 4)


class Broken:
    """A backend whose first launch fails in this way, as on a machine where its kernel does not compile."""

    name = "broken"

    def __init__(self, error):
        self.error, self.runs = error, []

    def refuses(self, cell, x, lengths, carry):
        """It does not know yet that it fails."""

    def run(self, cell, x, state, lengths, carry):
        """Fail, unless there is no error."""
        self.runs.append((tuple(x.shape), x.requires_grad, carry is not None))
        if self.error is not None:
            raise self.error
        return REFERENCE.run(cell, x, state, lengths, carry)


@pytest.fixture(autouse=True)
def capturing(monkeypatch):
    """Whether a CUDA graph is being recorded; every trial is new."""
    state = {"now": False}
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state["now"])
    trials.forget()
    yield state
    trials.forget()


@pytest.mark.parametrize("error", [ThroughtimeError("no compiler"), RuntimeError("no launch\nmore")])
def test_a_failure_is_reported_once_and_remembered(error):
    backend = Broken(error)
    with pytest.warns(ThroughtimeWarning, match=str(error).splitlines()[0]) as seen:
        assert not trials.works(backend, LSTM(4, 5), X, None, trains=True)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not trials.works(backend, LSTM(4, 5), X, None, trains=True)
        assert not trials.works(backend, GRU(4, 5), X, None, trains=True)  # another kernel, the same reason
    assert len(backend.runs) == 2


def test_one_step_is_tried_once_for_each_kernel():
    backend, cell = Broken(None), LSTM(4, 5)
    for _ in range(2):
        assert trials.works(backend, cell, X, None, trains=True)
        assert trials.works(backend, cell, X[:5], None, trains=True)  # other steps, the same kernel
        assert trials.works(backend, cell, X, None, trains=False)
        assert trials.works(backend, cell, X, torch.ones(9, 3), trains=True)
        assert trials.works(backend, LSTM(4, 6), X, None, trains=True)
        assert trials.works(backend, cell, X[:, :2], None, trains=True)
    train, infer = ((1, 3, 4), True), ((1, 3, 4), False)
    fewer_rows = (1, 2, 4), True
    assert backend.runs == [
        (*train, False),
        (*infer, False),
        (*train, True),
        (*train, False),
        (*fewer_rows, False),
    ]


def test_a_backward_pass_that_fails_counts(monkeypatch):
    class Thrower(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ThroughtimeError("too many blocks")

    backend = Broken(None)
    monkeypatch.setattr(
        backend,
        "run",
        lambda cell, x, *others: (Thrower.apply(REFERENCE.run(cell, x, *others)[0]), None),
    )
    assert trials.works(backend, LSTM(4, 5), X, None, trains=False)
    with pytest.warns(ThroughtimeWarning, match="too many blocks"):
        assert not trials.works(backend, LSTM(4, 5), X, None, trains=True)


def test_the_top_layer_of_a_stack_has_an_input_of_its_own_width():
    backend = Broken(None)
    assert trials.works(backend, LSTM(10, 5), X, None, trains=True)
    assert backend.runs == [((1, 3, 10), True, False)]


def test_the_gradients_of_the_weights_are_left_alone():
    cell = LSTM(4, 5)
    assert trials.works(Broken(None), cell, X, None, trains=True)
    assert all(weight.grad is None for weight in cell.parameters())


def test_nothing_is_tried_while_a_graph_is_recorded(capturing):
    backend, capturing["now"] = Broken(ThroughtimeError("no")), True
    assert trials.works(backend, LSTM(4, 5), X, None, trains=True) is None
    assert backend.runs == []
    capturing["now"] = False
    with pytest.warns(ThroughtimeWarning):
        assert not trials.works(backend, LSTM(4, 5), X, None, trains=True)


def test_a_full_memory_says_nothing_about_a_kernel():
    backend = Broken(torch.OutOfMemoryError("full"))
    assert trials.works(backend, LSTM(4, 5), X, None, trains=True) is None
    backend.error = ThroughtimeError("no compiler")
    with pytest.warns(ThroughtimeWarning):
        assert not trials.works(backend, LSTM(4, 5), X, None, trains=True)


def test_under_autocast_the_weights_are_tried_in_the_type_of_the_input():
    cell, seen = LSTM(4, 5), []
    backend = Broken(None)
    backend.run = lambda cell, x, *others: (
        seen.append({w.dtype for w in cell.weights().values()}) or (REFERENCE.run(cell, x, *others))
    )
    assert trials.works(backend, cell, X.to(torch.bfloat16), None, trains=True)
    assert seen == [{torch.bfloat16}]
    assert cell.weight_hh.dtype is torch.float32
