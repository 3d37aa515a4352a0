"""The seeds of updates, computed many at a time, are those that numpy computes one by one."""

from __future__ import annotations

import numpy as np
import pytest

from throughtime.fit.seeds import BLOCK, UpdateSeeds


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**63 + 5, 2**100 + 3])
@pytest.mark.parametrize("rank", [0, 3])
def test_seeds_are_those_of_numpy(seed, rank):
    seeds = UpdateSeeds(seed, rank)
    for step in [0, 1, 2, BLOCK - 1, BLOCK, 5 * BLOCK + 7, 3, 2**32 - BLOCK // 2]:  # also back again
        found = seeds.find(step)
        assert type(found) is int
        assert found == np.random.SeedSequence([seed, step, rank]).generate_state(1)[0]
