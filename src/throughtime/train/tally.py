"""Losses summed up on the device, and the first update that went wrong, read back only now and then."""

from __future__ import annotations

import torch
from torch import Tensor

from throughtime.train.processes import Processes


class Tally:
    """Sums since the last look and since the epoch began. `add` never waits for the device."""

    def __init__(self, device: torch.device) -> None:
        self._totals = torch.zeros(2, dtype=torch.float64, device=device)  # since the look, in the epoch
        self._targets = [0, 0]
        self._updates = torch.zeros((), dtype=torch.int64, device=device)
        self._bad = torch.full((), -1, dtype=torch.int64, device=device)

    def add(self, total: Tensor, norm: Tensor) -> None:
        """Count one update in: its loss and the norm of its gradient. May be recorded in a CUDA graph."""
        self._totals += total
        fine = torch.isfinite(total) & torch.isfinite(norm)
        self._bad.copy_(torch.where(fine | (self._bad >= 0), self._bad, self._updates))
        self._updates += 1

    def count(self, targets: int) -> None:
        """So many targets, over all processes, belonged to it."""
        self._targets = [before + targets for before in self._targets]

    def bad_update(self) -> int | None:
        """The number, since training began or went on, of the first update with NaN or infinity."""
        bad = int(self._bad)
        return None if bad < 0 else bad

    def lap(self, processes: Processes) -> tuple[float, int]:
        """The sum and the targets since the last lap."""
        (total,) = processes.summed([float(self._totals[0])], self._totals.device)
        targets = self._targets[0]
        self._totals[0], self._targets[0] = 0, 0
        return total, targets

    def epoch(self, processes: Processes) -> tuple[float, int]:
        """The sum and the targets of the epoch, which is over with this."""
        (total,) = processes.summed([float(self._totals[1])], self._totals.device)
        targets = self._targets[1]
        self._totals.zero_()
        self._targets = [0, 0]
        return total, targets

    def state(self) -> list[float]:
        """What a checkpoint keeps of the epoch that is not over."""
        return [float(self._totals[1]), self._targets[1]]

    def restore(self, state: list[float]) -> None:
        """Take up an epoch that was interrupted."""
        self._totals[1], self._targets[1] = state[0], int(state[1])
