"""English to Chinese: a script without spaces, parts of words, two vocabularies."""

from __future__ import annotations

import itertools

import pytest

import throughtime as tt
from throughtime.data.datasets import open_dataset
from throughtime.data.records import Pair
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator

SPACED = ("Anna said OK and left.", "安娜说 OK 就 走了。")


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A small model that knows some sentences by heart, one with spaces in its Chinese among them."""
    embedded = open_dataset("embedded/en-zh")
    pairs = list(
        itertools.islice(
            zip(embedded.texts("train", "source"), embedded.texts("train", "target"), strict=True), 14
        )
    )
    path = tmp_path_factory.mktemp("pairs")
    for split in ("train", "valid"):  # judged by what it learns: the weights are kept that know it best
        rows = "".join(f"{en}\t{zh}\n" for en, zh in [*pairs, SPACED])
        (path / f"{split}.tsv").write_text(rows, encoding="utf-8")
    config = TranslateConfig(
        data=str(path),
        source="en",
        target="zh",
        tokens="unigram",
        shared=False,
        max_size=400,
        embedding_size=48,
        hidden_size=64,
        batch_size=2,
        lr=0.01,
        epochs=24,
        embedding_dropout=0.0,
        output_dropout=0.0,
        label_smoothing=0.0,
        precision="float32",
        device="cpu",
    )
    dataset = open_dataset(str(path), source="en", target="zh")
    out = tmp_path_factory.mktemp("runs") / "en-zh"
    model = Translator.create(config, dataset)
    model.fit(dataset, out)
    return tt.load(out, device="cpu"), dataset


@pytest.mark.slow
def test_what_was_learned_comes_back_word_for_word(learned):  # R104
    translator, dataset = learned
    sources, targets = (list(dataset.texts("train", side)) for side in ("source", "target"))
    found = translator.translate(sources)
    assert [one.text for one in found] == targets
    assert all(one.ended for one in found)


def test_spaces_that_belong_to_a_sentence_stay(learned):  # R104
    translator, _ = learned
    assert translator.translate([SPACED[0]])[0].text == SPACED[1]


def test_the_loss_is_one_of_real_tokens_with_the_end_among_them(learned):  # R104
    translator, dataset = learned
    pairs = [
        Pair(*both)
        for both in zip(*(dataset.texts("train", side) for side in ("source", "target")), strict=True)
    ]
    alone = [translator.score([pair])[0] for pair in pairs]  # one at a time there is no padding
    lengths = [len(translator.codecs.target.encode(pair.target)) + 1 for pair in pairs]
    assert [len(one.tokens) for one in alone] == lengths
    nats = -sum(one.total for one in alone) / sum(lengths)
    values = translator.evaluate(dataset, split="train", num_beams=1).values
    assert values["loss"] == pytest.approx(nats, rel=1e-3)
    assert values["loss"] < 1.28
