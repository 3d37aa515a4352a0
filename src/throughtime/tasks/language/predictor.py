"""A trained recurrent language model: texts in, texts and their probabilities out."""

from __future__ import annotations

import contextlib
import math
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from throughtime.cells import LSTM
from throughtime.cells.initial import scratch_, xavier_
from throughtime.errors import InputError, ThroughtimeError, check_whole
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.models.language import NOTHING, RecurrentLanguageModel
from throughtime.models.readers import StreamScorer, surprisals, window_surprisals
from throughtime.results import Evaluation
from throughtime.tasks.base import Progress
from throughtime.tasks.description import Description, refuse_options, suggest_evaluation
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.dynamic_evaluation import ReadingOptions, dynamic_evaluation, neural_cache
from throughtime.tasks.language.framing import Framing
from throughtime.tasks.language.model import LanguageModel, TokenScores, no_tokens, report_likelihood
from throughtime.tasks.texts import build_codec
from throughtime.text.codec import Codec, choose_reserved

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.metrics.likelihood import Likelihood
    from throughtime.tasks.language.training import LanguageObjective

LINES_READ = 1000
"""Maximum number of lines of the training text that are read to choose a prompt."""
WORDS, CHARACTERS = 2, 20  # maximum length of a prompt; words of a script without spaces are long


class RecurrentLanguage(LanguageModel):
    """A recurrent language model: `tt.load("RUN").generate("the time")[0].text`."""

    task = "language"
    config_type = LanguageConfig
    network_parts = ("log_probs", "start", "step", "initial_state", "head", "embedding", "stack")
    model: RecurrentLanguageModel
    config: LanguageConfig

    @classmethod
    def prepare(cls, config: LanguageConfig, dataset: Dataset) -> tuple[LanguageConfig, Framing]:
        """Build the vocabulary of the training text, whose length completes the configuration."""
        from throughtime.data.idcache import token_ids

        config = config.complete(dataset)
        how = {"reserved": choose_reserved(config.layout), "normaliser": config.normaliser or "none"}
        codec = build_codec(dataset.texts("train"), config, dataset.name, **how)
        framing = config.frame(codec)
        return config.suit(len(token_ids(dataset, "train", codec, eos=framing.marked))), framing

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: LanguageConfig) -> Framing:
        """Read the vocabulary."""
        return config.frame(Codec.load(folder.path))

    @classmethod
    def build_network(cls, config: LanguageConfig, assets: Framing) -> RecurrentLanguageModel:
        """Build the network that a configuration describes."""
        return RecurrentLanguageModel(
            len(assets.codec.vocabulary), **config.arguments_for(RecurrentLanguageModel)
        )

    @torch.no_grad()
    def initialise_weights(self) -> None:
        """Draw the weights from the distribution that the configuration names."""
        config, model = self.config, self.model
        if config.init == "xavier":
            xavier_(model)
        elif config.init == "scratch":
            scratch_(model)
        elif config.init == "uniform":
            for weight in model.parameters():
                weight.uniform_(-config.init_range, config.init_range)
        else:
            # torch draws embeddings from N(0, 1), far too large for an output that shares them.
            if config.embedding == "learned":
                model.embedding.weight.uniform_(-0.1, 0.1)
        for part in model.modules():
            if isinstance(part, LSTM):
                part.bias[part.hidden_size : 2 * part.hidden_size] += config.forget_bias or 0.0

    def adapt_to(self, dataset: Dataset) -> None:
        """Set the bias of the softmax to the frequencies of tokens in the training text."""
        config = self.config
        if config.output_bias != "frequencies":
            return
        ids = self.ids(dataset, "train")[: config.max_tokens]
        if config.train_windows is not None:  # the rest may be for validation
            ids = ids[: config.train_windows + config.num_steps]
        counts = np.bincount(ids, minlength=len(self.codec.vocabulary))
        self.model.head.begin_with(torch.from_numpy(counts))

    def build_objective(self, dataset: Dataset) -> LanguageObjective:
        """Batches, loss and validation on these data."""
        from throughtime.tasks.language.training import LanguageObjective

        train = self.ids(dataset, "train")[: self.config.max_tokens]
        valid = self.ids(dataset, "valid") if "valid" in dataset.splits else None
        return LanguageObjective(self, train, valid)

    def count_rows(self, dataset: Dataset) -> int:
        """Count the tokens of the training text, which the number of steps divides into rows."""
        return len(self.ids(dataset, "train")[: self.config.max_tokens])

    def ids(self, dataset: Dataset, split: str) -> np.ndarray[Any, Any]:
        """The ids of a split as one long text, cached on disk."""
        from throughtime.data.idcache import token_ids

        ids = token_ids(dataset, split, self.codec, eos=self.framing.marked).ids
        if not self.framing.backward:
            return ids
        # A reversed line begins with its end mark; shifted by one, each line ends with a mark again.
        return np.roll(ids[::-1], -1) if self.framing.marked else ids[::-1].copy()

    def likelihood(
        self,
        dataset: Dataset,
        split: str,
        *,
        reader: StreamScorer | None = None,
        progress: Progress | None = None,
    ) -> Likelihood:
        """The likelihood of a split; the state is carried from its first token to its last."""
        from throughtime.metrics.likelihood import Likelihood

        ids = self.ids(dataset, split)
        if not len(ids):
            raise no_tokens(dataset, split)
        nats = torch.zeros((), dtype=torch.float64, device=self.device)
        for piece in self._read(ids, reader, progress):
            nats += piece.double().sum()
        unk = self.codec.vocabulary.unk_id
        unknown = int((ids == unk).sum()) if unk is not None else 0
        return Likelihood(float(nats), len(ids), self.framing.characters(dataset.texts(split)), unknown)

    def score_split(
        self, dataset: Dataset, split: str, *, limit: int | None = None, progress: Progress | None = None
    ) -> TokenScores:
        """See `LanguageModel`; the state is carried from the first token to the last."""
        ids = self.ids(dataset, split)[:limit]
        if not len(ids):
            raise no_tokens(dataset, split)
        nats = torch.cat([*self._read(ids, None, progress)])
        return TokenScores(ids.astype(np.int64), -nats.double().cpu().numpy())

    def _read(
        self, ids: np.ndarray[Any, Any], reader: StreamScorer | None, progress: Progress | None
    ) -> Iterator[Tensor]:
        """The surprisals of a text, piece by piece."""
        begin = self.framing.begin_id
        advance = None if progress is None else lambda done: progress(done, len(ids))
        self.model.eval()
        with matmul_precision("float32"):
            yield from surprisals(
                self.model, ids, NOTHING if begin is None else begin, reader=reader, progress=advance
            )

    def evaluate_split(
        self,
        dataset: Dataset,
        split: str,
        *,
        progress: Progress | None = None,
        window: int | None = None,
        warm_up: int | None = None,
        **options: Any,
    ) -> Evaluation:
        """Measure the perplexity of a split; the model may learn from it, by the `ReadingOptions`.

        By default the state is carried through the whole split. With `window` or `warm_up` the split is read
        in windows of `window` tokens (by default `num_steps`), each from a new state, whose first `warm_up`
        tokens are read but not counted. Windows overlap by as much, so that each further token counts once;
        `by_position` is the perplexity at each position of a window that counts.
        """
        known = ReadingOptions.__dataclass_fields__
        refuse_options(options, known, "is not for language models")
        reading = ReadingOptions(**{name: options[name] for name in options if name in known})
        if window is not None or warm_up is not None:
            if reading.cache is not None or reading.dynamic is not None:
                raise InputError("window", "cannot be combined with cache or dynamic; leave one of them out")
            return self._evaluate_windows(dataset, split, window or self.config.num_steps, warm_up or 0)
        memory = neural_cache(reading)
        learning = dynamic_evaluation(reading, memory, self, dataset, progress)
        with learning or contextlib.nullcontext():
            likelihood = self.likelihood(dataset, split, reader=learning or memory, progress=progress)
        if learning is not None and not math.isfinite(likelihood.nats):
            raise ThroughtimeError("dynamic evaluation diverged: its weights became infinite; lower dynamic")
        readers = [] if memory is None else [f"cache-{memory.window}-{memory.theta:g}-{memory.share:g}"]
        if learning is not None:
            scaled = "-scaled" if learning.scales is not None else ""
            readers.append(f"dynamic-{learning.rate:g}-{learning.decay:g}-{learning.steps}{scaled}")
        device = f"device:{self.device.type}|precision:float32"
        signature = f"{self.signature(dataset)}|reader:{'+'.join(readers) or 'plain'}|{device}"
        return report_likelihood(likelihood, signature)

    def _evaluate_windows(self, dataset: Dataset, split: str, window: int, warm_up: int) -> Evaluation:
        from throughtime.metrics.likelihood import Likelihood

        ids = self.ids(dataset, split)
        check_whole("warm_up", warm_up, 0, check_whole("window", window) - 1)
        if len(ids) < warm_up + 2:
            raise InputError(f"{dataset.name}, split {split}", f"has no token after a warm-up of {warm_up}")
        self.model.eval()
        nats, tokens = np.zeros(window), np.zeros(window, dtype=np.int64)
        with matmul_precision("float32"):
            for surprisals in window_surprisals(self.model, ids, window, warm_up):
                nats[warm_up : warm_up + len(surprisals)] += surprisals.sum(axis=1)
                tokens[warm_up : warm_up + len(surprisals)] += surprisals.shape[1]
        counted = tokens > 0
        total = Likelihood(float(nats.sum()), int(tokens.sum()))
        by_position = np.exp(nats[counted] / tokens[counted]).tolist()
        signature = f"{self.signature(dataset)}|window:{window}|warm_up:{warm_up}|precision:float32"
        values = {"perplexity": total.perplexity, "bits_per_token": total.bits_per_token}
        values |= {"loss": total.cross_entropy, "tokens": total.tokens}
        values |= {"window": window, "warm_up": warm_up, "by_position": by_position}
        text = (
            f"perplexity {total.perplexity:.2f}, {total.bits_per_token:.3f} bits per token\n"
            f"over {total.tokens:,} tokens in windows of {window}, each from a new state; "
            f"the first {warm_up} tokens of a window are not counted\n"
            f"perplexity at position {warm_up + 1} is {by_position[0]:.2f}, at {warm_up + len(by_position)} "
            f"{by_position[-1]:.2f}"
        )
        return Evaluation(values, signature, text)

    def describe(self) -> Description:
        """The model in words."""
        config = self.config
        return Description(
            f"Recurrent language model of {config.data}",
            config.network or self._layers,
            f"{self._vocabulary}, layout {config.layout}",
            self._tokens,
            ['score FOLDER "dog bites man" "man bites dog"', "generate FOLDER --seed 1"],
            "generate()[0].text",
        )

    @property
    def _layers(self) -> str:
        """The layers and their sizes; the last layer of a tied model has the size of the embedding."""
        sizes = [layer.output_size for layer in self.model.stack.layers]
        if len(set(sizes)) > 1:
            return f"{self.config.cell} of {', '.join(map(str, sizes))}"
        return f"{len(sizes)} x " * (len(sizes) > 1) + f"{self.config.cell} of {sizes[0]}"

    def suggestions(self, dataset: Dataset) -> list[str]:
        """Commands that evaluate the model and continue a prompt of known words."""
        prompt = f" --prompt {shlex.quote(words)}" if (words := self._choose_prompt(dataset)) else ""
        command = f"generate {{run}}{prompt} --max-new-tokens 200 --temperature 0.8"
        return [*suggest_evaluation(dataset), command]

    def _choose_prompt(self, dataset: Dataset) -> str:
        """Find known words with which lines of the training text often begin; "" if there are none."""
        codec = self.codec
        lines = (line for text in dataset.texts("train") for line in text.splitlines())
        starts = (" ".join(line.split(maxsplit=WORDS)[:WORDS]) for line in islice(lines, LINES_READ))
        # A line that begins with a sign may be an option, an item of a list or a dialogue.
        frequent = Counter(words[:CHARACTERS] for words in starts if words[:1].isalnum())
        for words, _ in frequent.most_common():
            if (ids := codec.encode(words)) and codec.vocabulary.unk_id not in ids:
                return words
        return ""
