"""A model that fills blanks, for people: sentences in, words and probabilities out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from throughtime.data.batching import RaggedIds
from throughtime.data.batching.masked import MaskedBatches, pieces
from throughtime.data.idcache import token_ids
from throughtime.errors import InputError
from throughtime.folder import ModelFolder
from throughtime.metrics.likelihood import Likelihood
from throughtime.results import Filling
from throughtime.tasks.fill.config import FillConfig
from throughtime.tasks.fill.filling import Partial, best_first
from throughtime.tasks.fill.network import MaskedTokens
from throughtime.tasks.report import Asked, Progress, Report, refuse_others, trained_for
from throughtime.text.blanks import BLANK, Blanks, mask_of, token_text
from throughtime.text.codec import Codec
from throughtime.text.texts import check_text, check_texts, several
from throughtime.train.devices import products

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TASK = "fill"
MASK_SEED = 0
"""Where models are judged the masks are the same for all of them, whatever seed they were trained with."""
SENTENCES_AT_ONCE = 128
ROWS_AT_ONCE = 512
TOP = 5
BEAM = 10


class Guessed(NamedTuple):
    """Sums over hidden tokens: nats, how many there are, and how many were the best guess or among five."""

    nats: float
    tokens: float
    right: float
    top5: float

    def measures(self) -> dict[str, float]:
        """What the sums come to."""
        found = Likelihood(self.nats, int(self.tokens))
        return {
            "perplexity": found.perplexity,
            "accuracy": self.right / self.tokens,
            "top5": self.top5 / self.tokens,
        }


class TrainedFiller:
    """A model of hidden tokens with its codec and the configuration that made it."""

    def __init__(self, model: MaskedTokens, codec: Codec, config: FillConfig) -> None:
        self.model, self.codec, self.config = model, codec, config

    @property
    def refuses_generation(self) -> str | None:
        """Why it does not write from left to right, in words."""
        return f"{self.model.stack.refuses_generation}; `throughtime fill` fills the blanks of a sentence"

    def fill(self, text: str, *, k: int = TOP, beam: int = BEAM) -> list[Filling]:
        """The k best ways to fill the blanks of a text, written `___` or `[MASK]`."""
        return self.fill_all([check_text(text, "text")], k=k, beam=beam)[0]

    @torch.no_grad()
    def fill_all(
        self, texts: Sequence[str], *, k: int = TOP, beam: int = BEAM, progress: Progress | None = None
    ) -> list[list[Filling]]:
        """The same for each of several texts; an empty one has nothing to fill.

        The blanks of a text are filled together, the most certain one first (see `best_first`); `beam`
        partial fillings are kept, or k where that is more.
        """
        if k < 1 or beam < 1:
            raise InputError("k" if k < 1 else "beam", "is less than 1, so nothing would be found")
        self.model.eval()
        texts = check_texts(texts)
        blanks = [Blanks.of(text, self.codec) for text in texts if text.strip()]
        found: list[list[Filling]] = []
        with products("float32"):
            for first in range(0, len(blanks), SENTENCES_AT_ONCE):
                block = blanks[first : first + SENTENCES_AT_ONCE]
                beams = best_first([Partial(one.ids, one.places) for one in block], self._guess, max(k, beam))
                found += [
                    [self._filling(one, partial) for partial in own[:k]]
                    for one, own in zip(block, beams, strict=True)
                ]
                if progress is not None:
                    progress(len(found), len(blanks))
        rest = iter(found)
        return [next(rest) if text.strip() else [] for text in texts]

    def input_warnings(self, texts: Sequence[str], **how: Any) -> dict[str, str]:
        """Warnings about texts that the model knows little about, by kind (see `InputWarnings.of`)."""
        return self.codec.warnings.of([BLANK.sub(" ", text) for text in check_texts(texts)], **how)

    def ids(self, dataset: Dataset, split: str) -> RaggedIds:
        """The sentences of a split as ids; empty ones are left out, and what is too long is cut."""
        found = token_ids(dataset, split, self.codec, eos=False, side=self.config.side_of(dataset))
        rows = pieces(RaggedIds(found.ids, found.starts), self.config.max_length)
        if not len(rows):
            raise InputError(f"{dataset.name}, split {split}", "holds no sentence to hide a word of")
        return rows

    @torch.no_grad()
    def guessed(
        self,
        rows: RaggedIds,
        *,
        rank: int = 0,
        world_size: int = 1,
        progress: Progress | None = None,
    ) -> Guessed:
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
                    sums += self._judged(self.model.head.log_probs(own), labels)
            if progress is not None:
                progress(number, len(batches))
        return Guessed(*sums.tolist())

    def report(self, dataset: Dataset, split: str, asked: Asked, progress: Progress | None = None) -> Report:
        """What `throughtime evaluate` shows of a split."""
        refuse_others(asked, (), "is not for models that fill blanks")
        rows = self.ids(dataset, split)
        self.model.eval()
        with products("float32"):
            found = self.guessed(rows, progress=progress)
        measures, tokens = found.measures(), int(found.tokens)
        unk = self.codec.vocabulary.unk_id
        unknown = float((rows.flat == unk).mean()) if unk is not None else 0.0
        text = (
            f"{dataset.name}, {split}: perplexity [bold]{measures['perplexity']:.2f}[/bold] of a masked "
            f"token, {measures['accuracy']:.1%} guessed right, {measures['top5']:.1%} among the best five\n"
            f"over {several(tokens, 'masked token')} in {several(len(rows), 'sentence')}; "
            f"{unknown:.2%} of the text is unknown"
        )
        counts = {"masked": tokens, "sentences": len(rows), "unknown": unknown}
        side = self.config.side_of(dataset)
        how = [
            *([f"side:{side}"] if side else []),
            f"tokens:{self.config.tokens}",
            f"vocabulary:{self.codec.hash[:12]}",
            f"longest:{self.config.max_length}",
            f"masks:{self.config.mask_share:g}",
            f"mask-seed:{MASK_SEED}",
            f"device:{self.device.type}",
            "precision:float32",
        ]
        return Report({**measures, "loss": found.nats / tokens, **counts}, how, text)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.model.embedding.weight.device

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of the text that its vocabulary was made of."""
        return self.codec.notes

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        config = self.config
        weights = sum(weight.numel() for weight in self.model.parameters())
        layers = f"{config.num_layers} x " if config.num_layers > 1 else ""
        return (
            f"{config.data}: {layers}{config.cell} of {config.hidden_size} each way, "
            f"{weights / 1e6:.2f} M weights, vocabulary {len(self.codec.vocabulary):,} ({config.tokens})"
        )

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights."""
        folder.write_config(TASK, self.config.model_dump(mode="json"))
        self.codec.save(folder.path)

    def card(self, values: Mapping[str, Any]) -> str:
        """README.md of the model folder."""
        config, codec = self.config, self.codec
        best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
        side = f", {config.side} side" if config.side else ""
        return f"""# Fill-in model of {config.data}

{several(config.num_layers, "layer")} of {config.cell} cells, {config.hidden_size} units each way, made by
throughtime. It tells what stands in the blanks of a sentence; it cannot write from left to right.

| | |
|---|---|
| data | {config.data}{side}, split train |
| tokens | {config.tokens}, vocabulary of {len(codec.vocabulary):,} (`{codec.hash[:12]}`) |
| masks | {config.mask_share:g} of the tokens of a sentence, one at least |
| weights | {values["parameters"]:,} |
| training | {trained_for(values)}, seed {config.seed}, {values["device"]} |
| validation | {best or "not measured"} |

    throughtime fill FOLDER "I am ___."
    throughtime evaluate FOLDER --split test

In Python: `throughtime.load("FOLDER").fill("I am ___.")[0].text`. The settings are in config.json.
"""

    @cached_property
    def _never(self) -> list[int]:
        """Ids that are no words, so that no blank is filled with them."""
        vocabulary = self.codec.vocabulary
        unk = [] if vocabulary.unk_id is None else [vocabulary.unk_id]
        return sorted({*vocabulary[sorted(vocabulary.reserved)], *unk, mask_of(self.codec)})

    def _guess(self, partials: Sequence[Partial]) -> Tensor:
        """ln P at the blanks over all words that may be filled in."""
        ids = pad_sequence([torch.tensor(partial.ids) for partial in partials])  # [T, B]
        lengths = torch.tensor([len(partial.ids) for partial in partials])
        places = torch.tensor(
            [place * len(partials) + row for row, one in enumerate(partials) for place in one.blanks]
        )
        log_probs = self.model.log_probs(*(part.to(self.device) for part in (ids, places, lengths)))
        return self._fillable(log_probs).log_softmax(-1)

    def _fillable(self, log_probs: Tensor) -> Tensor:
        return log_probs.index_fill(-1, torch.tensor(self._never, device=log_probs.device), -math.inf)

    def _judged(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        nats = -log_probs.gather(1, labels[:, None]).double().sum()
        best = self._fillable(log_probs).topk(min(TOP, log_probs.shape[1])).indices == labels[:, None]
        tokens = torch.full_like(nats, len(labels))
        # A vocabulary of few words has specials among its best five, at -inf: they are no guesses.
        known = ~torch.isin(labels, torch.tensor(self._never, device=labels.device))
        right, among = (best[:, 0] & known).sum(), (best.any(1) & known).sum()
        return torch.stack([nats, tokens, right.double(), among.double()])

    def _filling(self, blanks: Blanks, partial: Partial) -> Filling:
        words = [partial.ids[place] for place in blanks.places]
        tokens = tuple(token_text(word, self.codec).strip(" ") for word in words)
        return Filling(blanks.filled(words, self.codec), tokens, math.exp(partial.log_prob))
