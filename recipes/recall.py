"""Long memory: which cells learn to recall the first symbols of a sequence after k steps of noise.

A row is a few symbols to remember, k steps of noise in the same alphabet, and a sign that asks for them. Each
batch has its own k, whose logarithm is drawn evenly: nothing learns long lags without short ones. A model is
judged at each lag of interest on rows that it has not seen. The trainer is the one of `throughtime train`;
this file is also the shortest example of a task of one's own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from throughtime.cells import CELLS
from throughtime.config import build_config
from throughtime.data.batching.batches import Batch, Batches
from throughtime.fit.config import TrainingConfig
from throughtime.fit.objective import Carried, Loss
from throughtime.fit.progress import Reporter
from throughtime.fit.trainer import Trainer
from throughtime.recurrence import scan
from throughtime.version import __version__

UNSEEN = 1 << 20
"""Epochs of training count from 0; the judge draws its rows from this one."""


class RecallConfig(TrainingConfig):
    """The task and its models."""

    cells: tuple[str, ...] = ("rnn", "gru", "lstm")
    hidden_size: int = 64
    symbols: int = 8
    remembered: int = 4
    lags: tuple[int, ...] = (10, 50, 100, 200)
    updates: int = 100


@dataclass(frozen=True)
class RecallBatch(Batch):
    """Rows to read, [remembered + k + 1, B]."""

    inputs: Tensor


class RecallBatches(Batches[Any, RecallBatch]):
    """Batches of rows with one lag each, drawn from (seed, epoch, number of the batch)."""

    def __init__(self, config: RecallConfig, rank: int = 0, world_size: int = 1) -> None:
        settings = {"seed": config.seed, "batch_size": config.batch_size, "longest": max(config.lags)}
        super().__init__(settings, rank=rank, world_size=world_size)
        self.config = config

    def _plan(self, epoch: int) -> Any:
        draws = np.random.default_rng([self.config.seed, epoch])
        return np.exp(draws.uniform(0, np.log(max(self.config.lags) + 1), self.config.updates)).astype(int)

    def _collate(self, plan: Any, index: int) -> RecallBatch:
        rows = drawn(self.config, int(plan[index]), self.epoch, index)
        return RecallBatch(rows.shape[1] * self.config.remembered, rows[:, self.rank :: self.world_size])


def drawn(config: RecallConfig, lag: int, epoch: int, index: int) -> Tensor:
    """Ids [remembered + lag + 1, B]; the last one asks.

    >>> drawn(RecallConfig(symbols=4, remembered=2, batch_size=2), lag=3, epoch=0, index=0).T
    tensor([[1, 2, 3, 2, 2, 4],
            [0, 2, 0, 0, 1, 4]])
    """
    draws = np.random.default_rng([config.seed, epoch, index, lag])
    ids = draws.integers(0, config.symbols, (config.remembered + lag + 1, config.batch_size))
    ids[-1] = config.symbols
    return torch.from_numpy(ids)


class Recaller(nn.Module):
    """Embedding, one layer of a cell, and at its last step a choice of symbol for each remembered one."""

    def __init__(self, cell: str, config: RecallConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.symbols + 1, config.hidden_size)
        self.cell = CELLS[cell](config.hidden_size, config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.remembered * config.symbols)
        self.remembered = config.remembered

    def forward(self, ids: Tensor) -> Tensor:
        """Scores of the symbols, [remembered, B, symbols]."""
        state = scan(self.cell, self.embedding(ids)).state
        return torch.stack(self.head(state[0]).chunk(self.remembered, dim=-1))


class RecallTask:
    """What the trainer needs to know; see `throughtime.fit.objective.Objective`."""

    measure = "accuracy"
    better: Literal["less", "more"] = "more"
    unit = "answers"
    fixed_shapes = False

    def __init__(self, model: Recaller, config: RecallConfig) -> None:
        self.model, self.config = model, config

    def batches(self, rank: int, world_size: int) -> RecallBatches:
        """The training rows."""
        return RecallBatches(self.config, rank, world_size)

    def count(self, batch: Batch) -> int:
        """An answer for each remembered symbol."""
        return batch.count

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """The surprisal of the answers; nothing is handed on."""
        assert isinstance(batch, RecallBatch)
        scores, answers = self.model(batch.inputs), batch.inputs[: self.config.remembered]
        return Loss(cross_entropy(scores.flatten(0, 1), answers.flatten(), reduction="sum")), ()

    def validate(self, rank: int, world_size: int) -> Mapping[str, float]:
        """Shares of right answers, added over the lags; the first process looks at them all."""
        lags = self.config.lags if rank == 0 else ()
        return {"right": sum(map(self.accuracy, lags)), "lags": len(lags)}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The share of right answers."""
        return {"accuracy": sums["right"] / sums["lags"]}

    def training_measures(self, mean: float) -> dict[str, float]:
        """Nothing beyond the loss itself."""
        return {"nats": mean}

    def sample(self) -> str | None:
        """Nothing to show."""
        return None

    @torch.no_grad()
    def accuracy(self, lag: int, batches: int = 8) -> float:
        """The share of right answers on rows that training never sees."""
        right = [
            (self.model(rows).argmax(dim=-1) == rows[: self.config.remembered]).float().mean()
            for rows in (drawn(self.config, lag, UNSEEN, index) for index in range(batches))
        ]
        return float(torch.stack(right).mean())


def measured(settings: dict[str, Any]) -> dict[str, Any]:
    """A line for each cell; the value is the accuracy of the last cell at the longest lag."""
    config = build_config(RecallConfig, settings, "recall")
    columns = ["cell", "weights of the cell", *(f"lag {lag}" for lag in config.lags), "seconds"]
    rows = [_trained(name, config) for name in config.cells]
    words = [
        "data:recall",
        f"symbols:{config.remembered}of{config.symbols}",
        f"lags:{'-'.join(map(str, config.lags))}",
        f"version:{__version__}",
    ]
    value = rows[-1][columns.index(f"lag {max(config.lags)}")]
    return {"value": value, "table": {"columns": columns, "rows": rows}, "signature": "|".join(words)}


def _trained(name: str, config: RecallConfig) -> list[Any]:
    torch.manual_seed(config.seed)
    model = Recaller(name, config)
    task = RecallTask(model, config)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        Trainer(task, config, Path(folder), Reporter(), improved=lambda measured: None).fit()
    seconds = time.perf_counter() - began
    model.eval()
    weights = sum(weight.numel() for weight in model.cell.parameters())
    return [name, weights, *map(task.accuracy, config.lags), round(seconds)]
