"""Our side of translate_cpu: our trainer and our translator, told when to go on.

`python -m benchmarks.translate_ours CONFIG`: the settings and the folder of data as JSON. Orders come as
lines of JSON, answers go back likewise.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.translate_clock import search_shares, training_shares
from throughtime.config import configured
from throughtime.data.batching import PairBatches, RaggedIds
from throughtime.data.batching.draws import draws
from throughtime.metrics.likelihood import Likelihood
from throughtime.models.weights import load_weights
from throughtime.tasks.codecs import Codecs
from throughtime.tasks.surprisal import likelihood
from throughtime.tasks.trained_translator import TrainedTranslator
from throughtime.tasks.translate import with_codecs
from throughtime.tasks.translate_config import TranslateConfig
from throughtime.tasks.translate_task import TranslateTask
from throughtime.text.codec import Codec
from throughtime.train.devices import autocast
from throughtime.train.progress import Silent
from throughtime.train.trainer import Trainer

CPU = torch.device("cpu")
CLOCKED_UPDATES = 10


class RandomBatches(PairBatches):
    """Pairs as chance puts them together, which is what bucketing is compared with."""

    def _plan(self, epoch: int) -> RaggedIds:
        pairs = draws(self._seed, epoch).permutation(len(self._sources))
        return RaggedIds.chunks(pairs.astype(np.int64), int(self._settings["batch_size"] or 0))


class RandomTask(TranslateTask):
    """The same task without bucketing."""

    def batches(self, rank: int, world_size: int) -> PairBatches:
        """As many pairs an update."""
        return RandomBatches(
            *self.train,
            *self.translator.codecs.specials,
            batch_size=self.config.batch_size,
            max_length=self.config.max_length,
            seed=self.config.seed,
        )


class Training:
    """One model that is trained, update by update."""

    def __init__(
        self, settings: dict[str, Any], folder: Path, codecs: Codecs, train: tuple[RaggedIds, RaggedIds]
    ) -> None:
        bucketed = settings.pop("bucketed")
        config = configured(TranslateConfig, settings, "benchmark")
        self.translator = with_codecs(config, codecs)
        task = (TranslateTask if bucketed else RandomTask)(self.translator, train, None, [])
        self.batches = task.batches(0, 1)
        self.trainer = Trainer(task, config, folder, Silent(), improved=lambda best: None)
        self.updates = self._updates()
        self.translator.model.train()

    def _updates(self) -> Iterator[int]:
        """The target tokens of each update, once it is done; epoch after epoch."""
        while True:
            for group in self.trainer.groups():
                self.trainer.update(group)
                yield sum(one.batch.count for one in group)

    def train(self, updates: int) -> dict[str, Any]:
        """Seconds and target tokens of so many updates, and the share of time outside the model."""
        self.trainer.clock.lap()
        began = time.perf_counter()
        tokens = sum(next(self.updates) for _ in range(updates))
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "tokens": tokens, "outside": self.trainer.clock.lap()[1]}


class Side:
    """All that is asked of us."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder, self.settings = Path(config["folder"]), config["settings"]
        self.codecs = Codecs(*(Codec.load(self.folder / side) for side in ("source", "target")))
        self.train_ids, self.valid_ids = self.ids("train"), self.ids("dev")
        self.sources = lines(self.folder / f"dev.{self.settings['source']}")
        self.trainings: dict[tuple[str, bool], Training] = {}
        self.translator = with_codecs(configured(TranslateConfig, self.settings, "benchmark"), self.codecs)

    def ids(self, split: str) -> tuple[RaggedIds, RaggedIds]:
        """Both sides of a split."""
        source, target = (
            RaggedIds.of(map(codec.encode, lines(self.folder / f"{split}.{language}")))
            for codec, language in zip(
                self.codecs, (self.settings["source"], self.settings["target"]), strict=True
            )
        )
        return source, target

    def training(self, precision: str, bucketed: bool) -> Training:
        """The model of this kind, made when it is first asked for."""
        if (precision, bucketed) not in self.trainings:
            settings = {**self.settings, "precision": precision, "bucketed": bucketed}
            self.trainings[precision, bucketed] = Training(
                settings, self.folder / f"{precision}-{bucketed}", self.codecs, self.train_ids
            )
        return self.trainings[precision, bucketed]

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do one thing, and tell of it."""
        if order["do"] == "train":
            return self.training(order["precision"], order["bucketed"]).train(order["updates"])
        if order["do"] == "read":
            return self.take_weights(Path(order["path"]))
        if order["do"] == "decode":
            return self.decoded(order["beams"], order["precision"], order["max_length"])
        if order["do"] == "clock":
            return self.clock(order["beams"], order["precision"], order["max_length"])
        raise ValueError(order["do"])

    def take_weights(self, path: Path) -> dict[str, Any]:
        """JoeyNMT's weights into our model; the mean loss of a validation token shows that it is the same."""
        model = self.translator.model.eval()
        load_weights(model, converted(dict(np.load(path))), str(path))
        specials = self.codecs.specials
        found: Likelihood = likelihood(model, PairBatches(*self.valid_ids, *specials, shuffle=False))
        parameters = sum(weight.numel() for weight in model.parameters())
        return {"loss": found.cross_entropy, "parameters": parameters}

    def decoded(self, beams: int, precision: str, max_length: int) -> dict[str, Any]:
        """Seconds from the validation sentences to their translations."""
        began = time.perf_counter()
        told = translated(self.translator, self.sources, beams, precision, max_length)
        return {"seconds": time.perf_counter() - began, "sentences": told}

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
    translator: TrainedTranslator, sources: list[str], beams: int, precision: str, max_length: int
) -> list[str]:
    """The best translation of each, in the order given."""
    with autocast(CPU, precision):
        found = translator.translate(sources, num_beams=beams, max_length=max_length, copy_unknown=False)
    return [own[0].text for own in found]


def converted(theirs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """JoeyNMT's weights by our names."""
    w = {name: torch.from_numpy(array) for name, array in theirs.items()}
    ours = {
        "encoder.embedding.weight": w["src_embed.lut.weight"],
        "decoder.embedding.weight": w["trg_embed.lut.weight"],
        "decoder.attention.query.weight": w["decoder.attention.query_layer.weight"],
        "decoder.attention.key.weight": w["decoder.attention.key_layer.weight"],
        "decoder.attention.energy": w["decoder.attention.energy_layer.weight"][0],
        "decoder.from_state.bias": w["decoder.att_vector_layer.bias"],
        "head.weight": w["decoder.output_layer.weight"],
        # What they have not.
        "decoder.attention.key.bias": torch.zeros(len(w["decoder.attention.key_layer.weight"])),
        "head.bias": torch.zeros(len(w["decoder.output_layer.weight"])),
    }
    mixing, state_size = w["decoder.att_vector_layer.weight"], w["decoder.rnn.weight_hh_l0"].shape[1]
    ours["decoder.from_state.weight"], ours["decoder.from_context.weight"] = (
        mixing[:, :state_size],
        mixing[:, state_size:],
    )
    for part, cell, end in (
        ("encoder", "from_left", ""),
        ("encoder", "from_right", "_reverse"),
        ("decoder", "from_left", ""),
    ):
        own = f"{part}.stack.layers.0.{cell}"
        bias, second = (w[f"{part}.rnn.bias_{which}_l0{end}"] for which in ("ih", "hh"))
        size = len(bias) // 3
        # torch's second bias adds to the first but inside the reset.
        ours |= {
            f"{own}.weight_ih": w[f"{part}.rnn.weight_ih_l0{end}"],
            f"{own}.weight_hh": w[f"{part}.rnn.weight_hh_l0{end}"],
            f"{own}.bias": bias + torch.cat([second[: 2 * size], torch.zeros(size)]),
            f"{own}.bias_hn": second[2 * size :],
        }
    return ours


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def main() -> None:
    side = Side(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    for line in sys.stdin:
        print(json.dumps(side.obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
