"""A trained translator: how it is created, trained, measured and described."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from throughtime.config import build_config
from throughtime.data.records import Pair
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.devices import choose_precision, matmul_precision
from throughtime.models.bf16_search import Bf16Model
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.results import Evaluation, Scored
from throughtime.runtime.search import batches_by_length as batches_by_length
from throughtime.search.ensemble import Ensemble
from throughtime.search.generate import StepModel
from throughtime.tasks.base import Predictor, Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.surprisal import likelihood, surprisals
from throughtime.tasks.translate.codecs import SIDES, Codecs
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.network import build_translator
from throughtime.tasks.translate.translation import Generation, SentenceTranslator
from throughtime.text.codec import Codec
from throughtime.text.input_warnings import blank
from throughtime.text.texts import several

if TYPE_CHECKING:
    from throughtime.data.batching.buckets import RaggedIds
    from throughtime.data.batching.pairs import PairBatches
    from throughtime.data.datasets import Dataset
    from throughtime.metrics.likelihood import Likelihood
    from throughtime.tasks.translate.training import TranslateTask
    from throughtime.tasks.translate.translation_scores import Judge

SCORED_AT_ONCE = 64
EVALUATION_OPTIONS = frozenset(
    "num_beams length_penalty tokenize lowercase search_errors measures others".split()
)


class Translator(SentenceTranslator, Predictor):
    """Translates: `tt.load("RUN").translate("Where is the station?")[0].text`."""

    task = "translate"
    config_type = TranslateConfig
    network_parts = ("encode", "scheduled", "start", "step", "head")
    model: EncoderDecoder
    assets: Codecs
    config: TranslateConfig
    generation: Generation

    def __init__(self, model: EncoderDecoder, assets: Codecs, config: TranslateConfig) -> None:
        Predictor.__init__(self, model, assets, config)
        generation = Generation(
            num_beams=config.num_beams,
            length_penalty=config.length_penalty,
            max_source_tokens=config.max_length,
        )
        SentenceTranslator.__init__(self, model, assets, generation)
        self.data_notes: tuple[str, ...] = ()
        self.precision: str = config.precision
        """Precision of products during search, as in training; likelihoods are always in float32."""
        self._rounded = Bf16Model(model)

    @classmethod
    def prepare(cls, config: TranslateConfig, dataset: Dataset) -> tuple[TranslateConfig, Codecs]:
        """Build the vocabulary of each language, or one for both."""
        config = config.settled(dataset)

        def codec(side: str | None) -> Codec:
            texts = dataset.texts("train", side)
            where = dataset.name if side is None else f"{dataset.name}, {side}"
            return Codec.build(
                texts, config.tokens, min_freq=config.min_freq, max_size=config.max_size, where=where
            )

        if not config.shared:
            return config, Codecs(codec("source"), codec("target"))
        for side in SIDES:
            if not any(text.strip() for text in dataset.texts("train", side)):
                raise blank(f"{dataset.name}, {side}")
        shared = codec(None)
        return config, Codecs(shared, shared)

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: TranslateConfig) -> Codecs:
        """Read the vocabularies."""
        return Codecs.load(folder.path)

    @classmethod
    def build_network(cls, config: TranslateConfig, assets: Codecs) -> EncoderDecoder:
        """The network that a configuration describes."""
        sizes = (len(codec.vocabulary) for codec in assets)
        return build_translator(config, *sizes, bos_id=assets.begin_id, shared_embedding=assets.shared)

    def adapt_to(self, dataset: Dataset) -> None:
        """Start from the frequencies of target tokens, if the configuration says so."""
        if self.config.output_bias == "frequencies":
            _, target = self.ids(dataset, "train")
            counts = np.bincount(target.flat, minlength=len(self.codecs.target.vocabulary))
            counts[self.codecs.end_id] += len(target)
            self.model.head.begin_with(torch.from_numpy(counts))

    def training_task(self, dataset: Dataset) -> TranslateTask:
        """Batches, loss and validation on these pairs."""
        from throughtime.tasks.translate.training import TranslateTask, warn_of_swapped_sides

        config = self.config
        train = self.ids(dataset, "train")
        usual = int(np.quantile(train[0].lengths, 0.999)) + 1 if len(train[0]) else 2  # and the end mark
        longest = max(2, min(config.max_length, usual))
        self.data_notes = warn_of_swapped_sides(dataset, config.source, config.target)
        self.generation = self.generation.model_copy(update={"max_source_tokens": longest})
        if "valid" not in dataset.splits:
            return TranslateTask(self, train, None, [])
        pairs = list(itertools.islice(dataset.pairs("valid"), config.valid_sentences))
        return TranslateTask(self, train, self.ids(dataset, "valid") if pairs else None, pairs)

    @property
    def step_model(self) -> StepModel:
        """What search runs: the model, or where that is its precision the same in bf16."""
        return self._rounded if self._search_precision == "bf16" else self.model

    @property
    def _search_precision(self) -> str:
        return choose_precision(self.precision, next(self.model.parameters()).device)

    def ids(self, dataset: Dataset, split: str) -> tuple[RaggedIds, RaggedIds]:
        """Both sides of a split as ids, from the cache where they were read before."""
        from throughtime.data.batching.buckets import RaggedIds
        from throughtime.data.idcache import token_ids

        source, target = (
            token_ids(dataset, split, codec, eos=False, side=side)
            for side, codec in zip(SIDES, self.codecs, strict=True)
        )
        return RaggedIds(source.ids, source.starts), RaggedIds(target.ids, target.starts)

    def score(self, texts: Pair | Sequence[Pair]) -> list[Scored]:
        """How likely the target of each pair is given its source, token by token, in the order given."""
        from throughtime.data.batching.buckets import RaggedIds

        pairs: Sequence[Pair] = [texts] if isinstance(texts, Pair) else texts
        if not pairs:
            return []
        source, target = (
            RaggedIds.of(codec.encode(pair[side]) for pair in pairs) for side, codec in enumerate(self.codecs)
        )
        found: dict[int, Scored] = {}
        self.model.eval()
        device = next(self.model.parameters()).device
        with torch.no_grad(), matmul_precision("float32"):
            for batch in self._batches(source, target):
                nats = surprisals(self.model, batch.to(device)).cpu()
                for column, number in enumerate(batch.indices.tolist()):
                    length = int(batch.target_lengths[column])
                    tokens = self.codecs.target.vocabulary.tokens(batch.labels[:length, column].tolist())
                    log_probs = tuple((-nats[:length, column]).tolist())
                    found[number] = Scored(pairs[number].target, tuple(tokens), log_probs)
        return [found[number] for number in range(len(pairs))]

    def likelihood(self, dataset: Dataset, split: str) -> Likelihood:
        """How likely the model finds the translations of a split."""
        source, target = self.ids(dataset, split)
        if not len(source):
            raise InputError(f"{dataset.name}, split {split}", "holds no pair to score")
        self.model.eval()
        with matmul_precision("float32"):
            return likelihood(self.model, self._batches(source, target))

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """BLEU, chrF and perplexity on a split; with `others`, translated by all models together."""
        from throughtime.metrics.measures import compute_measures
        from throughtime.tasks.translate.translation_scores import SentencePairs, search_errors

        refuse_options(options, EVALUATION_OPTIONS, "is for language models, and this model translates")
        pairs, others = SentencePairs.of(dataset, split), options.get("others") or ()
        if others and options.get("search_errors"):
            raise InputError("search_errors", "is for one model; leave out others")
        judge = self.judge(options.get("tokenize"), bool(options.get("lowercase")))
        beams, alpha = options.get("num_beams"), options.get("length_penalty")
        found = combine_translators([self, *others]).translate(
            pairs.sources, num_beams=beams, length_penalty=alpha, progress=progress
        )
        translations = [one.text for one in found]
        scores = judge.judged(translations, pairs)
        measures = options.get("measures") or ()
        further = compute_measures(measures, self.task, translations, pairs.references)
        values: dict[str, Any] = {**scores.values(), **further, "sentences": len(found)}
        signature = [*self.reading(), *self.searching(beams, alpha)]
        text = f"BLEU {scores.bleu.value:.2f}, chrF {scores.chrf.value:.2f}"
        text += "".join(f", {name} {value:.4g}" for name, value in further.items())
        signatures = "\n".join(f"{one.name}|{one.signature}" for one in (scores.bleu, scores.chrf))
        sentences = several(len(found), "sentence")
        if others:
            count = 1 + len(others)
            text = f"{text}, {count} models as one over {sentences}\n{signatures}"
            return Evaluation(values, "|".join([*signature, f"models:{count}"]), text)
        likelihood = self.likelihood(dataset, split)
        values |= {
            "loss": likelihood.cross_entropy,
            "perplexity": likelihood.perplexity,
            "tokens": likelihood.tokens,
        }
        text = (
            f"{text}, perplexity {likelihood.perplexity:.3f} of a target token\n"
            f"over {sentences}, {several(likelihood.tokens, 'target token')}\n{signatures}"
        )
        if options.get("search_errors"):
            # In float32: roundings to bf16 alone would make the same sentence's likelihoods differ.
            exact = SentenceTranslator(self.model, self.codecs, self.generation)
            errors = search_errors(exact, pairs.sources, beams or self.generation.num_beams)
            values["search_errors"] = errors._asdict()
            text += (
                "\nAt alpha 0 the beam misses the model's most likely sentence in "
                f"{errors.errors:,} of {several(errors.resolved, 'sentence')}; "
                f"{errors.unresolved:,} are undecided"
            )
        return Evaluation(values, "|".join(signature), text)

    def reading(self) -> list[str]:
        """How sentences are read and written, as a signature tells it."""
        config = self.config
        direction = [f"source:{config.source}", f"target:{config.target}"] if config.source else []
        device = next(self.model.parameters()).device.type
        return [
            *direction,
            f"tokens:{config.tokens}",
            f"vocabulary:{self.codecs.hash}",
            f"device:{device}",
            "precision:float32",
        ]

    def searching(self, num_beams: int | None = None, length_penalty: float | None = None) -> list[str]:
        """How translations are searched, as a signature tells it."""
        alpha = self.generation.length_penalty if length_penalty is None else length_penalty
        beams = num_beams or self.generation.num_beams
        return [f"beams:{beams}", f"alpha:{alpha:g}", f"searched:{self._search_precision}"]

    def judge(self, tokenize: str | None = None, lowercase: bool = False) -> Judge:
        """Who compares its translations with references."""
        from throughtime.tasks.translate.translation_scores import Judge

        return Judge(self.config.target, tokenize, lowercase or self.lowercase)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the text that the vocabularies were built from, and about the training pairs."""
        return (*(note for codec in self.codecs.distinct for note in codec.notes), *self.data_notes)

    def describe(self) -> Description:
        """The model in words."""
        config = self.config
        sizes = " and ".join(f"{len(codec.vocabulary):,}" for codec in self.codecs.distinct)
        kind = "one vocabulary" if self.codecs.shared else "vocabularies"
        layers = f"{config.num_layers} x " if config.num_layers > 1 else ""
        name = f"{config.data}, {self.direction}" if self.direction else config.data
        return Description(
            f"Translation of {name}",
            f"{config.structure}, {layers}{config.cell} of {config.hidden_size}",
            f"vocabulary {sizes} ({config.tokens})" + (f", {self.direction}" if self.direction else ""),
            {"tokens": f"{config.tokens}, {kind} of {sizes} (`{self.codecs.hash}`)"}
            | ({"direction": self.direction} if self.direction else {}),
            ['translate FOLDER "a sentence"'],
            'translate("a sentence")[0].text',
        )

    def save_description(self, folder: ModelFolder) -> None:
        """Write all files of the model but its weights and its card."""
        super().save_description(folder)
        folder.write_json("generation_config.json", self.generation.model_dump(mode="json"))

    def load_generation(self, folder: ModelFolder) -> None:
        """Read how it translates by default."""
        where = str(folder.path / "generation_config.json")
        self.generation = build_config(Generation, folder.read_json("generation_config.json"), where)

    @property
    def direction(self) -> str:
        """From which language to which, where that is known."""
        config = self.config
        return f"{config.source} to {config.target}" if config.source and config.target else ""

    def _batches(self, source: RaggedIds, target: RaggedIds) -> PairBatches:
        from throughtime.data.batching.pairs import PairBatches

        return PairBatches(source, target, *self.codecs.specials, batch_size=SCORED_AT_ONCE, shuffle=False)


def combine_translators(translators: Sequence[Translator]) -> SentenceTranslator:
    """Several models as one, whose probabilities are the mean of theirs; all share their vocabularies."""
    first = translators[0]
    for other in translators[1:]:
        if other.codecs.hash != first.codecs.hash:
            raise InputError(
                "others", "must have the same vocabularies as the first model: train them with init_from"
            )
    if len(translators) == 1:
        return first
    return SentenceTranslator(
        Ensemble([one.step_model for one in translators]), first.codecs, first.generation
    )
