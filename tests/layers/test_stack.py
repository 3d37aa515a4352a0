"""Deep and bidirectional stacks: equal to torch's, options that work, mistakes that are named."""

from __future__ import annotations

import pytest
import torch
from tests.refusals import refuses
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from throughtime.cells import CELLS, GRU, LSTM, RNN
from throughtime.layers.stack import Stack

LENGTHS = torch.tensor([4, 7, 1, 5])
MODULES = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def flat(last: Tensor | tuple[Tensor, ...], directions: int) -> tuple[Tensor, ...]:
    """Torch's [layers * directions, B, H] tensors in the order of a stack's state."""
    parts = (last,) if isinstance(last, Tensor) else last
    rows = range(len(parts[0]))
    assert len(rows) % directions == 0
    return tuple(part[row] for row in rows for part in parts)


def assert_close(actual, expected) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", MODULES)
def test_two_layers_equal_torch(name):  # R63, R64
    theirs = MODULES[name](4, 6, num_layers=2).double()
    ours = Stack.from_torch(theirs)
    x = torch.randn(9, 3, 4, dtype=torch.float64)
    expected, last = theirs(x)
    y, state = ours(x)
    assert_close(y, expected)
    assert_close(state, flat(last, 1))


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("layers", [1, 3])
def test_bidirectional_equals_torch_with_packed_sequences(name, layers):  # R65
    theirs = MODULES[name](4, 6, num_layers=layers, bidirectional=True).double()
    ours = Stack.from_torch(theirs)
    x = torch.randn(7, 4, 4, dtype=torch.float64, requires_grad=True)
    state = tuple(torch.randn(4, 6, dtype=torch.float64) for _ in ours.state_sizes)
    kinds = 2 if name == "lstm" else 1
    given = tuple(torch.stack(state[kind::kinds]) for kind in range(kinds))
    packed, last = theirs(
        pack_padded_sequence(x, LENGTHS, enforce_sorted=False), given if kinds == 2 else given[0]
    )
    expected, _ = pad_packed_sequence(packed, total_length=7)
    y, reached = ours(x, state, LENGTHS)
    assert y.shape == (7, 4, 12)
    assert_close(y, expected)
    assert_close(reached, flat(last, 2))
    weights = torch.randn_like(y)
    assert_close(
        torch.autograd.grad((y * weights).sum(), x)[0], torch.autograd.grad((expected * weights).sum(), x)[0]
    )


@pytest.mark.parametrize("options", [{}, {"residual": True}, {"layer_norm": True, "residual": True}])
def test_padding_never_leaks_in(options):  # R65
    stack = Stack("gru", 12, 6, 2, bidirectional=True, **options).double()
    for weight in stack.parameters():
        nn.init.normal_(weight, 0.1, 0.5)
    x = torch.randn(7, 4, 12, dtype=torch.float64)
    other = x.clone()
    inside = torch.arange(7)[:, None] < LENGTHS
    other[~inside] = 1e3
    other.requires_grad_()
    y, state = stack(other, lengths=LENGTHS)
    assert_close((y, state), tuple(stack(x, lengths=LENGTHS)))
    assert torch.count_nonzero(y[~inside]) == 0
    y.sum().backward()
    assert torch.count_nonzero(other.grad[~inside]) == 0
    assert torch.count_nonzero(other.grad[inside]) > 0


def test_the_shapes_of_the_notes():  # R37, R38
    y, state = Stack("rnn", 16, 32)(torch.randn(100, 2, 16))
    assert y.shape == (100, 2, 32)
    assert [part.shape for part in state] == [(2, 32)]
    y, state = Stack("rnn", 10, 20, batch_first=True)(torch.randn(3, 5, 10))
    assert y.shape == (3, 5, 20)
    assert [part.shape for part in state] == [(3, 20)]
    assert torch.equal(y[:, -1], state[0])


def test_batch_first_turns_tensors_only():
    stack = Stack("lstm", 4, 6, 2, bidirectional=True).double().eval()
    turned = Stack("lstm", 4, 6, 2, bidirectional=True, batch_first=True).double().eval()
    turned.load_state_dict(stack.state_dict())
    x = torch.randn(7, 4, 4, dtype=torch.float64)
    y, state = stack(x, lengths=LENGTHS)
    other = turned(x.transpose(0, 1), lengths=LENGTHS)
    assert_close((other.outputs.transpose(0, 1), other.state), (y, state))


@pytest.mark.parametrize("name", CELLS)
def test_a_carry_of_zero_cuts_the_gradient_of_every_layer(name):
    stack, cut = Stack(name, 4, 6, 2).double(), 3
    x = torch.randn(7, 2, 4, dtype=torch.float64)
    carry = torch.ones(7, 2, dtype=torch.float64)
    carry[cut] = 0
    stack(x, carry=carry).outputs.square().sum().backward()
    whole = [weight.grad.clone() for weight in stack.parameters()]
    stack.zero_grad()
    first, state = stack(x[:cut])
    second, _ = stack(x[cut:], tuple(part.detach() for part in state))
    (first.square().sum() + second.square().sum()).backward()
    assert_close([weight.grad for weight in stack.parameters()], whole)


@pytest.mark.parametrize(
    ("name", "size", "layers"),
    [("gru", 64, 8), ("lstm", 100, 5), ("mingru", 512, 3), ("rnn", 1024, 2), ("gru", 2056, 1)],
)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_sizes_and_depths(name, size, layers, bidirectional):  # R62
    stack = Stack(name, 8, size, layers, bidirectional=bidirectional, dropout=0.3)
    y, state = stack(torch.randn(2, 2, 8))
    assert y.shape == (2, 2, stack.output_size) == (2, 2, size * (1 + bidirectional))
    assert [part.shape[1] for part in state] == list(stack.state_sizes)
    assert len(state) == layers * (1 + bidirectional) * (2 if name == "lstm" else 1)
    y.sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in stack.parameters())


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_every_cell_can_be_stacked_with_every_option(name, bidirectional):  # R62, R63
    stack = Stack(
        name,
        6,
        6,
        3,
        bidirectional=bidirectional,
        dropout=0.2,
        variational=True,
        weight_drop=0.0 if name.startswith("min") else 0.2,
        residual=True,
        layer_norm=True,
        initial="learned",
    )
    y, state = stack(torch.randn(5, 2, 6), lengths=torch.tensor([5, 0]))
    assert y.shape == (5, 2, stack.output_size)
    assert [tuple(part.shape) for part in state] == [(2, size) for size in stack.state_sizes]
    y.square().sum().backward()
    assert all(weight.grad is not None for weight in stack.parameters())


def test_a_residual_sum_and_the_norm_stand_where_they_are_said_to():
    stack = Stack.of([RNN(4, 6), RNN(6, 6)], residual=True, layer_norm=True).double()
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    first, second = (Stack.of([layer.from_left]) for layer in stack.layers)
    below = stack.norms[0](first(x).outputs)  # 4 values do not fit 6: no sum
    expected = stack.norms[1](below + second(below).outputs)
    assert_close(stack(x).outputs, expected)


def test_a_bidirectional_stack_refuses_to_generate():  # R66
    stack = Stack("gru", 4, 6, bidirectional=True)
    assert "bidirectional" in stack.refuses_generation
    assert Stack("gru", 4, 6).refuses_generation is None
    with refuses("step", "bidirectional=False"):
        stack.step(torch.randn(2, 4), stack.initial_state(2))


def test_mistakes_are_named():
    stack = Stack("lstm", 4, 6)
    with refuses("x", "[3, 2, 5]", "[time, batch, 4]"):
        stack(torch.randn(3, 2, 5))
    with refuses("x", "[batch, time, 4]"):
        Stack("lstm", 4, 6, batch_first=True)(torch.randn(3, 5))
    with refuses("state", "[[2, 6], [2, 6]]"):
        stack(torch.randn(3, 2, 4), torch.zeros(2, 6))
    with refuses("x", "[batch, 4]"):
        stack.step(torch.randn(1, 2, 4), stack.initial_state(2))
    with refuses("lengths", "[3]", "torch.int64", "[2]"):
        Stack("lstm", 4, 4, residual=True)(torch.randn(3, 2, 4), lengths=torch.tensor([1, 2, 3]))
    with refuses("cell", "'lstn'", "'lstm'"):
        Stack("lstn", 4, 6)
    with refuses("num_layers", "0"):
        Stack("lstm", 4, 6, 0)
    with refuses("cell", "Stack.of"):
        Stack(LSTM(4, 6), 4, 6)
    with refuses("cells", "5", "6"):
        Stack.of([GRU(4, 6), GRU(5, 6)])
    with refuses("cells", "4", "5"):
        Stack.of([GRU(4, 6)], [GRU(5, 6)])
    with refuses("cells", "2", "1"):
        Stack.of([GRU(4, 6), GRU(6, 6)], [GRU(4, 6)])
