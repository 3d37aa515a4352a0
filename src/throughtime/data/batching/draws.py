"""Chance that is the same on every machine.

Only the raw bits of PCG64 are used: numpy keeps that stream fixed for ever, while `Generator.permutation`
and its like may change from one numpy version to the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draws(seed: int, epoch: int) -> np.random.Generator:
    """The generator of one epoch, independent of those of all other epochs and seeds."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch])))


def permutation(n: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The numbers 0..n-1 in random order.

    >>> permutation(5, draws(seed=0, epoch=0))
    array([3, 2, 1, 0, 4])
    """
    return np.argsort(_bits(n, generator), kind="stable").astype(np.int64)


def uniform(n: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """`n` numbers from [0, 1)."""
    return (_bits(n, generator) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_offset(n: int, generator: np.random.Generator) -> int:
    """How many tokens an epoch leaves out at its start, d ~ U[0, n), so that its windows fall elsewhere.

    >>> sorted({random_offset(3, draws(0, epoch)) for epoch in range(20)})
    [0, 1, 2]
    """
    return int(_bits(1, generator)[0]) % n


def _bits(n: int, generator: np.random.Generator) -> NDArray[np.uint64]:
    return np.asarray(generator.bit_generator.random_raw(n), dtype=np.uint64)
