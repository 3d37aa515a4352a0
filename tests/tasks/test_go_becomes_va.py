"""The notes' first pair, `Go.` and `Va !`, from the file to what a model is fed."""

from __future__ import annotations

import itertools

import pytest

from throughtime.data.datasets import open_dataset
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator
from throughtime.text.codec import Codec

SMALL = {"embedding_size": 8, "hidden_size": 8, "device": "cpu", "precision": "float32"}


@pytest.fixture(params=[" ", "\u202f"], ids=["space", "narrow space"])
def pairs(request, tmp_path):
    """Tatoeba has both spaces before a mark."""
    path = tmp_path / "fra.txt"
    path.write_text(f"Go.\tVa{request.param}!\n", encoding="utf-8")
    return path


def test_a_batch_holds_the_notes_tokens(throughtime, pairs):  # R68, R69, R71
    ran = throughtime("data", "batches", pairs, "--tokens", "translation", "--split", "all", "--json")
    assert ran.json["source"].split() == ["go", ".", "<eos>"]
    assert ran.json["labels"].split() == ["va", "!", "<eos>"]
    assert ran.json["decoder_input"].split() == ["<bos>", "va", "!"]


def test_training_is_fed_them(pairs):  # R69, R71
    dataset = open_dataset(str(pairs), source="en", target="fr")
    model = Translator.create(TranslateConfig(data=str(pairs), tokens="translation", **SMALL), dataset)
    [batch] = model.build_objective(dataset).batches(0, 1)
    source, target = (codec.vocabulary.tokens for codec in model.codecs)
    assert source(batch.source[:, 0].tolist()) == ["go", ".", "<eos>"]
    assert target(batch.labels[:, 0].tolist()) == ["va", "!", "<eos>"]
    assert target(batch.inputs[:, 0].tolist()) == ["<bos>", "va", "!"]


def test_the_corpus_is_cut_so_unless_told_otherwise(corpora):  # R68, R69
    dataset = open_dataset("tatoeba-fra-eng")
    [first] = itertools.islice(dataset.pairs("all"), 1)
    assert first == ("Go.", "Va !")
    codec = Codec.build(first, dataset.tokens, normaliser=dataset.normaliser_for(dataset.tokens))
    cut = [codec.vocabulary.tokens(codec.encode(text, eos=True)) for text in first]
    assert cut == [["go", ".", "<eos>"], ["va", "!", "<eos>"]]
