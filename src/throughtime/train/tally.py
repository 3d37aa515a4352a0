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

    @property
    def pending(self) -> bool:
        """Whether there was an update since the last lap."""
        return self._targets[0] > 0

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

    def state(self, processes: Processes) -> list[float]:
        """What a checkpoint keeps: sum and targets of the epoch that is not over, and since the last lap."""
        lap, epoch = processes.summed(self._totals.tolist(), self._totals.device)
        return [epoch, self._targets[1], lap, self._targets[0]]

    def restore(self, state: list[float], processes: Processes) -> None:
        """Take up an epoch that was interrupted."""
        epoch, epoch_targets, *window = state
        if window:
            lap, lap_targets = window
            epoch, lap = epoch / processes.world_size, lap / processes.world_size
        else:  # of an older release, which kept the first process's sum of the epoch alone
            lap, lap_targets = 0.0, 0
        self._totals[0], self._totals[1] = lap, epoch
        self._targets = [int(lap_targets), int(epoch_targets)]
