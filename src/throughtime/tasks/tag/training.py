"""The training objective of taggers: batches of sentences, a loss over their words, F1 or accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch.nn.functional import cross_entropy

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.tagged import NO_LABEL, TaggedBatch, TaggedBatches
from throughtime.fit.objective import Loss, State
from throughtime.metrics.classification import ChunkCounts
from throughtime.tasks.objective import Direction, TextObjective
from throughtime.tasks.tag.predictor import tagged_sentences
from throughtime.tasks.texts import spread

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.tag.config import TagConfig
    from throughtime.tasks.tag.network import SequenceTagger
    from throughtime.tasks.tag.predictor import Tagger

SAMPLES = 2


class TagObjective(TextObjective):
    """Predict the tag of each word, and the label of the sentence if the data have one."""

    unit = "words"
    better: Direction = "more"
    predictor: Tagger
    config: TagConfig
    model: SequenceTagger

    def __init__(self, tagger: Tagger, dataset: Dataset) -> None:
        super().__init__(tagger)
        records, labelled = tagged_sentences(dataset, "train"), bool(self.config.intents)
        self.train = tagger.codec.tagged_rows(records, tagger.languages, labelled=labelled)
        self.valid = tagged_sentences(dataset, "valid") if "valid" in dataset.splits else []
        self.measure = self.config.choose_by or ("f1" if tagger.chunked else "accuracy")

    def batches(self, rank: int, world_size: int) -> TaggedBatches:
        """Sentences of similar lengths together."""
        return TaggedBatches(self.train, **self.batch_options(rank, world_size))

    def loss(self, batch: Batch, carried: State) -> tuple[Loss, State]:
        """-ln P of the tags; that of the labels is minimised with it."""
        assert isinstance(batch, TaggedBatch)
        tags, labels = self.model(batch)
        nats = self.model.head.surprisals(tags, batch.tags, batch.lengths).sum()
        if labels is None:
            return Loss(nats), ()
        of_labels = cross_entropy(labels.float(), batch.labels, ignore_index=NO_LABEL, reduction="sum")
        return Loss(nats, self.config.intent_weight * of_labels), ()

    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """The counts over this process's share of the validation sentences."""
        if not self.valid:
            return {}
        counts = self.predictor.count_tags(self.valid[rank::world_size])
        chunks = counts.tags.chunks
        return {
            "words": counts.tags.words,
            "right": counts.tags.right,
            "chunks_given": chunks.given,
            "chunks_found": chunks.found,
            "chunks_right": chunks.right,
            "labelled": counts.labelled,
            "labels_right": counts.labels_right,
        }

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """F1 if tags mark chunks, and accuracy; the measure that decides comes first."""
        chunks = ChunkCounts(*(int(sums[f"chunks_{name}"]) for name in ("given", "found", "right")))
        measures = {"f1": chunks.f1} if self.predictor.chunked or self.measure == "f1" else {}
        measures["accuracy"] = sums["right"] / sums["words"]
        if sums["labelled"]:
            measures["intent_accuracy"] = sums["labels_right"] / sums["labelled"]
        return {self.measure: measures[self.measure], **measures}

    def training_measures(self, mean: float) -> dict[str, float]:
        """The mean -ln P of a word's tag, measured with dropout."""
        return {"nats_per_word": mean}

    def sample(self) -> str | None:
        """A few validation sentences with their predicted tags."""
        answers = self.predictor.tag_words([record.words for record in spread(self.valid, SAMPLES)])
        return "\n".join(one.text.replace("\t", " → ") for one in answers) or None
