"""A trained tagger: sentences in, a tag for each word and its probability out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from throughtime.data.records import TaggedSentence
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.interrupt import check_interrupt
from throughtime.layers.devices import matmul_precision
from throughtime.metrics.classification import Tagging, impossible_pairs, is_chunked
from throughtime.results import Evaluation, Tagged, TaggedWord
from throughtime.tasks.base import Predictor, Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.tag.codec import TagCodec, TaggerAssets, load_languages
from throughtime.tasks.tag.config import TagConfig
from throughtime.tasks.tag.network import SequenceTagger
from throughtime.tasks.tag.runner import LIKELY, SentenceTagger, build_answer
from throughtime.text.texts import align_columns, check_sentences, format_count

if TYPE_CHECKING:
    from throughtime.data.batching.tagged import TaggedBatch
    from throughtime.data.datasets import Dataset

SENTENCES_PER_BATCH = 64
WORDS_PER_BATCH = 4_096
CONFUSIONS = 10
"""The number of confusions that a report lists."""


@dataclass
class TagCounts:
    """Counts over sentences whose tags are known."""

    tags: Tagging = field(default_factory=Tagging)
    sentences: int = 0
    unknown: int = 0  # number of words that are not in the training data
    unknown_right: int = 0
    labelled: int = 0
    labels_right: int = 0

    def measures(self, *, chunked: bool) -> dict[str, Any]:
        """Accuracy, the F1 of chunks if tags mark some, and the numbers of words and sentences."""
        chunks = self.tags.chunks
        values: dict[str, Any] = {"accuracy": self.tags.accuracy}
        if chunked:
            values |= {"f1": chunks.f1, "precision": chunks.precision, "recall": chunks.recall}
            values["types"] = {name: self.tags.types[name].values() for name in sorted(self.tags.types)}
        if self.labelled:
            values["intent_accuracy"] = self.labels_right / self.labelled
        values["unknown_word_accuracy"] = self.unknown_right / self.unknown if self.unknown else None
        counts = {"words": self.tags.words, "unknown_words": self.unknown, "sentences": self.sentences}
        return {**values, **counts, "confusion": self.tags.table()}

    def report(self, *, chunked: bool) -> str:
        """The measures for people, with those of each type of chunk and the most frequent confusions."""
        values = self.measures(chunked=chunked)
        parts = [f"F1 {values['f1']:.2%}"] if chunked else []
        parts.append(f"accuracy {values['accuracy']:.2%}")
        if chunked:
            parts.append(f"precision {values['precision']:.2%}, recall {values['recall']:.2%}")
        if self.labelled:
            parts.append(f"intents {values['intent_accuracy']:.2%}")
        lines = [", ".join(parts), f"over {values['words']:,} words of {values['sentences']:,} sentences"]
        if self.unknown:
            right = f"{values['unknown_word_accuracy']:.2%} are right"
            lines[-1] += f"; of {self.unknown:,} words not seen in training {right}"
        if chunked:
            shares = ("precision", "recall", "f1")
            rows = [
                (name, *(f"{one[share]:.1%}" for share in shares), f"{one['given']:,}")
                for name, one in values["types"].items()
            ]
            table = align_columns([("type", "precision", "recall", "F1", "chunks"), *rows])
            lines += [f"  {line}" for line in table]
            lines.append(
                "Chunks are counted as conlleval counts them: I- after O or another type begins one."
            )
        if confused := self.tags.confusions[:CONFUSIONS]:
            counted = [(true, predicted, f"{count:,}") for true, predicted, count in confused]
            table = align_columns([("true tag", "predicted", "times"), *counted], left=2)
            lines += ["Most frequent errors:", *(f"  {line}" for line in table)]
        return "\n".join(lines)


class Tagger(SentenceTagger, Predictor):
    """Tags the words of sentences: `tt.load("RUN").tag("the cat sleeps")[0].tags`."""

    task = "tag"
    config_type = TagConfig
    model: SequenceTagger
    assets: TaggerAssets
    config: TagConfig

    def __init__(self, model: SequenceTagger, assets: TaggerAssets, config: TagConfig) -> None:
        super().__init__(model, assets, config)
        self.codec, self.languages = assets
        self.characters = self.codec.characters
        self.chunked = is_chunked(self.codec.tags)  # whether the tags mark chunks, as B-PER and I-PER do

    @classmethod
    def prepare(cls, config: TagConfig, dataset: Dataset) -> tuple[TagConfig, TaggerAssets]:
        """Build the vocabularies of the training sentences, and open the language models."""
        records = tagged_sentences(dataset, "train")
        codec = TagCodec.build(records, **config.arguments_for(TagCodec.build))
        return config.complete(records), TaggerAssets(codec, load_languages(config.language_models))

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
            **config.arguments_for(SequenceTagger),
        )
        if config.valid_chunks:
            network.head.forbid(torch.from_numpy(impossible_pairs(list(codec.tags))))
        return network

    @torch.no_grad()
    def tag_words(
        self, sentences: Sequence[Sequence[str]], *, progress: Progress | None = None
    ) -> list[Tagged]:
        """Tag sentences that are split into words already."""
        from throughtime.data.batching.tagged import TaggedBatches

        tagged = [Tagged(())] * len(check_sentences(sentences))
        real = [number for number, words in enumerate(sentences) if words]
        if not real:
            return tagged
        rows = self.codec.rows([sentences[number] for number in real], self.languages)
        most = max(WORDS_PER_BATCH, int(rows.words.lengths.max()))
        batches = TaggedBatches(rows, batch_size=SENTENCES_PER_BATCH, max_tokens=most, shuffle=False)
        training, device, done = self.model.training, self.device, 0
        self.model.eval()
        with matmul_precision("float32"):
            for batch in batches:
                check_interrupt()
                numbers = [real[index] for index in batch.indices.tolist()]
                answers = self._tag_batch(batch.to(device), [sentences[number] for number in numbers])
                for number, sentence in zip(numbers, answers, strict=True):
                    tagged[number] = sentence
                done += len(numbers)
                if progress is not None:
                    progress(done, len(real))
        self.model.train(training)
        return tagged

    def _tag_batch(self, batch: TaggedBatch, sentences: Sequence[Sequence[str]]) -> list[Tagged]:
        scores, label_scores = self.model(batch)
        chosen = self.model.head.best(scores, batch.lengths)
        marginals = self.model.head.marginals(scores, batch.lengths)
        certainty = marginals.gather(2, chosen[..., None]).squeeze(2)
        likely = marginals.topk(min(LIKELY, marginals.shape[2]), -1)
        columns = (chosen, certainty, likely.indices, likely.values)
        by_row = zip(sentences, *(one.transpose(0, 1).tolist() for one in columns), strict=True)
        names, labels = list(self.codec.tags), self._labels(label_scores, len(sentences))
        found = []
        for row, (words, *answers) in enumerate(by_row):
            tagged = [
                TaggedWord(
                    word, names[tag], p, tuple((names[one], q) for one, q in zip(tags, ps, strict=True))
                )
                # The answers go on past the end of a short sentence.
                for word, tag, p, tags, ps in zip(words, *answers, strict=False)
            ]
            found.append(build_answer(tagged, *labels[row]))
        return found

    def _labels(self, scores: Tensor | None, rows: int) -> list[tuple[str, float | None]]:
        if scores is None or self.codec.labels is None:
            return [("", None)] * rows
        values, best = scores.float().softmax(-1).max(-1)
        return list(zip(self.codec.labels.tokens(best.tolist()), values.tolist(), strict=True))

    def count_tags(self, records: Sequence[TaggedSentence], progress: Progress | None = None) -> TagCounts:
        """Tag sentences whose tags are known, and count the right answers."""
        counts = TagCounts(sentences=len(records))
        answers = self.tag_words([record.words for record in records], progress=progress)
        for record, sentence in zip(records, answers, strict=True):
            counts.tags.add(record.tags, sentence.tags)
            for word, given, tag in zip(record.words, record.tags, sentence.tags, strict=True):
                if not self.codec.knows(word):
                    counts.unknown += 1
                    counts.unknown_right += given == tag
            if record.label and sentence.label:
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
            f"vocabulary:{self.codec.hash}|device:{self.device.type}|precision:float32"
        )

    def describe(self) -> Description:
        """The model in words."""
        config, codec = self.config, self.codec
        layers = f"{config.num_layers} x " if config.num_layers > 1 else ""
        tags = format_count(len(codec.tags), "tag")
        labels = f" and {format_count(len(codec.labels), 'label')}" if config.intents and codec.labels else ""
        return Description(
            f"Tagger of {config.data}",
            f"{layers}{config.cell} of {config.hidden_size} each way",
            f"{tags}{labels}, {format_count(codec.vectors, 'word')}",
            {
                "tags": f"{len(codec.tags):,}, {'as a chain (CRF)' if config.crf else 'each word alone'}"
                + (", in possible sequences only" if config.valid_chunks else ""),
                "words": f"{codec.vectors:,} with a vector (`{codec.hash}`)",
            },
            ['tag FOLDER "a sentence in words"'],
            'tag("a sentence in words")[0].tags',
        )


def tagged_sentences(dataset: Dataset, split: str) -> list[TaggedSentence]:
    """The tagged sentences of a split."""
    if dataset.kind != "tags":
        raise InputError(
            dataset.name,
            f"holds {dataset.kind} data; tagging needs tagged sentences, as in a .conll file",
        )
    return list(dataset.records(split))
