"""The counts of a training, on its device: losses, gradient norms, skipped updates."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from throughtime.fit.processes import Processes
from throughtime.gpu.tally import Counts, count_update


class Lap(NamedTuple):
    """What was measured since the last report."""

    total: float
    targets: int
    gradient_norm: float  # mean over the updates, before clipping
    clipped: float  # share of updates whose gradient was clipped
    skipped: int  # number of updates that were skipped, which are not counted in the others


class UpdateEnd(NamedTuple):
    """What the last steps of an update need to know, on the device."""

    finite: Tensor  # whether it is
    stopped: Tensor  # whether it is not, as a number: 0 or 1
    clipping: Tensor  # the factor of its gradient


class Tally:
    """Sums losses and gradient norms on the device, and counts the updates that were skipped.

    Losses are summed since the last report and since the epoch began. `add` never waits for the device.
    """

    rate_factor: Tensor
    """The factor on the learning rate: each skipped update halves it."""
    stepped: Tensor
    """Whether the last update changed the weights."""

    def __init__(self, device: torch.device, clip: float | None = None) -> None:
        self._clip = clip
        self._targets = [0, 0]  # since the last lap, in the epoch
        self._lap_updates = 0
        counts = self._counts = Counts.start(device)
        self._totals = counts.totals  # since the last lap, in the epoch
        self._gradients = counts.gradients  # sum of norms, clipped updates
        self._updates, self._last_skip = counts.updates, counts.last_skip
        # Skipped updates of the run and since the last lap; their targets since the last lap, in the epoch.
        self._skipped = counts.skipped
        self.rate_factor, self.stepped = counts.rate_factor, counts.stepped

    def add(self, total: Tensor, norm: Tensor, targets: int | Tensor, finite: Tensor) -> None:
        """Add the loss of one update and the norm of its gradient. May be recorded in a CUDA graph.

        `targets` is the number of targets over all processes. If not `finite`, the update is skipped.
        """
        self._totals += torch.where(finite, total, 0.0)
        self._gradients[0] += torch.where(finite, norm, 0.0)
        if self._clip is not None:
            self._gradients[1] += finite & (norm > self._clip)
        self._last_skip.copy_(torch.where(finite, self._last_skip, self._updates))
        self._skipped[:2] += ~finite
        self._skipped[2:] += targets * ~finite
        self.rate_factor.copy_(torch.where(finite, self.rate_factor, self.rate_factor / 2))
        self.stepped.copy_(finite)
        self._updates += 1

    def add_at_once(
        self, total: Tensor, norms: Tensor, targets: Tensor, rate: Tensor, stepping: Tensor
    ) -> UpdateEnd:
        """Do the same as `add` with one kernel on an NVIDIA GPU, given the norms of all weights' gradients.

        Also writes `rate` times `rate_factor` to `stepping`, for this update.
        """
        count_update(self._counts, total, norms, targets, self._clip, rate, stepping)
        return UpdateEnd(self.stepped, self._counts.stopped, self._counts.clipping)

    def count(self, targets: int) -> None:
        """Count the update, and its number of targets over all processes."""
        self._targets[0] += targets
        self._targets[1] += targets
        self._lap_updates += 1

    @property
    def skips(self) -> int:
        """The number of skipped updates. This waits for the device."""
        return int(self._skipped[0])

    @property
    def last_skip(self) -> int:
        """The number of the last skipped update, counted from 0 since training began or was resumed."""
        return int(self._last_skip)

    def forget_skips(self) -> None:
        """Count skipped updates from 0 again, and give up the lower rate."""
        self._skipped[0] = 0
        self.rate_factor.fill_(1.0)

    @property
    def pending(self) -> bool:
        """Whether there was an update since the last lap."""
        return self._lap_updates > 0

    def lap(self, processes: Processes) -> Lap:
        """Return what was measured since the last lap, and begin the next."""
        (total,) = processes.sum([float(self._totals[0])], self._totals.device)
        # All processes have the same gradients: these need not be summed over them.
        _, skipped, skipped_targets, _ = self._skipped.tolist()
        updates = max(self._lap_updates - skipped, 1)
        norm, clipped = (value / updates for value in self._gradients.tolist())
        lap = Lap(total, self._targets[0] - skipped_targets, norm, clipped, skipped)
        self._totals[0], self._targets[0] = 0, 0
        self._skipped[1:3] = 0
        self._gradients.zero_()
        self._lap_updates = 0
        return lap

    def end_epoch(self, processes: Processes) -> tuple[float, int]:
        """Return the sum and the targets of the epoch, and begin the next."""
        (total,) = processes.sum([float(self._totals[1])], self._totals.device)
        targets = self._targets[1] - int(self._skipped[3])
        self._totals.zero_()
        self._skipped[1:] = 0
        self._targets = [0, 0]
        return total, targets

    def state(self, processes: Processes) -> list[float]:
        """For a checkpoint: sum and targets of the epoch and of the lap; norms, clipped updates, updates.

        Then follow the skipped updates of the run and of the lap.
        """
        lap, epoch = processes.sum(self._totals.tolist(), self._totals.device)
        gradients = [*self._gradients.tolist(), self._lap_updates]
        skips, lap_skips, lap_skipped, epoch_skipped = self._skipped.tolist()
        targets = self._targets[1] - epoch_skipped, self._targets[0] - lap_skipped
        return [epoch, targets[0], lap, targets[1], *gradients, skips, lap_skips]

    def restore(self, state: list[float], processes: Processes) -> None:
        """Resume an epoch that was interrupted."""
        epoch, epoch_targets, lap, lap_targets, norms, clipped, updates, skips, lap_skips = state
        self._totals[0], self._totals[1] = lap / processes.world_size, epoch / processes.world_size
        self._targets = [int(lap_targets), int(epoch_targets)]
        self._gradients[0], self._gradients[1] = norms, clipped
        self._lap_updates = int(updates)
        self._skipped[:2] = torch.tensor([int(skips), int(lap_skips)])
        self.rate_factor.fill_(0.5**skips)
