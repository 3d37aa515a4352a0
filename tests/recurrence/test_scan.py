"""`scan` as a person would guess it: shapes, and sentences for wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from throughtime.cells import CELLS, GRU, LSTM, RNN, MinGRU
from throughtime.layers.stack import Stack
from throughtime.recurrence import scan


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ({"x": torch.zeros(7, 2, 15)}, ("x", "[7, 2, 15]", "[time, batch, 16]")),
        ({"x": torch.zeros(7, 15)}, ("x", "[7, 15]", "[time, batch, 16]", "[time, 16]")),
        ({"x": torch.zeros(16)}, ("x", "[16]", "[time, 16]")),
        (
            {"x": torch.zeros(7, 16), "state": (torch.zeros(1, 32),) * 2},
            ("state", "[[1, 32], [1, 32]]", "[[32], [32]]"),
        ),
        ({"x": torch.zeros(7, 16), "state": ([0.0], [0.0])}, ("state", "[[32], [32]]")),
        ({"x": torch.zeros(7, 16), "lengths": torch.tensor([3, 2])}, ("lengths", "[1]")),
        ({"x": torch.zeros(7, 16), "lengths": torch.tensor(8)}, ("lengths", "8", "0", "7")),
        ({"x": torch.zeros(7, 16), "carry": torch.ones(6)}, ("carry", "[time, batch]", "[7, 1]")),
        ({"x": torch.zeros(0, 2, 16)}, ("x", "[0, 2, 16]")),
        (
            {"x": torch.zeros(7, 2, 16, dtype=torch.float64)},
            ("x", "float64", "torch.float32"),
        ),
        ({"x": np.zeros((7, 2, 16), dtype=np.float32)}, ("x",)),
        ({"x": None, "batch_first": True}, ("x", "NoneType")),
        ({"state": (torch.zeros(2, 32, device="meta"),) * 2}, ("state", "meta", "cpu")),
        ({"state": np.zeros((2, 32))}, ("state",)),
        ({"state": torch.zeros(2, 32)}, ("state", "[[2, 32], [2, 32]]")),
        ({"lengths": torch.tensor([3])}, ("lengths", "[1]", "[2]")),
        ({"lengths": torch.tensor([3.0, 1.0])}, ("lengths", "torch.float32", "torch.int64")),
        ({"lengths": torch.tensor([3, 8])}, ("lengths", "8", "0", "7")),
        ({"lengths": torch.tensor([-1, 1])}, ("lengths", "-1", "0", "7")),
        ({"lengths": [3, 1]}, ("lengths",)),
        ({"carry": torch.ones(7, 3)}, ("carry", "[time, batch]", "[7, 2]")),
        ({"backend": "fussed"}, ("backend", "'fussed'", "'fused'")),
    ],
)
def test_wrong_words_get_a_sentence(words, facts):
    options = {"x": torch.zeros(7, 2, 16), **words}
    with refuses(*facts):
        scan(LSTM(16, 32), **options)


@pytest.mark.parametrize("kind", [RNN, GRU, LSTM, MinGRU])
def test_a_state_is_of_the_inputs_type_save_under_autocast(kind):
    cell, x = kind(3, 4), torch.randn(5, 2, 3)
    wide = tuple(torch.zeros(2, size, dtype=torch.float64) for size in cell.state_sizes)
    with refuses("state", "torch.float64", "torch.float32"):
        scan(cell, x, wide)
    with refuses("state", "torch.float64", "torch.float32"):
        Stack.of([cell, kind(4, 4)])(x, wide * 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(scan(cell, x, wide).outputs, scan(cell, x).outputs)


def test_weights_on_another_device_are_told():
    with refuses("x", "cpu", "meta"):
        scan(GRU(3, 4).to("meta"), torch.zeros(5, 2, 3))


def test_batch_first_turns_inputs_and_outputs():  # R38
    cell = RNN(10, 20)
    x = torch.randn(3, 5, 10)
    y, (h,) = scan(cell, x, batch_first=True)
    assert (y.shape, h.shape) == ((3, 5, 20), (3, 20))
    assert torch.equal(y, scan(cell, x.transpose(0, 1)).outputs.transpose(0, 1))
    with refuses("x", "[batch, time, 10]"):
        scan(cell, torch.randn(3, 5, 9), batch_first=True)


@pytest.mark.parametrize("name", CELLS)
def test_a_sequence_without_a_batch_equals_a_batch_of_one_row(name):  # R122
    cell = CELLS[name](8, 16)
    x, carry = torch.randn(5, 8), torch.rand(5)
    start = tuple(torch.randn(size) for size in cell.state_sizes)
    rows = tuple(part[None] for part in start)
    for options, batched in (
        ({}, {}),
        ({"state": start, "reverse": True}, {"state": rows, "reverse": True}),
        ({"state": start, "carry": carry}, {"state": rows, "carry": carry[:, None]}),
        ({"lengths": torch.tensor(3)}, {"lengths": torch.tensor([3])}),
        ({"lengths": torch.tensor([3])}, {"lengths": torch.tensor([3])}),
        ({"batch_first": True}, {}),
    ):
        y, state = cell(x, **options)
        outputs, last = cell(x[:, None], **batched)
        torch.testing.assert_close(y, outputs[:, 0], rtol=0, atol=0)
        assert [part.shape for part in state] == [part.shape for part in start]
        torch.testing.assert_close(state, tuple(part[0] for part in last), rtol=0, atol=0)


def test_a_cell_without_a_batch_equals_torch():  # R122
    module = torch.nn.GRU(8, 16)
    x, h = torch.randn(5, 8), torch.randn(16)
    expected, (last,) = module(x, h[None])
    stack = Stack.from_torch(module)
    for run in (stack, stack.layers[0].from_left):
        y, (state,) = run(x, h)
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(state, last)


def test_a_backend_that_refuses_says_why():
    with refuses("backend 'associative'"):
        scan(LSTM(3, 4), torch.zeros(2, 1, 3), backend="associative")
