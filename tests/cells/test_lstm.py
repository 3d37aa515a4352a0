"""Long short-term memory: equal to torch's, and its gates do what they are for."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from throughtime.cells import LSTM
from throughtime.cells.exchange import load_torch
from throughtime.recurrence import scan as scan_by

# By the equations of the cell itself: a faster backend has its own, and would hide what is wrong here.
scan = partial(scan_by, backend="reference")

FAR = 40.0  # the sigmoid of this is 1 in float64, of its negative 4e-18
GATES = ("i", "f", "g", "o")


def forced(**biases: float) -> LSTM:
    """A cell of 5 units with some gates held by their biases alone."""
    cell = LSTM(4, 5).double()
    with torch.no_grad():
        for name, bias in biases.items():
            rows = slice(5 * GATES.index(name), 5 * GATES.index(name) + 5)
            cell.weight_ih[rows], cell.weight_hh[rows], cell.bias[rows] = 0, 0, bias
    return cell


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return tuple(torch.randn(*shape, dtype=torch.float64) for shape in [(7, 3, 4), (3, 5), (3, 5)])


def stepped(
    cell: LSTM, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    h, c = cell.step(cell.project(x), (h, c))
    return h, c


def test_it_equals_torch():  # R55
    theirs, ours = nn.LSTM(7, 9).double(), LSTM(7, 9).double()
    load_torch(ours, theirs)
    x, h, c = (torch.randn(*shape, dtype=torch.float64) for shape in [(12, 3, 7), (3, 9), (3, 9)])
    expected, last = theirs(x, (h[None], c[None]))
    y, state = scan(ours, x, (h, c))
    torch.testing.assert_close(y, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(state, (last[0][0], last[1][0]), atol=1e-9, rtol=0)


def test_it_is_the_equations():  # R55
    cell = LSTM(4, 5).double()
    w_xi, w_xf, w_xc, w_xo = (part.T for part in cell.weight_ih.split(5))
    w_hi, w_hf, w_hc, w_ho = (part.T for part in cell.weight_hh.split(5))
    b_i, b_f, b_c, b_o = cell.bias.split(5)
    xs, h, c = inputs()
    start, expected = (h, c), []
    for x in xs:
        input_gate = torch.sigmoid(x @ w_xi + h @ w_hi + b_i)
        forget_gate = torch.sigmoid(x @ w_xf + h @ w_hf + b_f)
        output_gate = torch.sigmoid(x @ w_xo + h @ w_ho + b_o)
        candidate = torch.tanh(x @ w_xc + h @ w_hc + b_c)
        c = forget_gate * c + input_gate * candidate
        h = output_gate * torch.tanh(c)
        expected.append(h)
    y, state = scan(cell, xs, start)
    torch.testing.assert_close(y, torch.stack(expected), atol=1e-12, rtol=0)
    torch.testing.assert_close(state, (h, c), atol=1e-12, rtol=0)


def test_gates_lie_between_0_and_1_and_the_candidate_between_minus_1_and_1():  # R56
    # c' = f c + i g and h' = o tanh(c') show each: f by two values of c, i and g by holding the other.
    xs, h, c = inputs()
    x = 3 * xs[0]
    cell = forced()
    at_zero, at_one = (stepped(cell, x, h, torch.full_like(c, value))[1] for value in (0.0, 1.0))
    forget = at_one - at_zero
    shown, memory = stepped(cell, x, h, c)
    output = shown / torch.tanh(memory)
    taken = stepped(forced(g=FAR), x, h, torch.zeros_like(c))[1]
    candidate = stepped(forced(i=FAR), x, h, torch.zeros_like(c))[1]
    for gate in (forget, output, taken):
        assert gate.min() > 0
        assert gate.max() < 1
    assert candidate.abs().max() < 1
    assert candidate.min() < 0 < candidate.max()


def test_forget_open_and_input_closed_keep_the_memory():  # R56
    xs, h, c = inputs()
    _, (_, kept) = scan(forced(f=FAR, i=-FAR), xs, (h, c))
    torch.testing.assert_close(kept, c, atol=1e-12, rtol=0)


def test_forget_closed_and_input_open_replace_the_memory():  # R56
    xs, h, c = inputs()
    _, new = stepped(forced(f=-FAR, i=FAR, g=FAR), xs[0], h, c)
    torch.testing.assert_close(new, torch.ones_like(c), atol=1e-12, rtol=0)


def test_output_near_0_hides_the_memory():  # R56
    xs, h, c = inputs()
    y, (_, memory) = scan(forced(o=-FAR), xs, (h, c))
    assert y.abs().max() < 1e-12
    assert memory.abs().min() > 1e-9


def test_a_forget_bias_is_added():
    torch.manual_seed(0)
    plain = LSTM(4, 5)
    torch.manual_seed(0)
    remembering = LSTM(4, 5, forget_bias=1.0)
    difference = (remembering.bias - plain.bias).view(4, 5)
    torch.testing.assert_close(difference, torch.tensor([0.0, 1.0, 0.0, 0.0])[:, None].expand(4, 5))
