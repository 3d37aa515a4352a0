"""What a model can say little about is answered with `warnings`; a plain request has no such field."""

from __future__ import annotations

import json

import pytest

CHINESE = "猫在睡觉"
REQUESTS = {
    "/translate": lambda text: {"q": text, "source": "en", "target": "fr"},
    "/tag": lambda text: {"q": text},
    "/classify": lambda text: {"q": text},
    "/fill": lambda text: {"q": f"{text} ___"},
    "/v1/completions": lambda text: {"model": "counted", "prompt": text, "max_tokens": 2},
    "/inspect/attention": lambda text: {"q": text},
    "/inspect/beam": lambda text: {"q": text},
    "/inspect/next": lambda text: {"q": text, "model": "counted"},
    "/inspect/gates": lambda text: {"q": text, "model": "letters"},
}
PLAIN = {"/tag": "bring tea"}


@pytest.mark.parametrize("path", REQUESTS)
def test_a_strange_script_comes_with_a_warning_and_plain_text_without(client, path):
    plain = client.post(path, json=REQUESTS[path](PLAIN.get(path, "the cat")))
    assert plain.status_code == 200
    assert "warnings" not in plain.json()
    strange = client.post(path, json=REQUESTS[path](CHINESE))
    assert strange.status_code == 200
    [warning] = strange.json()["warnings"]
    assert "Chinese" in warning
    assert strange.json().keys() == plain.json().keys() | {"warnings"}


def test_texts_of_a_list_are_called_by_their_numbers(client):
    texts = ["the cat", "le chien dort", CHINESE, "the dog", CHINESE]
    asked = {"q": texts, "source": "en", "target": "fr"}
    found = client.post("/translate", json=asked).json()
    assert len(found["translatedText"]) == 5
    by_script = [one for one in found["warnings"] if "Chinese" in one]
    assert len(by_script) == 1
    assert by_script[0].startswith("text 3 ")
    # Of languages that are guessed, each text still has its own number.
    asked["source"] = "auto"
    texts[:] = ["the cat sleeps", "le chat est ici avec le chien", "where is the xqzt blub zork wupf?"]
    guessed = client.post("/translate", json=asked).json()
    assert [one["language"] for one in guessed["detectedLanguage"]] == ["en", "fr", "en"]
    assert [one.split(" has ")[0] for one in guessed["warnings"]] == ["text 3"]


def test_prompts_of_completions(client):
    asked = {"model": "counted", "prompt": ["the", CHINESE, ""], "max_tokens": 1}
    [warning] = client.post("/v1/completions", json=asked).json()["warnings"]
    assert warning.startswith("text 2 ")
    for quiet in ("", [4, 5]):
        asked["prompt"] = quiet
        assert "warnings" not in client.post("/v1/completions", json=asked).json()
    filled = {"model": "blanks", "prompt": CHINESE, "suffix": "睡觉"}
    assert "Chinese" in client.post("/v1/completions", json=filled).json()["warnings"][0]


def test_a_stream_warns_in_its_first_event_alone(client):
    asked = {"model": "counted", "prompt": CHINESE, "max_tokens": 2, "stream": True}
    lines = client.post("/v1/completions", json=asked).text.split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert len(events) > 1
    assert ["warnings" in event for event in events] == [True] + [False] * (len(events) - 1)
