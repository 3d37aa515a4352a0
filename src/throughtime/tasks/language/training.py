"""The training objective of recurrent language models: batches of text, a loss, perplexity."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch, Batches, real_positions
from throughtime.data.batching.text import SAMPLINGS, LanguageBatch, OverlappingWindows, SequentialPartition
from throughtime.errors import InputError
from throughtime.fit.objective import Carried, Loss
from throughtime.models.heads import IGNORED
from throughtime.models.paired import SHARES, PairedLanguageModel, try_shares
from throughtime.recurrence.backpropagation import Full, GradientHorizon, Randomised, Truncated, carries
from throughtime.tasks.objective import TextObjective

if TYPE_CHECKING:
    from throughtime.models.language import RecurrentLanguageModel
    from throughtime.tasks.language.config import LanguageConfig
    from throughtime.tasks.language.model import RecurrentLanguage

VALIDATION_STEPS = 128
SAMPLED_TOKENS = 60
PROMPT_TOKENS = 12
"""A stream has no beginning to write from, so a sample continues this number of its tokens."""


class LanguageObjective(TextObjective):
    """Predict each token from the tokens before it. `train` and `valid` are the ids of whole texts."""

    predictor: RecurrentLanguage
    config: LanguageConfig
    model: RecurrentLanguageModel

    def __init__(
        self, language: RecurrentLanguage, train: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None
    ) -> None:
        super().__init__(language)
        self.train, self.valid = train, valid
        assert self.config.batch_size is not None  # it was completed from the data
        self._rows = self.config.batch_size
        self._pair = self.model if isinstance(self.model, PairedLanguageModel) else None
        # Settings that do not fit are refused before the training begins.
        _check_warm_up(self.config)
        self._check_windows()
        self._check_length()
        self._strategy = _horizon(self.config)
        self._sliding = {"sliding": self.config.tau} if self.config.truncation == "sliding" else {}
        # Random cuts are drawn, and sliding windows cut, on the host for each batch.
        redrawn = self.config.truncation in ("randomised", "sliding")
        self.fixed_shapes = self.model.head.fixed_shapes and not redrawn

    @property
    def notes(self) -> list[str]:
        """What was chosen for the data, in sentences."""
        size = len(self.predictor.codec.vocabulary)
        found = [f"Text is read in {size:,} parts of words, so that no word is unknown."]
        if self._pair is not None:
            kept = sum(len(level.keys) for level in self._pair.counted.counts.levels)
            found.append(
                f"A counted model of {kept:,} n-grams is mixed in by validation; counted=none omits it."
            )
        return found[self.config.tokens != "bpe" :]

    def batches(self, rank: int, world_size: int) -> Batches[Any, LanguageBatch]:
        """Return the training text in batches, by the setting `sampling`."""
        config = self.config
        shape = self.train, self._rows, config.num_steps
        options: dict[str, Any] = {"seed": config.seed, "rank": rank, "world_size": world_size}
        if config.sampling == "overlapping":
            windows = None if config.train_windows is None else range(config.train_windows)
            return OverlappingWindows(*shape, windows=windows, **options)
        return SAMPLINGS[config.sampling](*shape, **options)

    def count(self, batch: Batch) -> int:
        """Return the number of targets; all rows have the same length, so the same share is warm-up."""
        assert isinstance(batch, LanguageBatch)
        steps = len(batch.labels)
        return batch.count * sum(map(len, self._list_learned_steps(steps))) // steps

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """Return -ln P of the labels, and the penalties on the outputs."""
        assert isinstance(batch, LanguageBatch)
        inputs, labels = batch.inputs, batch.labels
        steps, rows = inputs.shape
        state = carried if carried and batch.continues else self.model.initial_state(rows)
        carry, first = self._carry(steps, rows, inputs.device), 0
        if self.config.warm_up and not self.config.warm_up_gradient:
            first = self.config.warm_up
            with torch.no_grad():
                state = self.model(inputs[:first], state).state
        factors = None if carry is None else carry[first:]
        read = self.model(inputs[first:], state, factors, **self._sliding)
        spans = self._list_learned_steps(steps)
        outputs, dropped = (
            [part[span.start - first : span.stop - first] for span in spans]
            for part in (read.outputs, read.dropped)
        )
        hidden = concatenate(dropped)
        targets = concatenate([labels[span.start : span.stop] for span in spans])
        total = self.model.head.loss(hidden, targets)
        next_state = tuple(part.detach() for part in read.state) if self.config.carries_state else ()
        return Loss(total, self._penalty(outputs, hidden)), next_state

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """Score every token of the validation text but the first, in rows that are read side by side.

        Where a row starts from a new state, its first `warm_up` positions are read but not counted.
        """
        if (batches := self._validation(rank, world_size)) is None:
            return {}
        state: Carried | None = None
        device = self.model.embedding.weight.device
        # On the device, so that the host does not wait for each batch.
        nats = torch.zeros((), dtype=torch.float64, device=device)
        tokens = torch.zeros((), dtype=torch.int64, device=device)
        mixed = np.zeros(len(SHARES))
        for batch, places in self._with_places(batches, rank, world_size):
            if not batch.rows:
                continue
            batch = batch.to(device)
            outputs, _, reached = self.model(batch.inputs, state if batch.continues else None)
            state = reached
            real = real_positions(len(batch.labels), batch.lengths)
            if not batch.continues:
                real[: self.config.warm_up] = False
            labels = torch.where(real, batch.labels, IGNORED)
            tokens += real.sum()
            if places is None:
                nats += self.model.head.loss(outputs, labels)
                continue
            alone = self.model.head.surprisals(outputs.flatten(0, 1), labels.flatten())[real.flatten()]
            nats += alone.double().sum()
            counted = self._counted[places.labels[real.cpu()].numpy()]
            mixed += try_shares(alone.double().cpu().numpy(), counted)
        tried = {f"mixed.{number}": float(value) for number, value in enumerate(mixed)}
        return {"nats": float(nats), "tokens": int(tokens), **(tried if self._pair else {})}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return perplexity and bits per token, with the best share of a counted model if there is one."""
        alone = super().summarise(sums)
        if self._pair is None or "nats" not in sums:
            return alone
        nats = np.array([sums[f"mixed.{number}"] for number in range(len(SHARES))])
        both = super().summarise({**sums, "nats": self._pair.choose_share(nats)})
        share = {"network_share": self._pair.weights[0]}
        return both | {"network_perplexity": alone["perplexity"]} | share

    def sample(self) -> str | None:
        """Return a text that the model writes, drawn with the same seed each time."""
        text, framing = self.train if self.valid is None else self.valid, self.predictor.framing
        prompt = "" if framing.marked else framing.text(text[:PROMPT_TOKENS].tolist())
        return self.predictor.generate(prompt, max_new_tokens=SAMPLED_TOKENS, seed=0, temperature=0.8)[0].text

    def _list_learned_steps(self, steps: int) -> list[range]:
        """List the steps of a batch that add to the loss: all but the warm-up of the batch or each block."""
        skipped = self.config.warm_up
        block = self.config.tau if skipped and self.config.truncation == "truncated" else steps
        spans = [range(start + skipped, min(start + block, steps)) for start in range(0, steps, block)]
        return [span for span in spans if span]

    def _carry(self, steps: int, rows: int, device: torch.device) -> Tensor | None:
        """Return the factor of the gradient at each step: 0 where a block begins or its warm-up ends."""
        carry = carries(self._strategy, steps, rows, torch.default_generator, device=device)
        if carry is not None and not self.config.warm_up_gradient:
            for span in self._list_learned_steps(steps)[1:]:
                carry[span.start] = 0
        return carry

    def _penalty(self, outputs: Sequence[Tensor], dropped: Tensor) -> Tensor | None:
        """Compute the penalties: means over units and tokens, times the tokens, so that they add up."""
        alpha, beta = self.config.activation_penalty, self.config.temporal_penalty
        if not alpha and not beta:
            return None
        tokens = dropped.shape[0] * dropped.shape[1]
        penalty = dropped.new_zeros((), dtype=torch.float32)
        if alpha:
            penalty = penalty + alpha * dropped.float().square().mean()
        if beta and any(len(span) > 1 for span in outputs):
            changes = concatenate([span.float().diff(dim=0) for span in outputs])
            penalty = penalty + beta * changes.square().mean()
        return penalty * tokens

    def _check_windows(self) -> None:
        """Refuse windows that the text does not have."""
        config = self.config
        if config.valid_windows is not None and (
            config.sampling != "overlapping" or config.train_windows is None
        ):
            raise InputError("valid_windows", "needs sampling=overlapping and train_windows; set them too")
        if config.sampling != "overlapping" or config.train_windows is None:
            return
        present = len(self.train) - config.num_steps
        if 0 < present < config.train_windows:
            raise InputError(
                "train_windows",
                f"is {config.train_windows}, but the text has {present} windows of {config.num_steps} "
                "steps; lower it",
            )
        more = present - config.train_windows
        if config.valid_windows is not None and 0 <= more < config.valid_windows:
            raise InputError(
                "valid_windows",
                f"is {config.valid_windows}, but the text has {more} windows after those of train_windows; "
                "lower one of them",
            )

    def _check_length(self) -> None:
        """Refuse a text that fills no batch, with its name."""
        try:
            self.batches(0, 1)
        except InputError as error:
            raise InputError(f"{self.config.data}, split train", error.problem) from None

    @cached_property
    def _counted(self) -> np.ndarray[Any, Any]:
        """ln P of each token of the validation text by the counted model."""
        assert self._pair is not None
        text = self.train if self.config.valid_windows is not None else self.valid
        assert text is not None
        return self._pair.counted.log_probs([text.tolist()])[0]

    def _with_places(
        self, batches: Batches[Any, LanguageBatch], rank: int, world_size: int
    ) -> Iterator[tuple[LanguageBatch, LanguageBatch | None]]:
        """Yield the batches; with a counted model, each with the places of its tokens in the text."""
        if self._pair is None:
            return zip(batches, itertools.repeat(None))
        numbered = self._validation(rank, world_size, np.arange(len(self._counted)))
        assert numbered is not None
        return zip(batches, numbered, strict=True)

    def _validation(
        self, rank: int, world_size: int, text: np.ndarray[Any, Any] | None = None
    ) -> Batches[Any, LanguageBatch] | None:
        """Return the batches of the validation text, or of another of its length."""
        config = self.config
        ranks: dict[str, Any] = {"rank": rank, "world_size": world_size}
        if config.valid_windows is not None:
            assert config.train_windows is not None
            windows = range(config.train_windows, config.train_windows + config.valid_windows)
            shape = self.train if text is None else text, self._rows, config.num_steps
            return OverlappingWindows(*shape, windows=windows, shuffle=False, **ranks)
        if self.valid is None or len(self.valid) < 2:
            return None
        shape = self.valid if text is None else text, config.valid_rows, VALIDATION_STEPS
        return SequentialPartition(*shape, random_start=False, cover=True, **ranks)


def concatenate(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate along time; a single part is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat([*parts])


def _check_warm_up(config: LanguageConfig) -> None:
    if config.warm_up >= config.num_steps:
        raise InputError(
            "warm_up", f"is {config.warm_up}, but a row has only {config.num_steps} steps to learn from"
        )
    if config.truncation == "truncated" and config.warm_up >= config.tau:
        raise InputError(
            "warm_up",
            f"is {config.warm_up}, but a block has only tau={config.tau} steps to learn from; lower it, or "
            "raise tau",
        )


def _horizon(config: LanguageConfig) -> GradientHorizon:
    if config.truncation == "truncated":
        return Truncated(config.tau)
    if config.truncation != "randomised":
        return Full()
    if isinstance(config.pi, list) and len(config.pi) != config.num_steps:
        raise InputError(
            "pi", f"has {len(config.pi)} values, expected one number or num_steps={config.num_steps} of them"
        )
    return Randomised(config.pi)
