"""Models without rare n-grams: what goes, that probabilities sum to one, and that lmplz does the same."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tracemalloc

import numpy as np
import pytest
from tests.refusals import refuses

import throughtime as tt
from throughtime.ngram.arpa import read_arpa, write_arpa
from throughtime.ngram.counts import NgramCounts
from throughtime.ngram.model import NgramModel
from throughtime.ngram.pruning import prune
from throughtime.ngram.smoothing import SMOOTHINGS, build_smoothing

SIZE = 12
DRAW = np.random.default_rng(0)
LINES = [[0, *(DRAW.zipf(1.4, DRAW.integers(1, 12)) % (SIZE - 2) + 2).tolist(), 1] for _ in range(80)]
MODELS = [
    ("kneser-ney", (), 4),
    ("dirichlet", (1.0, 2.0), 3),
    ("laplace", (1.0, 3.0), 2),
    ("kneser-ney", (), 1),
    *((name, (), 2 if name == "laplace" else 3) for name in SMOOTHINGS),
]


def estimate_plainly(counts, smoothing, thresholds):
    """P(w | c) by the formula, one context at a time, over dictionaries."""
    base, own, back, _, _ = smoothing.fit(counts)
    tables = [{(): 0}, {(word,): word for word in range(counts.vocabulary_size)}]
    for level in counts.levels[1:]:
        names = {node: gram for gram, node in tables[-1].items()}
        pairs = zip(level.context.tolist(), level.word.tolist(), strict=True)
        tables.append({(*names[context], word): node for node, (context, word) in enumerate(pairs)})

    def p(context, word):
        n = len(context) + 1
        if n == 1:
            return base[word]
        lower = p(context[1:], word)
        node = tables[n - 1].get(context)
        if node is None or np.isnan(back[n - 1][node]):
            return lower
        threshold = thresholds[min(n, len(thresholds)) - 1]
        mine, weight = 0.0, back[n - 1][node]
        for other in range(counts.vocabulary_size):
            child = tables[n].get((*context, other))
            if child is None:
                continue
            if counts.levels[n - 1].count[child] <= threshold:
                weight += own[n - 1][child]
            elif other == word:
                mine = own[n - 1][child]
        return mine + weight * lower

    return p


@pytest.mark.parametrize(("name", "strengths", "order"), MODELS)
@pytest.mark.parametrize("thresholds", [(0,), (0, 0, 1), (0, 1, 1, 3)])
def test_pruned_probabilities_are_those_of_the_formula_and_sum_to_one(name, strengths, order, thresholds):
    thresholds = thresholds[:order]
    counts, smoothing = NgramCounts.of(LINES, order, SIZE, never=[0]), build_smoothing(name, strengths)
    model, p = prune(counts, smoothing, thresholds), estimate_plainly(counts, smoothing, thresholds)
    for line in LINES[:4]:
        contexts = [tuple(line[max(0, i - order + 1) : i]) for i in range(1, len(line))]
        expected = [p(context, word) for context, word in zip(contexts, line[1:], strict=True)]
        assert np.exp(model.log_probs([line])[0][1:]) == pytest.approx(expected, rel=1e-6)
        assert model.distribution(np.array([line[: order - 1]])).sum() == pytest.approx(1.0, abs=1e-6)


def test_a_threshold_of_zero_changes_no_score():
    counts = NgramCounts.of(LINES, 4, SIZE, never=[0])
    whole = NgramModel(counts, build_smoothing("kneser-ney"))
    same = prune(counts, build_smoothing("kneser-ney"), (0,))
    texts = [[0, *pair, 1] for pair in itertools.product(range(2, SIZE), repeat=2)]
    for before, after in zip(whole.log_probs(texts), same.log_probs(texts), strict=True):
        np.testing.assert_allclose(after, before, atol=1e-6)


def test_a_pruned_model_is_saved_loaded_and_served_from_its_file(tmp_path):  # R115
    lines = ["the cat sleeps", "the dog sleeps", "a cat runs", "the cat runs", "a dog sleeps"] * 3 + [
        "a a cat"
    ]
    model = tt.train("ngram", lines, order=3, prune=[0, 0, 1], out=tmp_path / "run", progress="none")
    again = tt.load(tmp_path / "run")
    texts = ["the cat sleeps", "a a cat", "unseen words here", ""]
    assert [one.log_probs for one in again.score(texts)] == [one.log_probs for one in model.score(texts)]
    assert again.num_tokens == model.num_tokens > 50
    assert isinstance(again.model.counts.levels[2].keys, np.memmap)
    again.save(tmp_path / "copy")
    assert again.export(tmp_path / "model.arpa")["format"] == "arpa"
    imported = tt.import_arpa(tmp_path / "model.arpa")
    for one, other in zip(again.score(texts), imported.score(texts), strict=True):
        assert other.log_probs == pytest.approx(one.log_probs, abs=1e-6)
    name = "model.safetensors"
    assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_loading_takes_little_of_the_memory_of_the_model(tmp_path):  # R115
    words = np.random.default_rng(1).zipf(1.2, 150_000) % 300
    lines = [" ".join(f"w{word}" for word in line) for line in words.reshape(-1, 15)]
    tt.train("ngram", lines, order=4, prune=[0], out=tmp_path / "run", progress="none")
    size = (tmp_path / "run" / "model.safetensors").stat().st_size
    tt.load(tmp_path / "run")  # what is imported at first counts once
    tracemalloc.start()
    tt.load(tmp_path / "run")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 2e6
    assert peak < size / 2


def test_counting_with_files_gives_the_same_pruned_model(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(f"w{word}" for word in line) + "\n" for line in LINES))
    for name, options in (("a", {}), ("b", {"memory": "300MB"})):
        tt.train(
            "ngram",
            text,
            order=4,
            prune=(0, 1),
            tokens="space",
            out=tmp_path / name,
            progress="none",
            **options,
        )
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("given", "fact"), [([1], 1), ([0, 2, 1], "[0, 2, 1]"), ([0, 0, 0, 1], 4), ([0, -1], -1)]
)
def test_bad_thresholds_are_refused(given, fact):
    with refuses("prune", fact):
        tt.train("ngram", ["a b c"] * 9, order=3, prune=given, progress="none")


def test_laplace_of_order_three_cannot_be_pruned():
    with refuses("prune", "laplace"):
        tt.train("ngram", ["a b c"] * 9, order=3, prune=[0], smoothing="laplace", progress="none")


class Registered:
    """A smoothing of another package, which has only what the protocol asks for."""

    name = "registered"

    def __init__(self, smoothing, **changes):
        self.smoothing, self.changes = smoothing, changes

    def fit(self, counts):
        return self.smoothing.fit(counts)._replace(**self.changes)

    def estimate(self, word):
        """A method of its own, which has nothing to do with ours."""


@pytest.mark.parametrize(
    ("order", "smoothing", "changes"), [(3, "laplace", {}), (2, "kneser-ney", {"replaces": True})]
)
def test_smoothings_of_other_packages_that_cannot_be_pruned_are_refused(order, smoothing, changes):
    counts = NgramCounts.of(LINES, order, SIZE, never=[0])
    with refuses("prune", "registered"):
        prune(counts, Registered(build_smoothing(smoothing), **changes), (0, 1))


@pytest.mark.parametrize(("order", "smoothing"), [(3, "kneser-ney"), (2, "laplace"), (3, "dirichlet")])
def test_smoothings_of_other_packages_are_pruned_as_ours(order, smoothing):
    counts, ours = NgramCounts.of(LINES, order, SIZE, never=[0]), build_smoothing(smoothing)
    expected = prune(counts, ours, (0, 1)).tensors()
    for name, values in prune(counts, Registered(ours), (0, 1)).tensors().items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def test_our_pruning_is_that_of_lmplz(tmp_path):  # R115
    if (lmplz := shutil.which("lmplz", path=os.environ.get("KENLM_BIN"))) is None:
        pytest.skip("KenLM's lmplz is not on the PATH or in the folder that KENLM_BIN names")
    draw = np.random.default_rng(4)
    lines = [(draw.zipf(1.3, draw.integers(1, 15)) % 20_000).tolist() for _ in range(5_000)]
    # lmplz counts the last n-gram of each length in its own way, which here is the same.
    lines.append([20_000])
    text = "".join(" ".join(f"w{word}" for word in line) + "\n" for line in lines)
    options = [lmplz, "-o", "4", "-S", "100M", "--prune", "0", "0", "1", "2"]
    with (tmp_path / "theirs.arpa").open("wb") as file:
        subprocess.run(options, input=text.encode(), stdout=file, check=True)
    words, theirs, _ = read_arpa(tmp_path / "theirs.arpa")
    ids = {word: number for number, word in enumerate(words)}
    counted = [[ids["<s>"], *(ids[f"w{word}"] for word in line), ids["</s>"]] for line in lines]
    counts = NgramCounts.of(counted, 4, len(words), never=[ids["<s>"]])
    model = prune(counts, build_smoothing("kneser-ney"), (0, 0, 1, 2))
    write_arpa(model, words, tmp_path / "ours.arpa")
    ours = read_arpa(tmp_path / "ours.arpa").model.tensors()
    for name, value in theirs.tensors().items():
        np.testing.assert_allclose(ours[name], value, rtol=2e-5, err_msg=name)
