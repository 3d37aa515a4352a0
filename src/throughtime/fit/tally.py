"""The counts of a training, on its device: losses, gradient norms, skipped updates."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.fit.processes import Processes


class Lap(NamedTuple):
    """What was measured since the last report."""

    total: float
    targets: int
    gradient_norm: float  # mean over the updates, before clipping
    clipped: float  # share of updates whose gradient was clipped
    skipped: int  # number of updates that were skipped, which are not counted in the others


class Counts(NamedTuple):
    """The counts of all updates, on the device."""

    totals: Tensor  # [2], losses since the last lap, in the epoch
    gradients: Tensor  # [2], sum of norms, clipped updates
    updates: Tensor
    last_skip: Tensor  # the number of the last skipped update
    skipped: Tensor  # [4], updates of the run, since the last lap; targets since the last lap, in the epoch
    rate_factor: Tensor
    stepped: Tensor

    @classmethod
    def start(cls, device: torch.device) -> Counts:
        """Count from zero."""
        return cls(
            totals=torch.zeros(2, dtype=torch.float64, device=device),
            gradients=torch.zeros(2, dtype=torch.float64, device=device),
            updates=torch.zeros((), dtype=torch.int64, device=device),
            last_skip=torch.full((), -1, dtype=torch.int64, device=device),
            skipped=torch.zeros(4, dtype=torch.int64, device=device),
            rate_factor=torch.ones((), device=device),
            stepped=torch.ones((), dtype=torch.bool, device=device),
        )


class Tally:
    """Sums losses and gradient norms on the device, and counts the updates that were skipped.

    Losses are summed since the last report and since the epoch began. `add` never waits for the device.
    """

    def __init__(self, device: torch.device, clip: float | None = None) -> None:
        self.counts, self.clip = Counts.start(device), clip
        self._targets = [0, 0]  # since the last lap, in the epoch
        self._lap_updates = 0

    @property
    def rate_factor(self) -> Tensor:
        """The factor on the learning rate: each skipped update halves it."""
        return self.counts.rate_factor

    @property
    def stepped(self) -> Tensor:
        """Whether the last update changed the weights."""
        return self.counts.stepped

    def add(self, total: Tensor, norm: Tensor, targets: int | Tensor, finite: Tensor) -> None:
        """Add the loss of one update and the norm of its gradient, without waiting for the device.

        `targets` is the number of targets over all processes. If not `finite`, the update is skipped.
        """
        counts = self.counts
        counts.totals.add_(torch.where(finite, total, 0.0))
        counts.gradients[0] += torch.where(finite, norm, 0.0)
        if self.clip is not None:
            counts.gradients[1] += finite & (norm > self.clip)
        counts.last_skip.copy_(torch.where(finite, counts.last_skip, counts.updates))
        counts.skipped[:2] += ~finite
        counts.skipped[2:] += targets * ~finite
        counts.rate_factor.copy_(torch.where(finite, counts.rate_factor, counts.rate_factor / 2))
        counts.stepped.copy_(finite)
        counts.updates.add_(1)

    def count(self, targets: int) -> None:
        """Count the update, and its number of targets over all processes."""
        self._targets[0] += targets
        self._targets[1] += targets
        self._lap_updates += 1

    @property
    def skips(self) -> int:
        """The number of skipped updates. This waits for the device."""
        return int(self.counts.skipped[0])

    @property
    def last_skip(self) -> int:
        """The number of the last skipped update, counted from 0 since training began or was resumed."""
        return int(self.counts.last_skip)

    def forget_skips(self) -> None:
        """Count skipped updates from 0 again, and give up the lower rate."""
        self.counts.skipped[0] = 0
        self.counts.rate_factor.fill_(1.0)

    @property
    def pending(self) -> bool:
        """Whether there was an update since the last lap."""
        return self._lap_updates > 0

    def lap(self, processes: Processes) -> Lap:
        """Return what was measured since the last lap, and begin the next."""
        totals, gradients, skips = self.counts.totals, self.counts.gradients, self.counts.skipped
        (total,) = processes.sum([float(totals[0])], totals.device)
        # All processes have the same gradients: these need not be summed over them.
        _, skipped, skipped_targets, _ = skips.tolist()
        updates = max(self._lap_updates - skipped, 1)
        norm, clipped = (value / updates for value in gradients.tolist())
        lap = Lap(total, self._targets[0] - skipped_targets, norm, clipped, skipped)
        totals[0], self._targets[0], self._lap_updates = 0, 0, 0
        skips[1:3] = 0
        gradients.zero_()
        return lap

    def end_epoch(self, processes: Processes) -> tuple[float, int]:
        """Return the sum and the targets of the epoch, and begin the next."""
        (total,) = processes.sum([float(self.counts.totals[1])], self.counts.totals.device)
        targets = self._targets[1] - int(self.counts.skipped[3])
        self.counts.totals.zero_()
        self.counts.skipped[1:] = 0
        self._targets = [0, 0]
        return total, targets

    def state(self, processes: Processes) -> list[float]:
        """Return, for a checkpoint, sum and targets of epoch and lap; norms, clipped updates, updates.

        Then follow the skipped updates of the run and of the lap.
        """
        lap, epoch = processes.sum(self.counts.totals.tolist(), self.counts.totals.device)
        gradients = [*self.counts.gradients.tolist(), self._lap_updates]
        skips, lap_skips, lap_skipped, epoch_skipped = self.counts.skipped.tolist()
        targets = self._targets[1] - epoch_skipped, self._targets[0] - lap_skipped
        return [epoch, targets[0], lap, targets[1], *gradients, skips, lap_skips]

    def restore(self, state: list[float], processes: Processes) -> None:
        """Resume an epoch that was interrupted."""
        epoch, epoch_targets, lap, lap_targets, norms, clipped, updates, skips, lap_skips = state
        counts = self.counts
        counts.totals[0], counts.totals[1] = lap / processes.world_size, epoch / processes.world_size
        counts.gradients[0], counts.gradients[1] = norms, clipped
        counts.skipped[:2] = torch.tensor([int(skips), int(lap_skips)])
        counts.rate_factor.fill_(0.5**skips)
        self._targets, self._lap_updates = [int(lap_targets), int(epoch_targets)], int(updates)
