"""Steps recorded in a CUDA graph are the steps as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from throughtime.train.cuda_graphs import SEEN_BEFORE, WARM_UP, CudaGraphs, _key

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


def test_on_a_cpu_nothing_is_captured(language_task, trainer_of):
    trainer = trainer_of(language_task(capture=True, epochs=1))
    trainer.fit()
    assert trainer.learner.cuda_graphs is None


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
    batch = next(iter(task.batches(0, 1))).to("cuda")
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
