"""A small text and small models for the trainer, and a series as a task of its own."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.plain import SMALL
from tests.windows import SeriesWindows
from torch import nn

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import ShuffledWindows
from throughtime.data.datasets import open_dataset
from throughtime.fit.objective import Loss
from throughtime.fit.progress import Reporter
from throughtime.fit.trainer import Trainer
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage

SUBJECTS = ("the cat", "the dog", "a man", "the old woman", "my friend")
VERBS = ("sees", "bites", "likes", "follows", "hears")
OBJECTS = ("the mouse", "a bone", "the moon", "the river", "no one")


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    """Two hundred sentences of three parts."""
    dice = random.Random(1)
    lines = [f"{dice.choice(SUBJECTS)} {dice.choice(VERBS)} {dice.choice(OBJECTS)} ." for _ in range(200)]
    path = tmp_path_factory.mktemp("text") / "sentences.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def language_task(text):
    """A language model's task on that text, with the settings at hand."""

    def build(**settings):
        config = LanguageConfig(data=str(text), **{**SMALL, **settings})
        dataset = open_dataset(str(text))
        return RecurrentLanguage.create(config, dataset).build_objective(dataset)

    return build


@pytest.fixture
def trainer_of(tmp_path):
    """A trainer of a task, in a folder of its own; whatever is best goes into its list `saved`."""

    def build(task, config=None, *, processes=None, run=None, reporter=None):
        saved = []

        def improved(measured):
            weights = {name: weight.detach().clone() for name, weight in task.model.named_parameters()}
            saved.append((measured, weights))

        run = run or tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        run.mkdir(exist_ok=True)
        trainer = Trainer(
            task, config or task.config, run, reporter or Reporter(), improved=improved, processes=processes
        )
        trainer.saved = saved
        return trainer

    return build


@dataclass(frozen=True)
class WindowBatch(Batch):
    """Inputs [lookback, B, 1] and targets [horizon, B, 1]."""

    inputs: torch.Tensor
    targets: torch.Tensor


class WindowBatches(ShuffledWindows):
    """Windows of one series, drawn by the sampler of all windows."""

    def __init__(self, windows, batch_size, **options) -> None:
        super().__init__({"windows": len(windows)}, batch_size, **options)
        self.windows = windows

    def _windows(self, generator):
        return np.arange(len(self.windows))

    def _collate(self, plan, index):
        mine = self._mine(plan[index])
        sides = (self.windows.inputs, self.windows.targets)
        inputs, targets = (
            torch.from_numpy(np.ascontiguousarray(side[mine].swapaxes(0, 1), np.float32)) for side in sides
        )
        return WindowBatch(len(plan[index]) * self.windows.targets[0].size, inputs, targets)


class SeriesTask:
    """Predict the next value of a series from those before it: all that a task of the trainer is."""

    measure = "mse"
    better = "less"
    unit = "tokens"
    fixed_shapes = True

    def __init__(self, model: nn.Module, train: SeriesWindows, valid: SeriesWindows | None, config) -> None:
        self.model, self.train, self.valid, self.config = model, train, valid, config

    def batches(self, rank, world_size):
        return WindowBatches(
            self.train, self.config.batch_size, seed=self.config.seed, rank=rank, world_size=world_size
        )

    def count(self, batch):
        return batch.count

    def loss(self, batch, carried):
        return Loss(self._squared(batch)), ()

    def _squared(self, batch):
        return (self.model(batch.inputs) - batch.targets[0]).square().sum()

    @torch.no_grad()
    def validate(self, rank, world_size):
        if self.valid is None:
            return {}
        batches = WindowBatches(self.valid, 256, shuffle=False, rank=rank, world_size=world_size)
        sums = [(float(self._squared(batch)), batch.rows) for batch in batches]
        return {"squared": sum(one for one, _ in sums), "count": sum(rows for _, rows in sums)}

    def summarise(self, sums):
        return {"mse": sums["squared"] / sums["count"]}

    def training_measures(self, mean):
        return {"mse": mean}

    def sample(self):
        return None


class Linear(nn.Module):
    """x_t = w (x_{t-tau}, ..., x_{t-1}) + b."""

    def __init__(self, tau: int) -> None:
        super().__init__()
        self.layer = nn.Linear(tau, 1)

    def forward(self, inputs):  # [tau, B, 1]
        return self.layer(inputs[:, :, 0].T)


@pytest.fixture
def ramp():
    """A linear autoregression on a noisy ramp, 60 windows of 3."""

    def build(config, valid=True):
        torch.manual_seed(config.seed)
        noise = torch.randn(64, generator=torch.Generator().manual_seed(5))
        values = (torch.linspace(-1, 1, 64) + 0.2 * noise).numpy()
        train, rest = SeriesWindows(values[:48], 3, 1), SeriesWindows(values[45:], 3, 1)
        return SeriesTask(Linear(3), train, rest if valid else None, config)

    return build
