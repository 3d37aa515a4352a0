"""A trained composer: labels or vectors in, texts out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import torch

from throughtime.data.records import Specials
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.results import Evaluation
from throughtime.runtime.keywords import PrefixRules
from throughtime.search.constraints import no_token
from throughtime.tasks.base import Progress
from throughtime.tasks.compose import ComposeOptions
from throughtime.tasks.compose.config import ComposeConfig, read_texts
from throughtime.tasks.compose.network import (
    ConditionedLanguageModel,
    LabelCondition,
    VectorCondition,
    build_composer,
)
from throughtime.tasks.compose.runner import Condition, TextComposer
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.labels import Labels, labelled_texts
from throughtime.tasks.text_config import WritingDefaults
from throughtime.tasks.texts import TextAssets, TextWriter, build_codec
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.search.generate import Finished
    from throughtime.tasks.compose.training import ConditionedTexts


class Composer(TextComposer, TextWriter):
    """Writes texts from labels or vectors: `tt.load("RUN").compose("good")[0].text`."""

    task = "compose"
    config_type = ComposeConfig
    generation_defaults = {"do_sample": True, "temperature": 1.0, "max_new_tokens": 100}  # noqa: RUF012
    generation_type = WritingDefaults
    model: ConditionedLanguageModel
    assets: TextAssets
    config: ComposeConfig

    def __init__(self, model: ConditionedLanguageModel, assets: TextAssets, config: ComposeConfig) -> None:
        super().__init__(model, assets, config)
        self.labels, self.width = assets.labels, config.vector_size or 0
        self.label_names = None if assets.labels is None else assets.labels.names

    @classmethod
    def prepare(cls, config: ComposeConfig, dataset: Dataset) -> tuple[ComposeConfig, TextAssets]:
        """Collect the labels, and build the vocabulary of the training texts."""
        labels = None if dataset.kind == "described" else Labels.of(dataset)
        config = config.complete(dataset)
        codec = build_codec(read_texts(dataset, "train"), config, dataset.name)
        return config, TextAssets(codec, labels)

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: ComposeConfig) -> TextAssets:
        """Read the vocabulary, and the labels of a model that writes from labels."""
        return TextAssets.load(folder, labelled=not config.vector_size)

    @classmethod
    def build_network(cls, config: ComposeConfig, assets: TextAssets) -> ConditionedLanguageModel:
        """Build the network that a configuration describes."""
        condition: LabelCondition | VectorCondition
        if assets.labels is not None:
            condition = LabelCondition(len(assets.labels), config.condition_size)
        else:
            assert config.vector_size is not None
            condition = VectorCondition(config.vector_size, config.condition_size)
        words = assets.codec.vocabulary
        if words.bos_id is None:
            raise InputError("tokens", f"{config.tokens!r} has no <bos>; choose another tokenizer")
        return build_composer(config, condition, len(words), bos_id=words.bos_id)

    def adapt_to(self, dataset: Dataset) -> None:
        """Learn the mean and the scale of the vectors."""
        if isinstance(self.model.encoder, VectorCondition):
            vectors = torch.tensor([record.vector for record in dataset.records("train")])
            self.model.encoder.standardise(vectors)

    @property
    def facts(self) -> dict[str, Any]:
        """The labels that it writes from, or the length of the vectors."""
        return {"vector_size": self.width} if self.labels is None else {"labels": list(self.labels.names)}

    @property
    def specials(self) -> Specials:
        """The ids of the special tokens."""
        words = self.codec.vocabulary
        if words.bos_id is None or words.eos_id is None:
            raise InputError("vocabulary", "has no <bos> or <eos>; choose another tokenizer")
        return Specials(words.pad_id or 0, words.bos_id, words.eos_id)

    @property
    def barred(self) -> list[int]:
        """The ids of marks that no text contains."""
        words = self.codec.vocabulary
        marks = {words.unk_id, words.pad_id, words.bos_id, words.mask_id} - {None, self.end_id}
        return sorted(cast(set[int], marks))

    def _write(
        self, prompts: Sequence[list[float]], options: ComposeOptions, progress: Progress | None
    ) -> list[list[Finished]]:
        self.model.eval()
        marks = no_token(*self.barred)
        return self.choose_writing(options, PrefixRules, constraints=[marks])(prompts, progress)

    def texts(self, dataset: Dataset, split: str) -> ConditionedTexts:
        """The texts of a split with their conditions, without those whose labels training did not know."""
        from throughtime.data.batching.buckets import RaggedIds
        from throughtime.tasks.compose.training import ConditionedTexts

        if self.labels is None:
            described = list(dataset.records(split)) if dataset.kind == "described" else []
            if not all(len(one.vector) == self.width for one in described):
                raise InputError(dataset.name, f"has vectors of another length than {self.width}")
            texts = [record.text for record in described]
            conditions = torch.tensor([one.vector for one in described]).view(len(texts), self.width)
        else:
            known = [one for one in labelled_texts(dataset, split) if one.label in self.labels]
            texts = [one.text for one in known]
            conditions = torch.tensor([self.labels.number(one.label) for one in known], dtype=torch.long)
        if not texts:
            kind = "labels" if self.labels is not None else "vectors"
            raise InputError(f"{dataset.name}, split {split}", f"holds no text with {kind} of this model")
        ids = RaggedIds.of(self.codec.encode(text) for text in texts)
        return ConditionedTexts(ids, conditions, self.specials)

    def example_conditions(self, texts: ConditionedTexts, most: int) -> list[Condition]:
        """A few conditions: the most frequent labels, or the first vectors."""
        if self.labels is not None:
            counts = self.labels.counts
            return [*sorted(counts, key=lambda name: -counts[name])[:most]]
        return [*texts.conditions[:most].tolist()]

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure the perplexity of a split, and how much the condition lowers it."""
        refuse_options(options, (), "is not for models that compose")
        texts = self.texts(dataset, split)
        self.model.eval()
        with matmul_precision("float32"):
            given = texts.likelihood(self.model)
            others = texts.swap_conditions(None if self.labels is None else len(self.labels))
            other = others.likelihood(self.model)
        worth = (other.nats - given.nats) / math.log(2)
        values = {
            "perplexity": given.perplexity,
            "perplexity_shuffled": other.perplexity,
            "cross_entropy": given.cross_entropy,
            "bits_per_token": given.bits_per_token,
            "worth_bits_per_token": worth / given.tokens,
            "worth_bits_per_text": worth / len(texts),
            "texts": len(texts),
            "tokens": given.tokens,
        }
        kind = "vector" if self.labels is None else "label"
        text = (
            f"perplexity {given.perplexity:.2f} given the {kind}, {other.perplexity:.2f} given a wrong one\n"
            f"the {kind} is worth {values['worth_bits_per_token']:.3f} bits per token, "
            f"{values['worth_bits_per_text']:.1f} bits per text\n"
            f"over {format_count(len(texts), 'text')}, {format_count(given.tokens, 'token')}"
        )
        return Evaluation(values, f"{self._reading}|shuffle-seed:0", text)

    def describe(self) -> Description:
        """The model in words."""
        config, labels = self.config, self.labels
        source = format_count(self.width, "number") if labels is None else format_count(len(labels), "label")
        example = [0.1] * self.width if labels is None else labels.names[0]
        if isinstance(example, str):
            option = f"--label {quote(example)}"
        else:
            option = f"--vector {','.join(map(str, example))}"
        return Description(
            f"Texts of {config.data} from {source}",
            f"from {source}, {self._layers}",
            self._vocabulary,
            {"written from": source, **self._tokens},
            [f"compose FOLDER {option} --num-return-sequences 3"],
            f"compose({example!r})[0].text",
        )
