"""Counted language models from text to model folder and back."""

from __future__ import annotations

import math

import pytest
from tests.refusals import refuses

import throughtime as tt
from throughtime.config import build_config
from throughtime.run import Training
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.tasks.ngram.model import NgramLanguageModel

LINES = ["the cat sat on the mat .", "the dog sat on the cat .", "a dog bites a man .", "the man ran ."] * 5


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "animals.txt"
    path.write_text("\n".join(LINES) + "\n")
    return str(path)


def trained(corpus, **options):
    config = build_config(NgramConfig, {"data": corpus, "tokens": "space", "split": "all", **options}, "test")
    dataset = tt.open_dataset(corpus)
    return NgramLanguageModel.create(config, dataset).count(dataset)


@pytest.mark.parametrize("layout", ["lines", "stream"])
@pytest.mark.parametrize("backward", [False, True])
def test_evaluation_is_the_sum_over_the_texts(corpus, layout, backward):  # R7, R34
    model = trained(corpus, order=3, layout=layout, backward=backward)
    data = tt.open_dataset(corpus, layout=layout)
    measured = model.likelihood(data, "all")
    assert measured.tokens == sum(len(line.split()) + (layout == "lines") for line in LINES)
    assert measured.characters == sum(len(line) + 1 for line in LINES) - (layout == "stream")
    if layout == "lines":
        total = sum(one.total for one in model.score(LINES))
        assert measured.nats == pytest.approx(-total)


def test_ranking_prefers_what_was_seen(corpus):  # R17
    model = trained(corpus, order=3)
    bites, bitten = model.score(["a dog bites a man .", "a man bites a dog ."])
    assert bites.total > bitten.total
    assert bites.per_token == pytest.approx(bites.total / 7)
    assert bites.tokens[-1] == "<eos>"


def test_with_minutes_the_order_is_chosen_by_validation(tmp_path):  # R112
    said = []
    settings = {"data": "embedded/english", "tokens": "unicode", "minutes": 0.5}
    run = Training("ngram", settings, tmp_path / "run", say=said.append)
    run.start()
    order, perplexity = run.values["order"], run.values["valid_perplexity"]
    assert 2 < order < 12
    assert tt.load(tmp_path / "run").config.order == order
    assert any(f"{order}" in line and f"{perplexity:.4g}" in line for line in said)
    for other in (order - 1, order + 1):
        model = tt.train(
            "ngram", "embedded/english", tokens="unicode", order=other, out=tmp_path / f"{other}"
        )
        assert model.evaluate(split="valid").values["perplexity"] > perplexity * 0.999


@pytest.mark.parametrize("lists", [{"prune": [0, 0, 0, 1]}, {"smoothing": "laplace", "strengths": [1, 20]}])
def test_the_order_that_is_chosen_fits_the_numbers_per_order(lists, tmp_path):
    model = tt.train(
        "ngram", "embedded/english", tokens="unicode", minutes=0.5, out=tmp_path / "run", **lists
    )
    assert model.config.order >= max(len(lists.get("prune", ())), len(lists.get("strengths", ())))


def test_with_few_minutes_the_orders_that_there_is_time_for_are_tried(tmp_path):
    model = tt.train("ngram", "embedded/english", tokens="char", minutes=1e-4, out=tmp_path / "run")
    assert model.config.order == 1


@pytest.mark.parametrize("other", [{"order": 3}, {"memory": "2GB"}, {"split": "all"}])
def test_minutes_are_for_choosing_the_order_by_validation(other, tmp_path):
    with refuses("minutes", *other):
        tt.train("ngram", "embedded/english", minutes=1, out=tmp_path / "run", **other)


@pytest.mark.parametrize(("split", "suggested"), [("train", "test"), ("test", "valid"), ("all", None)])
def test_only_what_was_not_counted_is_for_evaluation(split, suggested, tmp_path):
    model = tt.train("ngram", "embedded/english", split=split, out=tmp_path / "run")
    commands = model.suggestions(tt.open_dataset("embedded/english"))
    assert commands[:-1] == ([f"evaluate {{run}} --split {suggested}"] if suggested else [])
    result = model.evaluate(split="test")
    assert (result["trained_on"] == result["records"]) == (split != "train")
    assert ("Warning" in result.text.splitlines()[-1]) == (split != "train")


def test_an_empty_text_has_an_end_in_lines_and_nothing_to_score_in_a_stream(corpus):
    [scored] = trained(corpus).score([""])
    assert scored.tokens == ("<eos>",)
    assert scored.total < -1
    nothing, some = trained(corpus, layout="stream").score([" ", "the cat"])
    assert (nothing.tokens, nothing.total) == ((), 0)
    assert some.tokens == ("the", "cat")


def test_a_vocabulary_that_is_not_that_of_the_counts_is_refused(corpus, tmp_path):
    trained(corpus).save(tmp_path / "run")
    words = tmp_path / "run" / "vocabulary.txt"
    words.write_text("".join(words.read_text().splitlines(keepends=True)[:5]))
    with refuses("run", "5", "14"):
        tt.load(tmp_path / "run", trust_changed=True)


def test_unknown_words_are_scored_and_counted(corpus, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("the zebra ran .\n")
    model = trained(corpus, order=2)
    measured = model.likelihood(tt.open_dataset(str(other)), "all")
    assert measured.unknown == 1
    assert math.isfinite(measured.perplexity)
    blunt = trained(corpus, order=2, smoothing="relative-frequency")
    assert blunt.likelihood(tt.open_dataset(str(other)), "all").perplexity == math.inf


def test_generation_begins_with_its_prompt_and_a_backward_one_ends_with_it(corpus):  # R41
    forward = trained(corpus, order=3)
    assert (
        forward.generate("the dog", strategy=forward.strategy(greedy=True))[0].text
        == "the dog sat on the cat ."
    )
    backward = trained(corpus, order=6, backward=True)
    [found] = backward.generate("the cat .", strategy=backward.strategy(greedy=True))
    assert found.text == "the dog sat on the cat ."
    with refuses("num_return_sequences", "2"):
        forward.strategy(greedy=True, num_return_sequences=2)
    with refuses("prompt"):
        next(iter(backward.stream("the")))


def test_streamed_pieces_join_to_the_generated_text(corpus):
    model = trained(corpus, order=3, layout="stream")
    whole = model.generate("the", strategy=model.strategy(seed=5), max_new_tokens=60)[0].text
    pieces = list(model.stream("the", strategy=model.strategy(seed=5), max_new_tokens=60))
    assert "".join(pieces) == whole
    assert len(pieces) == 61


def test_character_models_follow_the_corpus_suggestion(corpora):
    data = tt.open_dataset("timemachine")
    config = build_config(NgramConfig, {"data": "timemachine", "order": 6}, "test")
    model = NgramLanguageModel.create(config, data).count(data)
    assert (model.config.tokens, model.config.normaliser, model.config.layout) == (
        "char",
        "letters",
        "stream",
    )
    # A Kneser-Ney 6-gram trained on the first 90 % of the lines.
    assert model.likelihood(data, "heldout").perplexity == pytest.approx(3.69, abs=0.01)


def test_words_are_forbidden_and_required(corpus):
    model = trained(corpus, order=3)
    [found] = model.generate("the", num_beams=3, forbid=["cat"], require=["man"], max_new_tokens=8)
    assert "man" in found.text.split()
    assert "cat" not in found.text.split()
    [found] = model.generate("the", search="exact", no_repeat_ngram=1, max_new_tokens=8)
    added = found.text.split()[1:]
    assert (found.ended, len(added)) == (True, len({*added}))
    with refuses("require", "'zebra'"):
        model.generate(require=["zebra"])
    with refuses("num_return_sequences", "2"):
        model.generate(search="exact", num_return_sequences=2)
    with refuses("require"):
        trained(corpus, backward=True).generate(require=["man"])
    with refuses("require"):
        trained(corpus, layout="stream").generate(require=["man"])
