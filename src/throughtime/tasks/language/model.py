"""A recurrent language model: it scores texts, writes them, is measured and exported."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from throughtime.cells import LSTM
from throughtime.cells.initial import scratch_, xavier_
from throughtime.folder import ModelFolder
from throughtime.layers.devices import matmul_precision
from throughtime.models.language import NOTHING, RecurrentLanguageModel
from throughtime.models.paired import PairedLanguageModel
from throughtime.models.readers import StreamScorer, surprisals
from throughtime.results import Evaluation
from throughtime.tasks.base import Progress
from throughtime.tasks.counted import LanguageAssets, count_beside
from throughtime.tasks.description import Description, suggest_evaluation
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language_model import LanguageModel, TokenScores, no_tokens
from throughtime.tasks.texts import build_codec
from throughtime.text.codec import Codec, choose_reserved
from throughtime.text.framing import Framing

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset
    from throughtime.graphs.graph import Graph
    from throughtime.graphs.write import Case, ModelExport
    from throughtime.metrics.measures import Likelihood
    from throughtime.ngram.model import NgramModel
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
    def prepare(cls, config: LanguageConfig, dataset: Dataset) -> tuple[LanguageConfig, LanguageAssets]:
        """Build the vocabulary of the training text, whose length completes the settings, and count it."""
        from throughtime.data.idcache import token_ids

        config = config.complete(dataset)
        how = {"reserved": choose_reserved(config.layout), "normaliser": config.normaliser or "none"}
        codec = build_codec(dataset.texts("train"), config, dataset.name, **how)
        framing = config.frame(codec)
        config = config.suit(len(token_ids(dataset, "train", codec, eos=framing.marked)))
        counted = _count(config, framing, dataset)
        order = "none" if counted is None else counted.order
        return config.model_copy(update={"counted": order}), LanguageAssets(framing, counted)

    @classmethod
    def load_assets(cls, folder: ModelFolder, config: LanguageConfig) -> LanguageAssets:
        """Read the vocabulary and the counted model; a model of an older version has none."""
        framing = config.frame(Codec.load(folder.path))
        return LanguageAssets.load(folder, framing, isinstance(config.counted, int))

    @classmethod
    def build_network(cls, config: LanguageConfig, assets: LanguageAssets) -> RecurrentLanguageModel:
        """Build the network that a configuration describes, with the counted model beside it."""
        size, options = len(assets.codec.vocabulary), config.arguments_for(RecurrentLanguageModel)
        if assets.counted is None:
            return RecurrentLanguageModel(size, **options)
        return PairedLanguageModel(size, counted=assets.counted, **options)

    @property
    def framing(self) -> Framing:
        """How texts become ids."""
        framing: Framing = self.assets.framing
        return framing

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
        elif config.embedding == "learned":
            # torch draws embeddings from N(0, 1), far too large for an output that shares them.
            model.embedding.weight.uniform_(-0.1, 0.1)
        for module in model.modules():
            if isinstance(module, LSTM):
                module.bias[module.hidden_size : 2 * module.hidden_size] += config.forget_bias or 0.0

    def adapt_to(self, dataset: Dataset) -> None:
        """Set the bias of the softmax to the frequencies of tokens in the training text."""
        config = self.config
        if config.output_bias != "frequencies":
            return
        ids = self.ids(dataset, "train")[: config.num_read]
        counts = np.bincount(ids, minlength=len(self.codec.vocabulary))
        self.model.head.begin_with(torch.from_numpy(counts))

    def fit(self, dataset: Dataset, out: Path, **options: Any) -> dict[str, Any]:
        """Train; see `Predictor.fit`. A model that begins with the weights of a run counts the new text."""
        model = self.model
        if self.folder is not None and isinstance(model, PairedLanguageModel):
            counted = _count(self.config, self.framing, dataset) or model.counted
            model.counted, self.assets = counted, LanguageAssets(self.framing, counted)
        return super().fit(dataset, out, **options)

    def build_objective(self, dataset: Dataset) -> LanguageObjective:
        """Return batches, loss and validation on these data."""
        from throughtime.tasks.language.training import LanguageObjective

        train = self.ids(dataset, "train")[: self.config.max_tokens]
        valid = self.ids(dataset, "valid") if "valid" in dataset.splits else None
        return LanguageObjective(self, train, valid)

    def count_rows(self, dataset: Dataset) -> int:
        """Count the tokens of the training text, which the number of steps divides into rows."""
        return len(self.ids(dataset, "train")[: self.config.max_tokens])

    def ids(self, dataset: Dataset, split: str) -> np.ndarray[Any, Any]:
        """Return the ids of a split as one long text, cached on disk."""
        return _read_ids(dataset, split, self.framing)

    def likelihood(self, dataset: Dataset, split: str, **options: Any) -> Likelihood:
        """Return the likelihood of a split; the state is carried from its first token to its last."""
        return self.likelihoods(dataset, split, **options)[0]

    def likelihoods(
        self,
        dataset: Dataset,
        split: str,
        *,
        reader: StreamScorer | None = None,
        progress: Progress | None = None,
    ) -> list[Likelihood]:
        """Return the same, and with a counted model those of the network and of the counts alone."""
        from throughtime.metrics.measures import Likelihood

        ids = self.ids(dataset, split)
        if not len(ids):
            raise no_tokens(dataset, split)
        nats = torch.zeros(3, dtype=torch.float64, device=self.device)
        for piece in self._read(ids, reader, progress):
            nats = nats[: len(piece)] + piece.double().sum(dim=1)
        unk = self.codec.vocabulary.unk_id
        unknown = int((ids == unk).sum()) if unk is not None else 0
        characters = self.framing.characters(dataset.texts(split))
        return [Likelihood(each, len(ids), characters, unknown) for each in nats.tolist()]

    def score_split(
        self, dataset: Dataset, split: str, *, limit: int | None = None, progress: Progress | None = None
    ) -> TokenScores:
        """See `LanguageModel`; the state is carried from the first token to the last."""
        ids = self.ids(dataset, split)[:limit]
        if not len(ids):
            raise no_tokens(dataset, split)
        nats = torch.cat([piece[0] for piece in self._read(ids, None, progress)])
        return TokenScores(ids.astype(np.int64), -nats.double().cpu().numpy())

    def _read(
        self, ids: np.ndarray[Any, Any], reader: StreamScorer | None, progress: Progress | None
    ) -> Iterator[Tensor]:
        """Yield the surprisals of a text, piece by piece: by the whole model, and by each of its parts."""
        model, begin = self.model.eval(), self.framing.begin_id
        advance = None if progress is None else lambda done: progress(done, len(ids))
        with matmul_precision("float32"):
            pieces = surprisals(
                model, ids, NOTHING if begin is None else begin, reader=reader, progress=advance
            )
            yield from (
                (piece[None] for piece in pieces)
                if not isinstance(model, PairedLanguageModel)
                else (model.mix(pieces, ids, begin))
            )

    def evaluate_split(
        self, dataset: Dataset, split: str, *, progress: Progress | None = None, **options: Any
    ) -> Evaluation:
        """Measure the perplexity of a split; see `throughtime.tasks.language.evaluation.evaluate`."""
        from throughtime.tasks.language.evaluation import evaluate

        return evaluate(self, dataset, split, progress=progress, **options)

    def describe(self) -> Description:
        """Return the model in words."""
        config = self.config
        return Description(
            f"Recurrent language model of {config.data}",
            config.network or self._layers + self._beside,
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

    @property
    def _beside(self) -> str:
        """The counted model in words, with the shares of both once they are chosen."""
        if not isinstance(self.model, PairedLanguageModel):
            return ""
        chosen = f" ({self.model.shares})" if self.model.weights[1] else ""
        return f" beside counted {self.model.counted.order}-grams{chosen}"

    def card(self, values: Mapping[str, Any]) -> str:
        """Return the text of README.md; the saved weights are those of the best validation."""
        share = values["best"].get("network_share")
        if share is not None and isinstance(self.model, PairedLanguageModel):
            self.model.share.fill_(share)
        return super().card(values)

    def suggestions(self, dataset: Dataset) -> list[str]:
        """Return commands that evaluate the model and continue a prompt of known words."""
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


def _read_ids(dataset: Dataset, split: str, framing: Framing) -> np.ndarray[Any, Any]:
    """Return the ids of a split as one long text, cached on disk."""
    from throughtime.data.idcache import token_ids

    ids = token_ids(dataset, split, framing.codec, eos=framing.marked).ids
    if not framing.backward:
        return ids
    # A reversed line begins with its end mark; shifted by one, each line ends with a mark again.
    return np.roll(ids[::-1], -1) if framing.marked else ids[::-1].copy()


def _count(config: LanguageConfig, framing: Framing, dataset: Dataset) -> NgramModel | None:
    """Count the training text, if it is asked for and there is a text to choose the share with."""
    if config.counted == "none" or config.network is not None:
        return None
    ids = _read_ids(dataset, "train", framing)
    train, valid = ids[: config.num_read], ids[:0]
    if config.valid_windows is not None:
        valid = ids[len(train) :]
    elif "valid" in dataset.splits:
        valid = _read_ids(dataset, "valid", framing)
    if len(train) < 2 or len(valid) < 2:
        return None
    return count_beside(train, valid, framing, order=config.counted, minutes=config.minutes)


SHAPES = ((1, 1), (1, 50), (3, 7), (3, 40))
"""The numbers of texts and of tokens at which an export is checked."""


def build_export(language: RecurrentLanguage) -> ModelExport:
    """Return the graph of a language model, and the settings and files that its runner needs."""
    from throughtime.graphs.graph import to_array
    from throughtime.graphs.write import ModelExport
    from throughtime.tasks.ngram.export import build_tables

    model, framing = language.model, language.framing
    pair = model if isinstance(model, PairedLanguageModel) else None
    return ModelExport(
        lambda int8: {
            "model": build_language_graph(model, int8),
            **({} if pair is None else {"counted": build_tables(pair.counted)}),
        },
        {
            **({} if pair is None else {"counted": _counted_settings(pair)}),
            "begin_id": framing.begin_id,
            "end_id": framing.end_id,
            "backward": framing.backward,
            "initial_state": [to_array(part)[0].tolist() for part in model.initial_state(1)],
            "generation": dict(language.generation),
        },
        framing.codec.save,
        lambda: _cases(model),
        'generate("the", max_new_tokens=50)[0].text',
    )


def _counted_settings(pair: PairedLanguageModel) -> dict[str, Any]:
    """Return what the tables of the counted model do not say."""
    never = list(pair.counted.counts.never)
    return {"order": pair.counted.order, "never": never, "network_share": pair.weights[0]}


def build_language_graph(model: RecurrentLanguageModel, int8: bool) -> Graph:
    """Return ids [T, B] (-1 before the first one), their lengths [B] and the state, to ln P [T, B, V]."""
    from throughtime.graphs.graph import Graph

    graph = Graph("language", int8=int8)
    ids = graph.input("ids", "int64", ["time", "batch"])
    lengths = graph.input("lengths", "int64", ["batch"])
    sizes = model.stack.state_sizes
    state = graph.state_inputs("state", sizes)
    outputs, reached = model.stack.graph(graph, model.graph_embed(graph, ids), state, lengths)
    graph.output(
        model.head.graph_log_probs(graph, outputs),
        "log_probs",
        "float32",
        ["time", "batch", model.vocabulary_size],
    )
    graph.state_outputs("next", reached, sizes)
    return graph


@torch.inference_mode()
def _cases(model: RecurrentLanguageModel) -> Iterator[Case]:
    from throughtime.graphs.write import Case, draw_ragged, number_names

    draws = torch.Generator().manual_seed(0)
    for batch, longest in SHAPES:
        ids, lengths = draw_ragged(NOTHING, model.vocabulary_size, longest, batch, draws)
        state = tuple(torch.randn(batch, size, generator=draws) / 2 for size in model.stack.state_sizes)
        outputs, reached = model.stack(model.embed(ids), state, lengths)
        log_probs = model.head.log_probs(outputs.flatten(0, 1)).view(longest, batch, -1)
        given = {"ids": ids, "lengths": lengths, **number_names("state", state)}
        expected = {"log_probs": log_probs, **number_names("next", reached)}
        yield Case.of("model", f"{batch} x {longest}", given, expected)
