"""Padded factors against torch's own operations: on the emulated GPU, and on a real one if there is one."""

from __future__ import annotations

import pytest
import torch

from throughtime.gpu.elements import round_up_units
from throughtime.gpu.factors import pad_states, pad_weights

TYPES = [torch.float32, torch.bfloat16, torch.float16]
every_type = pytest.mark.parametrize("dtype", TYPES)
some_sizes = pytest.mark.parametrize(
    ("rows", "size"), [(1, 1), (7, 5), (8, 16), (3, 15), (13, 24), (40, 136)]
)


def expected(given, bias, shape, dtype, added):
    rows, size = given.shape
    wanted = given.new_zeros(shape, dtype=dtype)
    wanted[:rows, :size] = given
    if bias is not None:
        coarse = bias.to(torch.bfloat16).to(bias.dtype)
        wanted[:rows, size], wanted[:rows, size + 1] = coarse, bias - coarse
    elif added:
        wanted[:rows, size : size + 2] = 1
    return wanted


def compare(rows, size, dtype, given_type, device="cpu"):
    draws = torch.Generator().manual_seed(size)
    weight = torch.randn(rows, size, generator=draws).to(given_type).to(device)
    bias = 3 * torch.randn(rows, generator=draws).to(device)
    for own in (bias, None):
        made = pad_weights(weight, own, dtype)
        shape = round_up_units(rows), round_up_units(size if own is None else size + 2)
        assert torch.equal(made, expected(weight, own, shape, dtype, False))
    states = weight.to(dtype)
    for added in (True, False):
        pitch = round_up_units(size + 2)
        wanted = expected(states, None, (rows, pitch), dtype, added)
        assert torch.equal(pad_states(states, added, pitch), wanted)


@every_type
@some_sizes
@pytest.mark.parametrize("given_type", [torch.float32, torch.bfloat16])
def test_factors_are_converted_and_padded(rows, size, dtype, given_type, emulated):
    compare(rows, size, dtype, given_type)


def test_rows_that_begin_anywhere_are_read(emulated):
    memory = torch.randn(1 + 6 * 16)
    weight = memory[1:].view(6, 16)
    wanted = expected(weight, None, (8, 16), torch.bfloat16, False)
    assert torch.equal(pad_weights(weight, None, torch.bfloat16), wanted)
    assert torch.equal(pad_weights(weight.t(), None, torch.bfloat16)[:16, :6], wanted[:6].t())


def test_no_rows_are_no_rows(emulated):
    assert pad_states(torch.zeros(0, 5), True, 8).shape == (0, 8)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@every_type
def test_a_real_gpu_agrees(dtype):
    for rows, size in ((1, 1), (33, 200), (10_000, 650), (999, 256)):
        for given_type in (torch.float32, torch.bfloat16):
            compare(rows, size, dtype, given_type, "cuda")
