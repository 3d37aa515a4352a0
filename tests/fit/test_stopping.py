"""A run that stops inside an epoch: when its time is over, or when its loss goes astray."""

from __future__ import annotations

import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.refusals import lacks, refuses
from tests.tiny import tiny_data, training

from throughtime.errors import ThroughtimeError
from throughtime.fit.config import TrainingConfig
from throughtime.fit.divergence import LossLimits, validation_loss
from throughtime.fit.objective import Loss
from throughtime.fit.processes import Meetings, Processes
from throughtime.fit.progress import Reporter
from throughtime.fit.trainer import Trainer

UPDATE_SECONDS = 60.0


@pytest.fixture
def clock(monkeypatch):
    """Time in which each update takes a minute and all else nothing."""
    time = SimpleNamespace(now=0.0)
    time.monotonic = lambda: time.now
    update = Trainer.update

    def slow(trainer, group):
        update(trainer, group)
        time.now += UPDATE_SECONDS

    monkeypatch.setattr("throughtime.fit.trainer.time", time)
    monkeypatch.setattr(Trainer, "update", slow)
    return time


def lines(run, kind):
    written = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in written if line["kind"] == kind]


def heard():
    class Listening(Reporter):
        def __init__(self):
            self.said, self.places = [], []

        def say(self, message):
            self.said.append(message)

        def add_update(self, epoch, step_in_epoch, step, targets):
            self.places.append((epoch, step_in_epoch, step, targets))

    return Listening()


@pytest.mark.parametrize("report_every", [1, 3, 10_000])
def test_time_is_over_inside_an_epoch(report_every, clock, language_task, trainer_of):
    task = language_task(epochs=3, minutes=6.5, report_every=report_every)
    assert len(task.batches(0, 1)) > 20
    reporter = heard()
    trainer = trainer_of(task, reporter=reporter)
    summary = trainer.fit()
    assert (summary.steps, summary.epochs, summary.why) == (7, 0, "6.5 minutes are over")
    assert trainer.checkpoints.latest().step == 7
    assert trainer.checkpoints.latest().values["scores"] == []  # judged after it was saved
    assert len(trainer.saved) == 1
    assert summary.best == trainer.saved[0][0]
    assert math.isfinite(summary.best["perplexity"])
    assert math.isfinite(summary.train["perplexity"])
    assert [line["step"] for line in lines(trainer.run, "valid")] == [7]
    assert lines(trainer.run, "train")[-1]["step"] == 7
    assert re.search("6.5 minutes are over.* epoch 1.* update 7", reporter.said[-1])


def test_the_best_of_whole_epochs_stays_the_best(clock, language_task, trainer_of):
    """A validation at the stop would be one that a run that never stopped does not know."""
    task = language_task(epochs=3, minutes=len(language_task().batches(0, 1)) + 4.5)
    trainer = trainer_of(task)
    summary = trainer.fit()
    assert (summary.epochs, summary.best_epoch, len(trainer.saved)) == (1, 1, 1)
    assert [line["epoch"] for line in lines(trainer.run, "valid")] == [1]
    assert trainer.checkpoints.latest().step == summary.steps == trainer.steps_per_epoch + 5


def test_an_epoch_whose_last_update_used_the_time_up_is_judged_as_ever(clock, language_task, trainer_of):
    steps = len(language_task().batches(0, 1))
    trainer = trainer_of(language_task(epochs=3, minutes=steps - 0.5))
    summary = trainer.fit()
    assert (summary.steps, summary.epochs, summary.best_epoch) == (steps, 1, 1)
    assert trainer.checkpoints.latest().values["scores"] == trainer.record.scores != []


def test_killed_between_the_checkpoint_and_the_model(clock, language_task, trainer_of):
    """Resumed, its time is over at once; it still ends with a model."""
    first = trainer_of(language_task(epochs=3, minutes=6.5))
    summary = first.fit()
    again = trainer_of(language_task(epochs=3, minutes=6.5))
    again.restore(first.checkpoints.latest())
    assert again.fit().best == summary.best
    assert again.step == 7
    assert len(again.saved) == 1


ALL = {
    "epochs": 2,
    "validate_every": 1,
    "schedule": "plateau",
    "optimizer": "adamw",
    "average": "ema",
    "ema_decay": 0.9,
    "batch_size": 8,
    "report_every": 4,
}


@pytest.mark.parametrize("task", ["language", "classify"])
def test_stopped_and_gone_on_it_is_the_run_that_never_stopped(task, clock, tmp_path, throughtime):  # R40
    data = tiny_data(tmp_path)[task]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert throughtime(*training(task, data, whole, **ALL)).code == 0
    ended = throughtime(*training(task, data, stopped, **ALL, minutes=5.5), "--json")
    assert ended.code == 0
    assert (ended.json["steps"], ended.json["epochs"], ended.json["best_epoch"]) == (6, 0, 1)
    assert (ended.json["best_step"], ended.json["best_inside"]) == (6, True)
    assert (stopped / "README.md").is_file()
    assert (stopped / "training.json").is_file()
    assert throughtime("evaluate", stopped, "--split", "valid").code == 0
    used_up = throughtime(*training(task, data, stopped, **ALL, minutes=5.5), "--resume")
    assert used_up.code == 0
    assert "5.5 minutes are over" in used_up.out
    assert "minutes" in used_up.out
    # The minutes that it had count: of ten it has four left.
    assert throughtime(*training(task, data, stopped, **ALL, minutes=9.5), "--resume").code == 0
    assert json.loads((stopped / "training.json").read_text())["steps"] == 10
    assert throughtime(*training(task, data, stopped, **ALL, minutes=None), "--resume").code == 0
    assert (whole / "model.safetensors").read_bytes() == (stopped / "model.safetensors").read_bytes()
    last = [max((run / "checkpoints").glob("step-*")) for run in (whole, stopped)]
    assert last[0].name == last[1].name
    tensors = [load_file(path / "tensors.safetensors") for path in last]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])
    times = {"seconds", "tokens_per_second", "outside"}
    measured = [
        [
            {key: line[key] for key in line.keys() - times}
            for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        ]
        for run in (whole, stopped)
    ]
    assert measured[0] == measured[1]


def together(others):
    """Two processes, of which the other one's numbers follow from these."""

    class Together(Processes):
        def sum(self, values, device):
            return [mine + other for mine, other in zip(values, others(values), strict=True)]

    return Together(rank=0, world_size=2)


def test_processes_agree_and_meet_about_once_a_second():
    processes = together(lambda values: [0.0, 1.0, values[-1]])
    meetings, met, device = Meetings(processes), [], torch.device("cpu")
    for step in range(1, 101):
        if meetings.due(step):
            met.append(step)
            # The other one's time is over; the mine is not.
            assert meetings.hold(step, step * 0.125, [False, False], device) == [False, True]
    assert met[:3] == [1, 2, 10]
    assert np.diff(met[1:]).tolist() == [8] * (len(met) - 2)
    slow = Meetings(processes)
    for step in (1, 2, 3):  # an update of half a minute: they meet after each
        assert slow.due(step)
        slow.hold(step, step * 30.0, [False, False], device)
    alone = Meetings(Processes())
    assert all(alone.due(step) and alone.hold(step, 0.0, [True], device) == [True] for step in (1, 2))


def test_another_process_without_time_stops_this_one(clock, ramp, trainer_of):
    """The clock of this one has a day left; the other's is over after update 3."""
    config = TrainingConfig(epochs=3, batch_size=10, lr=0.01, minutes=1000)
    trainer = trainer_of(ramp(config), config)
    trainer.meetings = Meetings(
        together(
            lambda values: [0.0, float(trainer.step >= 3), 0.0, values[-1]]
        )  # interrupt, time, checkpoint
    )
    summary = trainer.fit()
    assert (summary.steps, summary.why) == (3, "1000 minutes are over")


class Growing:
    """A task whose loss is multiplied from one update on."""

    def __init__(self, task, at, factor):
        self._task, self._at, self._factor, self._calls = task, at, factor, 0

    def __getattr__(self, name):
        return getattr(self._task, name)

    def loss(self, batch, carried):
        self._calls += 1
        loss, handed = self._task.loss(batch, carried)
        return Loss(loss.total * (self._factor if self._calls >= self._at else 1)), handed


def test_a_loss_far_above_the_first_stops_the_run(language_task, trainer_of):
    task = language_task(epochs=2, report_every=5, checkpoint_every=4)
    trainer = trainer_of(Growing(task, at=13, factor=1e4), task.config)
    with refuses("training loss", "1,000", error=ThroughtimeError) as told:
        trainer.fit()
    assert told.value.exit_code == 1
    message = str(told.value)
    assert re.search(r"at update 15 \(epoch 1\)", message)
    for word in ("lr (it was", "clip", "scale the data", "step-00000012"):
        assert word in message
    assert trainer.checkpoints.latest().step == 12


def test_a_run_that_diverges_before_its_first_report_is_stopped(language_task, trainer_of):
    task = language_task(epochs=1, report_every=1000)
    trainer = trainer_of(Growing(task, at=2, factor=1e5), task.config)
    with refuses("training loss", "1,000", error=ThroughtimeError):
        trainer.fit()


def test_no_checkpoint_is_written_of_what_has_not_been_looked_at(language_task, trainer_of):
    task = language_task(epochs=2, report_every=10, checkpoint_every=4)
    trainer = trainer_of(Growing(task, at=14, factor=1e4), task.config)
    with refuses("training loss", "16", error=ThroughtimeError):
        trainer.fit()
    assert trainer.checkpoints.latest().step == 12


def test_what_counts_as_divergence():
    limits = LossLimits()
    assert limits.problem("training", -40.0) is None  # of a density
    assert limits.problem("training", 999.0) is None
    assert "1,000" in limits.problem("training", 1001.0)
    assert limits.problem("validation", 5e6) is None  # its own first value
    assert limits.problem("validation", 4e9) is None
    assert limits.problem("validation", 6e9) is not None
    for broken in (math.inf, -math.inf, math.nan):
        assert limits.problem("training", broken) is not None
    assert validation_loss({"accuracy": 0.5}, ["nats_per_word"]) is None
    assert validation_loss({"bleu": 1.0, "loss": 7.0, "perplexity": 9.0}, ["perplexity"]) == 7.0
    # A perplexity may well grow a thousandfold where a model learns by heart: its loss has only doubled.
    assert validation_loss({"perplexity": math.exp(14.0)}, ["perplexity"]) == pytest.approx(14.0)


def ramp_file(folder):
    noise = np.random.default_rng(0).standard_normal(1000)
    values = np.linspace(0, 10, 1000) + 0.5 * noise
    path = folder / "ramp.csv"
    path.write_text("y\n" + "".join(f"{value:.6f}\n" for value in values))
    return path


def test_the_ramp_diverges_unless_it_is_scaled(tmp_path, throughtime):  # R2
    notes = {
        "model": "linear",
        "head": "point",
        "strategy": "recursive",
        "scaling": "none",
        "normalise": "none",
        "lookback": 4,
        "train_size": 960,
        "valid_size": 20,
        "test_size": 20,
        "horizon": 1,
        "optimizer": "sgd",
        "lr": 0.01,
        "clip": None,
        "schedule": "constant",
        "batch_size": 10,
        "epochs": 5,
        "device": "cpu",
    }

    def train(out, *words, **changed):
        settings = {**notes, **changed}
        pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        return throughtime("train", "forecast", "--data", ramp_file(tmp_path), *pairs, "--out", out, *words)

    out = tmp_path / "run"
    lost = train(out)
    assert lost.code == 1
    assert not lacks(lost.err.splitlines()[-1], "error:", "training loss")
    assert not (out / "training.json").exists()
    assert train(out, "--resume", lr=1e-4).code == 0
    assert max(line["loss"] for line in lines(out, "train")) < 1000  # nothing is left of what diverged
    assert throughtime("evaluate", out).code == 0
    assert train(tmp_path / "scaled", scaling="standard").code == 0


@pytest.mark.parametrize("task", ["language", "translate", "fill", "tag", "classify", "compose", "forecast"])
def test_every_task_stops_when_it_diverges(task, tmp_path, throughtime):
    data = tiny_data(tmp_path)[task]
    wild = {"optimizer": "sgd", "lr": 1e12, "clip": None, "epochs": 4, "report_every": 1}
    out = tmp_path / "run"
    lost = throughtime(*training(task, data, out, **wild))
    assert lost.code == 1, lost.err
    message = lost.err.splitlines()[-1]
    assert not lacks(message, "error:", "update", "lr", "1e+12")
    calm = throughtime(
        *training(task, data, out, **{**wild, "lr": 1e-6, "clip": 1.0, "epochs": 1}), "--resume"
    )
    assert calm.code == 0, calm.err
