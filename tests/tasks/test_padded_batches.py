"""The loss of a batch does not depend on its padding, whatever the task; nor does any gradient."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.tiny import DROPPED, SMALL, tiny_data

from throughtime.data.batching.packing import PaddedShapes
from throughtime.data.datasets import open_dataset
from throughtime.fit.progress import Reporter
from throughtime.fit.trainer import Trainer
from throughtime.gpu.cuda_graphs import MAX_SHAPES
from throughtime.tasks import TASKS

TEXT_TASKS = ("translate", "tag", "fill", "classify", "compose")
VARIANTS = {
    "translate": [
        {"structure": structure}
        for structure in ("attention", "attention-no-feeding", "conditional", "context-and-input")
    ]
    + [{"attention": "dot"}, {"cell": "lstm", "layer_norm": True}, {"label_smoothing": 0.0}],
    "tag": [{}, {"crf": False}],
    "fill": [{}, {"num_layers": 2}],
    "classify": [{"pooling": pooling} for pooling in ("last", "mean", "max", "attention")],
    "compose": [{}, {"fed": False}],
}
CASES = [(task, variant) for task in TEXT_TASKS for variant in VARIANTS[task]]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_data(tmp_path_factory.mktemp("data"))


def objective_of(task, data, **settings):
    predictor = TASKS[task].part("predictor")
    chosen = {**SMALL[task], **dict.fromkeys(DROPPED[task], 0.0), "batch_size": 7, **settings}
    config = predictor.config_type(data=str(data[task]), **{"device": "cpu", **chosen})
    dataset = open_dataset(str(data[task]))
    torch.manual_seed(3)
    model = predictor.create(config, dataset)
    with torch.no_grad():
        for weight in model.model.parameters():  # some begin at zero, where mistakes do not show
            weight += 0.1 * torch.randn_like(weight)
    model.model.to(config.device)
    return model.build_objective(dataset)


def losses(objective, batch):
    """The loss, and the gradients of all weights."""
    objective.model.zero_grad()
    loss, state = objective.loss(batch, ())
    assert not state
    total = loss.total if loss.penalty is None else loss.total + loss.penalty
    total.backward()
    gradients = {name: weight.grad for name, weight in objective.model.named_parameters()}
    return loss.total.detach(), total.detach(), gradients


@pytest.mark.parametrize(("task", "settings"), CASES, ids=[f"{task}-{own}" for task, own in CASES])
def test_padding_changes_no_loss_and_no_gradient(task, settings, data):
    objective = objective_of(task, data, **settings)
    assert objective.fixed_shapes
    for batch in objective.batches(0, 1).sample(3):
        fixed = {"readers", "read", "placed"} | ({"source"} if task == "compose" else set())
        larger = {axis: size + 3 * (axis not in fixed) for axis, size in batch.sizes.items()}
        wanted, found = losses(objective, batch), losses(objective, batch.pack(larger))
        torch.testing.assert_close(found[:2], wanted[:2], rtol=1e-5, atol=1e-5)
        for name, gradient in wanted[2].items():
            torch.testing.assert_close(found[2][name], gradient, rtol=1e-4, atol=1e-5, msg=f"{task}: {name}")


@pytest.mark.parametrize("task", TEXT_TASKS)
def test_every_batch_of_texts_recurs_in_a_few_shapes(task, data):
    batches = objective_of(task, data).batches(0, 1)
    shapes = PaddedShapes.choose(batches.sample(100), 4)
    padded = {tuple(batch.pack(shapes.find(batch)).sizes.values()) for batch in batches}
    assert len(padded) <= 4


def train(objective, folder, shapes=None):
    """Train for 60 updates on a GPU; with `shapes`, called from Python, on batches padded to these."""
    messages, reporter = [], Reporter()
    reporter.say = messages.append
    trainer = Trainer(objective, objective.config, folder, reporter, improved=lambda measures: None)
    assert (trainer.learner.cuda_graphs is None) == (shapes is not None)
    trainer.learner.shapes = shapes or trainer.learner.shapes
    objective.model.train()
    groups = itertools.chain.from_iterable(trainer.groups() for _ in itertools.count())
    with trainer.learner.computing():
        for group in itertools.islice(groups, 60):
            trainer.update(group)
    lap = trainer.learner.tally.lap(trainer.processes)
    return trainer, messages, lap, {name: one.detach() for name, one in objective.model.named_parameters()}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize(("task", "settings"), CASES, ids=[f"{task}-{own}" for task, own in CASES])
def test_replayed_updates_are_those_that_python_calls(task, settings, data, tmp_path):
    """With dropout, and teacher forcing that changes: random numbers and schedule are those of the update."""
    still = {"device": "cuda", "batch_size": 16, "precision": "float32", "capture": True, "lr": 1e-3}
    if task == "translate":
        still["embedding_dropout"] = 0.2
    if "label_smoothing" in settings:
        still |= {"teacher_forcing": 0.9, "teacher_forcing_schedule": "linear"}
    if task in ("tag", "classify"):
        still["word_dropout"] = 0.2
    replayed = train(objective_of(task, data, **still, **settings), tmp_path)
    shapes = replayed[0].learner.shapes
    called = train(objective_of(task, data, **{**still, "capture": False}, **settings), tmp_path, shapes)
    assert not replayed[1]  # nothing failed
    assert 1 < len(replayed[0].learner.cuda_graphs) <= MAX_SHAPES
    assert replayed[2].targets == called[2].targets
    assert replayed[2].total == pytest.approx(called[2].total, rel=1e-3)
    for name, weight in called[3].items():
        torch.testing.assert_close(replayed[3][name], weight, rtol=1e-2, atol=1e-3, msg=f"{task}: {name}")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize("task", TEXT_TASKS)
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(task, data, tmp_path):
    """Its batches are padded to the same shapes, which are those of the first epoch."""
    still = {"device": "cuda", "batch_size": 16, "precision": "float32", "lr": 1e-3, "epochs": 4}
    still |= {"checkpoint_every": 25, "keep": 9, **dict.fromkeys(DROPPED[task], 0.1)}
    runs = []
    for name in ("whole", "resumed"):
        objective = objective_of(task, data, **still)
        (tmp_path / name).mkdir()
        trainer = Trainer(
            objective, objective.config, tmp_path / name, Reporter(), improved=lambda best: None
        )
        if runs:
            trainer.restore(runs[0].checkpoints.latest("step-00000025"))
        trainer.fit()
        runs.append(trainer)
    whole, resumed = runs
    assert (resumed.learner.shapes.shapes == whole.learner.shapes.shapes).all()
    assert len(resumed.learner.cuda_graphs) > 1
    for name, weight in objective.model.named_parameters():
        wanted = dict(whole.objective.model.named_parameters())[name]
        torch.testing.assert_close(weight, wanted, rtol=1e-2, atol=1e-3, msg=f"{task}: {name}")
