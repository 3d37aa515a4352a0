"""Learning-rate schedules against torch's, where torch has the same."""

from __future__ import annotations

import math

import pytest
import torch
from tests.refusals import refuses
from torch.optim import lr_scheduler

from throughtime.fit.config import SCHEDULES, TrainingConfig
from throughtime.fit.schedules import Standing, rate

LR = 0.7


def ours(config: TrainingConfig, steps_per_epoch: int, epochs: int) -> list[float]:
    return [rate(config, Standing(step, steps_per_epoch, epochs)) for step in range(steps_per_epoch * epochs)]


def theirs(make, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(rates) < steps:
            scheduler.step()
    return rates


def test_every_schedule_that_can_be_configured_is_there():
    for name in SCHEDULES:
        assert TrainingConfig(schedule=name).schedule == name
    with pytest.raises(ValueError, match="cosin"):
        TrainingConfig(schedule="cosin")
    unheard = TrainingConfig().model_copy(update={"schedule": "cosin"})
    with refuses("schedule", "'cosin'", "'cosine'"):
        rate(unheard, Standing(0, 1, 1))


def test_step_is_torchs_when_both_ages_are_the_same():
    config = TrainingConfig(lr=LR, schedule="step", decay=0.3, decay_after=3, decay_every=3)
    reference = theirs(lambda o: lr_scheduler.StepLR(o, step_size=3, gamma=0.3), 11)
    assert ours(config, 1, 11) == pytest.approx(reference)
    assert ours(config, 4, 11) == pytest.approx([value for value in reference for _ in range(4)])


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_plateau_is_torchs(patience):
    draw = torch.Generator().manual_seed(patience)
    scores = [round(value, 1) for value in torch.rand(60, generator=draw).tolist()]  # with ties
    scores[20:20] = [math.nan, math.inf]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    reference = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.9, patience=patience, threshold=0, eps=0)
    config = TrainingConfig(lr=LR, schedule="plateau", decay=0.9, plateau_patience=patience)
    for epoch in range(len(scores)):
        standing = Standing(epoch, 1, len(scores), tuple(scores[:epoch]))
        assert rate(config, standing) == pytest.approx(optimizer.param_groups[0]["lr"])
        reference.step(scores[epoch])
    assert optimizer.param_groups[0]["lr"] < LR / 2


def test_cosine_is_torchs():
    config = TrainingConfig(lr=LR, schedule="cosine", final_lr=0.1)
    reference = theirs(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=19, eta_min=0.1 * LR), 20)
    rates = ours(config, 5, 4)
    assert rates == pytest.approx(reference)
    assert rates[-1] == pytest.approx(0.1 * LR)


@pytest.mark.parametrize(("rise", "final_lr"), [(0.3, None), (0.5, None), (0.25, 0.02)])
def test_one_cycle_is_torchs(rise, final_lr):
    config = TrainingConfig(lr=LR, schedule="one-cycle", rise=rise, final_lr=final_lr, warmup_steps=9)
    final = 25 / (final_lr * 25 * 25) if final_lr else 1e4 / 25  # torch counts from the first rate, lr / 25
    reference = theirs(
        lambda o: lr_scheduler.OneCycleLR(
            o, max_lr=LR, total_steps=40, pct_start=rise, div_factor=25, final_div_factor=final
        ),
        40,
    )
    assert ours(config, 8, 5) == pytest.approx(reference, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle"])
def test_a_last_rate_of_nothing_is_obeyed(schedule):
    rates = ours(TrainingConfig(lr=LR, schedule=schedule, final_lr=0), 5, 4)
    assert rates[-1] == 0.0
    assert rates[-2] > 0.0


def test_warmup_rises_in_equal_steps_on_top_of_the_schedule():
    rates = ours(TrainingConfig(lr=1.0, warmup_steps=4), 10, 1)
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8] + [1.0] * 6)
    plain = ours(TrainingConfig(lr=1.0, schedule="cosine"), 10, 1)
    warmed = ours(TrainingConfig(lr=1.0, schedule="cosine", warmup_steps=4), 10, 1)
    assert warmed == pytest.approx([a * b for a, b in zip(plain, rates, strict=True)])
