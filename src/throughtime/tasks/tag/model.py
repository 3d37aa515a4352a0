"""A trained tagger: sentences in, a tag for each word and its probability out; and its training objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import cross_entropy

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import FrameTable
from throughtime.data.batching.sequences import NO_LABEL, TaggedBatch, TaggedBatches
from throughtime.data.records import TaggedSentence
from throughtime.errors import InputError
from throughtime.fit.objective import Carried, Loss
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.metrics.classification import ChunkCounts, Tagging, impossible_pairs, is_chunked
from throughtime.results import Evaluation
from throughtime.runtime.vectors import VectorCodec
from throughtime.tasks.base import Predictor, Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.labels import column_settings
from throughtime.tasks.objective import Direction, TextObjective
from throughtime.tasks.tag.codec import TagCodec, TaggerAssets, load_languages
from throughtime.tasks.tag.config import TagConfig
from throughtime.tasks.tag.network import SequenceTagger
from throughtime.tasks.tag.runner import SentenceTagger, TagReading, cut_steps
from throughtime.tasks.texts import spread
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset


WORDS_PER_BATCH = 4_096
"""Long sentences are read in smaller batches."""


class Tagger(SentenceTagger, Predictor):
    """Tags the words of sentences: `tt.load("RUN").tag("the cat sleeps")[0].tags`."""

    task = "tag"
    config_type = TagConfig
    model: SequenceTagger
    assets: TaggerAssets
    config: TagConfig
    sentences_per_batch = 64

    def __init__(self, model: SequenceTagger, assets: TaggerAssets, config: TagConfig) -> None:
        super().__init__(model, assets, config)
        self.codec, self.languages, self.vectors = assets
        self.characters, self.tags = self.codec.characters, list(self.codec.tags)
        self.labels = [] if self.codec.labels is None else list(self.codec.labels)
        self.chunked = is_chunked(self.codec.tags)  # whether the tags mark chunks, as B-PER and I-PER do

    @classmethod
    def prepare(cls, config: TagConfig, dataset: Dataset) -> tuple[TagConfig, TaggerAssets]:
        """Build the vocabularies of the training sentences, and open the language models."""
        records: list[Any] = tagged_sentences(dataset, "train")
        vectors = None
        if dataset.kind == "vectors" and records:
            vectors = VectorCodec.of([one.values for one in records], records[0].features, whole=False)
            records = [TaggedSentence(("step",), one.tags) for one in records]
            config = config.model_copy(update={**column_settings(dataset, "tags"), "characters": False})
        codec = TagCodec.build(records, **config.arguments_for(TagCodec.build))
        languages = load_languages(config.language_models)
        return config.complete(records), TaggerAssets(codec, languages, vectors)

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: TagConfig) -> TaggerAssets:
        """Read the vocabularies and the copies of the language models."""
        return TaggerAssets.load(folder, len(config.language_models), **config.arguments_for(TagCodec.load))

    @classmethod
    def build_network(cls, config: TagConfig, assets: TaggerAssets) -> SequenceTagger:
        """Build the network that a configuration describes."""
        codec = assets.codec
        network = SequenceTagger(
            codec.vectors,
            len(codec.characters) if config.characters else 0,
            len(codec.tags),
            len(codec.labels) if config.intents and codec.labels is not None else 0,
            readers=[language.reader for language in assets.languages],
            vector_size=0 if assets.vectors is None else assets.vectors.size,
            **config.arguments_for(SequenceTagger),
        )
        if config.valid_chunks:
            network.head.forbid(torch.from_numpy(impossible_pairs(list(codec.tags))))
        return network

    @torch.no_grad()
    def _compute(self, sentences: Sequence[Any]) -> list[TagReading]:
        frames = None if self.vectors is None else FrameTable(self.vectors.size)
        if frames is None:
            rows = self.codec.rows(sentences, self.languages)
        else:
            rows = self.codec.number_steps(frames.add(sentences))
        most = max(WORDS_PER_BATCH, int(rows.words.lengths.max()))
        readings: dict[int, TagReading] = {}
        self.model.eval()
        with matmul_precision("float32"):
            for batch in TaggedBatches(rows, batch_size=len(sentences), max_tokens=most, shuffle=False):
                batch = read_vectors(batch.to(self.device), frames)
                scores, labels = self.model(batch)
                columns = [
                    batch.indices,
                    self.model.head.best(scores, batch.lengths).t(),
                    self.model.head.marginals(scores, batch.lengths).transpose(0, 1),
                    *([] if labels is None else [labels.float()]),
                ]
                arrays = (column.cpu().numpy() for column in columns)
                for number, tags, marginals, *of_labels in zip(*arrays, strict=True):
                    size = len(sentences[number])
                    readings[number] = TagReading(tags[:size], marginals[:size], *(of_labels or [None]))
        return [readings[number] for number in range(len(sentences))]

    def count_tags(self, records: Sequence[TaggedSentence], progress: Progress | None = None) -> Tagging:
        """Tag sentences whose tags are known, and count the right answers."""
        counts = Tagging()
        answers = self.tag_words([record.words for record in records], progress=progress)
        for record, sentence in zip(records, answers, strict=True):
            counts.add(record.tags, sentence.tags)
            for word, given, tag in zip(record.words, record.tags, sentence.tags, strict=True):
                if self.vectors is None and not self.codec.knows(word):
                    counts.unknown += 1
                    counts.unknown_right += given == tag
            if sentence.label and record.label:
                counts.labelled += 1
                counts.labels_right += record.label == sentence.label
        return counts

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure accuracy, the F1 of chunks if tags mark some, and the confusion of tags on a split."""
        refuse_options(options, (), "is not for taggers")
        records = tagged_sentences(dataset, split)
        if not records:
            raise InputError(f"{dataset.name}, split {split}", "holds no sentence to tag")
        counts = self.count_tags(records, progress)
        return Evaluation(
            counts.measures(chunked=self.chunked), self.signature(), counts.report(chunked=self.chunked)
        )

    def signature(self) -> str:
        """How sentences are read and tagged."""
        languages = f"language-models:{len(self.languages)}|" if self.languages else ""
        valid = "chunks:valid|" if self.config.valid_chunks else ""
        counted = "f1:conlleval|" if self.chunked else ""
        return (
            f"tags:{'crf' if self.config.crf else 'independent'}|{valid}{counted}{languages}"
            f"vocabulary:{(self.vectors or self.codec).hash}|device:{self.device.type}|precision:float32"
        )

    def describe(self) -> Description:
        """The model in words."""
        config, codec = self.config, self.codec
        tags = format_count(len(codec.tags), "tag")
        labels = f" and {format_count(len(codec.labels), 'label')}" if config.intents and codec.labels else ""
        words = f"{codec.vectors:,} with a vector (`{codec.hash}`)"
        if (vectors := self.vectors) is not None:
            words = f"{vectors.title}: {', '.join(vectors.features[:20])}"
        given = '"a sentence in words"'
        return Description(
            f"Tagger of {config.data}",
            f"{self._layers} each way",
            f"{tags}{labels}, {vectors.title if vectors else format_count(codec.vectors, 'word')}",
            {
                "tags": f"{len(codec.tags):,}, {'as a chain (CRF)' if config.crf else 'each word alone'}"
                + (", in possible sequences only" if config.valid_chunks else ""),
                "words" if vectors is None else "reads": words,
            },
            [f"tag FOLDER {given if vectors is None else '--file sequences.csv'}"],
            f"tag({given if vectors is None else 'array'})[0].tags",
        )


def tagged_sentences(dataset: Dataset, split: str) -> list[TaggedSentence]:
    """The tagged sentences of a split."""
    if dataset.kind not in ("tags", "vectors"):
        raise InputError(
            dataset.name, f"holds {dataset.kind} data; tagging needs tagged sentences, as in a .conll file"
        )
    return list(dataset.records(split))


def read_vectors(batch: TaggedBatch, frames: FrameTable | None) -> TaggedBatch:
    """A batch with vectors in place of their numbers."""
    return batch if frames is None else replace(batch, words=frames.read(batch.words))


SAMPLES, MAX_SHOWN = 2, 200
STEPS_PER_BATCH = 8_192
"""Vectors in a batch: their sequences are longer than sentences."""


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
        self.frames = None
        if tagger.vectors is None:
            self.train = tagger.codec.tagged_rows(records, tagger.languages, labelled=labelled)
        else:
            self.unit, self.frames = "steps", FrameTable(tagger.vectors.size)
            scaled = (cut_steps(tagger.vectors.scale(one.words)) for one in records)
            rows = self.frames.add(piece for pieces in scaled for piece in pieces)
            tags = (piece for one in records for piece in cut_steps(one.tags))
            self.train = tagger.codec.number_steps(rows, tags)
        self.valid = tagged_sentences(dataset, "valid") if "valid" in dataset.splits else []
        self.measure = self.config.choose_by or ("f1" if tagger.chunked else "accuracy")

    def batches(self, rank: int, world_size: int) -> TaggedBatches:
        """Sentences of similar lengths together."""
        options = self.batch_options(rank, world_size)
        if self.frames is not None:
            options["max_tokens"] = STEPS_PER_BATCH
        return TaggedBatches(self.train, **options)

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """-ln P of the tags; that of the labels is minimised with it."""
        assert isinstance(batch, TaggedBatch)
        tags, labels = self.model(read_vectors(batch, self.frames))
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
        chunks = counts.chunks
        return {
            "words": counts.words,
            "right": counts.right,
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
        lines = (answer.text.replace("\t", " → ") for answer in answers)
        return "\n".join(line if self.frames is None else line[:MAX_SHOWN] for line in lines) or None
