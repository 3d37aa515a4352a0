"""A trained translator: how it is created, loaded, saved and described."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from throughtime.config import build_config
from throughtime.layers.devices import choose_precision
from throughtime.models.search_models import Bf16Model
from throughtime.runtime.shortlist import MIN_VOCABULARY, Shortlist
from throughtime.tasks.base import Predictor
from throughtime.tasks.description import Description
from throughtime.tasks.texts import build_codec
from throughtime.tasks.translate.config import Generation, TranslateConfig
from throughtime.tasks.translate.network import build_translator
from throughtime.tasks.translate.translation import SentenceTranslator
from throughtime.text.input_warnings import blank
from throughtime.text.parallel import SIDES, Codecs

if TYPE_CHECKING:
    from pathlib import Path

    from throughtime.data.batching.buckets import RaggedIds
    from throughtime.data.datasets import Dataset
    from throughtime.folder import ModelFolder
    from throughtime.metrics.measures import Likelihood
    from throughtime.models.seq2seq import EncoderDecoder
    from throughtime.results import Evaluation, Progress, Scored
    from throughtime.search.generate import StepModel
    from throughtime.tasks.translate.evaluation import TranslationScorer
    from throughtime.text.codec import Codec

SHORTLIST = "shortlist.safetensors"
"""The file of a shortlist in a model folder."""


class Translator(SentenceTranslator, Predictor):
    """Translates: `tt.load("RUN").translate("Where is the station?")[0].text`."""

    task = "translate"
    config_type = TranslateConfig
    network_parts = ("encode", "run_scheduled", "start", "step", "head")
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
        """Precision of matrix products in search, as in training; likelihoods are always in float32."""
        self._bf16_model = Bf16Model(model)

    @classmethod
    def prepare(cls, config: TranslateConfig, dataset: Dataset) -> tuple[TranslateConfig, Codecs]:
        """Complete the configuration, and build one vocabulary per language or one for both."""
        config = config.complete(dataset)

        def build(side: str | None) -> Codec:
            where = dataset.name if side is None else f"{dataset.name}, {side}"
            return build_codec(dataset.texts("train", side), config, where, lowercase=config.lowercase)

        if not config.shared:
            return config, Codecs(build("source"), build("target"))
        for side in SIDES:
            if not any(text.strip() for text in dataset.texts("train", side)):
                raise blank(f"{dataset.name}, {side}")
        shared = build(None)
        return config, Codecs(shared, shared)

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: TranslateConfig) -> Codecs:
        """Read the vocabularies."""
        return Codecs.load(folder.path)

    @classmethod
    def build_network(cls, config: TranslateConfig, assets: Codecs) -> EncoderDecoder:
        """Build the network that a configuration describes."""
        sizes = (len(codec.vocabulary) for codec in assets)
        return build_translator(config, *sizes, bos_id=assets.begin_id, shared_embedding=assets.shared)

    @classmethod
    def load(
        cls, folder: ModelFolder, settings: Mapping[str, Any], device: str, *, network: Any = None
    ) -> Self:
        """Load the best model of a run, with its shortlist if it has one."""
        translator = super().load(folder, settings, device, network=network)
        if (folder.path / SHORTLIST).is_file():
            damage = "remove the file, or train the model again"
            with folder.read_arrays(SHORTLIST, damage) as (arrays, _):
                translator.shortlist = Shortlist(*(arrays[name] for name in ("starts", "ids", "always")))
                translator.shortlist.check(*(len(codec.vocabulary) for codec in translator.codecs))
        return translator

    def save_description(self, folder: ModelFolder) -> None:
        """Write all files of the model except its weights and its card."""
        super().save_description(folder)
        if self.shortlist is not None:
            counts = {"source_tokens": len(self.shortlist.starts) - 1}
            folder.write_arrays(SHORTLIST, vars(self.shortlist), counts)

    def fit(self, dataset: Dataset, out: Path, **options: Any) -> dict[str, Any]:
        """Check the languages, count a shortlist if the target vocabulary is large, and train."""
        # Both take seconds. The objective, to which they could belong, is also built to measure the speed.
        from throughtime.tasks.translate.training import warn_of_swapped_sides

        self.data_notes = warn_of_swapped_sides(dataset, self.config.source, self.config.target)
        if len(self.codecs.target.vocabulary) >= MIN_VOCABULARY:
            self._count_shortlist(dataset)
        return super().fit(dataset, out, **options)

    def build_shortlist(self, data: Any = None) -> None:
        """Count which target tokens translate each source token, in `data` or the training data.

        Training does this itself if the target vocabulary is large. `save` writes it with the model.
        """
        self._count_shortlist(self.open_data(data))

    def _count_shortlist(self, dataset: Dataset) -> None:
        from throughtime.ngram.lexicon import build_shortlist

        self.shortlist = build_shortlist(self.codecs, *self.ids(dataset, "train"))

    def adapt_to(self, dataset: Dataset) -> None:
        """Set the output bias to the log frequencies of the target tokens, if the configuration says so."""
        if self.config.output_bias == "frequencies":
            from throughtime.tasks.translate.training import count_targets

            self.model.head.begin_with(count_targets(self, dataset))

    @property
    def step_model(self) -> StepModel:
        """The model that the search runs: the network, or a copy of it in bf16."""
        return self._bf16_model if self.search_precision == "bf16" else self.model

    @property
    def search_precision(self) -> str:
        """Precision of matrix products in search on this device."""
        return choose_precision(self.precision, self.device)

    def ids(self, dataset: Dataset, split: str) -> tuple[RaggedIds, RaggedIds]:
        """Return both sides of a split as ids, from the cache if they were encoded before."""
        from throughtime.data.batching.buckets import RaggedIds
        from throughtime.data.idcache import token_ids

        source, target = (
            token_ids(dataset, split, codec, eos=False, side=side)
            for side, codec in zip(SIDES, self.codecs, strict=True)
        )
        return RaggedIds(source.ids, source.starts), RaggedIds(target.ids, target.starts)

    def score(self, texts: tuple[str, str] | Sequence[tuple[str, str]]) -> list[Scored]:
        """Return the log-probability of each target token given the source, one answer per pair.

        `texts` is a pair (source, target) or a list of pairs.
        """
        from throughtime.tasks.translate.evaluation import score_pairs

        return score_pairs(self, texts)

    def likelihood(self, dataset: Dataset, split: str) -> Likelihood:
        """Return the likelihood of the references of a split."""
        from throughtime.tasks.translate.evaluation import compute_likelihood

        return compute_likelihood(self, dataset, split)

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure BLEU, chrF and perplexity on a split; with `others`, of all models as an ensemble."""
        from throughtime.tasks.translate.evaluation import evaluate_translator

        return evaluate_translator(self, dataset, split, progress=progress, **options)

    def scorer(self, tokenize: str | None = None, lowercase: bool = False) -> TranslationScorer:
        """Return the object that scores its translations against references."""
        from throughtime.tasks.translate.evaluation import TranslationScorer

        return TranslationScorer(self.config.target, tokenize, lowercase or self.lowercase)

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the texts that the vocabularies were built from, and about the training pairs."""
        return (*(note for codec in self.codecs.distinct for note in codec.notes), *self.data_notes)

    @property
    def facts(self) -> dict[str, Any]:
        """The codes of the languages that it reads and writes."""
        return {"source": self.config.source or "source", "target": self.config.target or "target"}

    def read_examples(self, dataset: Dataset, split: str) -> Iterator[str]:
        """Yield the source sentences of a split."""
        return dataset.texts(split, "source")

    def describe(self) -> Description:
        """Describe the model in words."""
        config = self.config
        sizes = " and ".join(f"{len(codec.vocabulary):,}" for codec in self.codecs.distinct)
        kind = "one vocabulary" if self.codecs.shared else "vocabularies"
        direction = f", {self.direction}" if self.direction else ""
        return Description(
            f"Translation of {config.data}{direction}",
            f"{config.structure}, {self._layers}",
            f"vocabulary {sizes} ({config.tokens}){direction}",
            {"tokens": f"{config.tokens}, {kind} of {sizes} (`{self.codecs.hash}`)"}
            | ({"direction": self.direction} if direction else {}),
            ['translate FOLDER "a sentence"'],
            'translate("a sentence")[0].text',
        )

    def load_generation(self, folder: ModelFolder) -> None:
        """Read generation_config.json."""
        where = str(folder.path / "generation_config.json")
        self.generation = build_config(Generation, folder.read_json("generation_config.json"), where)

    @property
    def direction(self) -> str:
        """Source and target language, such as "en to fr"; empty if they are not known."""
        config = self.config
        return f"{config.source} to {config.target}" if config.source and config.target else ""
