"""Steps recorded in a CUDA graph are the steps as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import LabelledBatches
from throughtime.data.batching.text import RandomWindows
from throughtime.fit import trainer as trainers
from throughtime.fit.processes import Processes
from throughtime.gpu import choice
from throughtime.gpu.cuda_graphs import SEEN_BEFORE, WARM_UP, CudaGraphs, _key
from throughtime.gpu.learner import RecordedLearner

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def test_on_a_cpu_nothing_is_captured(language_task, trainer_of):
    trainer = trainer_of(language_task(capture=True, epochs=1))
    trainer.fit()
    assert not isinstance(trainer.learner, RecordedLearner)


@pytest.fixture
def learner_of(trainer_of, monkeypatch):
    """The learner of a GPU for a task on a CPU."""

    def build(task):
        def find_learner(objective, config, processes, batches, say):
            return RecordedLearner(objective, config, processes, say)

        monkeypatch.setattr(trainers, "find_learner", find_learner)
        return trainer_of(task).learner

    return build


def test_updates_choose_backends_as_recorded_ones_do(language_task, learner_of, monkeypatch):
    """Otherwise an update would round differently once it is recorded."""
    learn, seen = RecordedLearner._learn, []

    def watched(*given):
        seen.append(choice.is_recorded())
        return learn(*given)

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(RecordedLearner, "_learn", watched)
    task = language_task()
    learner, batches = learner_of(task), [*task.batches(0, 1)]
    for batch in batches:
        learner.update([batch], batch.count)
    assert seen == [True] * len(batches)
    assert not choice.is_recorded()


def test_a_recording_is_for_one_shape(language_task):
    """And for one of whatever else a step depends on, but not for one number of targets."""
    task = language_task()
    first, second = (batch for batch, _ in zip(task.batches(0, 1), range(2), strict=False))
    third = next(iter(language_task(batch_size=5).batches(0, 1)))
    state = (torch.zeros(4, 12),)
    assert _key(first, (), None) != _key(second, (), None)  # one begins, one goes on
    assert _key(second, state, None) != _key(second, (), None)
    assert _key(second, state, True) != _key(second, state, False)
    assert _key(first, (), None) != _key(third, (), None)
    assert _key(second, state, None) == _key(second, (torch.ones(4, 12),), None)
    assert _key(second, state, None) == _key(replace(second, count=7), state, None)


@dataclass(frozen=True)
class Halves(Batch):
    left: Tensor
    right: Tensor


def test_a_recording_is_for_tensors_of_these_names_in_this_order():
    """A replay copies the memory of a batch as it is."""
    batch, left, right = Halves(1, torch.zeros(2), torch.ones(2)), torch.zeros(2), torch.ones(2)
    other = object.__new__(Halves)
    vars(other).update(count=1, right=right, left=left)
    assert not torch.equal(batch.pack().memory, other.pack().memory)
    assert _key(batch.pack(), (), None) != _key(other.pack(), (), None)


@pytest.fixture
def recorder(monkeypatch):
    """Graphs that write down what they would do on a GPU: run, rehearse, record, replay."""
    events = []

    def record(self, key, batch, carried):
        events.append(("record", batch.rows))
        self._recordings[key] = batch
        return True

    monkeypatch.setattr(CudaGraphs, "_record", record)
    monkeypatch.setattr(
        CudaGraphs, "_replay", lambda self, own, batch, carried: events.append(("replay", batch.rows)) or ()
    )
    return events


def build_batches(*rows):
    batches = LabelledBatches(RaggedIds.of([[5, 6, 7]] * 64), [0] * 64, shuffle=False, batch_size=32)
    (whole, _) = batches
    return [whole.pack({"steps": 3, "rows": 32 + number}) for number in rows]


def test_expected_shapes_are_rehearsed_and_then_recorded_the_largest_first(recorder):
    small, large, middle = build_batches(1, 9, 5)
    graphs = CudaGraphs(
        lambda batch, carried: recorder.append(("run", batch.rows)) or (),
        recorder.append,
        rehearse=lambda batch: recorder.append(("rehearse", batch.rows)),
    )
    graphs.expect([small, large, middle])
    for batch in [small] * WARM_UP + [small, middle, large]:
        assert graphs(batch, ()) == ()
    recordings = [("record", rows) for rows in (41, 37, 33)]
    rehearsals = [("rehearse", 41), ("rehearse", 37)]  # the smallest has run
    # The first shape recurs while the others warm up.
    assert recorder[0] == ("run", 33)
    assert [event for event in recorder if event[0] == "rehearse"] == rehearsals
    assert recorder[-len(recordings) - 3 :] == [*recordings, ("replay", 33), ("replay", 37), ("replay", 41)]
    assert len(graphs) == 3


def test_updates_that_pass_on_a_state_are_recorded_as_they_come(recorder):
    (batch,) = build_batches(1)
    state = (torch.zeros(33, 2),)
    graphs = CudaGraphs(lambda batch, carried: state, recorder.append, rehearse=pytest.fail)
    graphs.expect(build_batches(9))
    for _ in range(WARM_UP + 1):
        graphs(batch, state)
    assert ("record", 33) in recorder
    assert ("record", 41) not in recorder


def test_one_batch_of_each_shape_is_expected(language_task, learner_of):
    rows = RaggedIds.of([[5] * (1 + number % 9) for number in range(90)])
    batches = LabelledBatches(rows, [0] * 90, batch_size=4)
    learner = learner_of(language_task())
    learner.cuda_graphs = graphs = CudaGraphs(lambda batch, carried: (), pytest.fail)
    learner.prepare_graphs(batches)
    shapes = learner.shapes
    expected = [tuple(batch.sizes.values()) for batch in graphs._expected]
    assert sorted(expected) == sorted(map(tuple, shapes.shapes.tolist()))
    sizes = [steps * rows for steps, rows in expected]
    assert sizes[0] == max(sizes)
    windows = RandomWindows(range(100), 4, 7)  # of one shape, and the last batch is smaller
    learner.prepare_graphs(windows)
    assert learner.shapes is None
    assert [batch.rows for batch in graphs._expected] == [4, len(windows.sample(99)[-1].lengths)]


def weights_of(task):
    return [weight.detach().clone() for weight in task.model.parameters()]


def test_a_packed_batch_is_learned_with_its_count_and_its_rate(language_task, learner_of):
    """As it is when it is recorded, but on a CPU."""
    found = []
    for packed in (False, True):
        task = language_task(seed=3, clip=None)
        batch, learner = next(iter(task.batches(0, 1))), learner_of(task)
        if packed:
            batch = batch.pack()
            batch.write_header(40, 0.01)
            learner._learn_packed(batch, ())
        else:
            learner.set_rate(0.01)
            learner._learn([batch], (), 40, 1 / 40)
        found.append(weights_of(task))
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_one_kernel_ends_an_update_as_many_operations_do(
    optimizer, clip, language_task, learner_of, emulated, monkeypatch
):
    """As on a GPU, but on a CPU; the third update is not finite."""
    found = []
    for at_once in (False, True):
        monkeypatch.setattr(RecordedLearner, "_has_kernels", lambda self, at_once=at_once: at_once)
        task = language_task(seed=3, clip=clip, optimizer=optimizer, momentum=0.9)
        learner = learner_of(task)
        batch = next(iter(task.batches(0, 1))).pack()
        for number in range(5):
            batch.write_header(40, math.nan if number == 2 else 0.01 * (number + 1))
            if number == 2:
                batch.header.share.fill_(math.nan)
            learner._learn_packed(batch, ())
        tally = learner.tally
        found.append((weights_of(task), tally.state(Processes()), tally.rate_factor, tally.stepped))
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-7)
    assert float(found[0][2]) == 0.5


def test_a_rehearsal_changes_no_weight(language_task, learner_of):
    task = language_task()
    before, learner = weights_of(task), learner_of(task)
    learner._rehearse(next(iter(task.batches(0, 1))).pack())
    assert all(map(torch.equal, weights_of(task), before))
    assert all(weight.grad is None for weight in task.model.parameters())
    assert not learner.tally.pending


def trained(language_task, trainer_of, capture, **settings):
    task = language_task(capture=capture, epochs=2, report_every=5, **settings)
    task.model.to("cuda")
    trainer = trainer_of(task)
    trainer.fit()
    assert trainer.step > 20
    assert bool(trainer.learner.cuda_graphs) == capture
    return trainer, {name: weight.detach().cpu() for name, weight in task.model.named_parameters()}


@GPU
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cell": "gru", "optimizer": "sgd", "lr": 1.0, "average": "ema"},
        {"sampling": "random", "initial": "learned", "clip": None},
        {"warm_up": 2, "schedule": "cosine", "temporal_penalty": 1.0},
        {"input_dropout": 0.3, "output_dropout": 0.3},
        {"weight_drop": 0.3, "variational": True, "embedding_dropout": 0.1},
    ],
    ids=["carried", "sgd-ema", "random", "warm-up", "dropout", "awd"],
)
def test_replayed_equals_plain(settings, language_task, trainer_of):
    """Dropout too: the graph draws from the seed of its update."""
    plain, wanted = trained(language_task, trainer_of, False, device="cuda", **settings)
    replayed, found = trained(language_task, trainer_of, True, device="cuda", **settings)
    assert plain.step == replayed.step
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], rtol=1e-3, atol=1e-4)
    assert replayed.record.best == pytest.approx(plain.record.best, rel=1e-3)


@GPU
def test_replayed_goes_on_from_a_checkpoint(language_task, trainer_of):
    whole, wanted = trained(language_task, trainer_of, True, device="cuda", checkpoint_every=20, keep=9)
    task = language_task(capture=True, epochs=2, report_every=5, device="cuda")
    task.model.to("cuda")
    trainer = trainer_of(task)
    trainer.restore(whole.checkpoints.latest("step-00000020"))
    trainer.fit()
    for name, weight in task.model.named_parameters():
        torch.testing.assert_close(weight.detach().cpu(), wanted[name], rtol=1e-3, atol=1e-4)


@GPU
def test_what_cannot_be_recorded_is_told_and_runs(language_task):
    told = []
    task = language_task(device="cuda")
    batch = next(iter(task.batches(0, 1))).pack(pin=True)
    drawn = []

    def step(batch, carried):
        noise = torch.rand(3, device="cuda")  # as dropout draws it
        drawn.append((noise + batch.inputs.sum().cpu()).tolist())
        return ()

    graphs = CudaGraphs(step, told.append)
    runs = max(SEEN_BEFORE, WARM_UP) + 2
    for _ in range(runs):
        torch.manual_seed(5)
        assert graphs(batch, ()) == ()
    assert len(told) == 1
    assert len(drawn) == runs
    assert all(one == drawn[0] for one in drawn)  # the generator still draws, and from the same seed
    assert "cannot be recorded" in told[0]
