"""train ngram, evaluate, score, generate: the whole way in the terminal."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.refusals import lacks

from throughtime.ngram import disk_counts
from throughtime.tasks.ngram import training

TEXT = "\n".join(["the cat sat on the mat .", "the dog bites the man .", "a man sat ."] * 20) + "\n"


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "animals.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def run(corpus, tmp_path, throughtime):
    ran = throughtime(
        "train", "ngram", "--data", corpus, "--tokens", "space", "--out", tmp_path / "run", "--json"
    )
    assert ran.code == 0, ran.err
    return tmp_path / "run"


def test_training_reports_and_saves(corpus, run, throughtime, tmp_path):
    ran = throughtime("train", "ngram", "--data", corpus, "--order", 2, "--out", tmp_path / "two", "--json")
    assert ran.json["order"] == 2
    assert ran.json["valid_perplexity"] > 1
    assert len(ran.json["ngrams"]) == 2
    [line] = (run / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["split"] == "valid"
    assert "kneser-ney 3-gram" in (run / "README.md").read_text()


def test_an_existing_out_is_refused_unless_resumed(corpus, run, throughtime):
    words = ["train", "ngram", "--data", corpus, "--out", run]
    before = (run / "model.safetensors").read_bytes()
    refused = throughtime(*words)
    assert refused.code == 2
    assert "resume" in refused.err
    finished = throughtime(*words, "--resume")
    assert finished.code == 0
    assert "nothing to do" in finished.out
    assert (run / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("other", "facts"),
    [
        (["--order", 5], ("--order:", "5")),
        (["--min-freq", 2], ("--min-freq:", "2")),
        (["--normaliser", "lower"], ("--normaliser:", "'lower'")),
        (["--smoothing", "laplace", "--strengths", 2], ("'kneser-ney'",)),
        (["--smoothing", "laplace"], ("--smoothing:", "'laplace'")),
        (["--backward"], ("--backward:", "True")),
    ],
)
def test_resuming_a_model_of_other_settings_is_refused(corpus, run, throughtime, other, facts):
    ran = throughtime("train", "ngram", "--data", corpus, *other, "--resume", "--out", run)
    assert (ran.code, ran.out) == (2, "")
    assert not lacks(ran.err, *facts)


def test_resuming_a_model_of_other_data_or_another_task_is_refused(corpus, run, throughtime, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(TEXT)
    refused = throughtime("train", "ngram", "--data", other, "--resume", "--out", run)
    assert not lacks(refused.err, "--data:", f"'{other}'")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "task": "translate"}))
    ran = throughtime("train", "ngram", "--data", corpus, "--resume", "--trust-changed", "--out", run)
    assert ran.code == 2
    assert not lacks(ran.err, "'translate'", "'ngram'")


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        (["--smoothing", "laplas"], ("'laplas'", "'laplace'")),
        (["--strengths", 1], ("--strengths:",)),
        (["--smoothing", "laplace", "--strengths", -1], ("--strengths:", "-1.0", "0")),
        (["--smoothing", "laplace", "--strengths", "nan"], ("strengths", "nan")),
        (
            ["--smoothing", "laplace", "--order", 1, "--strengths", 1, "--strengths", 2],
            ("--strengths:", "2", "1"),
        ),
        (["--split", "tset"], ("'tset'",)),
        (["--data", "embedded/sine"], ("embedded/sine:",)),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_counted(corpus, tmp_path, throughtime, wrong, facts):
    ran = throughtime("train", "ngram", "--data", corpus, "--out", tmp_path / "run", *wrong)
    assert ran.code == 2
    assert not lacks(ran.err, *facts)
    assert "Counting" not in ran.err


def test_what_a_tokenizer_drops_is_told(tmp_path, throughtime):
    path = tmp_path / "mine.txt"
    path.write_text("Привет, мир\nhello\n" * 40, encoding="utf-8")
    ran = throughtime("train", "ngram", "--data", path, "--tokens", "word", "--out", tmp_path / "run")
    assert (ran.code, lacks(ran.err, f"{path}:", "'word'", "64%")) == (0, [])


def test_the_test_split_is_hinted_at_where_there_is_one(tmp_path, corpus, throughtime):
    whole = throughtime("train", "ngram", "--data", corpus, "--out", tmp_path / "a run")
    assert f"throughtime evaluate '{tmp_path / 'a run'}' --split test" in whole.out
    folder = tmp_path / "splits"
    folder.mkdir()
    (folder / "train.txt").write_text(TEXT)
    (folder / "valid.txt").write_text(TEXT)
    two = throughtime("train", "ngram", "--data", folder, "--out", tmp_path / "two")
    assert "--split valid" in two.out
    assert "--split test" not in two.out


@pytest.mark.parametrize("words", [["score", "RUN", "the cat"], ["generate", "RUN"], ["evaluate", "RUN"]])
def test_counts_need_no_device(run, throughtime, words):
    words = [run if word == "RUN" else word for word in words]
    for device in ("auto", "cpu"):
        assert throughtime(*words, "--device", device).code == 0
    for device in ("cuda", "cuda:1"):
        ran = throughtime(*words, "--device", device)
        assert ran.code == 2
        assert ran.err.startswith("error: --device: ")
        assert ran.err.count("\n") == 1
    ran = throughtime(*words, "--device", "cdua")
    assert ran.code == 2
    assert not lacks(ran.err, "error:", "device", "'cdua'", "'cuda'", "auto", "cpu")


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_nothing_takes_is_refused(run, corpus, throughtime, seed):
    for words in (["generate", run], ["data", "batches", corpus, "--num-steps", 3, "--batch-size", 2]):
        ran = throughtime(*words, "--seed", seed)
        assert ran.code == 2
        assert "--seed:" in ran.err
        assert throughtime(*words, "--seed", 2**63 - 1).code == 0


def test_counting_and_resuming_do_without_torch(corpus, tmp_path):
    words = ["train", "ngram", "--data", str(corpus), "--out", str(tmp_path / "new")]
    code = f"""
import sys
from throughtime.cli.main import main
assert main({words}) == main({[*words, "--resume"]}) == 0
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_evaluate(run, throughtime):
    ran = throughtime("evaluate", run, "--split", "test", "--json")
    assert ran.json["perplexity"] == pytest.approx(2 ** ran.json["bits_per_token"])
    assert ran.json["signature"].startswith("data:")
    assert "perplexity" in throughtime("evaluate", run).out
    wrong = throughtime("evaluate", run, "--split", "tset")
    assert wrong.code == 2
    assert not lacks(wrong.err, "'tset'")


def test_score_ranks_by_total_and_per_token(run, throughtime, tmp_path):  # R17
    ran = throughtime(
        "score", run, "the man bites the dog .", "the dog bites the man .", "a man sat .", "--json"
    )
    assert ran.json["ranking"][0] == 2  # short and common
    assert ran.json["ranking"].index(1) < ran.json["ranking"].index(0)
    assert len(ran.json["ranking_per_token"]) == 3
    one = ran.json["sentences"][0]
    assert one["log_prob_per_token"] == pytest.approx(one["log_prob"] / len(one["tokens"]))
    assert "the dog" not in throughtime("score", run, "a man sat .").out
    file = tmp_path / "lines.txt"
    file.write_text("a man sat .\nthe mat .\n")
    assert len(throughtime("score", run, "--file", file, "--json").json["sentences"]) == 2
    both = throughtime("score", run, "x", "--file", file)
    assert both.code == 2
    assert "--file" in both.err


def test_penn_treebank_in_the_terminal(corpora, tmp_path, throughtime):
    out = tmp_path / "ptb"
    assert throughtime("train", "ngram", "--data", "ptb", "--order", 5, "--out", out, "--json").code == 0
    ran = throughtime("evaluate", out, "--split", "test", "--json")
    assert ran.json["tokens"] == 82_430
    assert ran.json["perplexity"] == pytest.approx(141.2, rel=0.005)


@pytest.fixture
def stream(corpus, tmp_path, throughtime):
    words = ["train", "ngram", "--data", corpus, "--split", "all", "--tokens", "space", "--layout", "stream"]
    ran = throughtime(*words, "--order", 2, "--smoothing", "relative-frequency", "--out", tmp_path / "stream")
    assert ran.code == 0, ran.err
    return tmp_path / "stream"


def test_inspect_markov_looks_beyond_the_next_word(stream, throughtime):  # R11, R12
    # After "the": cat, mat, dog and man, a quarter each. After these: sat, ".", bites, and of man "." or sat.
    ran = throughtime("inspect", "markov", stream, "--after", "the", "--steps", 2, "--json")
    assert ran.code == 0, ran.err
    found = {one["word"]: one["probability"] for one in ran.json["words"]}
    assert found == pytest.approx({".": 3 / 8, "sat": 3 / 8, "bites": 1 / 4})
    assert ran.json["entropy_bits"] == pytest.approx(1.5613, abs=1e-4)
    assert (
        "0.3750" in throughtime("inspect", "markov", stream, "--after", "the", "--steps", 2, "--top", 1).out
    )
    best = throughtime("inspect", "markov", stream, "--after", "dog", "--most-likely", 2, "--json").json
    assert (best["text"], best["log_prob"]) == ("bites the", pytest.approx(0.0))
    assert "bites the" in throughtime("inspect", "markov", stream, "--after", "dog", "--most-likely", 2).out


def test_the_most_likely_line_ends(run, throughtime):
    best = throughtime("inspect", "markov", run, "--most-likely", 30, "--json").json
    assert (best["text"], best["tokens"][-1]) == ("a man sat .", "<eos>")


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ([], ["--steps"]),
        (["--steps", 1, "--most-likely", 2], ["--steps"]),
        (["--most-likely", 2, "--top", 3], ["--top"]),
        (["--most-likely", 10**8], ["--most-likely:", "100,000,000"]),
    ],
)
def test_inspect_markov_refuses_in_one_sentence(run, throughtime, options, facts):
    ran = throughtime("inspect", "markov", run, *options)
    assert ran.code == 2
    assert not lacks(ran.err, *facts)


def test_inspect_markov_needs_a_counted_model_that_reads_forwards(corpus, tmp_path, throughtime):
    train = ["train", "ngram", "--data", corpus]
    assert throughtime(*train, "--backward", "--out", tmp_path / "backward").code == 0
    backward = throughtime("inspect", "markov", tmp_path / "backward", "--steps", 1)
    assert not lacks(backward.err, f"{tmp_path / 'backward'}:")
    assert throughtime(*train, "--order", 1, "--out", tmp_path / "one").code == 0
    assert "order" in throughtime("inspect", "markov", tmp_path / "one", "--steps", 1).err


@pytest.mark.parametrize(
    "words", [["--order", 4], ["--layout", "stream"], ["--backward", "--tokens", "char"]]
)
def test_a_text_larger_than_memory_gives_the_same_model(
    words, corpus, throughtime, tmp_path, monkeypatch
):  # R115
    monkeypatch.setattr(disk_counts, "BYTES_PER_POSITION", 1_000_000)  # 128 tokens at a time
    train = ["train", "ngram", "--data", corpus, *words, "--json", "--out"]
    plain = throughtime(*train, tmp_path / "plain")
    bounded = throughtime(*train, tmp_path / "bounded", "--memory", "256MB")
    assert bounded.code == 0, bounded.err
    files = {path.name for path in (tmp_path / "plain").iterdir()}
    assert {path.name for path in (tmp_path / "bounded").iterdir()} == files
    for name in files - {"config.json", "manifest.json"}:
        assert (tmp_path / "bounded" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes(), name
    same = plain.json.keys() - {"run", "seconds"}
    assert {name: bounded.json[name] for name in same} == {name: plain.json[name] for name in same}


@pytest.mark.parametrize(("words", "measured"), [([], False), (["--prune", 0], True)])
def test_only_a_model_of_counts_is_too_large_to_measure(
    words, measured, corpus, throughtime, tmp_path, monkeypatch
):
    monkeypatch.setattr(training, "BYTES_PER_NGRAM", 10_000_000)
    train = ["train", "ngram", "--data", corpus, *words, "--memory", "256MB", "--out", tmp_path / "run"]
    ran = throughtime(*train, "--json")
    assert (ran.json["valid_perplexity"] is not None) == measured
    assert ("not measured" in ran.err) != measured


def test_a_pruned_model_says_so_with_its_scores(corpus, run, throughtime, tmp_path):
    pruned = tmp_path / "pruned"
    train = ["train", "ngram", "--data", corpus, "--tokens", "space", "--prune", 0, "--prune", 1]
    assert throughtime(*train, "--out", pruned).code == 0
    assert not lacks((pruned / "README.md").read_text(), "pruned kneser-ney 3-gram", "pruned 0 1")
    assert "smoothing, left to right" in (run / "README.md").read_text()
    whole, part = (throughtime("evaluate", one, "--json").json["signature"] for one in (run, pruned))
    assert part.replace("|prune:0,1|", "|") == whole != part
    refused = throughtime("inspect", "markov", pruned, "--steps", 1)
    assert (refused.code, lacks(refused.err, f"{pruned}:")) == (2, [])
    both = throughtime("evaluate", run, "--with", pruned, "--json").json["signature"]
    assert not lacks(both, "-pruned-0-1-")


def test_an_interrupted_count_leaves_nothing(corpus, throughtime, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(disk_counts, "_merge", stop)
    before = set(tmp_path.iterdir())
    ran = throughtime("train", "ngram", "--data", corpus, "--memory", "1GB", "--out", tmp_path / "run")
    assert ran.code == 130
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("memory", ["2", "10MB", "much", "-2GB"])
def test_a_memory_that_is_no_size_is_refused(memory, corpus, throughtime, tmp_path):
    words = ["--data", corpus, f"--memory={memory}", "--out", tmp_path / "run"]
    ran = throughtime("train", "ngram", *words)
    assert (ran.code, lacks(ran.err, "--memory:", f"'{memory}'")) == (2, [])


def test_a_backward_stream_is_not_counted_in_files_and_leaves_nothing(corpus, throughtime, tmp_path):
    before = set(tmp_path.iterdir())
    words = ["--data", corpus, "--backward", "--layout", "stream", "--memory", "1GB"]
    ran = throughtime("train", "ngram", *words, "--out", tmp_path / "run")
    assert (ran.code, lacks(ran.err, "--memory:")) == (2, [])
    assert set(tmp_path.iterdir()) == before
