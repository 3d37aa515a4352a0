"""The loss of no task makes the host wait for the device, so that a GPU can replay it from a CUDA graph.

The loss and its gradients are computed on torch's device `meta`, whose tensors have shapes but no numbers:
whatever needs a number (`item`, `if tensor`, `nonzero`, a mask as an index, `cpu`) raises an error there.
"""

from __future__ import annotations

import contextlib

import pytest
import torch
from tests.tiny import SMALL, tiny_data

from throughtime.data.datasets import open_dataset
from throughtime.recurrence.choice import BACKENDS
from throughtime.tasks import TASKS

HALF = dict.fromkeys(("input_dropout", "hidden_dropout", "output_dropout"), 0.5)
VARIANTS = {
    "language": [
        {},
        {"num_layers": 2, "variational": True, "embedding_dropout": 0.5, "weight_drop": 0.5, **HALF},
        {"experts": 2, "expert_dropout": 0.5},
        {"head": "adaptive", "tied": False, "hidden_size": 64, "embedding_size": 64},
        {"embedding": "one-hot", "tied": False},
        {"truncation": "truncated", "tau": 4, "warm_up": 1},
        {"activation_penalty": 2.0, "temporal_penalty": 1.0},
        {"sampling": "random", "warm_up": 2, "initial": "learned"},
        {"cell": "mingru", "residual": True, "layer_norm": True},
    ],
    "translate": [
        *({"structure": structure} for structure in ("attention", "attention-no-feeding", "conditional")),
        *({"structure": structure} for structure in ("seq2seq", "main", "context-only", "state-only")),
        {"structure": "attention", "attention": "general", "cell": "lstm", "num_layers": 2},
        {"structure": "attention", "teacher_forcing": 0.5},
        {"structure": "context-and-input", "context": "max", "label_smoothing": 0.0},
    ],
    "tag": [{}, {"crf": False}, {"variational": True, **HALF}, {"characters": False}, {"cell": "gru"}],
    "fill": [{}, {"num_layers": 2, "layer_norm": True}, {"tied": False}],
    "classify": [
        *({"pooling": pooling} for pooling in ("last", "mean", "max", "attention")),
        {"weight_drop": 0.5, "label_smoothing": 0.1, "num_layers": 2},
    ],
    "compose": [{}, {"fed": False}, {"label_smoothing": 0.1, "cell": "gru", "num_layers": 2}],
    "forecast": [
        *({"head": head} for head in ("point", "gaussian", "student", "quantiles")),
        *({"model": model} for model in ("linear", "mlp", "segment")),
        {"model": "recurrent", "strategy": "recursive", "warm_up": 4},
        {"model": "recurrent", "highway": "trained", "normalise": "standard", "calendar": False},
    ],
}
CASES = [(task, variant) for task in VARIANTS for variant in VARIANTS[task]]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def without_numbers(monkeypatch):
    """Let the loss run on `meta`: without autocast, which has no such device, and without kernels that sort
    ragged rows on the host. A GPU has the persistent kernels for them.
    """
    enabled, autocast = torch.is_autocast_enabled, torch.autocast
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: kind != "meta" and enabled(kind))
    monkeypatch.setattr(
        torch,
        "autocast",
        lambda kind, *rest, **options: (
            contextlib.nullcontext() if kind == "meta" else autocast(kind, *rest, **options)
        ),
    )
    for name in ("native", "fused"):
        kind = type(BACKENDS[name])
        monkeypatch.setattr(kind, "refuses", _refuse_ragged(kind.refuses))


def _refuse_ragged(refuses):
    def refuse(self, cell, x, lengths, carry):
        return "rows are ragged" if lengths is not None else refuses(self, cell, x, lengths, carry)

    return refuse


def build_objective(task, data, **settings):
    predictor = TASKS[task].part("predictor")
    given = {**SMALL[task], "batch_size": 5, **settings}
    config = predictor.config_type(data=str(data[task]), device="cpu", **given)
    dataset = open_dataset(str(data[task]), **config.data_options)
    return predictor.create(config, dataset).build_objective(dataset)


def learn(objective, batch):
    """The loss of two batches, the second of which continues the first, and all gradients."""
    objective.model.to("meta").train()
    carried = ()
    for _ in range(2):
        loss, carried = objective.loss(batch.to("meta"), carried)
        (loss.total if loss.penalty is None else loss.total + loss.penalty).backward()


def test_all_tasks_are_here():
    assert {*VARIANTS} == {name for name in TASKS if TASKS[name].uses_trainer}


@pytest.mark.parametrize(("task", "settings"), CASES, ids=[f"{task}-{own}" for task, own in CASES])
def test_a_loss_that_can_be_recorded_never_waits(task, settings, data, without_numbers):
    objective = build_objective(task, data, **settings)
    assert objective.fixed_shapes
    learn(objective, next(iter(objective.batches(0, 1))))


WAITING = {
    "item": lambda labels, lengths: labels.sum().item(),
    "if": lambda labels, lengths: labels if lengths.any() else None,
    "cpu": lambda labels, lengths: lengths.cpu(),
    "nonzero": lambda labels, lengths: lengths.nonzero(),
    "mask": lambda labels, lengths: labels[:, lengths > 1],
    "maximum": lambda labels, lengths: labels[: max(lengths)],
    "repeat": lambda labels, lengths: labels.repeat_interleave(lengths, dim=1),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_loss_that_waits_is_found(name, data, without_numbers, monkeypatch):
    objective = build_objective("tag", data)
    surprisals = type(objective.model.head).surprisals

    def wait(self, scores, tags, lengths):
        WAITING[name](tags, lengths)
        return surprisals(self, scores, tags, lengths)

    monkeypatch.setattr(type(objective.model.head), "surprisals", wait)
    with pytest.raises((RuntimeError, NotImplementedError)):
        learn(objective, next(iter(objective.batches(0, 1))))
