"""The laws of a recurrence, for stacks of every registered cell."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from throughtime.cells import CELLS
from throughtime.layers.stack import Stack

EXTRAS = [{}, {"residual": True, "layer_norm": True, "initial": "learned"}]
every_cell = pytest.mark.parametrize("name", CELLS)
every_option = pytest.mark.parametrize("extras", EXTRAS, ids=["plain", "all options"])
both_ways = pytest.mark.parametrize("bidirectional", [False, True], ids=["one way", "both ways"])


def built(name: str, **options) -> Stack:
    """A stack of two layers with every weight drawn, in float64."""
    torch.manual_seed(0)
    stack = Stack(name, 4, 4, 2, **options).double().eval()
    for weight in stack.parameters():
        torch.nn.init.normal_(weight, 0.1, 0.5)
    return stack


def drawn(stack: Stack, steps: int, batch: int) -> tuple[Tensor, tuple[Tensor, ...]]:
    state = tuple(torch.randn(batch, size, dtype=torch.float64) for size in stack.state_sizes)
    return torch.randn(steps, batch, 4, dtype=torch.float64), state


def assert_close(actual, expected) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-9)


@every_cell
@every_option
def test_whole_is_step_by_step_is_in_chunks(name, extras):
    stack = built(name, **extras)
    x, start = drawn(stack, 9, 3)
    whole, last = stack(x, start)

    outputs, state = [], start
    for x_t in x:
        y, state = stack.step(x_t, state)
        outputs.append(y)
    assert_close(torch.stack(outputs), whole)
    assert_close(state, last)

    outputs, state = [], start
    for chunk in x.split([1, 5, 3]):
        y, state = stack(chunk, state)
        outputs.append(y)
    assert_close(torch.cat(outputs), whole)
    assert_close(state, last)


@every_cell
@every_option
@both_ways
def test_a_padded_batch_is_each_row_alone(name, extras, bidirectional):
    stack = built(name, bidirectional=bidirectional, **extras)
    x, start = drawn(stack, 6, 4)
    lengths = torch.tensor([3, 6, 0, 1])
    y, last = stack(x, start, lengths)
    for row, length in enumerate(lengths.tolist()):
        before = tuple(part[row : row + 1] for part in start)
        if length:
            alone, reached = stack(x[:length, row : row + 1], before)
            assert_close(y[:length, row], alone[:, 0])
        else:
            reached = before
        assert torch.count_nonzero(y[length:, row]) == 0
        assert_close(tuple(part[row : row + 1] for part in last), reached)


@every_cell
@every_option
@both_ways
def test_saved_and_loaded_is_the_same(name, extras, bidirectional, tmp_path):
    stack = built(name, bidirectional=bidirectional, **extras)
    save_file(stack.state_dict(), tmp_path / "stack.safetensors")
    fresh = Stack(name, 4, 4, 2, bidirectional=bidirectional, **extras).double().eval()
    fresh.load_state_dict(load_file(tmp_path / "stack.safetensors"))
    x, _ = drawn(stack, 6, 3)
    torch.testing.assert_close(fresh(x), stack(x), atol=0, rtol=0)


@every_cell
def test_read_backwards_it_is_the_mirror_of_itself(name):
    stack = built(name, bidirectional=True)
    x, _ = drawn(stack, 6, 3)
    mirrored = Stack.of(
        [stack.layers[0].from_right], [stack.layers[0].from_left]
    )  # the same two cells, each at the other's place
    y, _ = Stack.of([stack.layers[0].from_left], [stack.layers[0].from_right])(x)
    other, _ = mirrored(x.flip(0))
    half = y.shape[-1] // 2
    assert_close(other.flip(0), torch.cat([y[..., half:], y[..., :half]], dim=-1))


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(CELLS)),
    bidirectional=st.booleans(),
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=4),
)
def test_gradients_of_a_padded_batch_are_the_sum_of_the_rows(name, bidirectional, lengths):
    stack = built(name, bidirectional=bidirectional)
    x, start = drawn(stack, max(1, *lengths), len(lengths))
    stack(x, start, torch.tensor(lengths)).outputs.square().sum().backward()
    together = {label: weight.grad.clone() for label, weight in stack.named_parameters()}
    stack.zero_grad()
    for row, length in enumerate(lengths):
        if length:
            before = tuple(part[row : row + 1] for part in start)
            stack(x[:length, row : row + 1], before).outputs.square().sum().backward()
    for label, weight in stack.named_parameters():
        alone = torch.zeros_like(weight) if weight.grad is None else weight.grad
        assert_close(together[label], alone)


@every_cell
@every_option
@both_ways
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_sequence_without_a_batch_equals_a_batch_of_one_row(name, extras, bidirectional, batch_first):
    stack = built(name, **extras, bidirectional=bidirectional, batch_first=batch_first)  # R122
    x, start = drawn(stack, 6, 1)
    whole, last = stack(x.transpose(0, 1) if batch_first else x, start, torch.tensor([5]))
    y, state = stack(x[:, 0], tuple(part[0] for part in start), torch.tensor(5))
    assert_close(y, whole.squeeze(0 if batch_first else 1))
    assert_close(state, tuple(part[0] for part in last))
