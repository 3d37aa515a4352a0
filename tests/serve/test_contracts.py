"""The contracts as clients know them that we did not write: libretranslatepy and openai, on real sockets."""

from __future__ import annotations

import json
import math
import re
import urllib.error

import openai
import pytest
from libretranslatepy import LibreTranslateAPI
from tests.refusals import lacks
from tests.serve.conftest import serving

import throughtime as tt
from throughtime.serve.requests import Options


@pytest.fixture
def libre(address):
    return LibreTranslateAPI(address)


@pytest.fixture
def gpt(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_libretranslate_client_translates_detects_and_lists(libre, runs):
    expected = tt.load(runs["en-fr"], "cpu").translate(["the cat sees"])[0].text
    assert libre.translate("the cat sees", "en", "fr") == expected
    assert libre.detect("where is the dog and what does it see?")[0]["language"] == "en"
    assert libre.detect("où est le chien et que voit-il ?")[0]["language"] == "fr"
    assert {one["code"]: one["name"] for one in libre.languages()} == {"en": "English", "fr": "French"}


def test_libretranslate_client_is_refused_as_it_expects(libre):
    with pytest.raises(urllib.error.HTTPError) as caught:
        libre.translate("hello", "en", "tlh")
    with caught.value as error:
        assert error.code == 400
        assert not lacks(json.load(error)["error"], "'tlh'", "en", "fr")


def test_libretranslate_client_needs_the_key(models):
    with serving(models, Options(api_key="sesame")) as (_, address):
        assert LibreTranslateAPI(address, "sesame").translate("the cat", "en", "fr")
        with pytest.raises(urllib.error.HTTPError) as caught:
            LibreTranslateAPI(address, "rosebud").translate("the cat", "en", "fr")
        with caught.value as error:
            assert error.code == 403
            assert json.load(error).keys() == {"error"}
        with (
            openai.OpenAI(base_url=f"{address}/v1", api_key="rosebud", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.models.list()
        with openai.OpenAI(base_url=f"{address}/v1", api_key="sesame", max_retries=0) as client:
            assert client.models.list().data


def test_translate_takes_json_forms_lists_and_alternatives(client):
    body = {"q": "the cat sees", "source": "en", "target": "fr"}
    plain = client.post("/translate", json=body).json()
    assert plain == client.post("/translate", data=body).json()
    assert (
        plain == client.post("/translate", files={name: (None, text) for name, text in body.items()}).json()
    )
    several = client.post("/translate", json={**body, "q": ["the cat sees", ""], "alternatives": 2}).json()
    assert several["translatedText"][1] == ""
    assert len(several["alternatives"]) == 2
    assert len(several["alternatives"][0]) == 2
    assert "detectedLanguage" not in several


def test_what_a_form_leaves_out_may_stand_in_the_query(client):
    asked = {"q": "the cat sees", "source": "en", "target": "fr"}
    plain = client.post("/translate", json=asked).json()
    assert client.post("/translate", params=asked).json() == plain
    assert client.post("/translate", params={**asked, "q": "a bird"}, data={"q": asked["q"]}).json() == plain
    assert client.post("/detect", params={"q": "where is the dog?"}).json()[0]["language"] == "en"
    several = client.post("/translate", params={**asked, "q": ["the cat sees", "a bird"]}).json()
    assert several["translatedText"][0] == plain["translatedText"]
    # A JSON body speaks for itself.
    refused = client.post("/translate", params=asked, json={"q": "the cat sees"})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("source: ")


@pytest.mark.parametrize("path", ["/translate", "/detect", "/tag", "/classify", "/fill"])
@pytest.mark.parametrize("q", [[], 5, ["the cat", None]])
def test_what_is_no_text_is_refused_in_a_sentence(client, path, q):
    languages = {"source": "en", "target": "fr"} if path == "/translate" else {}
    answer = client.post(path, json={"q": q, **languages})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("q: ")


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"content": b'{"q": hi}'}, ("JSON", "6")),
        ({"json": ["hi"]}, ("JSON",)),
        ({"data": {"q": "hi"}}, ("JSON",)),
        ({}, ("JSON",)),
    ],
)
def test_a_body_that_is_no_json_object_is_refused_in_a_sentence(client, given, facts):
    headers = {"Content-Type": "application/json"} if "content" in given else {}
    answer = client.post("/classify", headers=headers, **given)
    assert answer.status_code == 400
    assert not lacks(answer.json()["error"], *facts)
    answer = client.post("/v1/completions", headers=headers, **given)
    assert not lacks(answer.json()["error"]["message"], *facts)
    assert answer.json()["error"]["param"] is None


def test_a_known_path_with_another_method_is_405_and_an_unknown_one_404(client):
    for method, path, allowed in [
        ("GET", "/translate", "POST"),
        ("PUT", "/forecast", "POST"),
        ("GET", "/inspect/beam", "POST"),
        ("POST", "/languages", "GET"),
        ("DELETE", "/health", "GET"),
        ("POST", "/", "GET, HEAD"),
    ]:
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert allowed in answer.json()["error"]
    answer = client.get("/v1/completions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    error = answer.json()["error"]
    assert "POST" in error.pop("message")
    assert error == {"type": "invalid_request_error", "param": None, "code": None}
    for method in ("GET", "POST"):
        for path in ("/nowhere", "/translate/", "/../app.py", "/v1/nothing"):
            assert client.request(method, path).status_code == 404
    assert client.get("/").status_code == 200
    assert client.head("/").status_code == 200


def test_auto_tells_what_it_detected_and_leaves_the_target_language_alone(client):
    asked = {"q": ["the dog and the bird", "le chien et l'oiseau"], "source": "auto", "target": "fr"}
    found = client.post("/translate", json=asked).json()
    assert [one["language"] for one in found["detectedLanguage"]] == ["en", "fr"]
    assert found["translatedText"][1] == "le chien et l'oiseau"


def test_auto_reads_the_texts_of_a_page_and_not_its_tags(client):
    tag = '<div class="the main part of the page" title="where is the dog and what does the bird see there">'
    page = f"<!-- this is the top of the page -->{tag * 5}<p>le <b>chien</b> et l'oiseau</p>{'</div>' * 5}"
    asked = {"q": page, "source": "auto", "target": "fr", "format": "html"}
    found = client.post("/translate", json=asked).json()
    assert found["detectedLanguage"]["language"] == "fr"
    assert found["translatedText"] == page
    as_text = client.post("/translate", json={**asked, "format": "text"}).json()
    assert as_text["detectedLanguage"]["language"] == "en"


def test_html_keeps_its_tags(client):
    asked = {"source": "en", "target": "fr"}
    text = client.post("/translate", json={**asked, "q": "the cat"}).json()["translatedText"]
    page = '<p class="a > b">the cat</p>, <!-- the cat --><script>the cat</script>'
    found = client.post("/translate", json={**asked, "q": page, "format": "html"}).json()["translatedText"]
    assert found == page.replace("the cat", text, 1)
    inside = client.post("/translate", json={**asked, "q": "the <b>cat</b>", "format": "html"}).json()
    assert re.sub("</?b>", "", inside["translatedText"]) == text
    assert re.findall("</?b>", inside["translatedText"]) == ["<b>", "</b>"]
    plain = client.post("/translate", json={**asked, "q": "the <b>cat", "format": "text"}).json()
    assert "&lt;" not in plain["translatedText"]


def test_openai_client_lists_models_and_completes(gpt, models):
    assert {"counted", "letters"} <= {one.id for one in gpt.models.list()}
    assert gpt.models.retrieve("letters").id == "letters"
    asked = {"model": "counted", "prompt": "the cat", "max_tokens": 3, "temperature": 0}
    found = gpt.completions.create(**asked)
    assert found.choices[0].text == " sleeps ."
    assert found.choices[0].finish_reason == "stop"  # a line ends there
    # Marks of beginning and end are no tokens of the text; a beginning that was given as one is.
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (2, 2)
    codec = models.get("counted").model.framing.codec
    for ids in (codec.encode("the cat"), codec.encode("the cat", bos=True)):
        assert gpt.completions.create(**{**asked, "prompt": ids}).usage.prompt_tokens == len(ids)
    assert gpt.completions.create(**asked, echo=True).choices[0].text == "the cat sleeps ."


def test_openai_client_streams_what_it_completes(gpt):
    asked = {"model": "letters", "prompt": ["the ", "a "], "max_tokens": 25, "seed": 3, "n": 2}
    whole = gpt.completions.create(**asked)
    texts = dict.fromkeys(range(4), "")
    finishes = {}
    for piece in gpt.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        for choice in piece.choices:
            texts[choice.index] += choice.text
            if choice.finish_reason is not None:
                finishes[choice.index] = choice.finish_reason
    assert texts == {one.index: one.text for one in whole.choices}
    assert finishes == {one.index: one.finish_reason for one in whole.choices}
    assert piece.usage == whole.usage


def test_a_stop_ends_the_text_before_it_also_where_it_is_streamed(gpt):
    asked = {"model": "letters", "prompt": "the ", "max_tokens": 60, "seed": 3}
    free = gpt.completions.create(**asked).choices[0].text
    stop = free[10:13]
    expected = free[: free.index(stop)]
    found = gpt.completions.create(**asked, stop=stop).choices[0]
    assert (found.text, found.finish_reason) == (expected, "stop")
    pieces = gpt.completions.create(**asked, stop=[stop], stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == expected


def test_log_probabilities_are_the_models_own(gpt, runs):
    asked = {"model": "counted", "prompt": "the cat", "temperature": 0}
    found = gpt.completions.create(**asked, echo=True, logprobs=2, max_tokens=2).choices[0].logprobs
    scored = tt.load(runs["counted"]).score(["the cat sleeps ."])[0]
    assert found.tokens == ["the", " cat", " sleeps", " ."]
    assert found.token_logprobs == pytest.approx(scored.log_probs[:4], abs=1e-9)
    assert found.text_offset == [0, 3, 7, 14]
    assert found.top_logprobs[:2] == [None, None]
    for place in (2, 3):
        assert len(found.top_logprobs[place]) == 2
        assert found.top_logprobs[place][found.tokens[place]] == found.token_logprobs[place]
        assert all(token == "<eos>" or token.startswith(" ") for token in found.top_logprobs[place])
    alone = gpt.completions.create(**asked, echo=True, logprobs=0, max_tokens=0).choices[0]
    assert alone.text == "the cat"
    assert alone.logprobs.token_logprobs == pytest.approx(scored.log_probs[:2], abs=1e-9)


def test_a_suffix_is_for_a_fill_in_model(gpt, runs, models):
    answer = gpt.completions.create(model="counted", prompt="the cat", suffix=" .", max_tokens=1)
    found, usage = answer.choices[0], answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 1, 4)  # the cat _ .
    best = tt.load(runs["blanks"], "cpu").fill("the cat ___ .", k=1)[0]
    assert "the cat" + found.text + " ." == best.text
    without = type(models)([one for one in models if one.name == "counted"])
    with (
        serving(without) as (_, address),
        openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.completions.create(model="counted", prompt="the", suffix=".")
    assert caught.value.param == "suffix"


def test_openai_client_is_refused_as_it_expects(gpt):
    with pytest.raises(openai.NotFoundError, match=r"'\.\./counted'") as caught:
        gpt.completions.create(model="../counted", prompt="the")
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
    with pytest.raises(openai.BadRequestError, match="en-fr"):
        gpt.completions.create(model="en-fr", prompt="the")
    with pytest.raises(openai.BadRequestError, match="frequency_penalty"):
        gpt.completions.create(model="counted", prompt="the", frequency_penalty=1)


def test_forecasts_follow_the_series_and_have_their_intervals(client):
    y = [math.sin(t) for t in range(20)]
    series = [
        {"unique_id": "a", "y": y},
        {"unique_id": "b", "ds": list(range(100, 120)), "y": [*y[:-1], None]},
    ]
    found = client.post("/forecast", json={"series": series, "h": 3, "level": [80, 50]}).json()
    first, second = found["forecasts"]
    assert first["ds"] == ["20", "21", "22"]
    assert second["ds"] == ["120", "121", "122"]
    assert list(first["intervals"]) == ["50", "80"]
    wide, narrow = first["intervals"]["80"], first["intervals"]["50"]
    assert all(a <= b for a, b in zip(wide["lo"], narrow["lo"], strict=True))
    assert all(a >= b for a, b in zip(wide["hi"], narrow["hi"], strict=True))
    # The order of rows does not matter, only their times.
    turned = {"unique_id": "a", "y": y[::-1], "ds": list(range(20))[::-1]}
    again = client.post("/forecast", json={"series": [turned], "h": 3}).json()["forecasts"][0]
    assert again["mean"] == pytest.approx(first["mean"], rel=1e-4)


@pytest.mark.parametrize(
    ("series", "facts"),
    [
        ({"y": [1, 2]}, ("2", "8")),
        ({"y": [1, 2], "ds": [1]}, ("1", "2")),
        ({"y": [1, 2], "ds": [3, 3]}, ("series",)),
        ({"y": [1], "ds": ["yesterday"]}, ("'yesterday'",)),
        ({"y": [1, 2], "ds": ["1200-01-01", "1200-01-02"]}, ("1678", "2261")),
    ],
)
def test_bad_series_are_refused_in_a_sentence(client, series, facts):
    answer = client.post("/forecast", json={"series": [series]})
    assert answer.status_code == 400
    assert not lacks(answer.json()["error"], *facts)


def test_nothing_on_the_docs_page_comes_from_elsewhere(client):
    page = client.get("/docs").text
    assert "POST /translate" in page
    assert "POST /v1/completions" in page
    assert "src=" not in page
    assert "//" not in page.replace(str(client.base_url).rstrip("/"), "")


def test_every_model_is_listed_with_its_task(client):
    tasks = {one["name"]: one["task"] for one in client.get("/models").json()}
    assert tasks["en-fr"] == "translate"
    assert tasks["waves"] == "forecast"
    assert client.get("/health").json() == {"status": "ok"}
    settings = client.get("/frontend/settings").json()
    assert settings["language"]["source"]["code"] == "en"


def test_dates_are_read_in_the_one_order_that_fits(client):
    y = [math.sin(t) for t in range(20)]
    for ds in (
        [f"{day}.01.2023" for day in range(1, 21)],
        [f"1/{day}/2023" for day in range(1, 21)],
    ):
        answer = client.post("/forecast", json={"series": [{"y": y, "ds": ds}], "h": 1})
        assert answer.status_code == 400, answer.json()  # the model counts rows, not days
        assert "every day" in answer.json()["error"]
    body = {"series": [{"y": y[:9], "ds": [f"1/{day}/2023" for day in range(1, 10)]}]}
    refused = client.post("/forecast", json=body)
    assert refused.status_code == 400
    assert "date_format" in refused.json()["error"]
    read = client.post("/forecast", json={**body, "date_format": "%d/%m/%Y"})
    assert "every month" in read.json()["error"]
    refused = client.post("/forecast", json={**body, "date_format": "%d"})
    assert not lacks(refused.json()["error"], "date_format:", "'%d'", "%Y")
