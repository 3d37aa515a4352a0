"""export --format arpa, import, and what the imported model can do."""

from __future__ import annotations

import pytest
from tests.ngram.test_arpa import GOLDEN
from tests.refusals import lacks

LINES = ["the cat sat on the mat .", "the dog bites the man .", "a man sat ."] * 20


@pytest.fixture
def train(tmp_path, throughtime):
    (tmp_path / "animals.txt").write_text("\n".join(LINES) + "\n")

    def call(*words):
        out = tmp_path / "run"
        ran = throughtime("train", "ngram", "--data", tmp_path / "animals.txt", *words, "--out", out)
        assert ran.code == 0, ran.err
        return out

    return call


def test_a_run_goes_out_and_comes_back(train, tmp_path, throughtime):  # R115
    run, file, back = train("--tokens", "space"), tmp_path / "model.arpa.gz", tmp_path / "back"
    exported = throughtime("export", run, "--format", "arpa", "--out", file, "--json")
    assert exported.code == 0, exported.err
    imported = throughtime("import", file, "--out", back, "--json")
    assert imported.code == 0, imported.err
    assert imported.json["ngrams"] == exported.json["ngrams"]
    texts = ["the man bites a cat .", "zebra", "mat the on"]
    ours, theirs = (throughtime("score", place, *texts, "--json").json["sentences"] for place in (run, back))
    assert [one["log_prob"] for one in theirs] == pytest.approx([one["log_prob"] for one in ours], rel=1e-6)
    data = ["--data", tmp_path / "animals.txt", "--split", "all", "--json"]
    values = [throughtime("evaluate", place, *data).json for place in (run, back)]
    assert values[1]["perplexity"] == pytest.approx(values[0]["perplexity"], rel=1e-6)
    assert throughtime("generate", back, "--seed", 1, "--json").code == 0
    assert "ARPA" in (back / "README.md").read_text()


def test_a_stream_of_subwords_goes_out_too(train, tmp_path, throughtime):
    run = train("--layout", "stream", "--tokens", "word")
    assert throughtime("export", run, "--format", "arpa", "--out", tmp_path / "m.arpa").code == 0
    assert (
        throughtime("import", tmp_path / "m.arpa", "--tokens", "word", "--out", tmp_path / "back").code == 0
    )
    ours, theirs = (
        throughtime("score", place, "The man sat", "--json").json["sentences"][0]
        for place in (run, tmp_path / "back")
    )
    assert theirs["log_prob"] == pytest.approx(ours["log_prob"], rel=1e-6)


@pytest.mark.parametrize(
    ("words", "options", "facts"),
    [
        (["--tokens", "char"], ["--format", "arpa"], ("--format:", "' '")),
        (["--backward"], ["--format", "arpa"], ("--format:", "'arpa'")),
        (["--smoothing", "laplace"], ["--format", "arpa"], ("--format:", 3)),
        ([], ["--format", "onnx"], ("--format:", "'arpa'")),
        ([], ["--format", "arpa", "--int8"], ("--int8:",)),
    ],
)
def test_what_cannot_be_written_is_refused(words, options, facts, train, tmp_path, throughtime):
    ran = throughtime("export", train(*words), *options, "--out", tmp_path / "m.arpa")
    assert ran.code == 2
    assert not lacks(ran.err, *facts)
    assert not (tmp_path / "m.arpa").exists()


def test_an_imported_model_has_no_data_and_no_file_is_overwritten(tmp_path, throughtime):
    run = tmp_path / "run"
    assert throughtime("import", GOLDEN, "--out", run).code == 0
    ran = throughtime("evaluate", run)
    assert (ran.code, lacks(ran.err, "--data:")) == (2, [])
    ran = throughtime("import", GOLDEN, "--out", run)
    assert (ran.code, lacks(ran.err, str(run))) == (2, [])
    ran = throughtime("export", run, "--format", "arpa", "--out", run / "config.json")
    assert (ran.code, lacks(ran.err, str(run / "config.json"))) == (2, [])
    (tmp_path / "marks.arpa").write_text(GOLDEN.read_text().replace("bird", "<pad>"))
    ran = throughtime("import", tmp_path / "marks.arpa", "--out", tmp_path / "marks")
    assert (ran.code, lacks(ran.err, "marks.arpa", "'<pad>'")) == (2, [])
