"""What int8 costs, on small models that have learned something."""

from __future__ import annotations

import math
import random

import pytest
from tests.graphs import untrained

import throughtime as tt
from throughtime.api import export
from throughtime.data.datasets import open_dataset
from throughtime.metrics.bleu import corpus_bleu
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator

TWIN = {word: word[::-1] for word in untrained.WORDS}


def trained(predictor, config, folder):
    dataset = open_dataset(config.data, **config.data_options)
    predictor.create(config, dataset).fit(dataset, folder / "run")
    for precision in ("float32", "int8"):
        export(folder / "run", folder / precision, int8=precision == "int8")
    return (tt.runtime.load(folder / precision, threads=1) for precision in ("float32", "int8"))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_perplexity_rises_by_two_per_cent_at_most(tmp_path, cell):
    (tmp_path / "text.txt").write_text("\n".join(untrained.sentences(400)) + "\n")
    config = LanguageConfig(
        data=str(tmp_path / "text.txt"),
        tokens="char",
        cell=cell,
        embedding_size=32,
        hidden_size=32,
        epochs=4,
        batch_size=8,
        lr=0.01,
        device="cpu",
    )
    told = untrained.sentences(40, 9)
    scored = [one.score(told) for one in trained(RecurrentLanguage, config, tmp_path)]
    perplexities = [
        math.exp(-sum(one.total for one in own) / sum(len(one.log_probs) for one in own)) for own in scored
    ]
    assert perplexities[0] < 12  # of 18 letters: something was learned
    assert perplexities[1] <= 1.02 * perplexities[0]


@pytest.mark.slow
def test_bleu_falls_by_a_third_of_a_point_at_most(tmp_path):
    # Of a model that has learned its task: one that is still torn between words may go either way.
    dice = random.Random(1)
    sources = [" ".join(dice.choices(untrained.WORDS, k=dice.randint(1, 4))) for _ in range(400)]
    turned = [" ".join(TWIN[word] for word in source.split()) for source in sources]
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{one}\t{two}\n" for one, two in zip(sources, turned, strict=True))
    )
    config = TranslateConfig(
        data=str(tmp_path / "pairs.tsv"),
        source="en",
        target="ne",
        tokens="space",
        embedding_size=32,
        hidden_size=32,
        epochs=16,
        batch_size=16,
        lr=0.01,
        device="cpu",
        precision="float32",
    )
    scores = [
        corpus_bleu([own.text for own in one.translate(sources[:150])], turned[:150]).value
        for one in trained(Translator, config, tmp_path)
    ]
    assert scores[0] > 90
    assert scores[1] >= scores[0] - 0.3
