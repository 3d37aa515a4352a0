"""Requests that nobody would think of: none of them may break the server."""

from __future__ import annotations

import io
import json

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from throughtime.serve.app import create_app
from throughtime.serve.options import Options

FEW = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)


LITTLE = Options(max_tokens=30, max_horizon=30)


@pytest.fixture(scope="module")
def client(models):
    with TestClient(create_app(models, LITTLE, log=io.StringIO())) as found:
        yield found


def test_what_the_description_allows_is_answered(models):
    app = create_app(models, LITTLE, log=io.StringIO())
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert {"/translate", "/v1/completions", "/forecast"} <= {one.path for one in operations}
    for operation in operations:

        @FEW
        @given(case=operation.as_strategy())
        def answered(case):
            answer = case.call()
            assert answer.status_code < 500
            if answer.status_code >= 400:
                assert "error" in answer.json()

        answered()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
FIELDS = {
    "/translate": {"q": "the cat", "source": "en", "target": "fr", "format": "html", "alternatives": 1},
    "/detect": {"q": "the cat"},
    "/v1/completions": {
        "model": "counted",
        "prompt": "the",
        "max_tokens": 3,
        "stop": "x",
        "suffix": ".",
        "n": 1,
    },
    "/tag": {"q": "the cat", "tokenize": "space"},
    "/classify": {"q": "the cat", "k": 1},
    "/fill": {"q": "the ___", "k": 1},
    "/forecast": {
        "series": [{"unique_id": "a", "y": [1.0] * 9, "ds": list(range(9))}],
        "h": 2,
        "level": [80],
    },
}


@settings(FEW, max_examples=60)
@given(data=st.data())
def test_right_requests_with_one_thing_wrong_are_answered(data, client):
    path = data.draw(st.sampled_from(sorted(FIELDS)))
    body = dict(FIELDS[path])
    body[data.draw(st.sampled_from(sorted(body)))] = data.draw(values)
    answer = client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code < 500
    answer.json()


@settings(FEW, max_examples=40)
@given(data=st.data())
def test_odd_series_are_answered(data, client):
    numbers = st.none() | st.floats(-1e30, 1e30) | st.sampled_from([0.0, 1e-300, 1e30, -1e30])
    y = data.draw(st.lists(numbers, min_size=8, max_size=14))
    times = st.integers(-(10**12), 10**12) | st.dates().map(str) | st.datetimes().map(str)
    ds = data.draw(st.none() | st.lists(times, min_size=len(y), max_size=len(y)))
    body = {"series": [{"y": y, "ds": ds}], "h": data.draw(st.integers(1, 9)), "level": [80]}
    answer = client.post("/forecast", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400)
    answer.json()


@FEW
@given(
    st.binary(max_size=200),
    st.sampled_from(
        [
            "application/json",
            "multipart/form-data; boundary=x",
            "text/html",
            "application/x-www-form-urlencoded",
            "\x00",
        ]
    ),
)
def test_bodies_of_any_bytes_are_refused_in_a_sentence(client, content, kind):
    for path in FIELDS:
        answer = client.post(path, content=content, headers={"Content-Type": kind})
        assert 400 <= answer.status_code < 500
        assert "error" in answer.json()
