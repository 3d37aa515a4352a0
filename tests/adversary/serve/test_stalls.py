"""No request holds the event loop or the interpreter: probes are answered while others are worked on."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adversary.serve.probing import measure_waits

from throughtime.serve import bodies
from throughtime.serve.requests import RefusalError

ENOUGH = 95_000
BAD = {
    "prompts that are no prompts": ("/v1/completions", "prompt", "{}", ENOUGH),
    "prompts of one id": ("/v1/completions", "prompt", "[1]", ENOUGH),
    "texts of half a character": ("/fill", "q", '"\\ud800"', 110_000),
    "series without values": ("/forecast", "series", "{}", ENOUGH),
    "vectors of texts": ("/compose", "vector", '[""]', ENOUGH),
    "more values than are read": ("/fill", "q", "1", 480_000),
    "more lists than are read": ("/compose", "vector", "[]", 300_000),
}


def repeat(name: str, value: str, times: int) -> bytes:
    return f'{{"model": "letters", "{name}": [{",".join([value] * times)}]}}'.encode()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_body_is_refused_without_a_stall(host, name):
    path, *body = BAD[name]
    waits, status, _ = measure_waits(host, path, repeat(*body))
    assert status in (400, 413)
    assert waits.are_short, waits


def test_many_series_do_not_stall_the_server(host):
    series = ",".join(f'{{"unique_id":"{number}","y":[1]}}' for number in [*range(33_000), 32_999])
    waits, status, answer = measure_waits(host, "/forecast", f'{{"series":[{series}]}}'.encode())
    assert (status, b"'32999'" in answer) == (400, True)
    assert waits.are_short, waits


def test_a_long_answer_does_not_stall_the_server(host):
    asked = {"model": "letters", "prompt": ["the cat"] * 8, "n": 16, "max_tokens": 40, "logprobs": 5}
    waits, status, answer = measure_waits(host, "/v1/completions", asked)
    assert status == 200
    choices = json.loads(answer)["choices"]
    assert [len(one["logprobs"]["top_logprobs"]) for one in choices] == [40] * 128
    assert waits.are_short, waits


def test_an_answer_has_no_more_bytes_than_allowed():
    assert bodies._write([7] * 10, 21) == b"[7,7,7,7,7,7,7,7,7,7]"
    with pytest.raises(RefusalError, match=r"20 bytes") as refused:
        bodies._write([7] * 10, 20)
    assert refused.value.status == 413


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
)


def cleaned(value):
    """A value as JSON knows it."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: cleaned(one) for name, one in value.items()}
    return [cleaned(one) for one in value] if isinstance(value, list | tuple) else value


@settings(deadline=None, max_examples=40)
@given(values)
def test_an_answer_is_json_without_what_json_lacks(value):
    assert json.loads(bodies._write(value, 10**9)) == cleaned(value)


ASKED = {
    "/translate": {"q": "the cat", "source": "en", "target": "fr"},
    "/v1/completions": {"model": "letters", "prompt": "the cat"},
}


@pytest.mark.parametrize("path", ASKED)
def test_many_options_of_a_search_do_not_stall_the_server(host, path):
    many = {f"f{number}": 1 for number in range(60_000)}
    waits, status, answer = measure_waits(host, path, {**many, **ASKED[path], "search": "beam"})
    assert (status, b"f0: is not a field" in answer) == (400, True), (waits.longest_step, answer[:200])
    assert waits.are_short, waits
