"""The training loop: what it learns, when it stops, what it saves, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import math
from itertools import count

import pytest
import torch
from tests.refusals import lacks, refuses

from throughtime.errors import ThroughtimeError
from throughtime.fit.config import TrainingConfig
from throughtime.fit.divergence import MAX_SKIPS
from throughtime.fit.objective import Loss
from throughtime.fit.progress import Reporter


def lines(trainer, kind):
    written = (trainer.run / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, written) if line["kind"] == kind]


def weights(task):
    return {name: weight.detach().clone() for name, weight in task.model.named_parameters()}


def test_the_loss_falls(language_task, trainer_of):  # R39
    trainer = trainer_of(language_task(epochs=4, lr=0.02, counted="none"))
    trainer.fit()
    losses = [line["train_perplexity"] for line in lines(trainer, "epoch")]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.5 * losses[0]
    valid = [line["perplexity"] for line in lines(trainer, "valid")]
    assert valid[-1] < 0.5 * valid[0]


@pytest.mark.parametrize("clip", [1e-3, 1e6, None])
def test_reports_have_norm_clipped_share_rate_and_speed(clip, language_task, trainer_of):  # R117
    trainer = trainer_of(language_task(epochs=1, clip=clip, report_every=3))
    trainer.fit()
    for line in lines(trainer, "train"):
        assert line["gradient_norm"] > 0
        assert line["lr"] == trainer.config.lr
        assert line["tokens_per_second"] > 0
        assert line.get("clipped") == {1e-3: 1.0, 1e6: 0.0, None: None}[clip]


def test_accumulated_batches_are_one_large_batch(language_task, trainer_of):
    """Batches of 8 rows taken two at a time hold the windows that batches of 16 hold."""
    found = []
    for size, accumulate in ((16, 1), (8, 2)):
        task = language_task(
            sampling="random", batch_size=size, accumulate=accumulate, epochs=2, temporal_penalty=1.0
        )
        trainer = trainer_of(task)
        summary = trainer.fit()
        found.append((weights(task), summary.steps, lines(trainer, "epoch"), summary.best))
    (whole, steps, epochs, best), (halves, same_steps, same_epochs, same_best) = found
    assert steps == same_steps
    for name in whole:
        torch.testing.assert_close(halves[name], whole[name], rtol=1e-4, atol=1e-6)
    assert [line["train_perplexity"] for line in epochs] == pytest.approx(
        [line["train_perplexity"] for line in same_epochs], rel=1e-5
    )
    assert best == pytest.approx(same_best, rel=1e-5)


class Scripted:
    """The ramp, with validation scores that were written down before."""

    def __init__(self, task, scores) -> None:
        self._task, self._scores, self.judgements = task, list(scores), []

    def __getattr__(self, name):
        return getattr(self._task, name)

    def validate(self, rank, world_size):
        self.judgements.append(weights(self._task))
        return {"score": self._scores[len(self.judgements) - 1]}

    def summarise(self, sums):
        return {"mse": sums["score"]}


def scripted(ramp, scores, **settings):
    config = TrainingConfig(epochs=len(scores), batch_size=10, optimizer="sgd", lr=0.05, **settings)
    return Scripted(ramp(config), scores), config


def equal(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_early_stopping_waits_for_its_patience(ramp, trainer_of):
    task, config = scripted(ramp, [3.0, 1.0, 2.0, 0.9, 2.0, 1.0, 0.5], early_stopping=2)
    summary = trainer_of(task, config).fit()
    assert (summary.epochs, summary.best_epoch) == (6, 4)
    assert summary.why == "no better validation for 2 epochs"


def test_an_unforeseen_end_is_judged_once(ramp, trainer_of):
    task, config = scripted(ramp, [3.0, 1.0])
    config = config.model_copy(update={"epochs": 9, "validate_every": 2})
    trainer = trainer_of(task, config)
    trainer._stop_reason = lambda: "told to" if trainer.batches.epoch == 3 else None
    summary = trainer.fit()
    assert [line["epoch"] for line in lines(trainer, "valid")] == [2, 3]
    assert (summary.epochs, summary.best_epoch, len(trainer.saved)) == (3, 3, 2)
    assert trainer.checkpoints.latest().step == summary.steps


@pytest.mark.parametrize("broken", [math.inf, math.nan])
def test_what_went_astray_is_not_saved(broken, ramp, trainer_of):
    """It could not write a sample either."""
    task, config = scripted(ramp, [3.0, broken, 2.0])
    asked = []
    task.sample = lambda: asked.append(task.judgements)
    trainer = trainer_of(task, config)
    with refuses("validation loss", "10", "2", "0.05", error=ThroughtimeError):
        trainer.fit()
    assert [measured for measured, _ in trainer.saved] == [{"mse": 3.0}]
    assert len(asked) == 1
    assert trainer.checkpoints.names() == ["step-00000005"]  # which a resumed run goes on from
    task, config = scripted(ramp, [broken, broken])
    lost = trainer_of(task, config)
    with refuses("validation loss", "5", "1", error=ThroughtimeError):
        lost.fit()
    assert lost.saved == []
    assert lost.checkpoints.names() == []


def test_the_rate_that_is_blamed_is_that_of_the_update(language_task, trainer_of):
    """By the time of the look a schedule may have brought it down to nothing."""
    task = language_task(epochs=1, schedule="cosine", lr=0.02)
    steps = len(task.batches(0, 1))
    trainer = trainer_of(Poisoned(task, at=1 + steps // 2), task.config)
    progress = (steps // 2 + MAX_SKIPS - 1) / (steps - 1)
    with refuses(f"{0.01 * (1 + math.cos(math.pi * progress)):.3g}", error=ThroughtimeError):
        trainer.fit()
    assert trainer.rate < 1e-6


def test_plateau_lowers_the_rate_by_what_was_judged(ramp, trainer_of):
    scores = [3.0, 2.0, 2.5, 1.0, 1.5, 1.2]
    task, config = scripted(ramp, scores, schedule="plateau", decay=0.5, report_every=5)
    trainer = trainer_of(task, config)
    trainer.fit()
    rates = {line["epoch"]: line["lr"] for line in lines(trainer, "train")}
    assert rates == {1: 0.05, 2: 0.05, 3: 0.05, 4: 0.025, 5: 0.025, 6: 0.0125}


def test_averaged_weights_are_judged_and_saved(ramp, trainer_of):
    task, config = scripted(ramp, [3.0, 2.0], average="ema", ema_decay=0.5)
    trainer = trainer_of(task, config)
    average, update, counted = {}, trainer.learner.averaging.update, count(1)

    def followed(stepped):
        share = max(0.5, 10 / (next(counted) + 9))
        for name, weight in weights(task).items():
            average[name] = (1 - share) * average.get(name, 0) + share * weight
        update(stepped)

    trainer.learner.averaging.update = followed
    trainer.fit()
    saved = trainer.saved[-1][1]
    assert equal(saved, task.judgements[-1])
    assert not equal(saved, weights(task))  # the trained weights are back in their place
    for name in saved:
        torch.testing.assert_close(saved[name], average[name])


def test_nt_asgd_averages_once_validation_stalls(ramp, trainer_of):
    said = []

    class Listening(Reporter):
        def say(self, sentence):
            said.append(sentence)

    scores = [5.0, 4.0, 4.5, 4.6, 3.0, 2.0]  # the fourth is worse than the best of those two before it
    task, config = scripted(ramp, scores)
    config = config.model_copy(update={"optimizer": "nt-asgd", "nonmono": 1})
    trainer = trainer_of(task, config, reporter=Listening())
    raw, update = [], trainer.learner.averaging.update
    trainer.learner.averaging.update = lambda stepped: (raw.append(weights(task)), update(stepped))
    trainer.fit()
    assert len(said) == 1
    steps = len(raw) // 6
    for epoch in range(4):  # until then it is plain SGD
        assert equal(task.judgements[epoch], raw[steps * (epoch + 1) - 1])
    for epoch in (4, 5):
        since = raw[4 * steps : steps * (epoch + 1)]
        for name, judged in task.judgements[epoch].items():
            torch.testing.assert_close(judged, torch.stack([one[name] for one in since]).mean(0))
    assert equal(trainer.saved[-1][1], task.judgements[5])


class Poisoned:
    """A task whose loss is NaN from one update on, as often as a run bears."""

    def __init__(self, task, at: int) -> None:
        self._task, self._at, self._calls = task, at, 0

    def __getattr__(self, name):
        return getattr(self._task, name)

    def loss(self, batch, carried):
        self._calls += 1
        loss, handed = self._task.loss(batch, carried)
        return Loss(loss.total * (math.nan if 0 <= self._calls - self._at < MAX_SKIPS else 1)), handed


def test_nan_names_its_update_and_keeps_what_was_good(language_task, trainer_of):
    """It is looked for every 50 updates, and before a checkpoint is written."""
    task = language_task(epochs=9, report_every=50)
    per_epoch = -(-len(task.batches(0, 1)) // 1)
    assert 20 < per_epoch < 50
    trainer = trainer_of(Poisoned(task, at=per_epoch + 3), task.config)
    last = 3 + MAX_SKIPS - 1
    with refuses(per_epoch + last, "2", last, error=ThroughtimeError) as told:
        trainer.fit()
    assert told.value.exit_code == 1
    assert not lacks(str(told.value), "lr", f"step-{per_epoch:08d}")
    assert trainer.step == 50
    last = trainer.checkpoints.latest()
    assert last.step == per_epoch
    assert all(bool(part.isfinite().all()) for part in last.tensors.values())
    assert len(trainer.saved) == 1


def test_weights_that_broke_in_the_last_update_are_not_saved(ramp, trainer_of):
    """After the first update the weights are so large that no loss is finite: the others are skipped."""
    config = TrainingConfig(epochs=2, batch_size=10, optimizer="sgd", lr=1e38, clip=None, checkpoint_every=1)
    trainer = trainer_of(ramp(config), config)
    with refuses("5", "1", "1e+38", error=ThroughtimeError):
        trainer.fit()
    for name in trainer.checkpoints.names():
        tensors = trainer.checkpoints.latest(name).tensors
        assert all(bool(part.isfinite().all()) for part in tensors.values())


def test_without_validation_the_last_weights_are_saved(ramp, trainer_of):
    config = TrainingConfig(epochs=3, batch_size=10, lr=0.01, early_stopping=1)
    task = ramp(config, valid=False)
    trainer = trainer_of(task, config)
    summary = trainer.fit()
    assert (summary.epochs, summary.best_epoch) == (3, 3)
    assert list(summary.best) == ["mse"]
    assert equal(trainer.saved[-1][1], weights(task))


def test_progress_is_told_step_by_step(language_task, trainer_of):
    reports = []

    class Listening(Reporter):
        def update(self, report):
            reports.append(dataclasses.asdict(report))

    task = language_task(epochs=2, report_every=8)
    trainer = trainer_of(task, reporter=Listening())
    summary = trainer.fit()
    per_epoch = trainer.steps_per_epoch
    assert summary.steps == 2 * per_epoch
    assert {one["epoch"] for one in reports} == {1, 2}
    assert [one["step"] for one in reports if one["step"] % 8 == 0] == list(range(8, summary.steps + 1, 8))
    for one in reports:
        assert one["step_in_epoch"] == (one["step"] - 1) % per_epoch + 1
        assert one["tokens_per_second"] > 0
        assert one["measures"]["perplexity"] == pytest.approx(math.exp(one["loss"]))
    written = lines(trainer, "train")
    assert [line["step"] for line in written] == [one["step"] for one in reports]
    assert all(0 <= line["outside"] < 1 for line in written)


@pytest.mark.parametrize("settings", [{}, {"clip": None}, {"clip": 0.1, "accumulate": 2}, {"tied": True}])
def test_rows_of_an_embedding_train_as_the_whole_table(settings, language_task, trainer_of, monkeypatch):
    """Plain SGD leaves words alone that do not occur, so that their gradient need not exist."""
    settings = {"optimizer": "sgd", "lr": 0.5, "epochs": 2, "tied": False, **settings}
    task = language_task(**settings)
    trainer = trainer_of(task)
    trainer.fit()
    assert task.model.embedding.weight.grad.is_sparse == (not settings["tied"])
    monkeypatch.setattr("throughtime.fit.optimizers.supports_sparse_rows", lambda *words, **settings: False)
    whole = language_task(**settings)
    trainer_of(whole).fit()
    assert not whole.model.embedding.weight.grad.is_sparse
    torch.testing.assert_close(weights(task), weights(whole), rtol=1e-5, atol=1e-6)
