"""Losses summed up, and taken along by a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from throughtime.fit.processes import Processes
from throughtime.fit.tally import Tally

CPU = torch.device("cpu")
FINITE, NAN = torch.tensor(True), torch.tensor(float("nan"))


@dataclass(frozen=True)
class Two(Processes):
    """Two processes, the other of which has these sums."""

    world_size: int = 2
    other: list[float] = field(default_factory=list)

    def sum(self, values, device):
        return [value + theirs for value, theirs in zip(values, self.other, strict=True)]


def test_a_lap_has_the_mean_norm_and_the_share_of_clipped_updates():  # R117
    tally = Tally(CPU, clip=1.0)
    for norm in (0.5, 1.0, 1.25, 9.25):
        tally.add(torch.tensor(2.0), torch.tensor(norm), 5, FINITE)
        tally.count(5)
    again = Tally(CPU, clip=1.0)
    again.restore(tally.state(Processes()), Processes())
    for one in (tally, again):
        assert one.lap(Processes()) == (8.0, 20, 3.0, 0.5, 0)
        assert one.lap(Processes()) == (0.0, 0, 0.0, 0.0, 0)


def test_a_checkpoint_of_two_processes_holds_the_sums_of_both():
    tally = Tally(CPU)
    for loss in (1.5, 2.0):
        tally.add(torch.tensor(loss), torch.tensor(1.0), 10, FINITE)
        tally.count(10)
    tally.lap(Processes())
    tally.add(torch.tensor(4.0), torch.tensor(1.0), 10, FINITE)
    tally.count(10)
    state = tally.state(Two(other=[0.5, 8.5]))
    assert state == [16.0, 30, 4.5, 10, 1.0, 0.0, 1, 0, 0]
    shares = [Tally(CPU), Tally(CPU)]
    for share in shares:
        share.restore(state, Two())
    assert all(share.pending for share in shares)
    assert sum(share.lap(Processes())[0] for share in shares) == 4.5
    assert not any(share.pending for share in shares)
    assert [share.end_epoch(Processes())[1] for share in shares] == [30, 30]
    alone = Tally(CPU)
    alone.restore(state, Processes())
    assert alone.end_epoch(Processes()) == (16.0, 30)


def test_skipped_updates_count_apart():
    tally = Tally(CPU, clip=1.0)
    for total, norm, finite in (
        (2.0, 3.0, FINITE),
        (9.0, NAN, ~FINITE),
        (NAN, 9.0, ~FINITE),
        (4.0, 0.5, FINITE),
    ):
        tally.add(torch.as_tensor(total), torch.as_tensor(norm), 5, finite)
        tally.count(5)
        assert tally.stepped == finite
    assert (tally.skips, tally.last_skip, float(tally.rate_factor)) == (2, 2, 0.25)
    again = Tally(CPU, clip=1.0)
    again.restore(tally.state(Processes()), Processes())
    for one in (tally, again):
        assert one.lap(Processes()) == (6.0, 10, 1.75, 0.5, 2)
        assert one.lap(Processes()) == (0.0, 0, 0.0, 0.0, 0)
        assert (one.end_epoch(Processes()), one.end_epoch(Processes())) == ((6.0, 10), (0.0, 0))
        assert (one.skips, float(one.rate_factor)) == (2, 0.25)
        one.forget_skips()
        assert (one.skips, float(one.rate_factor)) == (0, 1.0)
