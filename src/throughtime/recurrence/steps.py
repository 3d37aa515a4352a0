"""One step of a cell on a CPU as searches need it: in place, and with one product for rows that are alike."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from throughtime.accelerate import step_cell
from throughtime.cells.base import Cell, State

MIN_ALIKE = 64
"""Minimum number of rows for which looking for equal rows saves time."""


class AlikeRows(NamedTuple):
    """Which rows of an input begin alike: those with equal `ids` [B], in their first `columns`.

    In a search they have read the same token; there are often ten times as many rows as tokens.
    """

    ids: Tensor
    columns: int


@step_cell.register
def step_in_place(cell: Cell, x: Tensor, state: State, alike: AlikeRows | None) -> State | None:
    """The step of a GRU with reset after the product or of an LSTM, without gradients and `torch.vmap`."""
    if (
        x.device.type != "cpu"
        or torch.is_grad_enabled()
        or is_transformed(x, *state, *cell.weights().values())
    ):
        return None
    if cell.equations == "lstm":
        return _step_lstm(cell, x, state, alike)
    if cell.equations == "gru" and vars(cell)["reset"] == "after":
        return _step_gru(cell, x, state, alike)
    return None


def is_transformed(*tensors: Tensor) -> bool:
    """Return whether a transform such as `torch.vmap` stands for one of these tensors, which has no memory.

    >>> torch.vmap(lambda row: torch.tensor(is_transformed(row)))(torch.zeros(2, 3)).tolist()
    [True, True]
    >>> is_transformed(torch.zeros(3))
    False
    """
    try:
        for tensor in tensors:
            tensor.data_ptr()
    except RuntimeError:
        return True
    return False


def _step_gru(cell: Cell, x: Tensor, state: State, alike: AlikeRows | None) -> State:
    (h,), w, both = state, cell.weights(), 2 * cell.hidden_size
    from_state = linear(h, w["weight_hh"]).to(h.dtype)
    gates = _project_once(cell, x, alike).to(h.dtype)
    from_state[:, both:] += w["bias_hn"]
    r, z = gates[:, :both].add_(from_state[:, :both]).sigmoid_().chunk(2, dim=-1)
    n = tanh_by_sigmoid_(gates[:, both:].addcmul_(r, from_state[:, both:]))
    return (torch.lerp(n, h, z),)


def _step_lstm(cell: Cell, x: Tensor, state: State, alike: AlikeRows | None) -> State:
    h, c = state
    from_state = linear(h, cell.weights()["weight_hh"]).to(c.dtype)
    gates = _project_once(cell, x, alike).to(c.dtype).add_(from_state)
    i, f, g, o = gates.chunk(4, dim=-1)
    gates[:, : 2 * cell.hidden_size].sigmoid_()
    c = (f * c).addcmul_(i, tanh_by_sigmoid_(g))
    return tanh_by_sigmoid_(c.clone()).mul_(o.sigmoid_()), c


def tanh_by_sigmoid_(x: Tensor) -> Tensor:
    """tanh(x) = 2 sigmoid(2 x) - 1, in place: on a CPU a fourth of the time of torch's tanh.

    In 16 bits it is torch's: rounding each of these steps would triple the error.

    >>> tanh_by_sigmoid_(torch.tensor([0.0, 1000.0, -1000.0])).tolist()
    [0.0, 1.0, -1.0]
    """
    return x.tanh_() if x.itemsize == 2 else x.mul_(2).sigmoid_().mul_(2).sub_(1)


def _project_once(cell: Cell, x: Tensor, alike: AlikeRows | None) -> Tensor:
    """`project` of x [B, I], with one product for all rows that are alike."""
    if alike is None or len(x) < MIN_ALIKE:
        return cell.project(x)
    columns = alike.columns
    if columns < x.shape[1] and _rounds_products(cell):
        return cell.project(x)  # each of two parts would be rounded: rows would depend on their number
    distinct, which = torch.unique(alike.ids, return_inverse=True)
    if 2 * len(distinct) > len(x):
        return cell.project(x)
    row = which.new_empty(len(distinct)).scatter_(0, which, torch.arange(len(x), device=x.device))
    weight, bias = (cell.weights()[name] for name in ("weight_ih", "bias"))
    common, rest = x[:, :columns].index_select(0, row), x[:, columns:]
    if not rest.shape[1]:
        return linear(common, weight, bias).index_select(0, which)
    shared = linear(common, weight[:, :columns]).index_select(0, which)
    return linear(rest, weight[:, columns:], bias).add_(shared)


def _rounds_products(cell: Cell) -> bool:
    """Whether products on a CPU have 16 bits."""
    return torch.is_autocast_enabled("cpu") or cell.weights()["weight_ih"].itemsize == 2
