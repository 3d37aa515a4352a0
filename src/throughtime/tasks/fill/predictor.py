"""A trained model that fills blanks: sentences in, words and their probabilities out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.sequences import MaskedBatches, split_rows
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.results import Evaluation
from throughtime.tasks.base import Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.fill.config import FillConfig
from throughtime.tasks.fill.filling import BlankFiller, Partial
from throughtime.tasks.fill.network import MaskedTokens, build
from throughtime.tasks.fill.training import FillTask, GuessCounts
from throughtime.tasks.texts import TextPredictor, build_codec, spread
from throughtime.text.blanks import BLANK, draw_blank, mask_of
from throughtime.text.codec import Codec
from throughtime.text.texts import several

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

RESERVED = ("<unk>", "[MASK]")
MASK_SEED = 0
"""The seed of the masks that models are evaluated with: the same for all, whatever they were trained with."""
SENTENCES_AT_ONCE = 128
ROWS_AT_ONCE = 512
TOP = 5
SAMPLES = 3


class FillerAssets(NamedTuple):
    """The vocabulary of the sentences."""

    codec: Codec

    def save(self, folder: ModelFolder) -> None:
        """Write it into a model folder."""
        self.codec.save(folder.path)


class Filler(BlankFiller, TextPredictor):
    """Fills the blanks of sentences: `tt.load("RUN").fill("I am ___.")[0].text`."""

    task = "fill"
    config_type = FillConfig
    model: MaskedTokens
    assets: FillerAssets
    config: FillConfig
    sentences_at_once = SENTENCES_AT_ONCE

    @classmethod
    def prepare(cls, config: FillConfig, dataset: Dataset) -> tuple[FillConfig, FillerAssets]:
        """Build the vocabulary of the training sentences."""
        config = config.settled(dataset)
        codec = build_codec(dataset.texts("train", config.side), config, dataset.name, reserved=RESERVED)
        has_text = any(text.strip() for text in dataset.texts("train", config.side))
        if has_text and len(codec.vocabulary) == len(RESERVED):
            raise InputError(
                "min_freq", f"is {config.min_freq}, and every word of {dataset.name} is rarer; lower it"
            )
        return config, FillerAssets(codec)

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: FillConfig) -> FillerAssets:
        """Read the vocabulary."""
        return FillerAssets(Codec.load(folder.path))

    @classmethod
    def build_network(cls, config: FillConfig, assets: FillerAssets) -> MaskedTokens:
        """The network that a configuration describes."""
        codec = assets.codec
        return build(len(codec.vocabulary), mask_id=mask_of(codec), **config.arguments_for(build))

    def training_task(self, dataset: Dataset) -> FillTask:
        """Batches, loss and validation on these data."""
        train = self.ids(dataset, "train")
        held_out = dataset.texts("valid", self.config.side_of(dataset)) if "valid" in dataset.splits else ()
        if not any(text.strip() for text in held_out):  # a few lines leave none for it
            return FillTask(self, train, None, [])
        valid = self.ids(dataset, "valid")
        return FillTask(self, train, valid, self._samples(valid))

    def _samples(self, rows: RaggedIds) -> list[str]:
        """A few sentences from all over the data, with a blank in the middle."""
        unk = self.codec.vocabulary.unk_id
        fit = [number for number in range(len(rows)) if len(rows[number]) > 2 and unk not in rows[number]]
        return [
            draw_blank(rows[number].tolist(), len(rows[number]) // 2, self.codec)
            for number in spread(fit, SAMPLES)
        ]

    @property
    def refuses_generation(self) -> str | None:
        """Why it does not write from left to right, in words."""
        return f"{self.model.stack.refuses_generation}; `throughtime fill` fills the blanks of a sentence"

    def _read_part(self, text: str) -> str:
        return BLANK.sub(" ", text)

    def ids(self, dataset: Dataset, split: str) -> RaggedIds:
        """The sentences of a split as ids; empty ones are left out, and what is too long is cut."""
        from throughtime.data.idcache import token_ids

        found = token_ids(dataset, split, self.codec, eos=False, side=self.config.side_of(dataset))
        rows = split_rows(RaggedIds(found.ids, found.starts), self.config.max_length)
        if not len(rows):
            raise InputError(f"{dataset.name}, split {split}", "holds no sentence to hide a word of")
        return rows

    @torch.no_grad()
    def count_guesses(
        self,
        rows: RaggedIds,
        *,
        rank: int = 0,
        world_size: int = 1,
        progress: Progress | None = None,
    ) -> GuessCounts:
        """How well this process's share of the fixed masks of these sentences is guessed.

        A best guess is one that `fill` could make, so that an unknown word is never guessed right.
        """
        batches = MaskedBatches(
            rows,
            share=self.config.mask_share,
            batch_size=SENTENCES_AT_ONCE,
            shuffle=False,
            seed=MASK_SEED,
            rank=rank,
            world_size=world_size,
        )
        device = self.device
        sums = torch.zeros(4, dtype=torch.float64, device=device)
        for number, batch in enumerate(batches, 1):
            if batch.rows:
                batch = batch.to(device)
                vectors = self.model(batch.ids, batch.places, batch.lengths)
                for own, labels in zip(
                    vectors.split(ROWS_AT_ONCE), batch.labels.split(ROWS_AT_ONCE), strict=True
                ):
                    sums += self._count(self.model.head.log_probs(own), labels)
            if progress is not None:
                progress(number, len(batches))
        return GuessCounts(*sums.tolist())

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Perplexity of masked tokens, and the share of them that is guessed, on a split."""
        refuse_options(options, (), "is not for models that fill blanks")
        rows = self.ids(dataset, split)
        self.model.eval()
        with matmul_precision("float32"):
            found = self.count_guesses(rows, progress=progress)
        measures, tokens = found.measures(), int(found.tokens)
        unk = self.codec.vocabulary.unk_id
        unknown = float((rows.flat == unk).mean()) if unk is not None else 0.0
        text = (
            f"perplexity {measures['perplexity']:.2f} of a masked token, "
            f"{measures['accuracy']:.1%} guessed right, {measures['top5']:.1%} among the best five\n"
            f"over {several(tokens, 'masked token')} in {several(len(rows), 'sentence')}; "
            f"{unknown:.2%} of the text is unknown"
        )
        counts = {"masked": tokens, "sentences": len(rows), "unknown": unknown}
        return Evaluation({**measures, "loss": found.nats / tokens, **counts}, self.signature(dataset), text)

    def signature(self, dataset: Dataset) -> str:
        """How sentences are read and masked."""
        side, config = self.config.side_of(dataset), self.config
        return (
            f"{f'side:{side}|' if side else ''}tokens:{config.tokens}|vocabulary:{self.codec.hash[:12]}"
            f"|longest:{config.max_length}|masks:{config.mask_share:g}|mask-seed:{MASK_SEED}"
            f"|device:{self.device.type}|precision:float32"
        )

    def describe(self) -> Description:
        """The model in words."""
        config = self.config
        return Description(
            f"Fill-in model of {config.data}",
            f"{self._layers} each way",
            self._vocabulary,
            {
                **({"side": config.side} if config.side else {}),
                **self._tokens,
                "masks": f"{config.mask_share:g} of the tokens of a sentence, at least one",
            },
            ['fill FOLDER "I am ___."'],
            'fill("I am ___.")[0].text',
            "It fills the blanks of a sentence; it cannot write from left to right.",
        )

    @cached_property
    def _never(self) -> list[int]:
        """Ids that are no words, so that no blank is filled with them."""
        vocabulary = self.codec.vocabulary
        unk = [] if vocabulary.unk_id is None else [vocabulary.unk_id]
        return sorted({*vocabulary[sorted(vocabulary.reserved)], *unk, mask_of(self.codec)})

    @torch.no_grad()
    def _guess(self, partials: Sequence[Partial], width: int) -> tuple[list[list[float]], list[list[int]]]:
        ids = pad_sequence([torch.tensor(partial.ids) for partial in partials])  # [T, B]
        lengths = torch.tensor([len(partial.ids) for partial in partials])
        places = torch.tensor(
            [place * len(partials) + row for row, one in enumerate(partials) for place in one.blanks]
        )
        self.model.eval()
        with matmul_precision("float32"):
            log_probs = self.model.log_probs(*(part.to(self.device) for part in (ids, places, lengths)))
        best = self._fillable(log_probs).log_softmax(-1).topk(min(width, log_probs.shape[1]))
        return best.values.tolist(), best.indices.tolist()

    def _fillable(self, log_probs: Tensor) -> Tensor:
        return log_probs.index_fill(-1, torch.tensor(self._never, device=log_probs.device), -math.inf)

    def _count(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        nats = -log_probs.gather(1, labels[:, None]).double().sum()
        best = self._fillable(log_probs).topk(min(TOP, log_probs.shape[1])).indices == labels[:, None]
        tokens = torch.full_like(nats, len(labels))
        # A vocabulary of few words has specials among its best five, at -inf: they are no guesses.
        known = ~torch.isin(labels, torch.tensor(self._never, device=labels.device))
        right, among = (best[:, 0] & known).sum(), (best.any(1) & known).sum()
        return torch.stack([nats, tokens, right.double(), among.double()])
