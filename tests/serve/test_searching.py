"""Every search strategy by its name, in every endpoint that writes texts."""

from __future__ import annotations

import itertools
from typing import Annotated

import pytest

import throughtime as tt
from throughtime.interrupt import InterruptError, interruptible
from throughtime.search.exact import exact
from throughtime.search.sampling import Greedy
from throughtime.search.strategies import STRATEGIES
from throughtime.serve.cost import MAX_OF_OPTION

PAIR = {"q": ["the cat sees", "a bird"], "source": "en", "target": "fr"}
OPTIONS = {
    "greedy": {},
    "sampling": {"temperature": 1.5, "top_k": 9, "seed": 4, "num_return_sequences": 3},
    "beam": {"num_beams": 4, "length_penalty": 0.3, "num_return_sequences": 2},
    "diverse": {"groups": 2, "num_beams": 4, "diversity_penalty": 0.7, "num_return_sequences": 2},
    "stochastic": {"num_beams": 3, "seed": 2, "num_return_sequences": 3},
    "exact": {"budget": 300},
}


def texts_of(results):
    return [[one.text, *(other.text for other in one.alternatives)] for one in results]


@pytest.mark.parametrize("search", OPTIONS)
def test_translations_are_those_of_python(client, runs, search):
    found = client.post("/translate", json={**PAIR, "search": search, **OPTIONS[search]})
    assert found.status_code == 200, found.text
    answer = found.json()
    expected = tt.load(runs["en-fr"], "cpu").translate(PAIR["q"], search=search, **OPTIONS[search])
    others = answer.get("alternatives", [[], []])
    best = answer["translatedText"]
    assert [[one, *rest] for one, rest in zip(best, others, strict=True)] == texts_of(expected)


@pytest.mark.parametrize("search", OPTIONS)
def test_completions_are_those_of_python(client, runs, search):
    options = dict(OPTIONS[search])
    n = options.pop("num_return_sequences", 1)
    prompts = ["the cat", "a"]
    body = {"model": "counted", "prompt": prompts, "search": search, "max_tokens": 4, "n": n, "echo": True}
    answer = client.post("/v1/completions", json={**body, **options}).json()
    given = OPTIONS[search] | {"search": search, "max_new_tokens": 4}
    expected = tt.load(runs["counted"], "cpu").generate(prompts, **given)
    assert [one["text"] for one in answer["choices"]] == [text for own in texts_of(expected) for text in own]
    assert [one["index"] for one in answer["choices"]] == list(range(len(answer["choices"])))
    assert answer["usage"]["completion_tokens"] > 0


def test_exhaustive_search_refuses_what_it_cannot_hold(client):
    answer = client.post("/translate", json={**PAIR, "search": "exhaustive"})
    assert answer.status_code == 400
    assert "7^48 " in answer.json()["error"]


class Terse(Greedy):
    """A strategy of another package, with an option that no other has."""

    def __init__(self, end_id, *, words: Annotated[int, "Number of words"] = 1):
        super().__init__(end_id)
        self.words = words

    def advance(self, log_probs, hypotheses):
        if hypotheses.length >= self.words:
            log_probs[:, [number for number in range(log_probs.shape[1]) if number != self.end_id]] = -float(
                "inf"
            )
        return super().advance(log_probs, hypotheses)


def test_a_strategy_of_another_package_is_reached_with_its_options(client, monkeypatch):
    monkeypatch.setitem(STRATEGIES._own, "terse", f"{__name__}:Terse")
    for words in (1, 2):
        body = {"model": "counted", "prompt": "the", "search": "terse", "words": words, "max_tokens": 9}
        answer = client.post("/v1/completions", json=body).json()
        assert answer["usage"]["completion_tokens"] == words


@pytest.mark.parametrize("given", [{"stream": True}, {"logprobs": 2}, {"stop": "x"}, {"suffix": "x"}])
def test_completions_refuse_what_only_sampling_can_do(client, given):
    body = {"model": "counted", "prompt": "the", "search": "beam", **given}
    answer = client.post("/v1/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, *given)


BODIES = {
    "/translate": PAIR,
    "/compose": {"label": "music"},
    "/v1/completions": {"model": "counted", "prompt": "the", "max_tokens": 3},
    "/detect": {"q": "the cat"},
    "/inspect/beam": {"q": "a bird"},
    "/inspect/next": {"q": "the"},
}


@pytest.mark.parametrize(
    ("path", "given", "names"),
    [
        ("/translate", {"search": "beem"}, ("beem", "beam")),
        ("/translate", {"search": "beam", "groups": 2}, ("groups", "diverse")),
        (
            "/translate",
            {"search": "exact", "budget": MAX_OF_OPTION["budget"] + 1},
            ("budget", "2,001", "2,000"),
        ),
        ("/translate", {"search": "exact", "budget": "many"}, ("budget", "'many'")),
        ("/translate", {"search": "beam", "num_beams": 21}, ("num_beams", "20")),
        ("/translate", {"search": "diverse", "groups": [1] * 500}, ("groups",)),
        ("/translate", {"search": "beam", "alternatives": 2}, ("alternatives", "search")),
        ("/translate", {"num_beans": 3}, ("num_beans", "'num_beams'")),
        ("/translate", {"num_beans": 3, "search": "greedy"}, ("num_beans", "'num_beams'")),
        ("/translate", {"groups": 3}, ("groups", "diverse")),
        ("/translate", {"budget": 3, "search": "diverse"}, ("budget", "exact")),
        ("/translate", {"limit": 2.0}, ("limit", "2.0")),
        ("/translate", {"num_beams": 3, "search": "greedy"}, ("num_beams", "greedy")),
        ("/translate", {"alternatives": 2, "limit": 0.1}, ("limit", "diverse")),
        ("/translate", {"greedy": True}, ("greedy", "search=greedy")),
        ("/compose", {"limit": 0.1}, ("limit", "beam")),
        ("/compose", {"top_kk": 3}, ("top_kk", "'top_k'")),
        ("/compose", {"search": "greedy", "top_k": 3}, ("top_k", "greedy")),
        ("/compose", {"greedy": True, "seed": 3}, ("seed", "greedy")),
        ("/v1/completions", {"groups": 2}, ("groups", "diverse")),
        ("/v1/completions", {"diversity": 2.0}, ("diversity",)),
        ("/v1/completions", {"max_token": 2}, ("max_token", "'max_tokens'")),
        ("/v1/completions", {"search": "greedy", "num_beams": 4}, ("num_beams", "greedy")),
        ("/v1/completions", {"search": "greedy", "temperature": 0.4}, ("temperature", "greedy")),
        ("/v1/completions", {"search": "beam", "n": 2, "num_return_sequences": 3}, ("num_return_sequences",)),
        ("/v1/completions?num_beams=3", {}, ("num_beams", "query")),
        ("/translate?limit=0.1", {}, ("limit", "query")),
        ("/v1/completions", {"stream": True, "stream_options": {"usage": True}}, ("usage", "include_usage")),
        ("/detect", {"source": "en"}, ("source",)),
        ("/inspect/beam", {"num_beems": 2}, ("num_beems", "'num_beams'")),
        ("/inspect/next", {"kk": 2}, ("kk", "k")),
    ],
)
def test_options_that_cannot_be_or_would_be_ignored_are_refused(client, path, given, names):
    answer = client.post(path, json={**BODIES[path.partition("?")[0]], **given})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    sentence = error["message"] if isinstance(error, dict) else error
    assert all(name in sentence for name in names), sentence
    assert len(sentence) < (300 if "search" in given else 400)


def test_a_form_with_an_unknown_field_is_refused(client):
    answer = client.post("/translate", data={**PAIR, "q": "a bird", "alternative": "2"})
    assert (answer.status_code, "'alternatives'" in answer.json()["error"]) == (400, True)


def test_options_of_the_usual_search_need_no_name(client, runs):
    found = client.post("/translate", json={**PAIR, "limit": 0.0, "num_beams": 3}).json()
    expected = tt.load(runs["en-fr"], "cpu").translate(PAIR["q"], limit=0.0, num_beams=3)
    assert found["translatedText"] == [one.text for one in expected]
    body = {"label": "music", "num_beams": 3, "eager": True, "max_new_tokens": 4}
    (result,) = client.post("/compose", json=body).json()["results"]
    (answer,) = tt.load(runs["composer"], "cpu").compose("music", num_beams=3, eager=True, max_new_tokens=4)
    assert result["text"] == answer.text


def test_what_draws_has_no_effect_at_temperature_0(client):
    cold = {"label": "music", "temperature": 0, "max_new_tokens": 4}
    expected = client.post("/compose", json=cold).json()
    assert client.post("/compose", json={**cold, "top_k": 3, "seed": 4}).json() == expected
    named = {**BODIES["/v1/completions"], "temperature": 0, "seed": 4, "user": "someone"}
    assert client.post("/v1/completions", json=named).status_code == 200


@pytest.mark.parametrize("search", ["beam", "exact"])
def test_a_search_stops_between_steps_when_it_is_no_longer_wanted(runs, search):
    translator, rounds = tt.load(runs["en-fr"], "cpu"), itertools.count()
    prompts = [translator.codecs.prompt("the cat sees a bird")]
    with interruptible(lambda: next(rounds) >= 2), pytest.raises(InterruptError):
        if search == "beam":
            translator.run_search(prompts, translator.build_search("beam"))
        else:
            exact(translator.step_model, prompts, translator.codecs.end_id, max_new_tokens=20, at_once=1)
    assert next(rounds) == 3
