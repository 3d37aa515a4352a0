"""Requests that nobody would think of: none of them may break the server."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta

import pytest
import schemathesis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options

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


@pytest.mark.slow
@pytest.mark.parametrize("forecaster", ["waves", "days"])
def test_what_the_description_allows_is_answered(models, forecaster):
    # Where a request names no model the first that can answers, so each forecaster has its turn.
    served = [one for one in models if one.task != "forecast" or one.name == forecaster]
    app = create_app(Models(served), LITTLE, log=io.StringIO())
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert {"/translate", "/v1/completions", "/forecast"} <= {one.path for one in operations}
    if forecaster == "days":
        operations = [one for one in operations if one.path in ("/forecast", "/inspect/history")]
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
    "/compose": {"label": "music", "n": 2, "temperature": 0.5, "top_p": 0.9, "max_tokens": 3, "seed": 1},
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
    body["model"] = data.draw(st.sampled_from(["waves", "days"]))
    answer = client.post("/forecast", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400)
    answer.json()


@st.composite
def dates(draw):
    """Times with dates: on a grid, with or without gaps, or anywhere, as ISO format has them."""
    first = draw(st.datetimes(datetime(1700, 1, 1), datetime(2250, 1, 1)))
    first = draw(st.sampled_from([first, datetime(first.year, first.month, 1), datetime(2024, 1, 31)]))
    step = draw(st.sampled_from([timedelta(1), timedelta(31), timedelta(hours=1), timedelta(0, 1, 5)]))
    places = draw(st.lists(st.integers(0, 20), min_size=1, max_size=12))
    return [(first + place * step).isoformat() for place in places]


@settings(FEW, max_examples=80)
@given(
    times=st.lists(dates(), min_size=1, max_size=2),
    h=st.integers(1, 9),
    name=st.sampled_from(["days", "waves"]),
    y=st.none() | st.floats(-1e6, 1e6),
)
@example(times=[["2010-01-01"]], h=6, name="days", y=1.0)
@example(times=[["2010-01-01"]], h=6, name="waves", y=1.0)
@example(times=[["2010-01-01"], ["2010-01-01", "2010-02-01"]], h=2, name="days", y=1.0)
def test_dated_series_are_answered(client, times, h, name, y):
    series = [{"unique_id": str(at), "ds": ds, "y": [y] * len(ds)} for at, ds in enumerate(times)]
    answer = client.post("/forecast", json={"model": name, "series": series, "h": h})
    assert answer.status_code in (200, 400)
    told = answer.json()
    if answer.status_code == 200:
        assert [len(one["ds"]) for one in told["forecasts"]] == [h] * len(times)


def test_a_forecaster_of_dates_goes_on_in_dates(client):
    series = [{"unique_id": "a", "ds": ["2024-02-27", "2024-02-28"], "y": [1.0, 2.0]}]
    found = client.post("/forecast", json={"model": "days", "series": series, "h": 3}).json()
    assert found["forecasts"][0]["ds"] == ["2024-02-29", "2024-03-01", "2024-03-02"]


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
