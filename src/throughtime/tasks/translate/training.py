"""Translation as the trainer sees it: batches of pairs, a loss over real tokens, BLEU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import torch

from throughtime.data.batching import Batch, PairBatch, PairBatches, RaggedIds, Truncated
from throughtime.data.records import Pair
from throughtime.metrics.bleu import BleuSums
from throughtime.metrics.likelihood import Likelihood
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.tasks.surprisal import learned, likelihood, targets
from throughtime.text.texts import one_line, several
from throughtime.train.task import Loss, State

if TYPE_CHECKING:
    from throughtime.tasks.translate.trained import TrainedTranslator

VALIDATION_BATCH = 128
SAMPLES = 3


class TranslateTask:
    """Predict each target token from the source and the target tokens before it.

    `train` and `valid` are the ids of both sides; `judged_pairs` the texts that are translated each epoch.
    """

    measure: str
    better: Literal["less", "more"]
    counted: str = "tokens"
    fixed_shapes: bool = False  # batches are as long as their sentences

    def __init__(
        self,
        translator: TrainedTranslator,
        train: tuple[RaggedIds, RaggedIds],
        valid: tuple[RaggedIds, RaggedIds] | None,
        judged_pairs: list[Pair],
    ) -> None:
        self.translator, self.config = translator, translator.config
        self.model: EncoderDecoder = translator.model
        self.train, self.valid, self.judged_pairs = train, valid, judged_pairs
        # Scores as `evaluate` does; settled here, as each process sees only its part of the references.
        self.judge = translator.judge().settled([pair.target for pair in judged_pairs])
        self.truncated = Truncated(0, 0)  # of the training pairs, once they are in batches
        self.measure = self.config.choose_by
        self.better = "more" if self.measure == "bleu" else "less"

    def batches(self, rank: int, world_size: int) -> PairBatches:
        """Pairs of like lengths together."""
        config = self.config
        batches = PairBatches(
            *self.train,
            *self.translator.codecs.specials,
            batch_size=config.batch_size,
            max_tokens=config.max_tokens,
            max_length=config.max_length,
            seed=config.seed,
            rank=rank,
            world_size=world_size,
        )
        self.truncated = batches.truncated
        return batches

    @property
    def facts(self) -> dict[str, int]:
        """What batches made of the training pairs, for training.json."""
        return {f"truncated_{side}": count for side, count in self.truncated._asdict().items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """The same for people, where there is something to tell."""
        if not any(self.truncated):
            return ()
        sources, targets = self.truncated
        cut = f"{several(sources, 'source')} and {several(targets, 'target')}"
        pairs = several(len(self.train[0]), "training pair")
        return (f"{cut} of {pairs} were cut at max_length={self.config.max_length}.",)

    def count(self, batch: Batch) -> int:
        """Its target tokens, end tokens included."""
        return batch.count

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """Surprisals of the real target tokens; with label smoothing, measured but not what is minimised."""
        assert isinstance(batch, PairBatch)
        ratio, smoothing = self.config.teacher_forcing, self.config.label_smoothing
        outputs = self.model.scheduled(batch.source, batch.source_lengths, batch.inputs, ratio).outputs
        hidden, labels = outputs.flatten(0, 1), targets(batch).flatten()
        return learned(self.model.head, hidden, labels, smoothing), ()

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """The likelihood of all validation pairs, and BLEU's sums over the first of them, translated."""
        if self.valid is None:
            return {}
        batches = PairBatches(
            *self.valid,
            *self.translator.codecs.specials,
            batch_size=VALIDATION_BATCH,
            shuffle=False,
            rank=rank,
            world_size=world_size,
        )
        found = likelihood(self.model, batches)
        mine = self.judged_pairs[rank::world_size]
        sums = self._bleu_sums(mine).to_values()
        return {
            "nats": found.nats,
            "tokens": found.tokens,
            **{f"bleu_{number}": value for number, value in enumerate(sums)},
        }

    def judged(self, sums: Mapping[str, float]) -> dict[str, float]:
        """BLEU and perplexity, the one that decides first."""
        found = Likelihood(sums["nats"], int(sums["tokens"]))
        bleu = BleuSums.from_values([sums[f"bleu_{number}"] for number in range(10)]).bleu
        measures = {"bleu": bleu, "perplexity": found.perplexity, "loss": found.nats / found.tokens}
        return {self.measure: measures[self.measure], **measures}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The perplexity of the training targets, dropout included."""
        return {"perplexity": Likelihood(mean, 1).perplexity}

    def sample(self) -> str | None:
        """A few validation sentences and what becomes of them."""
        pairs = self.judged_pairs[:SAMPLES]
        if not pairs:
            return None
        found = self.translator.translate([pair.source for pair in pairs], num_beams=self.config.valid_beams)
        both = zip(pairs, found, strict=True)
        return "\n".join(f"{one_line(pair.source)} → {one_line(own[0].text)}" for pair, own in both)

    def _bleu_sums(self, pairs: list[Pair]) -> BleuSums:
        found = self.translator.translate([pair.source for pair in pairs], num_beams=self.config.valid_beams)
        return self.judge.sums([own[0].text for own in found], [pair.target for pair in pairs])
