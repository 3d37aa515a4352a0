"""Updates with NaN or infinity change nothing, are counted, and halve the rate before a run gives up."""

from __future__ import annotations

import json
import math

import pytest
import torch
from tests.refusals import refuses

from throughtime.errors import ThroughtimeError
from throughtime.fit.config import TrainingConfig
from throughtime.fit.divergence import MAX_SKIPS
from throughtime.fit.lr_finder import find_learning_rate
from throughtime.fit.objective import Loss
from throughtime.fit.optimizers import (
    Averaging,
    build_optimizer,
    clip_gradients,
    optimizer_tensors,
)
from throughtime.fit.processes import Processes
from throughtime.fit.progress import Reporter

SETTINGS = [
    {"optimizer": "sgd", "lr": 0.1},
    {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "average": "ema"},
    {"optimizer": "adam", "weight_decay": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.1, "average": "ema", "ema_decay": 0.5},
    {"optimizer": "nt-asgd", "lr": 0.1, "weight_decay": 0.1},
]


def broken(kind, loss, model):
    """A loss that is NaN, large, infinite with a good gradient, or the other way round."""
    if kind == "loss":
        return loss * math.nan
    if kind == "large":
        return loss * 1e4
    if kind == "value":
        return loss + math.inf
    weight = next(model.parameters())
    return loss + (weight - weight).sum().sqrt()  # 0, and the gradient of a square root at 0 is infinite


class Poisoned:
    """A task whose loss is bad at some of its batches, counted from 0."""

    def __init__(self, task, at, kind="loss"):
        self._task, self._at, self._kind, self.calls = task, at, kind, 0

    def __getattr__(self, name):
        return getattr(self._task, name)

    def loss(self, batch, carried):
        loss, handed = self._task.loss(batch, carried)
        bad = self._at(self.calls) if callable(self._at) else self.calls in self._at
        self.calls += 1
        if bad:
            handed = tuple(part * math.nan for part in handed)
        return Loss(broken(self._kind, loss.total, self._task.model) if bad else loss.total), handed


def lines(trainer, kind="train"):
    written = map(json.loads, (trainer.run / "metrics.jsonl").read_text().splitlines())
    return [line for line in written if line["kind"] == kind]


def weights(task):
    return [weight.detach().clone() for weight in task.model.parameters()]


@pytest.mark.parametrize("kind", ["loss", "value", "gradient"])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: "-".join(map(str, each.values())))
@pytest.mark.parametrize("bad", [{0}, {2, 3, 5}])
def test_a_skipped_update_leaves_everything_as_it_was(bad, settings, kind, ramp, trainer_of):
    """The other updates are those of a plain loop without the bad ones, at the halved rates."""
    config = TrainingConfig(epochs=2, batch_size=10, clip=0.5, device="cpu", **settings)
    task = ramp(config)
    trainer = trainer_of(Poisoned(task, bad, kind), config)
    if config.optimizer == "nt-asgd":
        trainer.learner.averaging.begin()
    assert trainer.fit().skipped == len(bad)

    twin = ramp(config)
    own = list(twin.model.parameters())
    optimizer = build_optimizer(config, own)
    averaging = Averaging(
        own, "uniform" if config.optimizer == "nt-asgd" else config.average, config.ema_decay
    )
    averaging.begin()
    batches, number = twin.batches(0, 1), 0
    for _ in range(2):
        for batch in batches:
            if number not in bad:
                optimizer.zero_grad()
                (twin.loss(batch, ())[0].total / batch.count).backward()
                clip_gradients(own, config.clip)
                optimizer.param_groups[0]["lr"] = config.lr / 2 ** sum(one < number for one in bad)
                optimizer.step()
                averaging.update(torch.tensor(True))
            number += 1
    expected = {**optimizer_tensors(optimizer), **averaging.tensors()}
    found = trainer.learner.tensors()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    for one, other in zip(weights(task), own, strict=True):
        assert torch.equal(one, other)


def test_skips_are_counted_and_reported(language_task, trainer_of):
    said = []

    class Listening(Reporter):
        def say(self, message):
            said.append(message)

    task = language_task(epochs=1, report_every=2, lr=0.01)
    trainer = trainer_of(Poisoned(task, {1, 4, 5}), task.config, reporter=Listening())
    assert trainer.fit().skipped == 3
    found = [(line["skipped"], line["lr"], "loss" in line) for line in lines(trainer)[:4]]
    assert found == [
        (1, pytest.approx(0.005), True),
        (0, pytest.approx(0.005), True),
        (2, pytest.approx(0.00125), False),
        (0, pytest.approx(0.00125), True),
    ]
    assert [("2 updates" in one, "0.00125" in one) for one in said if "Skipped" in one] == [
        (False, False),
        (True, True),
    ]
    assert all(math.isfinite(line["train_perplexity"]) for line in lines(trainer, "epoch"))


def test_a_mean_loss_leaves_skipped_updates_out(ramp, trainer_of):
    """With a rate of almost nothing all epochs have the same loss, whatever is skipped."""
    config = TrainingConfig(epochs=1, batch_size=10, lr=1e-12, optimizer="sgd", report_every=1)
    whole, holed = trainer_of(ramp(config), config), trainer_of(Poisoned(ramp(config), {0, 2}), config)
    expected = [line["loss"] for line in (whole.fit(), lines(whole))[1]]
    holed.fit()
    assert [line.get("loss") for line in lines(holed)] == pytest.approx(
        [None, expected[1], None, *expected[3:]]
    )
    # The last batch has fewer windows than the others.
    sizes = [10, 10, 10, 10, 5][: len(expected)]
    kept = [
        (loss, size)
        for place, (loss, size) in enumerate(zip(expected, sizes, strict=True))
        if place not in (0, 2)
    ]
    mean = sum(loss * size for loss, size in kept) / sum(size for _, size in kept)
    assert lines(holed, "epoch")[0]["train_mse"] == pytest.approx(mean)


def test_a_bad_state_is_not_carried_on(language_task, trainer_of):
    """The state after a bad batch may be bad too; the next batch gets the one before it."""
    for bad in ({0}, {3}):
        task = language_task(epochs=1, sampling="sequential")
        assert trainer_of(Poisoned(task, bad), task.config).fit().skipped == 1


def test_all_processes_skip_together(ramp, trainer_of):
    class Disagreeing(Processes):
        def all_agree(self, flag):
            assert flag
            return torch.tensor(False)

    config = TrainingConfig(epochs=1, batch_size=10)
    task = ramp(config)
    before = weights(task)
    trainer = trainer_of(task, config, processes=Disagreeing())
    assert trainer.fit().skipped == trainer.steps_per_epoch < MAX_SKIPS
    assert all(torch.equal(one, other) for one, other in zip(before, weights(task), strict=True))


@pytest.mark.parametrize("at", [4, 5, 6, 9])
def test_resumed_it_ends_as_if_never_interrupted(at, language_task, trainer_of):  # R40
    """The halved rate is part of a checkpoint, whether the skips lie before it or after it."""
    settings = {"epochs": 1, "checkpoint_every": 1, "keep": 1000, "report_every": 4, "schedule": "cosine"}
    bad = {2, 4, 5}
    task = language_task(**settings)
    whole = trainer_of(Poisoned(task, bad), task.config)
    summary = whole.fit()
    again = language_task(**settings)
    trainer = trainer_of(Poisoned(again, {one - at for one in bad}), again.config)
    trainer.restore(whole.checkpoints.latest(f"step-{at:08}"))
    ended = trainer.fit()
    assert (ended.skipped, ended.best, ended.train) == (3, summary.best, summary.train)
    assert all(torch.equal(one, other) for one, other in zip(weights(task), weights(again), strict=True))
    times = {"seconds", "tokens_per_second", "outside"}
    expected, found = (
        [{key: line[key] for key in line.keys() - times} for line in lines(one)] for one in (whole, trainer)
    )
    assert found == [line for line in expected if line["step"] > at]


def test_a_run_gives_up_after_ten_skips(language_task, trainer_of):
    settings = {"epochs": 2, "report_every": 3, "checkpoint_every": 1, "lr": 0.125}
    task = language_task(**settings)
    trainer = trainer_of(Poisoned(task, lambda call: call >= 4), task.config)
    with refuses("NaN", MAX_SKIPS, "update 14 (epoch 1, batch 14)", "0.125", error=ThroughtimeError) as told:
        trainer.fit()
    assert told.value.exit_code == 1
    assert trainer.step == 14
    saved = trainer.checkpoints.latest()
    assert saved.step == 13  # the weights of update 4, which are good

    again = language_task(**settings | {"lr": 0.01})
    calm = trainer_of(again)
    calm.restore(saved)  # another rate is taken as it is
    assert calm.fit().skipped == 0
    assert lines(calm)[-1]["lr"] == 0.01


def test_weights_that_break_without_a_bad_gradient_stop_the_run_at_once(ramp, trainer_of):
    config = TrainingConfig(epochs=1, batch_size=10, optimizer="sgd", lr=1e38, clip=None, report_every=1)
    with refuses("weights", "update 1", "1e+38", error=ThroughtimeError):
        trainer_of(Poisoned(ramp(config), {0}, "large"), config).fit()


def test_the_rate_finder_ends_at_a_skipped_update(ramp):
    config = TrainingConfig(batch_size=10, optimizer="sgd")
    found = find_learning_rate(Poisoned(ramp(config), {45}), config, 100)
    assert len(found.losses) == 46
    assert math.isnan(found.losses[-1])
