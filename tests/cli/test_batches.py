"""`data batches`: the notes' shapes, padding and truncation reported."""

from __future__ import annotations

from functools import partial

import pytest
from tests.refusals import lacks

from throughtime.cli.inputs import open_data
from throughtime.data.datasets import open_dataset
from throughtime.tasks.language.config import LanguageConfig
from throughtime.tasks.language.model import RecurrentLanguage
from throughtime.tasks.translate.config import TranslateConfig
from throughtime.tasks.translate.model import Translator


@pytest.mark.parametrize(("batch_size", "num_steps"), [(32, 35), (1024, 32)])
@pytest.mark.parametrize("sampling", ["random", "sequential"])
def test_the_notes_shapes(throughtime, tmp_path, batch_size, num_steps, sampling):  # R31, R32
    text = tmp_path / "text.txt"
    text.write_text("the time traveller for so it will be convenient\n" * 900)
    ran = throughtime(
        *("data", "batches", text, "--tokens", "char", "--split", "all", "--sampling", sampling),
        *("--batch-size", batch_size, "--num-steps", num_steps, "--json"),
    )
    assert ran.json["shape"] == [num_steps, batch_size]
    inputs, labels = (ran.json[key].replace("<eos>", "\n") for key in ("inputs", "labels"))
    assert inputs[1:] == labels[:-1]


def test_pairs_report_padding_truncation_and_the_shifted_labels(throughtime, tmp_path):  # R69, R71, R73
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("Go.\tVa !\nA very long one here.\tUne phrase vraiment très longue.\n" * 3)
    ran = throughtime(
        *("data", "batches", pairs, "--tokens", "translation", "--split", "all", "--max-length", 4, "--json"),
    )
    assert ran.code == 0, ran.err
    assert (ran.json["truncated_sources"], ran.json["truncated_targets"]) == (3, 3)
    assert 0 <= ran.json["padding"] < 1
    assert ran.json["source_vocabulary"] != ran.json["target_vocabulary"]
    inputs, labels = ran.json["decoder_input"].split(), ran.json["labels"].split()
    real = labels.index("<eos>")
    assert inputs[0] == "<bos>"
    assert inputs[1 : real + 1] == labels[:real]


def test_what_cannot_be_batched_is_refused(throughtime, tmp_path):
    assert not lacks(
        throughtime("data", "batches", "embedded/english", "--sampling", "x").err, "sampling", "'x'"
    )
    ran = throughtime("data", "batches", "embedded/sine")
    assert ran.code == 2
    assert not lacks(ran.err, "embedded/sine:", "series")


@pytest.mark.parametrize(
    ("content", "options", "facts"),
    [
        ("one two\n" * 9, ["--max-length", 5], ("--max-length:",)),
        ("one\tun\n" * 9, ["--num-steps", 35], ("--num-steps:",)),
        ("one\tun\n" * 9, ["--sampling", "random"], ("--sampling:",)),
    ],
)
def test_options_of_other_data_are_refused(throughtime, tmp_path, content, options, facts):
    data = tmp_path / "data.tsv" if "\t" in content else tmp_path / "data.txt"
    data.write_text(content)
    ran = throughtime("data", "batches", data, "--split", "all", *options)
    assert ran.code == 2
    assert not lacks(ran.err, *facts)
    assert ran.err.count("\n") == 1


def test_multi30k_pads_less_than_five_percent(corpora, throughtime):
    ran = throughtime("data", "batches", "multi30k/tok", "--batch-size", 64, "--json")
    assert ran.json["pairs"] == 29_000
    assert ran.json["padding"] < 0.05


def test_rare_words_become_unknown(throughtime, tmp_path):  # R70
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("Go now.\tVa maintenant.\nGo there.\tVa vite.\n")
    words = ("data", "batches", pairs, "--tokens", "translation", "--split", "all", "--min-freq", 2, "--json")
    ran = throughtime(*words)
    assert ran.json["source"].split() == ["go", "<unk>", ".", "<eos>"]
    assert ran.json["labels"].split() == ["va", "<unk>", ".", "<eos>"]
    assert ran.json["source_vocabulary"] == 6  # go, the full stop, four reserved


def vocabularies(throughtime, data, tokens, layout=None):
    """The size of the vocabulary as `data batches`, `stats` and a language model in training have it."""
    words = (str(data), "--tokens", tokens, "--split", "train", "--json")
    fed = throughtime("data", "batches", *words, "--batch-size", 2, "--num-steps", 5).json["vocabulary"]
    config = LanguageConfig(data=str(data), tokens=tokens, hidden_size=4, embedding_size=4)
    model = RecurrentLanguage.create(config, open_dataset(str(data), layout=layout))
    return fed, throughtime("stats", *words).json["vocabulary"], len(model.framing.codec.vocabulary)


@pytest.mark.parametrize("tokens", ["char", "word", "bpe"])
@pytest.mark.parametrize("layout", ["lines", "stream"])
def test_one_vocabulary_in_batches_stats_and_training(  # R32
    throughtime, tmp_path, monkeypatch, layout, tokens
):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"the time traveller number {number} was late\n" for number in range(60)))
    for command in ("batches", "stats"):
        monkeypatch.setattr(f"throughtime.cli.{command}.open_data", partial(open_data, layout=layout))
    fed, counted, trained = vocabularies(throughtime, text, tokens, layout)
    assert fed == counted == trained


def test_one_vocabulary_of_the_time_machine(throughtime, corpora):  # R32
    assert vocabularies(throughtime, "timemachine", "char") == (28, 28, 28)


def test_one_vocabulary_of_pairs(throughtime, tmp_path):  # R32
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"number {n} .\tnuméro {n} {n % 7} !\n" for n in range(60)))
    words = (str(pairs), "--tokens", "space", "--split", "train", "--json")
    fed = throughtime("data", "batches", *words).json
    settings = {"embedding_size": 4, "hidden_size": 4, "tokens": "space", "shared": False}
    model = Translator.create(TranslateConfig(data=str(pairs), **settings), open_dataset(str(pairs)))
    for side, codec in zip(("source", "target"), model.codecs, strict=True):
        counted = throughtime("stats", *words, "--side", side).json["vocabulary"]
        assert fed[f"{side}_vocabulary"] == counted == len(codec.vocabulary)
