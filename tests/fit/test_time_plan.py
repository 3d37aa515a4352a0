"""A training of some minutes: it ends on time, with its schedule at the end."""  # R112

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace

import pytest
import torch
from tests.refusals import lacks, refuses

from throughtime.fit.progress import Reporter
from throughtime.fit.time_plan import TimePlan
from throughtime.fit.trainer import Trainer


def test_what_comes_after_the_last_validation_has_time_too():
    plan = TimePlan(60.0, validation=2.0, closing=5.0)
    plan.begin(0.0, 1.0)
    assert plan.last == 60 - 2 - 5
    assert (plan.is_over(1, 52.9), plan.is_over(1, 53.0)) == (False, True)
    plan.revise(10, 20.0, 2.0)  # the machine has become slower
    assert plan.last == 10 + (60 - 2 - 2 * 5 - 20) // 2


@pytest.fixture
def clock(monkeypatch):
    """Time in which updates and validations take as long as a test says, and all else nothing."""
    time = SimpleNamespace(now=0.0, update=1.0, validation=0.0, slower_from=math.inf, slower=1.0)
    time.monotonic = lambda: time.now
    update, validate = Trainer.update, Trainer._validate

    def take(seconds):
        time.now += seconds * (time.slower if time.now >= time.slower_from else 1.0)

    def slow_update(trainer, group):
        update(trainer, group)
        take(time.update)

    def slow_validation(trainer, epoch):
        objective, before = trainer.objective, trainer.objective.validate

        def take_time(rank, world_size):
            take(time.validation / world_size)
            return before(rank, world_size)

        objective.validate = take_time
        try:
            validate(trainer, epoch)
        finally:
            objective.validate = before

    for module in ("trainer", "saved_run"):
        monkeypatch.setattr(f"throughtime.fit.{module}.time", time)
    monkeypatch.setattr(Trainer, "update", slow_update)
    monkeypatch.setattr(Trainer, "_validate", slow_validation)
    return time


def rates(run):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["lr"] for line in lines if line["kind"] == "train"]


PLANNED = {
    "epochs": None,
    "minutes": 5.0,
    "schedule": "cosine",
    "lr": 0.1,
    "report_every": 1,
    "early_stopping": 1000,
}


@pytest.mark.parametrize(
    ("update", "validation", "slower"), [(1.0, 0.0, 1.0), (0.7, 4.0, 1.0), (1.3, 9.0, 3.0), (2.0, 1.0, 0.4)]
)
def test_it_ends_on_time_with_its_schedule_at_the_end(
    update, validation, slower, clock, language_task, trainer_of
):
    clock.update, clock.validation, clock.slower_from, clock.slower = update, validation, 120.0, slower
    trainer = trainer_of(language_task(**PLANNED))
    summary = trainer.fit()
    assert abs(clock.now - 300) <= 15, clock.now
    found = rates(trainer.run)
    assert found[0] == pytest.approx(0.1)
    assert found[-1] < 0.002
    assert all(after <= before for before, after in itertools.pairwise(found))
    assert summary.why == "5 minutes are over"
    assert trainer.record.validated_at == trainer.step  # the last weights are validated, too
    assert trainer.plan.spent <= 0.1 * clock.now + 2 * validation


@pytest.mark.parametrize("minutes", [5.0, 0.9])
def test_a_slow_validation_is_known_before_the_end_of_a_long_epoch(minutes, clock, language_task, trainer_of):
    clock.validation, clock.update = 12 * minutes, minutes
    trainer = trainer_of(language_task(**{**PLANNED, "minutes": minutes, "batch_size": 1}))
    assert trainer.steps_per_epoch > 60
    summary = trainer.fit()
    assert summary.epochs == 0
    assert len(trainer.record.scores) == (1 if minutes < 1 else 2)
    assert abs(clock.now - 60 * minutes) <= 15
    assert rates(trainer.run)[-1] < 0.002
    assert trainer.record.validated_at == trainer.step
    assert trainer.objective.model.training is False


@pytest.mark.parametrize(("validation", "parts"), [(20.0, 1), (60.0, 8), (240.0, 8), (900.0, 64)])
def test_if_a_validation_takes_too_long_a_part_of_its_data_is_used(
    validation, parts, clock, language_task, trainer_of
):
    clock.validation, clock.update = validation, 5.0
    trainer = trainer_of(language_task(**{**PLANNED, "batch_size": 1}))
    said = []
    trainer.reporter.say = said.append
    trainer.fit()
    assert abs(clock.now - 300) <= 15
    assert rates(trainer.run)[-1] < 0.002
    assert trainer.record.validated_at == trainer.step
    assert trainer.plan.parts == parts
    assert len([line for line in said if f"1/{parts}" in line]) == (parts > 1)


def test_a_short_run_that_is_killed_loses_a_tenth_of_its_time(clock, language_task, trainer_of, monkeypatch):
    monkeypatch.setattr("throughtime.fit.saved_run.time", clock)
    trainer = trainer_of(language_task(**PLANNED, batch_size=1))
    saved = []
    save = trainer._save
    trainer._save = lambda: saved.append(clock.now) or save()
    trainer.fit()
    assert all(after - before <= 32 for before, after in itertools.pairwise([0.0, *saved]))
    assert len(saved) <= 12


def test_killed_and_resumed_it_ends_after_the_same_time(clock, language_task, trainer_of):
    first = trainer_of(language_task(**PLANNED, checkpoint_every=10))
    killed = RuntimeError("killed")

    def kill(epoch, step_in_epoch, step, targets):
        if step == 155:
            raise killed

    first.reporter.add_update = kill
    with pytest.raises(RuntimeError):
        first.fit()
    again = trainer_of(language_task(**PLANNED, checkpoint_every=10))
    checkpoint = first.checkpoints.latest()
    assert checkpoint.step == 150
    again.restore(checkpoint)
    began = clock.now
    again.fit()
    assert abs(clock.now - began + 150 - 300) <= 15
    assert again.step == pytest.approx(290, abs=10)
    assert rates(again.run)[-1] < 0.002


def test_a_run_that_gets_more_time_goes_on_from_its_share_of_it(clock, language_task, trainer_of):
    first = trainer_of(language_task(**PLANNED))
    first.fit()
    again = trainer_of(language_task(**{**PLANNED, "minutes": 10.0}))
    again.restore(first.checkpoints.latest())
    again.fit()
    assert abs(clock.now - 600) <= 30
    half = 0.1 * (1 + math.cos(math.pi * 0.5)) / 2
    assert rates(again.run)[0] == pytest.approx(half, rel=0.1)
    assert rates(again.run)[-1] < 0.002


def test_preparation_counts_as_time(clock, language_task, trainer_of):
    trainer = trainer_of(language_task(**PLANNED))
    trainer.expect(spent=100.0, per_update=1.0)
    assert trainer.plan.last == pytest.approx(200 * 0.95, abs=10)
    trainer.fit()
    assert abs(clock.now - 200) <= 15


@pytest.mark.parametrize(("slower", "drops"), [(1.5, 0), (4.0, 1)])
def test_if_several_threads_become_slower_than_one_it_goes_on_with_one(
    slower, drops, clock, language_task, trainer_of, monkeypatch
):
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    clock.slower_from, clock.slower = 100.0, slower
    trainer = trainer_of(language_task(**PLANNED))
    trainer.plan.single = 1.2
    said = []
    trainer.reporter.say = said.append
    trainer.fit()
    assert threads == [1] * drops
    assert len([line for line in said if "one thread" in line]) == drops
    assert abs(clock.now - 300) <= 15


@pytest.mark.parametrize(
    ("seconds", "prepared", "per_update", "expected"),
    [
        (12, 11.5, 0.1, 0.4),  # preparation has used it up
        (12, 13.0, 0.001, 0.4),  # and more than that
        (60, 5.0, 9.0, 4.7),  # a large model
        (0.6, 0.01, 0.1, 0.1),
        (12, 9.0, 0.05, None),
        (60, 5.0, 2.0, None),
    ],
)
def test_too_little_time_is_refused_with_the_minimum(seconds, prepared, per_update, expected):
    plan = TimePlan(seconds)
    if expected is None:
        plan.begin(prepared, per_update)
        assert plan.announced >= 20
        return
    with refuses("minutes", f"{seconds / 60:g}", f"{prepared:.1f} s", f"at least {expected}"):
        plan.begin(prepared, per_update)
    TimePlan(60 * expected).begin(prepared, per_update)  # the minimum is enough


@pytest.mark.parametrize(("measured", "planned"), [(1.0, None), (0.4, None), (0.1, 2619)])
def test_a_run_that_makes_few_of_its_updates_says_so(measured, planned, clock, language_task, trainer_of):
    """Updates take a second each, where less had been measured before another program began to compute."""
    trainer = trainer_of(language_task(**PLANNED))
    trainer.expect(spent=0.0, per_update=measured)
    summary = trainer.fit()
    assert summary.steps == pytest.approx(290, abs=10)
    assert summary.planned == planned
    if planned is None:
        assert trainer.shortfall is None
    else:
        facts = f"{summary.steps:,}", "2,619", "1,000 ms", "100 ms", "0 s"
        assert not lacks(trainer.shortfall, *facts)


def finish_after(trainer, task):
    """The summary of a run of the scripted task that goes on from the last checkpoint of another run."""
    again = Trainer(scripted(task, [1.5]), task.config, trainer.run, Reporter(), improved=lambda best: None)
    again.restore(trainer.checkpoints.latest())
    return again.fit()


def scripted(task, measures):
    """A task whose validations have these measures; the last one is repeated."""
    left = list(measures)
    task.summarise = lambda sums: {task.measure: left.pop(0) if len(left) > 1 else left[0]}
    return task


@pytest.mark.parametrize(
    ("measures", "early_stopping", "stops"),
    [
        ([3.0, 2.0, 1.0, 1.5], None, True),
        ([3.0, 2.0, 1.0, 1.5], 1000, False),
        (range(1000, 0, -1), None, False),
    ],
)
def test_a_run_stops_when_nothing_has_improved_for_a_third_of_it(
    measures, early_stopping, stops, clock, language_task, trainer_of
):
    settings = {**PLANNED, "early_stopping": early_stopping, "batch_size": 20}
    trainer = trainer_of(scripted(language_task(**settings), measures))
    summary = trainer.fit()
    assert (trainer.record.validations_since_best > 5, "minutes are over" in summary.why) == (
        stops or early_stopping is not None,
        not stops,
    )
    if stops:
        waited = (summary.steps - summary.best_step) / trainer.plan.last
        assert 1 / 3 <= waited < 1 / 3 + 0.05
        assert finish_after(trainer, language_task(**settings)).steps == summary.steps
        longer = finish_after(trainer, language_task(**{**settings, "minutes": 6.0}))
        assert longer.steps >= summary.steps + 90  # more time is used, though nothing may improve again
        assert summary.planned is None  # it needed no more


def test_validations_keep_to_their_share():
    plan = TimePlan(600.0)
    assert not plan.allows_validation(100.0)  # none was measured: it may take long
    plan.add_validation(5.0)
    assert [plan.allows_validation(elapsed) for elapsed in (60.0, 110.0, 597.0)] == [False, True, False]


@pytest.mark.parametrize("step", [0, 1, 50, 1000])
def test_progress_is_continuous_where_the_plan_is_revised(step):
    plan = TimePlan(100.0)
    plan.revise(0, 0.0, 0.1)
    before = plan.progress(step)
    plan.revise(step, 30.0, 0.35)
    assert plan.progress(step) == before
    assert plan.progress(10**9) == 1.0
