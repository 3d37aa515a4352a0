"""The recurrent language model for people: from a data set to a model folder and back."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from throughtime.cells import LSTM
from throughtime.cells.initialise import scratch_, xavier_
from throughtime.config import build_config
from throughtime.data.idcache import token_ids
from throughtime.errors import InputError, ThroughtimeError
from throughtime.folder import ModelFolder
from throughtime.layers.devices import choose_device, matmul_precision
from throughtime.metrics.likelihood import Likelihood
from throughtime.models.language import NOTHING, RecurrentLanguageModel
from throughtime.models.readers import Reader, surprisals
from throughtime.models.weights import read_weights
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.dynamic_evaluation import READING_OPTIONS, dynamic_evaluation, neural_cache
from throughtime.tasks.language.framing import Framing
from throughtime.tasks.language.predictor import Evaluation, LanguageModel
from throughtime.tasks.language.training import LanguageTask
from throughtime.tasks.report import Asked, Progress, Report, refuse_others, trained_for
from throughtime.text.codec import Codec, language_reserved
from throughtime.train.config import inherited_settings

if TYPE_CHECKING:
    from throughtime.data.datasets import Dataset

TASK, CONFIG = "language", LanguageConfig


class RecurrentLanguage(LanguageModel):
    """A recurrent language model with its codec and the configuration that made it."""

    model: RecurrentLanguageModel

    def __init__(self, model: RecurrentLanguageModel, codec: Codec, config: LanguageConfig) -> None:
        super().__init__(model, Framing(codec, config.layout == "lines", config.reversed, running=True))
        self.config = config

    def ids(self, dataset: Dataset, split: str) -> np.ndarray[Any, Any]:
        """A split as one long text, from the cache where it was read before."""
        ids = token_ids(dataset, split, self.framing.codec, eos=self.framing.marked).ids
        if not self.framing.backward:
            return ids
        # Turned round, a line begins with its end mark; moved by one, each ends with one again.
        return np.roll(ids[::-1], -1) if self.framing.marked else ids[::-1].copy()

    def evaluate(
        self,
        dataset: Dataset,
        split: str,
        *,
        reader: Reader | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """The likelihood of a split read in one go: the state is carried from its first token to its last."""
        ids = self.ids(dataset, split)
        if not len(ids):
            raise InputError(f"{dataset.name}, split {split}", "holds no token to score")
        begin = self.framing.begin_id
        advance = None if progress is None else lambda done: progress(done, len(ids))
        self.model.eval()
        first = NOTHING if begin is None else begin
        nats = torch.zeros((), dtype=torch.float64, device=self.model.embedding.weight.device)
        with matmul_precision("float32"):
            for piece in surprisals(self.model, ids, first, reader=reader, progress=advance):
                nats += piece.double().sum()
        unk = self.framing.codec.vocabulary.unk_id
        unknown = int((ids == unk).sum()) if unk is not None else 0
        characters = self.framing.characters(dataset.texts(split))
        return Evaluation(Likelihood(float(nats), len(ids), characters), unknown)

    def report(self, dataset: Dataset, split: str, asked: Asked, progress: Progress | None = None) -> Report:
        """What `throughtime evaluate` shows of a split, read plainly or while learning from it."""
        refuse_others(asked, READING_OPTIONS, "is not for language models")
        cache = neural_cache(asked)
        learning = dynamic_evaluation(asked, cache, self, dataset, progress)
        with learning or contextlib.nullcontext():
            found = self.evaluate(dataset, split, reader=learning or cache, progress=progress)
        if learning is not None and not math.isfinite(found.likelihood.nats):
            raise ThroughtimeError(
                "dynamic evaluation went astray: its weights became infinite; lower --dynamic"
            )
        words = [] if cache is None else [f"cache-{cache.window}-{cache.theta:g}-{cache.share:g}"]
        if learning is not None:
            scaled = "-scaled" if learning.scales is not None else ""
            words.append(f"dynamic-{learning.rate:g}-{learning.decay:g}-{learning.steps}{scaled}")
        device = self.model.embedding.weight.device.type
        how = [f"reader:{'+'.join(words) or 'plain'}", f"device:{device}", "precision:float32"]
        return found.report(f"{dataset.name}, {split}", [*self.reading(dataset), *how])

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        config, model = self.config, self.model
        weights = sum(weight.numel() for weight in model.parameters())
        return (
            f"{config.data}: {self._layers}, "
            f"{weights / 1e6:.2f} M weights, vocabulary {model.vocabulary_size:,} ({config.tokens}), "
            f"layout {config.layout}"
        )

    @property
    def _layers(self) -> str:
        """The layers with their units: of a tied model the last one is as wide as an embedding."""
        sizes = [layer.output_size for layer in self.model.stack.layers]
        if len(set(sizes)) > 1:
            return f"{self.config.cell} of {', '.join(map(str, sizes))}"
        return f"{len(sizes)} x " * (len(sizes) > 1) + f"{self.config.cell} of {sizes[0]}"

    def begin(self, folder: ModelFolder) -> None:
        """Write all of the model but its weights."""
        folder.write_config(TASK, self.config.model_dump(mode="json"))
        self.framing.codec.save(folder.path)
        folder.write_json("generation_config.json", {"do_sample": True, "max_new_tokens": 100})

    def card(self, values: Mapping[str, Any]) -> str:
        """README.md of the model folder."""
        config, codec = self.config, self.framing.codec
        best = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values["best"].items())
        return f"""# Recurrent language model of {config.data}

Recurrent layers: {self._layers} units. Made by throughtime.

| | |
|---|---|
| data | {config.data}, split train |
| tokens | {config.tokens}, vocabulary of {len(codec.vocabulary):,} (`{codec.hash[:12]}`) |
| weights | {values["parameters"]:,} |
| training | {trained_for(values)}, seed {config.seed}, {values["device"]} |
| validation | {best or "not measured"} |

    throughtime evaluate FOLDER --split test
    throughtime score FOLDER "dog bites man" "man bites dog"
    throughtime generate FOLDER --seed 1

In Python: `throughtime.load("FOLDER").generate()[0].text`. The settings are in config.json.
"""


ARCHITECTURE = frozenset(
    "tokens normaliser layout reversed min_freq max_size cell embedding_size hidden_size num_layers tied "
    "last_size head experts residual layer_norm initial".split()
)
"""What a model that starts from another one's weights has from it."""
FIRST_WEIGHTS = frozenset({"init", "init_range", "output_bias", "forget_bias"})


def made(config: LanguageConfig, dataset: Dataset) -> RecurrentLanguage:
    """A new model for these data, with its first weights drawn from the seed."""
    config = config.settled(dataset)
    assert config.tokens is not None
    codec = Codec.build(
        dataset.texts("train"),
        config.tokens,
        min_freq=config.min_freq,
        max_size=config.max_size,
        reserved=language_reserved(config.layout),
        normaliser=config.normaliser or "none",
        where=dataset.name,
    )
    language = with_codec(config, codec)
    if config.output_bias == "frequencies":
        ids = language.ids(dataset, "train")[: config.max_tokens]
        if config.train_windows is not None:  # the rest may be for validation
            ids = ids[: config.train_windows + config.num_steps]
        counts = np.bincount(ids, minlength=len(codec.vocabulary))
        language.model.head.begin_with(torch.from_numpy(counts))
    return language


def with_codec(config: LanguageConfig, codec: Codec) -> RecurrentLanguage:
    """A new model with a vocabulary that is there already."""
    torch.manual_seed(config.seed)
    model = built(config, len(codec.vocabulary))
    _initialise(model, config)
    return RecurrentLanguage(model, codec, config)


def taken_up(out: Path, config: LanguageConfig) -> RecurrentLanguage:
    """The model of a run that goes on; its weights come with the checkpoint."""
    return with_codec(config, Codec.load(out))


def inherited(source: Path, config: LanguageConfig, given: Mapping[str, Any]) -> RecurrentLanguage:
    """A model that starts from the weights and the vocabulary of the run `source`."""
    folder = ModelFolder.at(source)
    known = inherited_settings(folder, TASK, LanguageConfig, ARCHITECTURE, given, FIRST_WEIGHTS)
    return load(folder, config.model_copy(update=known).model_dump(mode="json"), "cpu")


def task_of(language: RecurrentLanguage, dataset: Dataset) -> LanguageTask:
    """The training task of a model on these data."""
    config = language.config
    train = language.ids(dataset, "train")[: config.max_tokens]
    valid = language.ids(dataset, "valid") if "valid" in dataset.splits else None
    return LanguageTask(language, train, valid)


def built(config: LanguageConfig, vocabulary_size: int) -> RecurrentLanguageModel:
    """The model that a configuration describes."""
    return RecurrentLanguageModel(
        vocabulary_size,
        cell=config.cell,
        embedding_size=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers,
        tied=config.tied,
        head=config.head,
        experts=config.experts,
        last_size=config.last_size,
        embedding_dropout=config.embedding_dropout,
        input_dropout=config.input_dropout,
        hidden_dropout=config.hidden_dropout,
        output_dropout=config.output_dropout,
        expert_dropout=config.expert_dropout,
        weight_drop=config.weight_drop,
        variational=config.variational,
        residual=config.residual,
        layer_norm=config.layer_norm,
        initial=config.initial,
    )


def load(folder: ModelFolder, config: Mapping[str, Any], device: str) -> RecurrentLanguage:
    """The model that a run saved: the best so far, where it still trains."""
    where = str(folder.path / "config.json")
    settings = build_config(LanguageConfig, config, where)
    codec = Codec.load(folder.path)
    model = built(settings, len(codec.vocabulary))
    read_weights(model, folder)
    language = RecurrentLanguage(model.to(choose_device(device)).eval(), codec, settings)
    language.generation = folder.read_json("generation_config.json")
    return language


@torch.no_grad()
def _initialise(model: RecurrentLanguageModel, config: LanguageConfig) -> None:
    if config.init == "xavier":
        xavier_(model)
    elif config.init == "scratch":
        scratch_(model)
    elif config.init == "uniform":
        for weight in model.parameters():
            weight.uniform_(-config.init_range, config.init_range)
    else:
        # torch draws embeddings from N(0, 1), far too large for an output that shares them.
        model.embedding.weight.uniform_(-0.1, 0.1)
    for part in model.modules():
        if isinstance(part, LSTM):
            part.bias[part.hidden_size : 2 * part.hidden_size] += config.forget_bias
