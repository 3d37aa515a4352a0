"""ARPA files: what KenLM says about the same file, and that nothing is lost between writing and reading."""

from __future__ import annotations

import gzip
import math
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses

from throughtime.ngram.arpa import read_arpa, write_arpa
from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.markov import MarkovChain
from throughtime.ngram.model import NgramModel
from throughtime.ngram.smoothing import SMOOTHINGS, build_smoothing
from throughtime.tasks.ngram.model import NgramLanguageModel

GOLDEN = Path(__file__).parent / "kenlm.arpa"
"""Written by lmplz of KenLM 0.3.0 (`lmplz -o 3 --discount_fallback`) from eight sentences about animals."""
FACTS = {
    "the cat sat on the mat": [-0.512299, -0.646871, -0.723719, -0.214084, -0.392683, -0.405787, -0.205606],
    "a dog sang": [-1.103328, -0.629798, -1.139386, -0.22835],
    "the bird and the horse sat": [
        -0.512299,
        -1.593617,
        -1.486723,
        -1.396991,
        -1.559403,
        -1.205896,
        -1.052635,
    ],
    "horse": [-1.597651, -0.978389],
    "on on on the the": [-1.241104, -1.190411, -1.190411, -0.844434, -1.503886, -1.06508],
    "": [-1.103328],
}
"""log10 P of each token and of the end, as KenLM 0.3.0 scores them with that file."""
MODELS = [
    ("kneser-ney", (), 4),
    ("dirichlet", (1.0, 2.0, 3.0), 3),
    ("laplace", (1.0, 4.0), 2),
    ("kneser-ney", (), 1),
    *((name, (), 2 if name == "laplace" else 3) for name in SMOOTHINGS),
]
WORDS = ["<s>", "</s>", "<unk>", *(f"w{number}" for number in range(9))]


def random_sentences(number, seed):
    draw = np.random.default_rng(seed)
    return [[0, *draw.integers(2, len(WORDS), draw.integers(0, 12)).tolist(), 1] for _ in range(number)]


def build(smoothing, strengths, order):
    counts = NgramCounts.of(random_sentences(60, 1), order, len(WORDS), never=[0])
    return NgramModel(counts, build_smoothing(smoothing, strengths))


@pytest.mark.parametrize("text", FACTS)
def test_a_file_of_kenlm_scores_as_kenlm_scores_it(text):  # R115
    [scored] = NgramLanguageModel.read_arpa(GOLDEN).score(text)
    assert [p / math.log(10) for p in scored.log_probs] == pytest.approx(FACTS[text], abs=2e-6)


@pytest.mark.parametrize(("smoothing", "strengths", "order"), MODELS)
@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
def test_written_and_read_gives_the_same_scores(smoothing, strengths, order, name, tmp_path):  # R115
    model = build(smoothing, strengths, order)
    sizes = write_arpa(model, WORDS, tmp_path / name)
    words, again, has_lines = read_arpa(tmp_path / name)
    assert (list(words), has_lines) == (WORDS, True)
    assert sizes == [len(level.keys) for level in again.counts.levels]
    unseen = random_sentences(200, 2)
    for before, after in zip(model.log_probs(unseen), again.log_probs(unseen), strict=True):
        np.testing.assert_allclose(np.exp(after), np.exp(before), rtol=1e-6)


def test_equal_models_give_equal_files_even_after_reading(tmp_path):
    model = build("kneser-ney", (), 3)
    for name in ("a.arpa.gz", "b.arpa.gz"):
        write_arpa(model, WORDS, tmp_path / name)
    write_arpa(read_arpa(tmp_path / "a.arpa.gz").model, WORDS, tmp_path / "c.arpa")
    first, second = ((tmp_path / name).read_bytes() for name in ("a.arpa.gz", "b.arpa.gz"))
    assert first == second
    assert gzip.decompress(first) == (tmp_path / "c.arpa").read_bytes()


def test_tensors_rebuild_the_same_model_and_damaged_ones_are_refused():
    model = read_arpa(GOLDEN).model
    tensors = model.tensors()
    again = NgramModel.from_tensors(tensors, (1,), None)
    sequence = [1, 3, 4, 5, 0, 2]
    assert again.log_probs([sequence])[0].tolist() == model.log_probs([sequence])[0].tolist()
    for name, value in [("probability.2", 1.5), ("weight.1", np.nan), ("weight.2", -1.0)]:
        with refuses("tensors", name):
            NgramModel.from_tensors({**tensors, name: np.full(len(tensors[name]), value)}, (1,), None)
    with refuses("tensors", "weight.2"):
        NgramModel.from_tensors({**tensors, "weight.2": tensors["weight.2"][1:]}, (1,), None)


GOOD = [
    "made by hand",
    "\\data\\",
    "ngram 1=4",
    "ngram 2=2",
    "",
    "\\1-grams:",
    "-0.5\t<unk>",
    "-99\t<s>\t-0.2",
    "-0.4\t</s>",
    "-0.3\ta\t-0.1",
    "",
    "\\2-grams:",
    "-0.2\t<s> a",
    "-0.6 a  </s>",
    "",
    "\\end\\",
]


def write_lines(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_file_by_hand_is_read(tmp_path):
    words, model, has_lines = read_arpa(write_lines(tmp_path / "hand.arpa", GOOD))
    assert (words, has_lines) == (("<unk>", "<s>", "</s>", "a"), True)
    [found] = model.log_probs([[1, 3, 3, 0, 2]])
    assert found / math.log(10) == pytest.approx([0.0, -0.2, -0.4, -0.6, -0.4])


@pytest.mark.parametrize(
    ("line", "text", "number", "facts"),
    [
        (3, "ngram 1=5", 11, (4, 5)),
        (3, "ngram 1=3", 10, (3,)),
        (4, "ngram 3=2", 4, ("ngram 2=",)),
        (4, "ngram two", 4, ("'ngram two'",)),
        (6, "\\2-grams:", 6, ("\\1-grams:",)),
        (7, "-0.5x\t<unk>", 7, ("'-0.5x'",)),
        (7, "nan\t<unk>", 7, ("'nan'",)),
        (7, "inf\t<unk>", 7, ("'inf'",)),
        (7, "0.5\t<unk>", 7, ("0.5",)),
        (7, "-0.5\ta", 10, ("'a'",)),
        (8, "-1\t<s>\tnan", 8, ("'nan'",)),
        (8, "-1", 8, (1,)),
        (13, "-0.2\t<s> b", 13, ("'b'",)),
        (13, "-0.2\ta", 13, (2,)),
        (13, "-0.2\ta </s>", 14, ()),
        (14, "-0.2\ta </s>\t-0.1", 14, (4,)),
        (14, "", 14, (1, 2)),
        (16, "-0.1\ta a", 16, ("\\end\\",)),
    ],
)
def test_a_bad_line_is_named(line, text, number, facts, tmp_path):
    lines = [*GOOD]
    lines[line - 1] = text
    with refuses(f"bad.arpa:{number}", *facts):
        read_arpa(write_lines(tmp_path / "bad.arpa", lines))


def test_a_context_that_is_not_listed_and_a_file_without_its_end_are_refused(tmp_path):
    three = ["\\3-grams:", "-0.1\ta a </s>", "", "\\end\\"]
    lost = [*GOOD[:4], "ngram 3=1", *GOOD[4:-1], *three]
    with refuses("lost.arpa:18", "'a a'"):
        read_arpa(write_lines(tmp_path / "lost.arpa", lost))
    with refuses("cut.arpa:14"):
        read_arpa(write_lines(tmp_path / "cut.arpa", GOOD[:14]))
    with refuses("text.arpa", "\\data\\"):
        read_arpa(write_lines(tmp_path / "text.arpa", ["no model"]))


def test_what_a_file_cannot_hold_is_refused_and_nothing_is_written(tmp_path):
    out = tmp_path / "model.arpa"
    with refuses("format", 3):
        write_arpa(build("laplace", (1.0,), 3), WORDS, out)
    with refuses("format", "'a b'"):
        write_arpa(build("kneser-ney", (), 2), [*WORDS[:-1], "a b"], out)
    with refuses("format", "'<s>'"):
        write_arpa(build("kneser-ney", (), 2), [*WORDS[:-1], "<s>"], out)
    assert not list(tmp_path.iterdir())


def test_a_markov_chain_needs_counts():
    with refuses("model"):
        MarkovChain(read_arpa(GOLDEN).model)


def test_kenlm_scores_our_file_as_we_do(tmp_path):  # R115
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed; `pip install kenlm` compiles it")
    model = build("kneser-ney", (), 4)
    write_arpa(model, WORDS, tmp_path / "ours.arpa")
    judge = kenlm.Model(str(tmp_path / "ours.arpa"))
    texts = random_sentences(300, 3)
    for ids, ours in zip(texts, model.log_probs(texts), strict=True):
        words = " ".join(WORDS[one] if one != 2 else "zebra" for one in ids[1:-1])
        assert judge.score(words) * math.log(10) == pytest.approx(ours.sum(), abs=1e-4)


def test_our_kneser_ney_is_that_of_lmplz(tmp_path):  # R115
    place = os.environ.get("KENLM_BIN")
    if (lmplz := shutil.which("lmplz", path=place)) is None:
        pytest.skip("KenLM's lmplz is not on the PATH or in the folder that KENLM_BIN names")
    draw = np.random.default_rng(4)
    lines = [(draw.zipf(1.5, draw.integers(1, 15)) % 20_000).tolist() for _ in range(3_000)]
    text = "".join(" ".join(f"w{word}" for word in line) + "\n" for line in lines)
    with (tmp_path / "theirs.arpa").open("wb") as file:
        subprocess.run([lmplz, "-o", "4", "-S", "100M"], input=text.encode(), stdout=file, check=True)
    words, theirs, _ = read_arpa(tmp_path / "theirs.arpa")
    ids = {word: number for number, word in enumerate(words)}
    counted = [[ids["<s>"], *(ids[f"w{word}"] for word in line), ids["</s>"]] for line in lines]
    counts = NgramCounts.of(counted, 4, len(words), never=[ids["<s>"]])
    write_arpa(NgramModel(counts, build_smoothing("kneser-ney")), words, tmp_path / "ours.arpa")
    ours = read_arpa(tmp_path / "ours.arpa").model.tensors()
    for name, value in theirs.tensors().items():
        np.testing.assert_allclose(ours[name], value, rtol=2e-6, err_msg=name)
