"""The parallel scan: all steps of a cell that is linear in its state, in about log T calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from throughtime.cells.base import Cell, State
from throughtime.cells.minimal import LinearCell
from throughtime.recurrence.backend import Result, first_order

CHUNK = 16
"""Steps taken one after the other inside each chunk, for all chunks at once."""
BLOCK_NUMBERS = 2**20
"""Numbers in one block of time. Memory of this size is reused; larger pieces are requested from the system
each time, page by page, which made a training step 1.3 to 1.5 times slower."""


class Associative:
    r"""All steps at once, for cells with :math:`h_t = a_t h_{t-1} + u_t`.

    Two steps after each other are again one such step, with decay :math:`a_2 a_1` and drive
    :math:`a_2 u_1 + u_2`, so time can be cut into chunks. Every chunk is first summed up as one step; those
    few steps are scanned by the same rule and give the state that enters each chunk; from there all chunks
    run side by side. Nothing is ever divided and decays only multiply, so that long sequences neither
    overflow nor lose precision. The gradient obeys the same recurrence backwards in time,

    .. math:: g_t = \partial y_t + a_{t+1} g_{t+1}, \qquad \partial u_t = g_t, \qquad
              \partial a_t = g_t h_{t-1}, \qquad \partial h_0 = a_1 g_1

    and runs through the same code. With bf16 weights the decays, drives and the running state are float32.
    """

    name = "associative"

    def refuses(self, cell: Cell, x: Tensor, lengths: Tensor | None, carry: Tensor | None) -> str | None:
        """It runs cells that are linear in their state."""
        if isinstance(cell, LinearCell):
            return None
        return "this cell is not linear in its state, so its steps cannot be taken in parallel"

    def run(
        self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None, carry: Tensor | None
    ) -> Result:
        """Run block after block of time: the decays and drives of all its steps, then one scan."""
        assert isinstance(cell, LinearCell)
        last, outputs = state[0], []
        block = max(8 * CHUNK, BLOCK_NUMBERS // last.numel())
        for number, piece in enumerate(x.split(block)):
            start, projected = number * block, cell.project(piece)
            kind = torch.promote_types(projected.dtype, state[0].dtype)
            running = torch.promote_types(kind, torch.float32)
            decay, drive = cell.coefficients(projected.to(running))
            within = None if lengths is None else (lengths - start).clamp(0, projected.shape[0])
            factors = None if carry is None else carry[start : start + block]
            sources = decay.contiguous(), drive.contiguous(), last.to(running)
            states, last = _LinearScan.apply(*sources, within, factors)  # type: ignore[no-untyped-call]
            outputs.append(states.to(kind))
        return Result(torch.cat(outputs) if len(outputs) > 1 else outputs[0], (last.to(outputs[0].dtype),))


BACKEND = Associative()


class _LinearScan(torch.autograd.Function):
    """h_t = a_t h_{t-1} + u_t, and its gradient by the same scan in the other direction."""

    @staticmethod
    def forward(
        ctx: Any, decay: Tensor, drive: Tensor, initial: Tensor, lengths: Tensor | None, carry: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        outputs = _scratch(drive)
        scan_linear(decay, drive, initial, outputs)
        if lengths is None:
            last = outputs[-1].clone()
        else:
            # What lies past a row's end cannot change what lies before it: nothing needs to be frozen.
            last = torch.where((lengths == 0)[:, None], initial, outputs[_ends(lengths)])
            outputs.masked_fill_(_padding(lengths, outputs), 0.0)
        ctx.save_for_backward(decay, initial, outputs, lengths, carry)
        return outputs, last

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        decay, initial, outputs, lengths, carry = ctx.saved_tensors
        d_outputs, d_last = gradients
        d_drive = _scratch(decay)
        if lengths is None:
            torch.add(d_outputs[-1], d_last, out=d_drive[-1])
        else:
            d_outputs = d_outputs.masked_fill(_padding(lengths, d_outputs), 0.0)
            ended = torch.where((lengths == 0)[:, None], 0.0, d_last)
            d_outputs.index_put_(_ends(lengths), ended, accumulate=True)
            d_drive[-1] = d_outputs[-1]
        back = decay if carry is None else decay * carry.to(decay.dtype)[:, :, None]
        scan_linear(back[1:], d_outputs[:-1].contiguous(), d_drive[-1], d_drive[:-1], backwards=True)
        d_decay = _scratch(decay)
        torch.mul(d_drive[0], initial, out=d_decay[0])
        torch.mul(d_drive[1:], outputs[:-1], out=d_decay[1:])
        d_initial = back[0] * d_drive[0]
        if lengths is not None:
            d_initial = torch.where((lengths == 0)[:, None], d_last, d_initial)
        return d_decay, d_drive, d_initial, None, None


def scan_linear(
    decay: Tensor, drive: Tensor, state: Tensor, outputs: Tensor, *, backwards: bool = False
) -> None:
    """Write h_t = decay_t h_{t-1} + drive_t for all t into `outputs`; backwards, h_t follows h_{t+1}.

    >>> outputs = torch.empty(3, 1, 1)
    >>> scan_linear(torch.full((3, 1, 1), 0.5), torch.ones(3, 1, 1), torch.tensor([[4.0]]), outputs)
    >>> outputs.flatten().tolist()
    [3.0, 2.5, 2.25]
    """
    steps = decay.shape[0]
    chunked = steps - steps % CHUNK if steps >= 4 * CHUNK else 0  # fewer are faster one by one
    # The steps that fill no chunk come last: in time, or where time runs backwards at its beginning.
    near = slice(steps - chunked, steps) if backwards else slice(chunked)
    far = slice(steps - chunked) if backwards else slice(chunked, steps)
    if chunked:
        _scan_chunks(decay[near], drive[near], state, outputs[near], backwards=backwards)
        state = outputs[steps - chunked] if backwards else outputs[chunked - 1]
    rows = [*zip(decay[far], drive[far], outputs[far], strict=True)]
    for a, u, h in reversed(rows) if backwards else rows:
        torch.addcmul(u, a, state, out=h)
        state = h


def _scan_chunks(decay: Tensor, drive: Tensor, state: Tensor, outputs: Tensor, *, backwards: bool) -> None:
    """Sum each chunk up as one step, scan those, and run all chunks from the states so found."""
    order = -1 if backwards else 1
    decays, drives, places = (
        part.unflatten(0, (-1, CHUNK)).unbind(1)[::order] for part in (decay, drive, outputs)
    )
    whole_decay, whole_drive = decays[0].clone(), drives[0].clone()  # [T / CHUNK, B, H]
    for a, u in zip(decays[1:], drives[1:], strict=True):
        whole_decay.mul_(a)
        torch.addcmul(u, a, whole_drive, out=whole_drive)
    entering = _scratch(whole_drive)
    first, before, after = (-1, slice(1, None), slice(-1)) if backwards else (0, slice(-1), slice(1, None))
    entering[first] = state
    scan_linear(whole_decay[before], whole_drive[before], state, entering[after], backwards=backwards)
    for a, u, h in zip(decays, drives, places, strict=True):
        torch.addcmul(u, a, entering, out=h)
        entering = h


def _scratch(like: Tensor) -> Tensor:
    """Return uninitialised memory; the tests fill it with NaN."""
    return torch.empty_like(like)


def _padding(lengths: Tensor, like: Tensor) -> Tensor:
    """True past each row's length. [T, B, 1]"""
    return (torch.arange(like.shape[0], device=like.device)[:, None] >= lengths)[:, :, None]


def _ends(lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Where each row's last step lies; of an empty row the first, which the caller overrides."""
    return (lengths - 1).clamp(min=0), torch.arange(len(lengths), device=lengths.device)
