"""The kernel that ends an update against the operations that it stands for."""

from __future__ import annotations

import pytest
import torch

from throughtime.fit.processes import Processes
from throughtime.fit.tally import Tally
from throughtime.gpu.tally import RecordedTally

NAN, INFINITY = float("nan"), float("inf")
UPDATES = [
    (2.5, 0.5),
    (NAN, 0.1),
    (1.0, 3.0),
    (0.5, INFINITY),
    (-INFINITY, 1.0),
    (4.0, NAN),
    (3.0, 1.0),
    (1e38, 1.25),
]


def compare(clip, device):
    alone, plain, counted = Processes(), Tally(device, clip), RecordedTally(device, clip)
    for number, (total, norm) in enumerate(UPDATES, 3):
        values = torch.tensor(total, device=device), torch.tensor(norm, device=device)
        finite = values[0].isfinite() & values[1].isfinite()
        plain.add(*values, number, finite)
        rate, stepping = torch.tensor(0.3, device=device), torch.zeros((), device=device)
        wanted = rate * counted.rate_factor
        norms, targets = values[1][None], torch.tensor(number, device=device)
        found = counted.add_at_once(values[0], norms, targets, rate, stepping)
        assert found.finite.tolist() == finite.tolist()
        assert found.stopped.tolist() == float(not finite)
        assert torch.equal(stepping, wanted)
        if finite:
            factor = torch.ones((), device=device) if clip is None else (clip / values[1]).clamp(max=1)
            assert torch.equal(found.clipping, factor)
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


@pytest.mark.parametrize("many", [1, 2, 31, 32, 33, 100])
def test_the_norm_is_that_of_all_gradients(many, emulated):
    norms = torch.rand(many, generator=torch.Generator().manual_seed(many))
    tally = RecordedTally(torch.device("cpu"), clip=0.5)
    zero, one = torch.zeros(()), torch.ones(())
    found = tally.add_at_once(zero, norms, torch.tensor(1), one, one.clone())
    norm = float(norms.double().norm())
    assert float(found.clipping) == pytest.approx(min(1.0, 0.5 / norm), rel=1e-6)
    assert tally.counts.gradients.tolist() == pytest.approx([norm, float(norm > 0.5)], rel=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_real_gpu_agrees(clip):
    compare(clip, torch.device("cuda"))
