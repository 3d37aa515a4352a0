"""A trained model that fills blanks: sentences in, words and their probabilities out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from throughtime.data.seen import Hashes, hash_texts
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.results import Evaluation
from throughtime.tasks.base import Progress
from throughtime.tasks.description import Description, refuse_options
from throughtime.tasks.fill.config import FillConfig
from throughtime.tasks.fill.network import MaskedTokens, build_filler
from throughtime.tasks.fill.runner import BlankFiller, Partial
from throughtime.tasks.texts import TextAssets, TextPredictor, build_codec
from throughtime.text.framing import draw_blank, find_mask_id
from throughtime.text.texts import format_count

if TYPE_CHECKING:
    from throughtime.data.batching.buckets import RaggedIds
    from throughtime.data.datasets import Dataset
    from throughtime.tasks.fill.training import GuessCounts

RESERVED = ("<unk>", "[MASK]")
MASK_SEED = 0
"""The seed of the masks of evaluations: the same for all models, whatever seed they were trained with."""
SENTENCES_PER_BATCH = 128
MASKS_AT_ONCE = 512
TOP = 5


class Filler(BlankFiller, TextPredictor):
    """Fills the blanks of sentences: `tt.load("RUN").fill("I am ___.")[0].text`."""

    task = "fill"
    config_type = FillConfig
    model: MaskedTokens
    assets: TextAssets
    config: FillConfig
    sentences_per_batch = SENTENCES_PER_BATCH

    @classmethod
    def prepare(cls, config: FillConfig, dataset: Dataset) -> tuple[FillConfig, TextAssets]:
        """Build the vocabulary of the training sentences."""
        config = config.complete(dataset)
        codec = build_codec(dataset.texts("train", config.side), config, dataset.name, reserved=RESERVED)
        has_text = any(text.strip() for text in dataset.texts("train", config.side))
        if has_text and len(codec.vocabulary) == len(RESERVED):
            raise InputError(
                "min_freq", f"is {config.min_freq}, and every word of {dataset.name} is rarer; lower it"
            )
        return config, TextAssets(codec)

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: FillConfig) -> TextAssets:
        """Read the vocabulary."""
        return TextAssets.load(folder)

    @classmethod
    def build_network(cls, config: FillConfig, assets: TextAssets) -> MaskedTokens:
        """Build the network that a configuration describes."""
        codec = assets.codec
        return build_filler(config, len(codec.vocabulary), mask_id=find_mask_id(codec))

    def adapt_to(self, dataset: Dataset) -> None:
        """Set the bias of the softmax to the frequencies of tokens in the training text."""
        if self.config.output_bias == "frequencies":
            counts = np.bincount(self.ids(dataset, "train").flat, minlength=len(self.codec.vocabulary))
            self.model.head.begin_with(torch.from_numpy(counts))

    @property
    def refuses_generation(self) -> str | None:
        """Why it does not generate text."""
        return f"{self.model.stack.refuses_generation}; `throughtime fill` fills the blanks of a sentence"

    def count_rows(self, dataset: Dataset) -> int:
        """Count the training sentences; a line may hold several."""
        return len(self.ids(dataset, "train"))

    def ids(self, dataset: Dataset, split: str) -> RaggedIds:
        """The sentences of a split as ids, without empty ones; those that are too long are split."""
        from throughtime.data.batching.buckets import RaggedIds
        from throughtime.data.batching.sequences import split_rows
        from throughtime.data.idcache import token_ids

        ids_of_split = token_ids(dataset, split, self.codec, eos=False, side=self.config.find_side(dataset))
        rows = split_rows(RaggedIds(ids_of_split.ids, ids_of_split.starts), self.config.max_length)
        if not len(rows):
            raise InputError(f"{dataset.name}, split {split}", "holds no sentence with a word to hide")
        return rows

    def hash_split(self, dataset: Dataset, split: str) -> Iterator[Hashes]:
        """Yield the hashes of the sentences of a split on the side that the model reads."""
        return hash_texts(dataset.texts(split, self.config.find_side(dataset)))

    def read_examples(self, dataset: Dataset, split: str) -> Iterator[str]:
        """Yield the sentences of a split on the side that the model reads."""
        return dataset.texts(split, self.config.find_side(dataset))

    def shape_example(self, text: str) -> str:
        """Return a text with a blank for its longest known word; nothing if it has no word."""
        ids, vocabulary = self.codec.encode(text), self.codec.vocabulary
        never = {*self._never, vocabulary.unk_id}
        sizes = [0 if one in never else sum(map(str.isalpha, vocabulary.token(one))) for one in ids]
        position = max(range(len(ids)), key=sizes.__getitem__, default=0)
        return draw_blank(ids, position, self.codec) if sizes and sizes[position] else ""

    @torch.no_grad()
    def count_guesses(
        self, rows: RaggedIds, *, rank: int = 0, world_size: int = 1, progress: Progress | None = None
    ) -> GuessCounts:
        """Mask sentences, always in the same way, and count how many of this process's masks are guessed.

        Only what `fill` could answer counts as a guess, so an unknown word is never guessed right.
        """
        from throughtime.data.batching.sequences import MaskedBatches
        from throughtime.tasks.fill.training import GuessCounts

        batches = MaskedBatches(
            rows,
            share=self.config.mask_share,
            batch_size=SENTENCES_PER_BATCH,
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
                    vectors.split(MASKS_AT_ONCE), batch.labels.split(MASKS_AT_ONCE), strict=True
                ):
                    sums += self._count(self.model.head.log_probs(own), labels)
            if progress is not None:
                progress(number, len(batches))
        return GuessCounts(*sums.tolist())

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure the perplexity of masked tokens, and the share that is guessed right, on a split."""
        refuse_options(options, (), "is not for models that fill blanks")
        rows = self.ids(dataset, split)
        self.model.eval()
        with matmul_precision("float32"):
            guesses = self.count_guesses(rows, progress=progress)
        measures, tokens = guesses.measures(), int(guesses.tokens)
        unk = self.codec.vocabulary.unk_id
        unknown = float((rows.flat == unk).mean()) if unk is not None else 0.0
        text = (
            f"perplexity {measures['perplexity']:.2f} of a masked token, "
            f"{measures['accuracy']:.1%} guessed right, {measures['top5']:.1%} among the best five\n"
            f"over {format_count(tokens, 'masked token')} in {format_count(len(rows), 'sentence')}; "
            f"{unknown:.2%} of the text is unknown"
        )
        counts = {"masked": tokens, "sentences": len(rows), "unknown": unknown}
        return Evaluation(
            {**measures, "loss": guesses.nats / tokens, **counts}, self.signature(dataset), text
        )

    def signature(self, dataset: Dataset) -> str:
        """How sentences are read and masked."""
        side, config = self.config.find_side(dataset), self.config
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
        """Ids of special tokens, with which no blank is filled."""
        vocabulary = self.codec.vocabulary
        unk = [] if vocabulary.unk_id is None else [vocabulary.unk_id]
        return sorted({*vocabulary[sorted(vocabulary.reserved)], *unk, find_mask_id(self.codec)})

    @torch.no_grad()
    def _guess(self, partials: Sequence[Partial], width: int) -> tuple[list[list[float]], list[list[int]]]:
        ids = pad_sequence([torch.tensor(partial.ids) for partial in partials])  # [T, B]
        lengths = torch.tensor([len(partial.ids) for partial in partials])
        places = torch.tensor(
            [blank * len(partials) + row for row, one in enumerate(partials) for blank in one.blanks]
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
        # The best five of a small vocabulary include special tokens, at -inf: these are not guesses.
        known = ~torch.isin(labels, torch.tensor(self._never, device=labels.device))
        right, among = (best[:, 0] & known).sum(), (best.any(1) & known).sum()
        return torch.stack([nats, tokens, right.double(), among.double()])
