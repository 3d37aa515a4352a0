"""One step of attention with input feeding, forward and backward: gates of the cell, scores of attention.

The gates of a cell are four blocks of columns, [B, 4H]; the slices `from_state` and `from_input` say which
blocks the state and the input contribute to, `states` is the number of tensors of the state, and `rolled` the
number of blocks by which the rows of weight_hh are rolled to be in the order of these blocks.

- `advance` is one step: sums in `gates` become gates, and the next state is written to `after`. - `slopes`
computes, for all steps at once, the derivative of the state of a step by the sums of its gates, and
  the other factors that `retreat` needs, each [L, B, H].
- `retreat` is one step back: slopes become gradients of sums, and the gradient of the state becomes that of
the
  state before, in place, as far as it flows past the gates.

The gradients of scores take one step after another, the last one first. `step` gets the gradient of the
scores [B, T] and writes that of the projected query, or adds to that of the state; `result` returns the
gradients of the keys and of the energy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.recurrence.layout import scratch


class GRUGates:
    """The GRU that resets after the product: q = W_hn h + b_hn, r, z, n, as in `recurrence.fused`."""

    from_state, from_input, states = slice(0, 3), slice(1, 4), 1
    rolled = 1  # from r, z, n to n, r, z

    @staticmethod
    def advance(gates: Tensor, before: State, after: State) -> None:
        """h' = (1 - z) n + z h."""
        size = before[0].shape[-1]
        gates[:, size : 3 * size].sigmoid_()
        q, r, z, n = gates.chunk(4, dim=-1)
        n.addcmul_(r, q).tanh_()
        torch.lerp(n, before[0], z, out=after[0])

    @staticmethod
    def slopes(gates: Tensor, before: State, after: State, into: Tensor) -> State:
        """d(sum) / d(h') for q, r, z, n; and z."""
        q, r, z, n = gates.chunk(4, dim=-1)
        to_q, to_r, to_z, to_n = into.chunk(4, dim=-1)
        torch.sub(before[0], n, out=to_z).mul_(z)
        to_z.addcmul_(to_z, z, value=-1)  # (h - n) z (1 - z)
        torch.addcmul(n.new_ones(()), n, n, value=-1, out=to_n)
        to_n.addcmul_(to_n, z, value=-1)  # (1 - z) (1 - n^2)
        torch.mul(to_n, r, out=to_q)
        torch.addcmul(q, q, r, value=-1, out=to_r).mul_(to_q)  # q r (1 - r) (1 - z) (1 - n^2)
        return (z,)

    @staticmethod
    def retreat(slopes: Tensor, rest: State, gradient: State) -> None:
        """All slopes are those of h'."""
        slopes.unflatten(-1, (4, -1)).mul_(gradient[0][:, None])
        gradient[0].mul_(rest[0])


class LSTMGates:
    """The LSTM: i, f, g, o; the state and the input contribute to all of them."""

    from_state, from_input, states, rolled = slice(0, 4), slice(0, 4), 2, 0

    @staticmethod
    def advance(gates: Tensor, before: State, after: State) -> None:
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
    def retreat(slopes: Tensor, rest: State, gradient: State) -> None:
        """First the gradient from h' into c', then the gates; f c flows past them."""
        (h, c), (through, f) = gradient, rest
        size = h.shape[-1]
        c.addcmul_(h, through)
        slopes[:, : 3 * size].unflatten(-1, (3, -1)).mul_(c[:, None])
        slopes[:, 3 * size :].mul_(h)
        c.mul_(f)
        h.zero_()


Gates = type[GRUGates] | type[LSTMGates]


def find_gates(cell: Cell) -> Gates | None:
    """The equations of this cell, or None if it is not supported."""
    if cell.equations == "gru" and getattr(cell, "reset", "") == "after":
        return GRUGates
    return LSTMGates if cell.equations == "lstm" else None


def additive_scores(query: Tensor, keys: Tensor, energy: Tensor, seen: Tensor) -> Tensor:
    """e' sigmoid(q + k) for projected queries, [B, T]; the sigmoid is written to `seen` [B, T, D]."""
    torch.add(query[:, None].to(keys.dtype), keys, out=seen).sigmoid_()
    return torch.mv(seen.flatten(0, 1), energy).view(keys.shape[:2])


def product_scores(query: Tensor, keys: Tensor) -> Tensor:
    """q' k, [B, T]."""
    # A row times a matrix: batches of columns are ten times as slow in torch.
    return torch.bmm(query[:, None].to(keys.dtype), keys.transpose(1, 2))[:, 0]


class AdditiveGradients:
    """The gradients of e' sigmoid(q + k)."""

    def __init__(self, keys: Tensor, energy: Tensor, seen: Tensor) -> None:
        self.energy, self.seen = energy, seen  # seen: [L, B, T, D]
        self.slopes, self.into_keys = scratch(tuple(keys.shape), like=keys), torch.zeros_like(keys)
        self.into_energy = scratch((len(seen), len(energy)), like=keys)

    def step(self, t: int, gradient: Tensor, query: Tensor, state: Tensor) -> None:
        """Touch as few tensors of the size of the keys as possible; the energy is added up at the end."""
        seen = self.seen[t]
        torch.mm(gradient.view(1, -1), seen.flatten(0, 1), out=self.into_energy[t : t + 1])
        torch.addcmul(seen, seen, seen, value=-1, out=self.slopes)
        self.into_keys.addcmul_(self.slopes, gradient[..., None])
        torch.mul(torch.bmm(gradient[:, None], self.slopes)[:, 0], self.energy, out=query)

    def result(self) -> tuple[Tensor, Tensor | None]:
        """The gradients of all steps together."""
        return self.into_keys * self.energy, self.into_energy.sum(0)


class ProductGradients:
    """The gradients of q' k, where the query is the state itself."""

    def __init__(self, keys: Tensor, states: Tensor) -> None:
        self.keys, self.states = keys, states  # states: [L, B, D]
        self.into_scores = scratch((len(states), *keys.shape[:2]), like=keys)

    def step(self, t: int, gradient: Tensor, query: Tensor, state: Tensor) -> None:
        """dq = sum_j de_j k_j."""
        self.into_scores[t] = gradient
        state += torch.bmm(gradient[:, None], self.keys)[:, 0]

    def result(self) -> tuple[Tensor, Tensor | None]:
        """dk = sum_t de q."""
        states = self.states.transpose(0, 1).to(self.keys.dtype)
        return torch.bmm(self.into_scores.permute(1, 2, 0), states), None
