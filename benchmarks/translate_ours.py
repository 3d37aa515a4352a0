"""Our side of translate_cpu: our trainer and our translator, told when to go on.

`python -m benchmarks.translate_ours CONFIG`: the settings and the folder of data as JSON. Orders come as
lines of JSON, answers go back likewise.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor

import throughtime.runtime
from benchmarks.translate_clock import search_shares, training_shares
from benchmarks.translate_setup import OUT
from throughtime.config import build_config
from throughtime.data.batching.batches import draws
from throughtime.data.batching.buckets import RaggedIds
from throughtime.data.batching.pairs import PairBatches
from throughtime.fit.progress import Reporter
from throughtime.fit.trainer import Trainer
from throughtime.models.weights import named_weights
from throughtime.ngram.lexicon import build_shortlist
from throughtime.search.beam import Beam
from throughtime.tasks.objective import likelihood
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator
from throughtime.tasks.translate.training import TranslateObjective, batch_pairs, special_ids
from throughtime.text.codec import Codec
from throughtime.text.parallel import Codecs

CLOCKED_UPDATES = 10
MISSING = ("decoder.attention.key.bias", "head.bias")
"""Weights that JoeyNMT has not."""


class RandomBatches(PairBatches):
    """Pairs as chance puts them together, which is what bucketing is compared with."""

    def _plan(self, epoch: int) -> RaggedIds:
        pairs = draws(self._seed, epoch).permutation(len(self._sources))
        return RaggedIds.chunks(pairs.astype(np.int64), int(self._settings["batch_size"] or 0))


class RandomTask(TranslateObjective):
    """The same task without bucketing."""

    def batches(self, rank: int, world_size: int) -> PairBatches:
        """As many pairs an update."""
        return RandomBatches(
            *self.train,
            *special_ids(self.predictor.codecs),
            batch_size=self.config.batch_size,
            max_length=self.config.max_length,
            seed=self.config.seed,
        )


class Training:
    """One model that is trained, update by update."""

    def __init__(self, config: TranslateConfig, side: Side, *, bucketed: bool = True) -> None:
        self.translator = Translator.initialise(config, side.codecs)
        for name, weight in self.translator.model.named_parameters():
            weight.requires_grad_(name not in MISSING)  # those stay 0
        task = (TranslateObjective if bucketed else RandomTask)(self.translator, side.train_ids, None, [])
        self.batches = task.batches(0, 1)
        self.trainer = Trainer(task, config, side.folder, Reporter(), improved=lambda best: None)
        self.updates = self._updates()

    def _updates(self) -> Iterator[int]:
        """The target tokens of each update, once it is done; epoch after epoch."""
        while True:
            for group in self.trainer.groups():
                self.trainer.update(group)
                yield sum(one.batch.count for one in group)

    def train(self, updates: int) -> dict[str, Any]:
        """Seconds and target tokens of so many updates, and the share of time outside the model."""
        self.translator.model.train()
        self.trainer.clock.lap()
        began, worked = time.perf_counter(), time.process_time()
        tokens = sum(next(self.updates) for _ in range(updates))
        passed = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - worked}
        return {**passed, "tokens": tokens, "outside": self.trainer.clock.lap()[1]}


class Side:
    """All that is asked of us."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder, self.settings = Path(config["folder"]), config["settings"]
        self.codecs = Codecs(*(Codec.load(self.folder / side) for side in ("source", "target")))
        self.train_ids, self.valid_ids = self.ids("train"), self.ids("dev")
        self.sources = lines(self.folder / f"dev.{self.settings['source']}")
        self.trainings: dict[tuple[str, bool], Training] = {}
        self.translator: Translator  # once it is ripe
        self.runner: Any

    def ids(self, split: str) -> tuple[RaggedIds, RaggedIds]:
        """Both sides of a split."""
        source, target = (
            RaggedIds.of(map(codec.encode, lines(self.folder / f"{split}.{language}")))
            for codec, language in zip(
                self.codecs, (self.settings["source"], self.settings["target"]), strict=True
            )
        )
        return source, target

    def config(self, precision: str) -> TranslateConfig:
        """The settings in this precision."""
        return build_config(TranslateConfig, {**self.settings, "precision": precision}, "benchmark")

    def training(self, precision: str, bucketed: bool) -> Training:
        """The model of this kind, made when it is first asked for."""
        if (precision, bucketed) not in self.trainings:
            self.trainings[precision, bucketed] = Training(self.config(precision), self, bucketed=bucketed)
        return self.trainings[precision, bucketed]

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do one thing, and tell of it."""
        if order["do"] == "train":
            return self.training(order["precision"], order["bucketed"]).train(order["updates"])
        if order["do"] == "judge":
            return {"loss": self.loss(self.training(order["precision"], order["bucketed"]).translator)}
        if order["do"] == "ripen":
            return self.ripen(order["precision"], order["updates"], Path(order["path"]))
        if order["do"] == "decode":
            return self.decoded(**{name: value for name, value in order.items() if name != "do"})
        if order["do"] == "clock":
            return self.clock(order["beams"], order["precision"], order["max_length"])
        raise ValueError(order["do"])

    def ripen(self, precision: str, updates: int, path: Path) -> dict[str, Any]:
        """Train the model that both translate with, and write its weights as JoeyNMT has them."""
        self.translator = self.ripe_translator(precision, updates)
        self.translator.shortlist = build_shortlist(self.codecs, *self.train_ids)
        self.translator.model.eval()
        self.translator.export(path.with_suffix(".onnx"), int8=True)
        self.runner = throughtime.runtime.load(path.with_suffix(".onnx"), threads=torch.get_num_threads())
        model = self.translator.model
        theirs: dict[str, Any] = for_joeynmt(named_weights(model))
        np.savez(path, **{name: weight.detach().numpy() for name, weight in theirs.items()})
        parameters = sum(weight.numel() for name, weight in model.named_parameters() if name not in MISSING)
        return {"loss": self.loss(self.translator), "parameters": parameters}

    def ripe_translator(self, precision: str, updates: int) -> Translator:
        """The model after this number of updates; its weights are kept for the next time."""
        settings = json.dumps([self.settings, precision, updates, len(self.train_ids[0])], sort_keys=True)
        name = f"translator-{hashlib.sha256(settings.encode()).hexdigest()[:12]}.safetensors"
        path = OUT / name
        if path.exists():
            translator = Translator.initialise(self.config(precision), self.codecs)
            load_model(translator.model, path)
            return translator
        training = Training(self.config(precision), self)
        training.train(updates)
        OUT.mkdir(parents=True, exist_ok=True)
        save_model(training.translator.model, str(path))
        return training.translator

    def loss(self, translator: Translator) -> float:
        """The mean loss of the validation sentences' target tokens, in float32."""
        batches = batch_pairs(self.codecs, self.valid_ids, shuffle=False)
        return likelihood(translator.model.eval(), batches).cross_entropy

    def decoded(
        self, beams: int, max_length: int, *, exported: bool = False, **options: Any
    ) -> dict[str, Any]:
        """Seconds from the validation sentences to their translations."""
        began, worked = time.perf_counter(), time.process_time()
        if exported:
            found = self.runner.translate(self.sources, num_beams=beams, max_length=max_length, **options)
            told = [one.text for one in found]
        else:
            told = translated(self.translator, self.sources, beams, max_length=max_length, **options)
        passed = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - worked}
        return {**passed, "sentences": told}

    def clock(self, beams: int, precision: str, max_length: int) -> dict[str, Any]:
        """Where the time goes, in training and in search, and what bucketing saves of padding."""
        training = self.training(precision, bucketed=True)
        padding = {
            name: self.training(precision, bucketed).batches.padding
            for name, bucketed in (("bucketed", True), ("random", False))
        }
        return {
            "training": training_shares(lambda: training.train(CLOCKED_UPDATES), self.settings["batch_size"]),
            "padding": padding,
            "search": search_shares(
                self.translator.model,
                lambda: translated(self.translator, self.sources, beams, precision, max_length),
            ),
        }


def translated(
    translator: Translator,
    sources: list[str],
    beams: int,
    precision: str,
    max_length: int,
    *,
    eager: bool = False,
    shortlist: int = 0,
) -> list[str]:
    """The best translation of each, in the order given; `eager` stops without proof that it is the best."""
    translator.precision = precision
    end_id, alpha = translator.codecs.end_id, translator.generation.length_penalty
    found = translator.translate(
        sources,
        max_length=max_length,
        search=Beam(end_id, beams, length_penalty=alpha, max_length=max_length, eager=eager),
        shortlist=shortlist,
    )
    return [one.text for one in found]


def for_joeynmt(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our weights by JoeyNMT's names, where those that it has not are 0."""
    mixing = [ours["decoder.from_state.weight"], ours["decoder.from_context.weight"]]
    theirs = {
        "src_embed.lut.weight": ours["encoder.embedding.weight"],
        "trg_embed.lut.weight": ours["decoder.embedding.weight"],
        "decoder.attention.query_layer.weight": ours["decoder.attention.query.weight"],
        "decoder.attention.key_layer.weight": ours["decoder.attention.key.weight"],
        "decoder.attention.energy_layer.weight": ours["decoder.attention.energy"][None],
        "decoder.att_vector_layer.weight": torch.cat(mixing, dim=1),
        "decoder.att_vector_layer.bias": ours["decoder.from_state.bias"],
        "decoder.output_layer.weight": ours["head.weight"],
    }
    for part, cell, end in (
        ("encoder", "from_left", ""),
        ("encoder", "from_right", "_reverse"),
        ("decoder", "from_left", ""),
    ):
        own = f"{part}.stack.layers.0.{cell}"
        inside = ours[f"{own}.bias_hn"]  # torch has two biases of each gate; only here they are not one sum
        theirs |= {
            f"{part}.rnn.weight_ih_l0{end}": ours[f"{own}.weight_ih"],
            f"{part}.rnn.weight_hh_l0{end}": ours[f"{own}.weight_hh"],
            f"{part}.rnn.bias_ih_l0{end}": ours[f"{own}.bias"],
            f"{part}.rnn.bias_hh_l0{end}": torch.cat([inside.new_zeros(2 * len(inside)), inside]),
        }
    return theirs


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def main() -> None:
    side = Side(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    for line in sys.stdin:
        print(json.dumps(side.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
