"""The kernel that ends an update against the operations that it stands for."""

from __future__ import annotations

import pytest
import torch

from throughtime.train.processes import Processes
from throughtime.train.tally import Tally

NAN, INFINITY = float("nan"), float("inf")
UPDATES = [
    (2.5, 0.5),
    (NAN, 0.1),
    (1.0, 3.0),
    (0.5, INFINITY),
    (-INFINITY, 1.0),
    (4.0, NAN),
    (3.0, 1.0),
    (1e38, 2.0),
]


def compare(clip, device):
    alone, plain, counted = Processes(), Tally(device, clip), Tally(device, clip)
    for number, (total, norm) in enumerate(UPDATES, 3):
        values = torch.tensor(total, device=device), torch.tensor(norm, device=device)
        finite = values[0].isfinite() & values[1].isfinite()
        plain.add(*values, number, finite)
        found, stopped = counted.add_at_once(*values, torch.tensor(number, device=device))
        assert found.tolist() == finite.tolist()
        assert stopped.tolist() == float(not finite)
        for tally in (plain, counted):
            tally.count(number)
        assert counted.state(alone) == plain.state(alone)
        assert counted.last_skip == plain.last_skip
        assert torch.equal(counted.rate_factor, plain.rate_factor)
        assert torch.equal(counted.stepped, plain.stepped)
    assert counted.skips == 4
    assert counted.lap(alone) == plain.lap(alone)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_one_kernel_counts_what_many_operations_do(clip, emulated):
    compare(clip, torch.device("cpu"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_real_gpu_agrees(clip):
    compare(clip, torch.device("cuda"))
