"""Tagging as the trainer sees it: batches of sentences, a loss over their words, F1 or accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from torch.nn.functional import cross_entropy

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.sequences import NO_LABEL, TaggedBatch, TaggedBatches, TaggedRows
from throughtime.data.records import Tagged
from throughtime.metrics.classification import ChunkCounts
from throughtime.tasks.tag.network import SequenceTagger
from throughtime.tasks.texts import spread
from throughtime.train.objective import Loss, State

if TYPE_CHECKING:
    from throughtime.tasks.tag.predictor import Tagger

SAMPLES = 2


class TagTask:
    """Predict the tag of each word, and the label of the sentence where there is one."""

    better: Literal["less", "more"] = "more"
    unit: str = "words"
    fixed_shapes: bool = False  # batches are as long as their sentences

    def __init__(self, tagger: Tagger, train: TaggedRows, valid: Sequence[Tagged]) -> None:
        self.tagger, self.config = tagger, tagger.config
        self.model: SequenceTagger = tagger.model
        self.train, self.valid = train, valid
        self.measure: str = self.config.choose_by or ("f1" if tagger.chunked else "accuracy")

    def batches(self, rank: int, world_size: int) -> TaggedBatches:
        """Sentences of like lengths together."""
        config = self.config
        return TaggedBatches(
            self.train, batch_size=config.batch_size, seed=config.seed, rank=rank, world_size=world_size
        )

    def count(self, batch: Batch) -> int:
        """Its words."""
        return batch.count

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """Surprisals of the tags; those of the labels are minimised besides."""
        assert isinstance(batch, TaggedBatch)
        tags, labels = self.model(batch)
        nats = self.model.head.surprisals(tags, batch.tags, batch.lengths).sum()
        if labels is None:
            return Loss(nats), ()
        of_labels = cross_entropy(labels.float(), batch.labels, ignore_index=NO_LABEL, reduction="sum")
        return Loss(nats, self.config.intent_weight * of_labels), ()

    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """What is counted of this process's share of the validation sentences."""
        if not self.valid:
            return {}
        found = self.tagger.count_tags(self.valid[rank::world_size])
        chunks = found.tags.chunks
        return {
            "words": found.tags.words,
            "right": found.tags.right,
            "chunks_given": chunks.given,
            "chunks_found": chunks.found,
            "chunks_right": chunks.right,
            "labelled": found.labelled,
            "labels_right": found.labels_right,
        }

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The measure that decides first, then the others that these tags have."""
        chunks = ChunkCounts(*(int(sums[f"chunks_{name}"]) for name in ("given", "found", "right")))
        measures = {"f1": chunks.f1} if self.tagger.chunked or self.measure == "f1" else {}
        measures["accuracy"] = sums["right"] / sums["words"]
        if sums["labelled"]:
            measures["intent_accuracy"] = sums["labels_right"] / sums["labelled"]
        return {self.measure: measures[self.measure], **measures}

    def training_measures(self, mean: float) -> dict[str, float]:
        """Nats of a word's tag, dropout included."""
        return {"nats_per_word": mean}

    def sample(self) -> str | None:
        """A few validation sentences with the tags they get."""
        found = self.tagger.tag_words([record.words for record in spread(self.valid, SAMPLES)])
        return "\n".join(one.text.replace("\t", " → ") for one in found) or None
