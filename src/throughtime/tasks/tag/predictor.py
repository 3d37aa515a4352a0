"""A tagger with its vocabularies and the settings that made it: what is trained, judged, saved and used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from throughtime.data.batching.tagged import TaggedBatch, TaggedBatches
from throughtime.data.records import Tagged
from throughtime.errors import InputError, unknown
from throughtime.folder import ModelFolder
from throughtime.metrics.tagging import Tagging, is_chunked
from throughtime.results import TaggedWord
from throughtime.tasks.report import Asked, Progress, Report, refuse_others, trained_for
from throughtime.tasks.tag.codec import TagCodec
from throughtime.tasks.tag.config import TagConfig
from throughtime.tasks.tag.languages import TagLanguage, copies
from throughtime.tasks.tag.network import Tagger
from throughtime.tasks.tag.report import report_text
from throughtime.tasks.tag.sentence import TaggedSentence
from throughtime.text.input_warnings import InputWarnings
from throughtime.text.subword import SUBWORDS
from throughtime.text.texts import check_sentences, check_texts, several
from throughtime.text.tokenizers import TOKENIZERS, tokenizer
from throughtime.train.devices import products

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TASK = "tag"
SENTENCES_AT_ONCE = 64
WORDS_AT_ONCE = 4_096
LIKELY = 3
CUTTERS = frozenset(TOKENIZERS) - frozenset(SUBWORDS)
"""What can cut a text into words; others would have to be trained first."""


@dataclass
class Judged:
    """What was counted of sentences whose tags are known."""

    tags: Tagging = field(default_factory=Tagging)
    unknown: int = 0  # words that did not stand in the training data
    unknown_right: int = 0
    labelled: int = 0
    labels_right: int = 0


class TrainedTagger:
    """Tags the words of sentences: `tt.load("RUN").tag(["the cat sleeps"])[0].tags`."""

    def __init__(
        self, model: Tagger, codec: TagCodec, config: TagConfig, languages: Sequence[TagLanguage] = ()
    ) -> None:
        self.model, self.codec, self.config, self.languages = model, codec, config, tuple(languages)

    @property
    def chunked(self) -> bool:
        """Whether its tags mark chunks, as B-PER and I-PER do."""
        return is_chunked(self.codec.tags)

    def tag(
        self, texts: Sequence[str], *, tokenize: str = "space", progress: Progress | None = None
    ) -> list[TaggedSentence]:
        """The tags of each text's words, in the order of the texts; an empty text has none.

        `tokenize` names what cuts a text into words: `space`, as tagged data come, or `unicode` for raw text.
        """
        if tokenize not in CUTTERS:
            raise InputError("--tokenize", str(unknown("tokenizer", tokenize, CUTTERS)))
        cut = tokenizer(tokenize)
        return self.tag_words([cut.tokenize(text) for text in check_texts(texts)], progress=progress)

    def input_warnings(self, texts: Sequence[str], **how: Any) -> dict[str, str]:
        """Warnings about texts that the model knows little about, by kind (see `InputWarnings.of`).

        A tagger reads an unknown word by its letters, so only unknown letters count.
        """
        return self._warnings.of(check_texts(texts), **how)

    @cached_property
    def _warnings(self) -> InputWarnings:
        return InputWarnings(tokenizer("char"), self.codec.characters)

    @torch.no_grad()
    def tag_words(
        self, sentences: Sequence[Sequence[str]], *, progress: Progress | None = None
    ) -> list[TaggedSentence]:
        """The same for sentences that are cut into words already."""
        found = [TaggedSentence(())] * len(check_sentences(sentences))
        real = [number for number, words in enumerate(sentences) if words]
        if not real:
            return found
        rows = self.codec.rows([sentences[number] for number in real], self.languages)
        most = max(WORDS_AT_ONCE, int(rows.words.lengths.max()))
        batches = TaggedBatches(rows, batch_size=SENTENCES_AT_ONCE, max_tokens=most, shuffle=False)
        training, device, done = self.model.training, next(self.model.parameters()).device, 0
        self.model.eval()
        with products("float32"):
            for batch in batches:
                own = [sentences[real[index]] for index in batch.indices.tolist()]
                read = self._read(batch.to(device), own)
                for index, sentence in zip(batch.indices.tolist(), read, strict=True):
                    found[real[index]] = sentence
                done += len(own)
                if progress is not None:
                    progress(done, len(real))
        self.model.train(training)
        return found

    def _read(self, batch: TaggedBatch, sentences: Sequence[Sequence[str]]) -> list[TaggedSentence]:
        scores, label_scores = self.model(batch)
        chosen = self.model.head.best(scores, batch.lengths)
        marginals = self.model.head.marginals(scores, batch.lengths)
        sure = marginals.gather(2, chosen[..., None]).squeeze(2)
        likely = marginals.topk(min(LIKELY, marginals.shape[2]), -1)
        tags, sures, values, indices = (
            one.transpose(0, 1).tolist() for one in (chosen, sure, likely.values, likely.indices)
        )
        names = list(self.codec.tags)
        labels = self._labels(label_scores, len(sentences))
        return [
            TaggedSentence(
                tuple(
                    TaggedWord(
                        word,
                        names[tags[row][place]],
                        sures[row][place],
                        tuple(
                            (names[tag], p)
                            for tag, p in zip(indices[row][place], values[row][place], strict=True)
                        ),
                    )
                    for place, word in enumerate(words)
                ),
                *labels[row],
            )
            for row, words in enumerate(sentences)
        ]

    def _labels(self, scores: Tensor | None, rows: int) -> list[tuple[str, float | None]]:
        if scores is None or self.codec.labels is None:
            return [("", None)] * rows
        values, best = scores.float().softmax(-1).max(-1)
        return list(zip(self.codec.labels.tokens(best.tolist()), values.tolist(), strict=True))

    def judged(self, records: Sequence[Tagged], progress: Progress | None = None) -> Judged:
        """Tag sentences whose tags are known, and count."""
        judged = Judged()
        found = self.tag_words([record.words for record in records], progress=progress)
        for record, sentence in zip(records, found, strict=True):
            judged.tags.add(record.tags, sentence.tags)
            for word, given, tag in zip(record.words, record.tags, sentence.tags, strict=True):
                if not self.codec.knows(word):
                    judged.unknown += 1
                    judged.unknown_right += given == tag
            if record.label and sentence.label:
                judged.labelled += 1
                judged.labels_right += record.label == sentence.label
        return judged

    def report(self, dataset: Dataset, split: str, asked: Asked, progress: Progress | None = None) -> Report:
        """What `throughtime evaluate` shows of a split."""
        refuse_others(asked, (), "is not for models that tag")
        records = sentences_of(dataset, split)
        if not records:
            raise InputError(f"{dataset.name}, split {split}", "holds no sentence to tag")
        judged = self.judged(records, progress)
        tags, chunks = judged.tags, judged.tags.chunks
        values: dict[str, Any] = {"accuracy": tags.accuracy}
        if self.chunked:
            values |= {"f1": chunks.f1, "precision": chunks.precision, "recall": chunks.recall}
            values["types"] = {name: tags.types[name].values() for name in sorted(tags.types)}
        if judged.labelled:
            values["intent_accuracy"] = judged.labels_right / judged.labelled
        values["unknown_word_accuracy"] = judged.unknown_right / judged.unknown if judged.unknown else None
        values |= {"words": tags.words, "unknown_words": judged.unknown, "sentences": len(records)}
        text = report_text(f"{dataset.name}, {split}", values, tags)
        return Report({**values, "confusion": tags.table()}, self.reading(), text)

    def reading(self) -> list[str]:
        """How sentences are read and tagged, as a signature tells it."""
        device = next(self.model.parameters()).device.type
        languages = [f"language-models:{len(self.languages)}"] if self.languages else []
        return [
            f"tags:{'crf' if self.config.crf else 'independent'}",
            *languages,
            f"vocabulary:{self.codec.hash}",
            f"device:{device}",
            "precision:float32",
        ]

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        config = self.config
        weights = sum(weight.numel() for weight in self.model.parameters())
        known = self.codec.labels if config.intents else None
        labels = f" and {several(len(known), 'label')}" if known else ""
        return (
            f"{config.data}: {config.num_layers} x {config.cell} of {config.hidden_size} each way, "
            f"{weights / 1e6:.2f} M weights, {len(self.codec.tags):,} tags{labels}, "
            f"{several(self.codec.vectors, 'word')}"
        )

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights; the language models' do not change, so they are written."""
        folder.write_config(TASK, self.config.model_dump(mode="json"))
        self.codec.save(folder.path)
        places = copies(folder.path, len(self.languages))
        for language, path in zip(self.languages, places, strict=True):
            language.save(ModelFolder(path))

    def card(self, values: Mapping[str, Any]) -> str:
        """README.md of the model folder."""
        config = self.config
        best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
        own = f"{len(self.codec.tags):,}, {'as a chain (CRF)' if config.crf else 'each word alone'}"
        return f"""# Tagger of {config.data}

{several(config.num_layers, "layer")} of {config.cell} cells with {config.hidden_size} units each way,
made by throughtime.

| | |
|---|---|
| data | {config.data}, split train |
| tags | {own} |
| words | {self.codec.vectors:,} with a vector (`{self.codec.hash}`) |
| weights | {values["parameters"]:,} |
| training | {trained_for(values)}, seed {config.seed}, {values["device"]} |
| validation | {best or "not measured"} |

    throughtime tag FOLDER "a sentence in words"
    throughtime evaluate FOLDER --split test

In Python: `throughtime.load("FOLDER").tag(["a sentence in words"])[0].tags`. The settings are in config.json.
"""


def sentences_of(dataset: Dataset, split: str) -> list[Tagged]:
    """The tagged sentences of a split."""
    if dataset.kind != "tags":
        raise InputError(
            "--data",
            f"{dataset.name} holds {dataset.kind} data; tagging needs tagged sentences, as in a .conll file",
        )
    return list(dataset.records(split))
