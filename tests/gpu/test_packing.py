"""Tensors that lie in one piece of memory."""

from __future__ import annotations

import torch

from throughtime.gpu.packing import BOUNDARY, Packed

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def test_what_is_packed_is_found_again():
    given = [
        torch.tensor(7),
        torch.tensor([True, False, True]),
        torch.empty(0),
        torch.randn(3, 5, dtype=torch.float64),
        torch.arange(6).view(2, 3),
    ]
    packed = Packed(given, DEVICE)
    for factor in (1, 2):
        changed = [one if one.dtype == torch.bool else factor * one for one in given]
        packed.hold(changed)
        packed.send()
        for own, other in zip(packed.parts, changed, strict=True):
            assert torch.equal(own.cpu(), other)
            assert own.is_contiguous()
            assert own.data_ptr() % BOUNDARY == 0
