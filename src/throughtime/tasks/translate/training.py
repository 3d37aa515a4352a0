"""Translation as the trainer sees it: batches of pairs, a loss over real tokens, BLEU."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import torch

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.pairs import PairBatch, PairBatches, Truncated
from throughtime.data.records import Pair
from throughtime.data.splits import language_of
from throughtime.metrics.bleu import BleuSums
from throughtime.metrics.likelihood import Likelihood
from throughtime.metrics.measures import find_measure
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.ngram.detection import are_swapped
from throughtime.tasks.surprisal import label_loss, likelihood, masked_labels
from throughtime.text.languages import language_name
from throughtime.text.texts import one_line, several
from throughtime.train.objective import Loss, State

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.translate.predictor import Translator

VALIDATION_BATCH = 128
SAMPLES = 3
LOOKED_AT = 4_000
"""Number of pairs read from the beginning of the training data; sorted files start with short sentences."""
CHOSEN = 400
"""Number of these pairs that are examined, evenly spaced."""
OWN_MEASURES = ("bleu", "perplexity")


class TranslateTask:
    """Predict each target token from the source and the target tokens before it.

    `train` and `valid` are the ids of both sides; `judged_pairs` the texts that are translated each epoch.
    """

    measure: str
    better: Literal["less", "more"]
    unit: str = "tokens"
    fixed_shapes: bool = False  # batches are as long as their sentences

    def __init__(
        self,
        translator: Translator,
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
        self.chosen_by = None if self.measure in OWN_MEASURES else find_measure(self.measure, "translate")
        if self.chosen_by is not None:
            self.better = self.chosen_by.better
        else:
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
        hidden, labels = outputs.flatten(0, 1), masked_labels(batch).flatten()
        return label_loss(self.model.head, hidden, labels, smoothing), ()

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
        translations = self._translations(mine)
        references = [pair.target for pair in mine]
        sums = self.judge.sums(translations, references).to_values()
        chosen = {}
        if self.chosen_by is not None:  # of several processes, the mean over their sentences
            chosen = {
                "chosen": self.chosen_by.value(translations, references) * len(mine),
                "judged": len(mine),
            }
        return {
            **chosen,
            "nats": found.nats,
            "tokens": found.tokens,
            **{f"bleu_{number}": value for number, value in enumerate(sums)},
        }

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """BLEU and perplexity, the one that decides first."""
        found = Likelihood(sums["nats"], int(sums["tokens"]))
        bleu = BleuSums.from_values([sums[f"bleu_{number}"] for number in range(10)]).bleu
        measures = {"bleu": bleu, "perplexity": found.perplexity, "loss": found.nats / found.tokens}
        if self.chosen_by is not None:
            measures[self.measure] = sums["chosen"] / max(1.0, sums["judged"])
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
        return "\n".join(f"{one_line(pair.source)} → {one_line(one.text)}" for pair, one in both)

    def _translations(self, pairs: list[Pair]) -> list[str]:
        found = self.translator.translate([pair.source for pair in pairs], num_beams=self.config.valid_beams)
        return [one.text for one in found]


def warn_of_swapped_sides(dataset: Dataset, source: str | None, target: str | None) -> tuple[str, ...]:
    """A warning if the sources look like the target language and the targets like the source language."""
    if not source or not target:
        return ()
    bad = dataset.bad  # reading pairs replaces this count of skipped records, which is shown later
    pairs = list(itertools.islice(dataset.pairs("train"), LOOKED_AT))
    dataset.bad = bad
    pairs = pairs[:: max(1, len(pairs) // CHOSEN)]
    if not are_swapped([pair.source for pair in pairs], [pair.target for pair in pairs], source, target):
        return ()
    files = {language_of(path.name): path.name for path in dataset.files("train")}
    sides = [f"{side} ({files.get(code, code)})" for side, code in (("source", source), ("target", target))]
    return (
        f"{dataset.name}: the {sides[0]} looks like {language_name(target)}, and the {sides[1]} like "
        f"{language_name(source)}: are source and target swapped?",
    )
