"""The gates of a decoder's cell, one step after another: forward, and backward from the last to the first.

The gates of a cell are four blocks of columns, [B, 4H]; the slices `from_state` and `from_input` say which
blocks the state and the input contribute to, `states` is the number of tensors of the state, and `rolled` the
number of blocks by which the rows of weight_hh are rolled to be in the order of these blocks.

- `activate` is one step: sums in `gates` become gates, and the next state is written to `after`.
- `slopes` prepares, for all steps at once, the derivative of the state of a step by the sums of its gates,
  and the other factors that `retreat` needs, each [L, B, ...].
- `retreat` is one step back: slopes become gradients of sums, and the gradient of the state becomes that of
  the state before, in place, as far as it flows past the gates. `more` is added to the gradient of h first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.accelerate import find_gate_kernels
from throughtime.cells.base import Cell, State
from throughtime.recurrence.fused import find_slopes_after


class GRUGates:
    """The GRU that resets after the product: q = W_hn h + b_hn, r, z, n, as in `recurrence.fused`."""

    from_state, from_input, states = slice(0, 3), slice(1, 4), 1
    rolled = 1  # from r, z, n to n, r, z

    @staticmethod
    def activate(gates: Tensor, before: State, after: State) -> None:
        """h' = (1 - z) n + z h."""
        size = before[0].shape[-1]
        gates[:, size : 3 * size].sigmoid_()
        q, r, z, n = gates.chunk(4, dim=-1)
        n.addcmul_(r, q).tanh_()
        torch.lerp(n, before[0], z, out=after[0])

    @staticmethod
    def slopes(gates: Tensor, before: State, after: State, into: Tensor) -> State:
        """d(sum) / d(h') for q, r, z, n; and z."""
        find_slopes_after(gates, before[0], into)
        return (gates.chunk(4, dim=-1)[2],)

    @staticmethod
    def retreat(slopes: Tensor, rest: State, gradient: State, more: Tensor | None = None) -> None:
        """Multiply all slopes, which are those of h'."""
        if more is not None:
            gradient[0].add_(more)
        slopes.unflatten(-1, (4, -1)).mul_(gradient[0][:, None])
        gradient[0].mul_(rest[0])


class LSTMGates:
    """The LSTM: i, f, g, o; the state and the input contribute to all of them."""

    from_state, from_input, states, rolled = slice(0, 4), slice(0, 4), 2, 0

    @staticmethod
    def activate(gates: Tensor, before: State, after: State) -> None:
        """c' = f c + i g, h' = o tanh(c')."""
        size = before[0].shape[-1]
        gates[:, : 2 * size].sigmoid_()
        i, f, g, o = gates.chunk(4, dim=-1)
        torch.mul(f, before[1], out=after[1]).addcmul_(i, g.tanh_())
        torch.tanh(after[1], out=after[0]).mul_(o.sigmoid_())

    @staticmethod
    def slopes(gates: Tensor, before: State, after: State, into: Tensor) -> State:
        """d(sum) / d(c') for i, f, g, d(sum) / d(h') for o; d(c') / d(h') and f."""
        i, f, g, o = gates.chunk(4, dim=-1)
        to_i, to_f, to_g, to_o = into.chunk(4, dim=-1)
        shown = torch.tanh(after[1])
        torch.addcmul(i, i, i, value=-1, out=to_i).mul_(g)
        torch.addcmul(f, f, f, value=-1, out=to_f).mul_(before[1])
        torch.addcmul(g.new_ones(()), g, g, value=-1, out=to_g).mul_(i)
        torch.addcmul(o, o, o, value=-1, out=to_o).mul_(shown)
        return torch.addcmul(o, o * shown, shown, value=-1), f

    @staticmethod
    def retreat(slopes: Tensor, rest: State, gradient: State, more: Tensor | None = None) -> None:
        """First the gradient from h' into c', then the gates; f c flows past them."""
        if more is not None:
            gradient[0].add_(more)
        (h, c), (through, f) = gradient, rest
        size = h.shape[-1]
        c.addcmul_(h, through)
        slopes[:, : 3 * size].unflatten(-1, (3, -1)).mul_(c[:, None])
        slopes[:, 3 * size :].mul_(h)
        c.mul_(f)
        h.zero_()


Gates = type[GRUGates] | type[LSTMGates]


def find_gates(cell: Cell, device: torch.device, dtype: torch.dtype) -> Gates | None:
    """Return the fastest implementation of the equations of this cell, or None if they are not supported."""
    if (kernels := find_gate_kernels(cell, device, dtype)) is not None:
        return kernels
    if cell.equations == "gru" and getattr(cell, "reset", "") == "after":
        return GRUGates
    return LSTMGates if cell.equations == "lstm" else None
