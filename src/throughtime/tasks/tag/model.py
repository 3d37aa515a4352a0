"""A trained tagger: sentences in, a tag for each word and its probability out; and its training objective."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.sequences import NO_LABEL, TaggedBatch, TaggedBatches
from throughtime.data.records import TaggedSentence
from throughtime.errors import InputError
from throughtime.fit.objective import Carried, Loss
from throughtime.folder import ModelFolder
from throughtime.layers.crf import TagHead, mix_chains
from throughtime.layers.devices import matmul_precision
from throughtime.metrics.classification import ChunkCounts, Tagging, impossible_pairs, is_chunked
from throughtime.models.indicators import IndicatorChain
from throughtime.results import Evaluation
from throughtime.runtime.runner import batches
from throughtime.runtime.vectors import VectorCodec
from throughtime.tasks.base import Predictor, Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.labels import column_settings
from throughtime.tasks.objective import Direction, TextObjective
from throughtime.tasks.tag.codec import TagCodec, TaggerAssets, load_languages, read_vectors
from throughtime.tasks.tag.config import TagConfig
from throughtime.tasks.tag.network import ScoredWords, SequenceTagger
from throughtime.tasks.tag.runner import SentenceTagger, TagReading, indicator_ids
from throughtime.tasks.texts import spread
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset


WORDS_PER_BATCH = 4_096
"""Long sentences are read in smaller batches."""
CHAIN_TIME = 0.2
"""Share of the minutes of a training that fitting the chain over indicators may take."""
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of that chain in the mixture, of which validation chooses one."""


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
        self.codec, self.languages, self.vectors = assets.codec, assets.languages, assets.vectors
        self.chain: IndicatorChain | None = getattr(model, "indicators", None)
        self.characters, self.tags = self.codec.characters, list(self.codec.tags)
        self.labels = [] if self.codec.labels is None else list(self.codec.labels)
        self.chunked = is_chunked(self.codec.tags)  # whether the tags mark chunks, as B-PER and I-PER do

    @classmethod
    def prepare(cls, config: TagConfig, dataset: Dataset) -> tuple[TagConfig, TaggerAssets]:
        """Build the vocabularies of the training sentences, and open the language models."""
        records: list[Any] = tagged_sentences(dataset, "train")
        vectors = None
        if dataset.kind == "vectors" and records:
            if config.language_models:
                raise InputError("language_models", "read words, and the data hold vectors; leave it out")
            vectors = VectorCodec.of([one.values for one in records], records[0].features, whole=False)
            records = [TaggedSentence(("step",), one.tags) for one in records]
            no_words = {"characters": False, "indicators": False}
            config = config.model_copy(update={**column_settings(dataset, "tags"), **no_words})
        config = config.complete(records)
        codec = TagCodec.build(records, **config.arguments_for(TagCodec.build))
        seconds = config.minutes and CHAIN_TIME * 60 * config.minutes
        chain = codec.fit_chain(records, linked=config.crf, seconds=seconds)
        return config, TaggerAssets(codec, load_languages(config.language_models), chain, vectors)

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
        if codec.indicators is not None:
            network.indicators = IndicatorChain(len(codec.indicators), len(codec.tags))
        return network

    def initialise_weights(self) -> None:
        """Set the chain over indicators, which was fitted to the training data."""
        if self.chain is not None and self.assets.chain is not None:
            self.chain.load_state_dict(self.assets.chain.state_dict())

    def indicate(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The ids of the indicators of all words, [T, B, K]."""
        assert self.codec.indicators is not None
        return torch.from_numpy(indicator_ids(sentences, self.codec.indicators)).to(self.device)

    @torch.no_grad()
    def _score(self, sentences: Sequence[Any]) -> Iterator[ScoredWords]:
        """The scores of the network, and those of the indicators, in batches."""
        rows, frames = self.assets.rows(sentences)
        most = max(WORDS_PER_BATCH, int(rows.words.lengths.max()))
        self.model.eval()
        with matmul_precision("float32"):
            for batch in TaggedBatches(rows, batch_size=len(sentences), max_tokens=most, shuffle=False):
                numbers = batch.indices.tolist()
                batch = read_vectors(batch.to(self.device), frames)
                scores, labels = self.model(batch)
                own = [sentences[number] for number in numbers]
                spotted = None if self.chain is None else self.chain(self.indicate(own))
                yield ScoredWords(numbers, batch.lengths, scores, spotted, labels)

    def mix_heads(self, share: float | None = None) -> TagHead:
        """The chain of answers, with a share of the indicators, by default the chosen one."""
        if self.chain is None:
            return self.model.head
        return mix_chains(self.model.head, self.chain.chain, self.share if share is None else share)

    @property
    def share(self) -> float:
        """The share of the indicators in answers."""
        return 0.0 if self.chain is None else float(self.chain.share)

    @torch.no_grad()
    def _compute(self, sentences: Sequence[Any]) -> list[TagReading]:
        readings: dict[int, TagReading] = {}
        for scored in self._score(sentences):
            scores, head = scored.mix(self.share), self.mix_heads()
            columns = [
                head.best(scores, scored.lengths).t(),
                head.marginals(scores, scored.lengths).transpose(0, 1),
                *([] if scored.labels is None else [scored.labels.float()]),
            ]
            arrays = (column.cpu().numpy() for column in columns)
            for number, tags, marginals, *of_labels in zip(scored.numbers, *arrays, strict=True):
                size = len(sentences[number])
                readings[number] = TagReading(tags[:size], marginals[:size], *(of_labels or [None]))
        return [readings[number] for number in range(len(sentences))]

    @torch.no_grad()
    def count_mixtures(self, records: Sequence[TaggedSentence]) -> dict[float, Tagging]:
        """Count the right tags with each share of the indicators; the network reads each sentence once."""
        if self.vectors is not None:
            return {SHARES[0]: self.count_tags(records)}
        counts = {share: Tagging() for share in (SHARES if self.chain is not None else SHARES[:1])}
        for chosen in batches([record.words for record in records], self.sentences_per_batch):
            own = [records[number] for number in chosen]
            for scored in self._score([record.words for record in own]):
                labels = None if scored.labels is None else scored.labels.argmax(-1).tolist()
                for share, tagging in counts.items():
                    best = self.mix_heads(share).best(scored.mix(share), scored.lengths)
                    columns = best.t().tolist()
                    for place, (number, tags) in enumerate(zip(scored.numbers, columns, strict=True)):
                        record = own[number]
                        tagging.add(record.tags, [self.tags[tag] for tag in tags[: len(record.tags)]])
                        if record.label and labels is not None:
                            tagging.labelled += 1
                            tagging.labels_right += record.label == self.labels[labels[place]]
        return counts

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
            if sentence.label and record.label:  # sequences of vectors have no single label
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
                **({"answers": self._describe_mixture()} if codec.indicators is not None else {}),
            },
            [f"tag FOLDER {given if vectors is None else '--file sequences.csv'}"],
            f"tag({given if vectors is None else 'array'})[0].tags",
        )

    def _describe_mixture(self) -> str:
        """What the answers come from."""
        count = len(self.codec.indicators or ())
        kinds = f"{count:,} indicators (words, shapes, beginnings, ends, neighbours)"
        return f"{1 - self.share:.0%} network, {self.share:.0%} a chain over {kinds}"


def tagged_sentences(dataset: Dataset, split: str) -> list[TaggedSentence]:
    """The tagged sentences of a split."""
    if dataset.kind not in ("tags", "vectors"):
        raise InputError(
            dataset.name, f"holds {dataset.kind} data; tagging needs tagged sentences, as in a .conll file"
        )
    return list(dataset.records(split))


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
        self.unit = "words" if tagger.vectors is None else "steps"
        self.train, self.frames = tagger.assets.tagged_rows(records, labelled=labelled)
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
        sums: dict[str, float] = {}
        for share, counts in self.predictor.count_mixtures(self.valid[rank::world_size]).items():
            of_share = {
                "words": counts.words,
                "right": counts.right,
                **{f"chunks_{name}": getattr(counts.chunks, name) for name in ("given", "found", "right")},
                "labelled": counts.labelled,
                "labels_right": counts.labels_right,
            }
            sums |= {f"{name} {share}": value for name, value in of_share.items()}
        return sums

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """F1 if tags mark chunks, and accuracy; the measure that decides comes first.

        These are those of the best share of the indicators, which is chosen here.
        """
        by_share: dict[float, dict[str, float]] = {}
        for name, value in sums.items():
            name, _, share = name.partition(" ")
            by_share.setdefault(float(share), {})[name] = value
        measured = {share: self._measure(values) for share, values in by_share.items()}
        best = max(measured, key=lambda share: measured[share][self.measure])
        if self.predictor.chain is not None:
            self.predictor.chain.share.fill_(best)
        return measured[best]

    def _measure(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The measures of one share."""
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
