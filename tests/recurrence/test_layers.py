"""Several layers in one call of torch's: what they compute, and where that is faster than ours."""

from __future__ import annotations

import importlib
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

from throughtime.accelerate import block_gpu
from throughtime.cells import GRU, LSTM, RNN, ProjectedLSTM
from throughtime.layers import stack as stack_module
from throughtime.layers.stack import Stack
from throughtime.recurrence import native
from throughtime.recurrence.choice import BACKENDS, are_alike
from throughtime.recurrence.native import run_layers
from throughtime.recurrence.scan import scan_layers

scan_module = importlib.import_module("throughtime.recurrence.scan")  # the package's name is the function's

KINDS = {
    "rnn": RNN,
    "rnn-relu": partial(RNN, activation="relu"),
    "gru": GRU,
    "lstm": LSTM,
    "lstm-projected": lambda inputs, hidden, initial="zero": ProjectedLSTM(
        inputs, hidden + 1, hidden, initial=initial
    ),
}
LENGTHS = torch.tensor([4, 0, 6, 1])
every_kind = pytest.mark.parametrize("name", KINDS)


@pytest.fixture
def left_to_torch(monkeypatch):
    """Take a CPU for a GPU on which torch is faster than we are."""
    monkeypatch.setattr(scan_module, "choose_for_layers", lambda *given: BACKENDS["native"])
    monkeypatch.setattr(stack_module, "prefers_one_call", lambda x: True)


def build(name, layers=2, directions=1, dtype=torch.float64, initial="zero", device="cpu"):
    torch.manual_seed(layers)
    stack = Stack(KINDS[name], 3, 5, layers, bidirectional=directions == 2, initial=initial)
    return stack.to(device, dtype)


def cells_of(stack):
    return [layer.cells for layer in stack.layers]


def everything(stack, lengths, run, steps=6, batch=4):
    """Outputs, last state, and every gradient of a random function of both."""
    weight = next(stack.parameters())
    draw = partial(torch.randn, dtype=weight.dtype, generator=torch.Generator().manual_seed(7))
    x = draw(steps, batch, 3).to(weight.device).requires_grad_()
    state = tuple(draw(batch, size).to(weight.device).requires_grad_() for size in stack.state_sizes)
    outputs, last = run(x, state, lengths)
    assert outputs.shape == (steps, batch, stack.output_size)
    loss = sum((part * draw(part.shape).to(part.device)).sum() for part in (outputs, *last))
    return [outputs, *last, *torch.autograd.grad(loss, [x, *state, *stack.parameters()])]


def assert_equal(stack, run, lengths, backends=("reference", "auto"), atol=1e-10):
    for backend in backends:
        truth = everything(stack, lengths, partial(stack, backend=backend))
        torch.testing.assert_close(everything(stack, lengths, run), truth, rtol=1e-9, atol=atol)


@every_kind
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_one_call_equals_layer_by_layer_and_the_reference(name, layers, directions, lengths):
    stack = build(name, layers, directions)
    assert_equal(stack, partial(run_layers, cells_of(stack)), lengths)


@settings(max_examples=10, deadline=None)
@given(data=st.data(), steps=st.integers(1, 6), batch=st.integers(1, 4))
@pytest.mark.parametrize("directions", [1, 2])
def test_ragged_rows_of_any_lengths(directions, data, steps, batch):
    lengths = torch.tensor(data.draw(st.lists(st.integers(0, steps), min_size=batch, max_size=batch)))
    stack = build("lstm", 2, directions)
    ours, truth = (
        everything(stack, lengths, run, steps, batch)
        for run in (partial(run_layers, cells_of(stack)), partial(stack, backend="reference"))
    )
    torch.testing.assert_close(ours, truth, rtol=1e-9, atol=1e-10)


@every_kind
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_autocast_gives_what_it_gives_layer_by_layer(name, directions, lengths, left_to_torch):
    stack = build(name, 3, directions, torch.float32, initial="learned")
    x = torch.randn(6, 4, 3)
    with torch.autocast("cpu", torch.bfloat16):
        ours = scan_layers(cells_of(stack), x, stack.initial_state(4), lengths)
        for cell in (cell for layer in stack.layers for cell in layer.cells):
            assert cell.weights()["weight_ih"].dtype == torch.float32  # no longer replaced
        apart = stack(x, lengths=lengths, backend="native")
        assert torch.is_autocast_enabled("cpu")
    assert ours.outputs.dtype == apart.outputs.dtype == torch.bfloat16
    assert {part.dtype for part in ours.state} == {torch.float32}
    torch.testing.assert_close(ours, apart, rtol=2e-2, atol=2e-2)
    parameters = list(stack.parameters())
    gradients = [
        torch.autograd.grad(result.outputs.float().square().sum(), parameters, retain_graph=True)
        for result in (ours, apart)
    ]
    for mine, theirs in zip(*gradients, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - theirs).norm() <= 0.05 * theirs.norm() + 1e-3


def test_wrong_words_get_the_same_sentences(left_to_torch):
    stack, x = build("lstm"), torch.zeros(5, 2, 3, dtype=torch.float64)
    for words, facts in (
        ({"x": x, "lengths": torch.tensor([3, 6])}, ("lengths", "0", "5")),
        ({"x": x, "lengths": torch.tensor([3])}, ("lengths", "[1]")),
        ({"x": x.float()}, ("x", "torch.float64")),
        ({"x": x[:0]}, ("x", "[0, 2, 3]")),
    ):
        with refuses(*facts):
            stack(**words)


@pytest.mark.parametrize(
    ("layers", "same"),
    [
        ([[LSTM(3, 4)], [LSTM(4, 4)]], True),
        ([[GRU(3, 4), GRU(3, 4)], [GRU(8, 4), GRU(8, 4)]], True),
        ([[LSTM(3, 4)], [LSTM(4, 5)]], False),
        ([[LSTM(3, 4)], [GRU(4, 4)]], False),
        ([[RNN(3, 4)], [RNN(4, 4, "relu")]], False),
        ([[GRU(3, 4)], [GRU(4, 4, reset="before")]], False),
        ([[ProjectedLSTM(3, 5, 4)], [ProjectedLSTM(4, 5, 3)]], False),
    ],
)
def test_alike_are_cells_of_one_kind_and_size(layers, same):
    assert are_alike(layers) is same


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@every_kind
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("lengths", [None, LENGTHS, LENGTHS.clamp(max=4)])
@pytest.mark.parametrize("lengths_on", ["cpu", "cuda"])
def test_three_layers_left_to_torch_on_a_gpu_equal_the_reference(
    name, directions, lengths, lengths_on, monkeypatch
):
    calls = []
    monkeypatch.setattr(native, "run_layers", lambda *a: calls.append(a) or run_layers(*a))
    stack = build(name, 3, directions, device="cuda")
    rows = None if lengths is None else lengths.to(lengths_on)
    with block_gpu():
        assert_equal(stack, stack, rows, backends=("reference",), atol=1e-8)
    assert len(calls) == 1
