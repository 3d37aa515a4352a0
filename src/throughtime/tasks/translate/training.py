"""What the trainer needs of a translator: batches of pairs, the loss over their tokens, and validation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from throughtime.data.batching.batches import Batch
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.pairs import PairBatch, PairBatches, TruncationCounts
from throughtime.data.dataset import find_file_language
from throughtime.data.records import Pair, Specials
from throughtime.fit.objective import Carried, Loss
from throughtime.metrics.bleu import BleuSums
from throughtime.metrics.measures import Likelihood
from throughtime.tasks.objective import TextObjective, label_loss, likelihood, masked_labels
from throughtime.text.languages import are_swapped, language_name
from throughtime.text.texts import format_count, one_line

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.models.seq2seq import EncoderDecoder
    from throughtime.tasks.translate.config import TranslateConfig
    from throughtime.tasks.translate.model import Translator
    from throughtime.text.parallel import Codecs

VALIDATION_BATCH = 128
SCORED_LENGTH = 100
"""Tokens of a sentence above which fewer pairs are scored at a time."""
SAMPLES = 3
READ_PAIRS, EXAMINED_PAIRS = 4_000, 400
"""The check of languages reads the first pairs and examines some of them, as files may be sorted."""

PairIds = tuple[RaggedIds, RaggedIds]
"""The ids of both sides."""


def forcing_ratio(config: TranslateConfig, progress: float) -> float:
    """Return the probability of teacher forcing when this share of the training is done.

    >>> from throughtime.tasks.translate.config import TranslateConfig
    >>> config = TranslateConfig(data="x", teacher_forcing_schedule="linear")
    >>> [forcing_ratio(config, progress) for progress in (0.0, 0.25, 1.0)]
    [1.0, 0.75, 0.0]
    """
    first, last = config.teacher_forcing, config.final_teacher_forcing
    if config.teacher_forcing_schedule == "constant":
        return first
    if config.teacher_forcing_schedule == "linear":
        return first + (last - first) * progress
    # Scaled so that it is 1 at the beginning and 0 at the end.
    low, high, now = (1 / (1 + math.exp(12 * (x - 0.5))) for x in (1.0, 0.0, progress))
    return last + (first - last) * (now - low) / (high - low)


def special_ids(codecs: Codecs) -> tuple[Specials, Specials]:
    """Return the special ids of each side. Lengths mark padding, so any id may fill it."""
    source, target = (codec.vocabulary.pad_id or 0 for codec in codecs)
    source_end, begin, end = codecs.special_ids
    return Specials(source, None, source_end), Specials(target, begin, end)


def batch_pairs(codecs: Codecs, ids: PairIds, **options: Any) -> PairBatches:
    """Form batches of pairs, with the options of `PairBatches`."""
    return PairBatches(*ids, *special_ids(codecs), **options)


def batch_to_score(codecs: Codecs, ids: PairIds, size: int, **options: Any) -> PairBatches:
    """Form batches of pairs of similar length; a few very long pairs do not pad a whole batch."""
    longest = max(int(side.lengths.max(initial=0)) for side in ids) + 1  # with an end mark
    most = max(size * SCORED_LENGTH, longest)
    return batch_pairs(codecs, ids, batch_size=size, max_tokens=most, shuffle=False, **options)


def count_targets(translator: Translator, dataset: Dataset) -> Tensor:
    """Count each token in the targets of the training data, end marks included."""
    _, target = translator.ids(dataset, "train")
    counts = np.bincount(target.flat, minlength=len(translator.codecs.target.vocabulary))
    counts[translator.codecs.end_id] += len(target)
    return torch.from_numpy(counts)


def prepare_training(translator: Translator, dataset: Dataset) -> TranslateObjective:
    """Encode the pairs, and set the length above which texts are split."""
    config = translator.config
    train = translator.ids(dataset, "train")
    usual = int(np.quantile(train[0].lengths, 0.999)) + 1 if len(train[0]) else 2  # with the end mark
    longest = max(2, min(config.max_length, usual))
    translator.generation = translator.generation.model_copy(update={"max_source_tokens": longest})
    pairs: list[Pair] = []
    if "valid" in dataset.splits:
        pairs = list(itertools.islice(dataset.pairs("valid"), config.valid_sentences))
    return TranslateObjective(translator, train, translator.ids(dataset, "valid") if pairs else None, pairs)


class TranslateObjective(TextObjective):
    """Predict each target token from the source and the target tokens before it.

    `train` and `valid` are the ids of both sides; `valid_pairs` are the texts to translate each epoch.
    """

    predictor: Translator
    config: TranslateConfig
    model: EncoderDecoder

    def __init__(
        self, translator: Translator, train: PairIds, valid: PairIds | None, valid_pairs: list[Pair]
    ) -> None:
        super().__init__(translator)
        self.train, self.valid, self.valid_pairs = train, valid, valid_pairs
        # Each process scores only its share, so the tokenizer is chosen here, as `evaluate` does.
        self.scorer = translator.scorer().choose_tokenizer_for([pair.target for pair in valid_pairs])
        self.truncated = TruncationCounts(
            0, 0
        )  # training pairs that were cut, known once they are in batches
        self.choose_measure(self.config.choose_by, {"bleu": "more", "perplexity": "less"})
        self._ratio, self._ratio_on_gpu = forcing_ratio(self.config, 0.0), torch.ones(())

    def batches(self, rank: int, world_size: int) -> PairBatches:
        """Form batches of pairs of similar length."""
        options = self.batch_options(rank, world_size)
        batches = batch_pairs(self.predictor.codecs, self.train, max_length=self.config.max_length, **options)
        self.truncated = batches.truncated
        return batches

    def begin_update(self, progress: float) -> None:
        """Set the probability of teacher forcing by the share of the training that is done."""
        self._ratio = forcing_ratio(self.config, progress)
        if self._ratio < 1 and self.predictor.device.type == "cuda":
            # Where a CUDA graph that is replayed finds it.
            self._ratio_on_gpu = self._ratio_on_gpu.to(self.predictor.device).fill_(self._ratio)

    @property
    def variant(self) -> bool:
        """Whether the decoder reads its own predictions, which runs other kernels."""
        return self._ratio < 1

    @property
    def facts(self) -> dict[str, int]:
        """The numbers of training sentences that were cut, for training.json."""
        return {f"truncated_{side}": count for side, count in self.truncated._asdict().items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """The same in words, if any were cut."""
        if not any(self.truncated):
            return ()
        sources, targets = self.truncated
        cut = f"{format_count(sources, 'source')} and {format_count(targets, 'target')}"
        pairs = format_count(len(self.train[0]), "training pair")
        return (f"{cut} of {pairs} were cut at max_length={self.config.max_length}.",)

    def loss(self, batch: Batch, carried: Carried) -> tuple[Loss, Carried]:
        """Sum the surprisals of the target tokens; with label smoothing, they are reported, not minimised."""
        assert isinstance(batch, PairBatch)
        ratio = self._ratio_on_gpu if self._ratio < 1 and self._ratio_on_gpu.is_cuda else self._ratio
        outputs = self.model.run_scheduled(batch.source, batch.source_lengths, batch.inputs, ratio).outputs
        hidden, labels = outputs.flatten(0, 1), masked_labels(batch).flatten()
        return label_loss(self.model.head, hidden, labels, self.config.label_smoothing), ()

    @torch.no_grad()
    def validate(self, rank: int, world_size: int) -> dict[str, float]:
        """Measure the likelihood of all validation pairs, and translate the first ones for BLEU."""
        if self.valid is None:
            return {}
        ranks = {"rank": rank, "world_size": world_size}
        batches = batch_to_score(self.predictor.codecs, self.valid, VALIDATION_BATCH, **ranks)
        measured = likelihood(self.model, batches)
        share = self.valid_pairs[rank::world_size]
        translations, references = self._translate(share), [pair.target for pair in share]
        sums = self.scorer.sums(translations, references).to_values()
        values = {f"bleu_{number}": value for number, value in enumerate(sums)}
        if self.registered is not None:  # several processes: the mean over all sentences
            values["chosen"] = self.registered.value(translations, references) * len(share)
            values["chosen_sentences"] = len(share)
        return {"nats": measured.nats, "tokens": measured.tokens, **values}

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Compute the measures from the sums of all processes; the first one selects the best weights."""
        measured = Likelihood(sums["nats"], int(sums["tokens"]))
        bleu = BleuSums.from_values([sums[f"bleu_{number}"] for number in range(10)]).bleu
        measures = {"bleu": bleu, "perplexity": measured.perplexity, "loss": measured.nats / measured.tokens}
        return self.decide_by(measures, sums, sums.get("chosen_sentences", 0))

    def sample(self) -> str | None:
        """Return a few validation sentences with their translations."""
        sources = [one_line(pair.source) for pair in self.valid_pairs[:SAMPLES]]
        translations = map(one_line, self._translate(self.valid_pairs[:SAMPLES]))
        return "\n".join(map(" → ".join, zip(sources, translations, strict=True))) or None

    def _translate(self, pairs: list[Pair]) -> list[str]:
        # Without a shortlist, the best weights are the same whatever device trains.
        translations = self.predictor.translate(
            [pair.source for pair in pairs], num_beams=self.config.valid_beams, shortlist=0
        )
        return [translation.text for translation in translations]


def warn_of_swapped_sides(dataset: Dataset, source: str | None, target: str | None) -> tuple[str, ...]:
    """Return a warning if the sources look like the target language and vice versa."""
    if not source or not target:
        return ()
    bad = dataset.bad  # reading pairs replaces this count of skipped records, which is shown later
    pairs = list(itertools.islice(dataset.pairs("train"), READ_PAIRS))
    dataset.bad = bad
    pairs = pairs[:: max(1, len(pairs) // EXAMINED_PAIRS)]
    if not are_swapped([pair.source for pair in pairs], [pair.target for pair in pairs], source, target):
        return ()
    files = {find_file_language(path.name): path.name for path in dataset.files("train")}
    sides = [f"{side} ({files.get(code, code)})" for side, code in (("source", source), ("target", target))]
    return (
        f"{dataset.name}: the {sides[0]} looks like {language_name(target)}, and the {sides[1]} like "
        f"{language_name(source)}: are source and target swapped?",
    )
