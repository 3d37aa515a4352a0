"""The recurrent language model as the trainer sees it: batches, a loss, a measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from throughtime.data.batching import (
    Batch,
    Batches,
    LanguageBatch,
    OverlappingWindows,
    RandomWindows,
    SequentialPartition,
    real_positions,
)
from throughtime.errors import InputError
from throughtime.metrics.likelihood import Likelihood
from throughtime.models.heads import IGNORED
from throughtime.models.language import RecurrentLanguageModel
from throughtime.recurrence.truncation import Full, Randomised, Strategy, Truncated, carries
from throughtime.train.task import Loss, State

if TYPE_CHECKING:
    from throughtime.tasks.language_config import LanguageConfig
    from throughtime.tasks.recurrent import RecurrentLanguage

VALIDATION_STEPS = 128
SAMPLED_TOKENS = 60
PROMPT_TOKENS = 12
"""A stream has no beginning to write from, so a sample goes on from a few tokens of it."""


class LanguageTask:
    """Predict each token from those before it. `train` and `valid` are ids of whole texts."""

    counted = "tokens"
    measure = "perplexity"
    better: Literal["less", "more"] = "less"

    def __init__(
        self,
        language: RecurrentLanguage,
        train: np.ndarray[Any, Any],
        valid: np.ndarray[Any, Any] | None,
    ) -> None:
        self.language, self.config = language, language.config
        self.model: RecurrentLanguageModel = language.model
        self.train, self.valid = train, valid
        if self.config.warm_up >= self.config.num_steps:
            steps = self.config.num_steps
            raise InputError(
                "warm_up", f"is {self.config.warm_up}, but a row has only {steps} steps to learn from"
            )
        self._validation(0, 1)  # what does not fit is refused before anything is trained
        self._strategy = _strategy(self.config)
        # Random cuts are drawn on the host, at every batch anew.
        self.fixed_shapes = self.model.head.fixed_shapes and self.config.truncation != "randomised"

    def batches(self, rank: int, world_size: int) -> Batches[Any, LanguageBatch]:
        """The training text in batches of the chosen kind."""
        config, ids = self.config, self.train
        if config.sampling == "overlapping":
            windows = None if config.train_windows is None else range(config.train_windows)
            return OverlappingWindows(
                ids,
                config.batch_size,
                config.num_steps,
                windows=windows,
                seed=config.seed,
                rank=rank,
                world_size=world_size,
            )
        kind = SequentialPartition if config.sampling == "sequential" else RandomWindows
        return kind(
            ids, config.batch_size, config.num_steps, seed=config.seed, rank=rank, world_size=world_size
        )

    def count(self, batch: Batch) -> int:
        """All rows of a training batch are equally long, so the warm-up takes the same share of each."""
        assert isinstance(batch, LanguageBatch)
        steps = len(batch.labels)
        return batch.count * (steps - self.config.warm_up) // steps

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """Surprisals of the labels, and the penalties on the outputs."""
        assert isinstance(batch, LanguageBatch)
        inputs, labels = batch.inputs, batch.labels
        rows, skipped = inputs.shape[1], self.config.warm_up
        state = carried if carried and batch.continues else self.model.initial_state(rows)
        if skipped:
            with torch.set_grad_enabled(self.config.warm_up_gradient):
                state = self.model(inputs[:skipped], state).state
            inputs, labels = inputs[skipped:], labels[skipped:]
        carry = carries(self._strategy, len(inputs), rows, torch.default_generator, device=inputs.device)
        outputs, dropped, last = self.model(inputs, state, carry)
        total = self.model.head.loss(dropped.flatten(0, 1), labels.flatten())
        handed = tuple(part.detach() for part in last) if self.config.sampling == "sequential" else ()
        return Loss(total, self._penalty(outputs, dropped)), handed

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """Every token of the validation text but the first once, its rows read side by side."""
        if (batches := self._validation(rank, world_size)) is None:
            return {}
        nats, tokens = 0.0, 0
        state: State | None = None
        device = self.model.embedding.weight.device
        for batch in batches:
            if not batch.rows:
                continue
            batch = batch.to(device)
            outputs, _, reached = self.model(batch.inputs, state if batch.continues else None)
            state = reached
            real = real_positions(len(batch.labels), batch.lengths)
            labels = torch.where(real, batch.labels, IGNORED)
            nats += float(self.model.head.loss(outputs.flatten(0, 1), labels.flatten()))
            tokens += int(batch.lengths.sum())
        return {"nats": nats, "tokens": tokens}

    def judged(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Perplexity and bits."""
        found = Likelihood(sums["nats"], int(sums["tokens"]))
        return {"perplexity": found.perplexity, "bits_per_token": found.bits_per_token}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The perplexity of the training text, dropout included."""
        return {"perplexity": Likelihood(mean, 1).perplexity}

    def sample(self) -> str | None:
        """A few lines that the model writes, from the same chance each time."""
        strategy = self.language.strategy(seed=0, temperature=0.8)
        prompt = "" if self.language.framing.marked else self.language.framing.text(self._opening())
        return self.language.generate(prompt, max_new_tokens=SAMPLED_TOKENS, strategy=strategy)[0].text

    def _opening(self) -> list[int]:
        text = self.train if self.valid is None else self.valid
        return [int(one) for one in text[:PROMPT_TOKENS]]

    def _penalty(self, outputs: Tensor, dropped: Tensor) -> Tensor | None:
        """Penalties are means over units and tokens; times the tokens at hand they add up like the loss."""
        alpha, beta = self.config.activation_penalty, self.config.temporal_penalty
        if not alpha and not beta:
            return None
        tokens = outputs.shape[0] * outputs.shape[1]
        penalty = outputs.new_zeros((), dtype=torch.float32)
        if alpha:
            penalty = penalty + alpha * dropped.float().square().mean()
        if beta and len(outputs) > 1:
            penalty = penalty + beta * outputs.float().diff(dim=0).square().mean()
        return penalty * tokens

    def _validation(self, rank: int, world_size: int) -> Batches[Any, LanguageBatch] | None:
        config = self.config
        if config.valid_windows is not None:
            if config.sampling != "overlapping" or config.train_windows is None:
                raise InputError("valid_windows", "goes with sampling=overlapping and train_windows")
            first = config.train_windows
            return OverlappingWindows(
                self.train,
                config.batch_size,
                config.num_steps,
                windows=range(first, first + config.valid_windows),
                shuffle=False,
                rank=rank,
                world_size=world_size,
            )
        if self.valid is None or len(self.valid) < 2:
            return None
        return SequentialPartition(
            self.valid,
            config.valid_rows,
            VALIDATION_STEPS,
            random_start=False,
            cover=True,
            rank=rank,
            world_size=world_size,
        )


def _strategy(config: LanguageConfig) -> Strategy:
    if config.truncation == "full":
        return Full()
    return Truncated(config.tau) if config.truncation == "truncated" else Randomised(config.pi)
