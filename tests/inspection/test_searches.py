"""All searches side by side: each row is what that search finds, with the work that the model did for it."""

from __future__ import annotations

import warnings

import pytest
from tests.graphs import untrained
from tests.refusals import refuses

import throughtime as tt
from throughtime.errors import ThroughtimeError, ThroughtimeWarning
from throughtime.inspection.searches import compare_searches
from throughtime.search.sampling import Greedy
from throughtime.search.strategies import STRATEGIES, strategy_options

SENTENCE = "the cat sees"


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return tt.load(untrained.translator(tmp_path_factory.mktemp("translator")), device="cpu")


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    run = untrained.language(tmp_path_factory.mktemp("language"), layout="lines")
    return tt.load(run, device="cpu")


@pytest.mark.parametrize("search", STRATEGIES)
def test_a_row_is_what_translate_finds(translator, search):  # R100, R101, R102
    row = compare_searches(translator, SENTENCE, max_length=3, seed=5)[search]
    seeded = {"seed": 5} if "seed" in strategy_options(search) else {}
    [answer] = translator.translate(SENTENCE, search=search, max_length=3, **seeded)
    assert (row.text, row.log_prob, row.score, row.ended) == (
        answer.text,
        answer.log_prob,
        answer.score,
        answer.ended,
    )


@pytest.mark.parametrize("search", STRATEGIES)
def test_a_row_is_what_generate_finds(language, search):  # R100, R101, R102
    row = compare_searches(language, SENTENCE, max_length=3, seed=5)[search]
    seeded = {"seed": 5} if "seed" in strategy_options(search) else {}
    [answer] = language.generate(SENTENCE, search=search, max_new_tokens=3, **seeded)
    assert (row.text, row.log_prob, row.ended) == (answer.text, answer.log_prob, answer.ended)


def test_the_work_of_the_model_is_counted(translator):
    found = compare_searches(translator, SENTENCE, max_length=3, num_beams=4)
    greedy, every = found["greedy"], found["exhaustive"]
    assert greedy.steps == greedy.hypotheses == greedy.tokens + greedy.ended
    # All tokens but the end and those that are never written continue each hypothesis.
    wide = len(translator.codecs.target.vocabulary) - 1 - len(translator.codecs.excluded_ids)
    assert (every.steps, every.hypotheses) == (3, 1 + wide + wide**2)
    assert found["beam"].hypotheses <= 1 + 4 + 4
    assert greedy.hypotheses < found["beam"].hypotheses < every.hypotheses
    assert found["exact"].steps > found["beam"].steps  # it begins with a beam
    single = compare_searches(translator, SENTENCE, max_length=3, num_beams=1)
    assert single["beam"].hypotheses == single["diverse"].hypotheses == greedy.hypotheses
    assert single["beam"].text == single["diverse"].text == greedy.text


def test_no_result_that_ended_is_likelier_than_that_of_exact_search(translator):  # R99
    found = compare_searches(translator, SENTENCE)
    assert all(row.log_prob <= found["exact"].log_prob + 1e-6 for row in found.rows if row.ended)


def test_a_search_that_cannot_run_says_why_and_the_others_run(translator):
    found = compare_searches(translator, SENTENCE)
    size = len(translator.codecs.target.vocabulary)
    row = found["exhaustive"]
    assert (row.text, row.log_prob, row.score) == (None, None, None)
    assert f"{size}^{found.max_length}" in row.note
    assert not row.note.startswith("exhaustive search")
    assert [row.search for row in found.rows if row.text is None] == ["exhaustive"]


def test_refusals_and_warnings_of_other_strategies_are_notes(translator, monkeypatch):
    def picky(end_id):
        raise ThroughtimeError("needs a licence")

    def unsure(end_id):
        warnings.warn("is not certain", ThroughtimeWarning, stacklevel=1)
        return Greedy(end_id)

    monkeypatch.setattr(STRATEGIES, "_loaded", {**STRATEGIES._loaded, "picky": picky, "unsure": unsure})
    monkeypatch.setitem(STRATEGIES.__dict__, "outside", {"picky": None, "unsure": None})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare_searches(translator, SENTENCE)
    assert [row.search for row in found.rows][-2:] == ["picky", "unsure"]
    assert (found["picky"].text, found["picky"].note) == (None, "needs a licence")
    assert found["unsure"].text == found["greedy"].text
    assert "is not certain" in found["unsure"].note
    assert found["greedy"].note is None


def test_what_cannot_be_searched_is_refused(translator, tmp_path):
    for text in ("", "cat " * 200):
        with refuses("sentence"):
            compare_searches(translator, text)
    with refuses("model"):
        compare_searches(tt.load(untrained.classifier(tmp_path), device="cpu"), SENTENCE)
