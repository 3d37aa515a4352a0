"""A translator with the network and the settings that made it: what is trained, judged and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from throughtime.data.batching import PairBatches, RaggedIds
from throughtime.data.idcache import token_ids
from throughtime.data.records import Pair
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.metrics.likelihood import Likelihood
from throughtime.models.bf16_search import Rounded
from throughtime.models.seq2seq import EncoderDecoder
from throughtime.results import Scored
from throughtime.search import Ensemble, StepModel
from throughtime.tasks.report import Asked, Progress, Report, refuse_others, trained_for
from throughtime.tasks.surprisal import likelihood, surprisals
from throughtime.tasks.translate.codecs import SIDES, Codecs
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.predictor import Generation, Translator
from throughtime.tasks.translate.translation_scores import Judge, SentencePairs, search_errors
from throughtime.text.texts import several
from throughtime.train.devices import precision_of, products

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TASK = "translate"
SCORED_AT_ONCE = 64
JUDGING_OPTIONS = frozenset("num_beams length_penalty tokenize lowercase search_errors with".split())


class TrainedTranslator(Translator):
    """An encoder and a decoder with their codecs and the configuration that made them."""

    def __init__(self, model: EncoderDecoder, codecs: Codecs, config: TranslateConfig) -> None:
        generation = Generation(
            num_beams=config.num_beams,
            length_penalty=config.length_penalty,
            max_source_tokens=config.max_length,
        )
        super().__init__(model, codecs, generation)
        self.model, self.config = model, config
        self.data_notes: tuple[str, ...] = ()
        self.precision: str = config.precision
        """Of the products while it searches, as in training; likelihoods are in float32 always."""
        self._rounded = Rounded(model)

    @property
    def step_model(self) -> StepModel:
        """What search runs: the model, or where that is its precision the same in bf16."""
        return self._rounded if self._search_precision == "bf16" else self.model

    @property
    def _search_precision(self) -> str:
        return precision_of(self.precision, next(self.model.parameters()).device)

    def ids(self, dataset: Dataset, split: str) -> tuple[RaggedIds, RaggedIds]:
        """Both sides of a split as ids, from the cache where they were read before."""
        source, target = (
            token_ids(dataset, split, codec, eos=False, side=side)
            for side, codec in zip(SIDES, self.codecs, strict=True)
        )
        return RaggedIds(source.ids, source.starts), RaggedIds(target.ids, target.starts)

    def score(self, pairs: Sequence[Pair]) -> list[Scored]:
        """How likely each given translation is, token by token, in the order of the pairs."""
        if not pairs:
            return []
        source, target = (
            RaggedIds.of(codec.encode(pair[side]) for pair in pairs) for side, codec in enumerate(self.codecs)
        )
        found: dict[int, Scored] = {}
        self.model.eval()
        device = next(self.model.parameters()).device
        with torch.no_grad(), products("float32"):
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
        with products("float32"):
            return likelihood(self.model, self._batches(source, target))

    def report(self, dataset: Dataset, split: str, asked: Asked, progress: Progress | None = None) -> Report:
        """What `throughtime evaluate` shows of a split."""
        refuse_others(asked, JUDGING_OPTIONS, "is for language models, and this run translates")
        pairs, others = SentencePairs.of(dataset, split), asked.get("with", ())
        if others and asked.get("search_errors"):
            raise InputError("--search-errors", "is for one model; leave out --with")
        judge = self.judge(asked.get("tokenize"), asked.get("lowercase", False))
        beams, alpha = asked.get("num_beams"), asked.get("length_penalty")
        told = together([self, *others]).translate(
            pairs.sources, num_beams=beams, length_penalty=alpha, progress=progress
        )
        judged = judge.judged([own[0].text for own in told], pairs)
        values: dict[str, Any] = {**judged.values(), "sentences": len(told)}
        how = [*self.reading(), *self.searching(beams, alpha)]
        scores = f"BLEU [bold]{judged.bleu.value:.2f}[/bold], chrF {judged.chrf.value:.2f}"
        signatures = "\n".join(f"{one.name}|{one.signature}" for one in (judged.bleu, judged.chrf))
        sentences = several(len(told), "sentence")
        if others:
            count = 1 + len(others)
            text = f"{dataset.name}, {split}: {scores}, {count} models as one over {sentences}"
            return Report(values, [*how, f"models:{count}"], f"{text}\n[dim]{signatures}[/dim]")
        found = self.likelihood(dataset, split)
        values |= {"loss": found.cross_entropy, "perplexity": found.perplexity, "tokens": found.tokens}
        text = (
            f"{dataset.name}, {split}: {scores}, perplexity {found.perplexity:.3f} of a target token\n"
            f"over {sentences}, {several(found.tokens, 'target token')}\n[dim]{signatures}[/dim]"
        )
        if asked.get("search_errors"):
            # In float32: roundings to bf16 alone would tell the same sentence's likelihoods apart.
            exactly = Translator(self.model, self.codecs, self.generation)
            errors = search_errors(exactly, pairs.sources, beams or self.generation.num_beams)
            values["search_errors"] = errors._asdict()
            text += (
                "\nAt alpha 0 the beam misses the model's most likely sentence in "
                f"{errors.errors:,} of {several(errors.resolved, 'sentence')}; "
                f"{errors.unresolved:,} are undecided"
            )
        return Report(values, how, text)

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
        return Judge(self.config.target, tokenize, lowercase or self.lowercase)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the text that the vocabularies were built from, and about the training pairs."""
        return (*(note for codec in self.codecs.distinct for note in codec.notes), *self.data_notes)

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        config = self.config
        weights = sum(weight.numel() for weight in self.model.parameters())
        sizes = " and ".join(f"{len(codec.vocabulary):,}" for codec in self.codecs.distinct)
        return (
            f"{self._name}: {config.structure}, {config.cell} of {config.hidden_size}, "
            f"{weights / 1e6:.2f} M weights, vocabulary {sizes} ({config.tokens})"
        )

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights."""
        folder.write_config(TASK, self.config.model_dump(mode="json"))
        self.codecs.save(folder.path)
        folder.write_json("generation_config.json", self.generation.model_dump(mode="json"))

    def card(self, values: Mapping[str, Any]) -> str:
        """README.md of the model folder."""
        config = self.config
        best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
        kind = "one vocabulary" if self.codecs.shared else "vocabularies"
        sizes = " and ".join(f"{len(codec.vocabulary):,}" for codec in self.codecs.distinct)
        return f"""# Translation of {self._name}

Structure `{config.structure}`, {config.cell} cells, {config.num_layers} x {config.hidden_size}, made by
throughtime.

| | |
|---|---|
| data | {self._name}, split train |
| tokens | {config.tokens}, {kind} of {sizes} (`{self.codecs.hash}`) |
| weights | {values["parameters"]:,} |
| training | {trained_for(values)}, seed {config.seed}, {values["device"]} |
| validation | {best or "not measured"} |

    throughtime translate FOLDER "a sentence"
    throughtime evaluate FOLDER --split test

In Python: `throughtime.load("FOLDER").translate(["a sentence"])[0][0].text`. The settings are in config.json.
"""

    @property
    def direction(self) -> str:
        """From which language to which, where that is known."""
        config = self.config
        return f"{config.source} to {config.target}" if config.source and config.target else ""

    @property
    def _name(self) -> str:
        return f"{self.config.data}, {self.direction}" if self.direction else self.config.data

    def _batches(self, source: RaggedIds, target: RaggedIds) -> PairBatches:
        return PairBatches(source, target, *self.codecs.specials, batch_size=SCORED_AT_ONCE, shuffle=False)


def together(translators: Sequence[TrainedTranslator]) -> Translator:
    """Several models as one, whose probabilities are the mean of theirs; all share their vocabularies."""
    first = translators[0]
    for other in translators[1:]:
        if other.codecs.hash != first.codecs.hash:
            raise InputError(
                "an ensemble", "needs models with the same vocabularies: train the others with --init-from"
            )
    if len(translators) == 1:
        return first
    return Translator(Ensemble([one.step_model for one in translators]), first.codecs, first.generation)
