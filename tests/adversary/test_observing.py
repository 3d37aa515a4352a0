"""What a server tells its operator: ids, log lines and metrics that nobody outside can forge or flood."""

from __future__ import annotations

import io
import json

import httpx2
import pytest
from tests.serve.conftest import serving
from tests.serve.test_server import gated

from throughtime.serve.models import Models, Served
from throughtime.serve.requests import Options


class Broken:
    """A classifier that fails."""

    def classify(self, texts, k=None):
        raise RuntimeError("out of cheese\nTraceback: none")


def broken():
    return Models([Served("broken", "classify", Broken())])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a1.B_2-c", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("two words", False),
        ('"}{"', False),
        ("é", False),
    ],
)
def test_an_id_is_taken_from_the_client_only_if_it_is_short_and_plain(given, kept):
    log = io.StringIO()
    with serving(gated()[1], Options(log_json=True), log) as (_, address):
        headers = [(b"X-Request-ID", given.encode())]
        answer = httpx2.post(f"{address}/classify", json={"q": "a"}, headers=headers)
    assert (answer.headers["x-request-id"] == given) == kept
    assert json.loads(log.getvalue())["request"] == answer.headers["x-request-id"]


def test_a_failure_has_the_id_of_its_request_in_the_answer_and_the_log(capfd):
    with serving(broken(), Options(log_json=True)) as (_, address):
        answer = httpx2.post(f"{address}/classify", json={"q": "a"}, headers={"X-Request-ID": "mine"})
        counted = httpx2.get(f"{address}/metrics").text
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == "mine"
    (failure,) = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line]
    assert (failure["level"], failure["request"]) == ("error", "mine")
    assert "out of cheese" in failure["exception"]
    assert 'throughtime_refusals_total{reason="failure"} 1.0' in counted


def test_refusals_are_counted_by_reason_and_memory_is_told():
    with (
        serving(gated()[1], Options(max_bytes=100, rate_limit=3, api_key="k")) as (_, address),
        httpx2.Client(base_url=address) as client,
    ):
        bearer = {"Authorization": "Bearer k"}
        sent = [
            client.post("/classify", json={"q": "a"}),
            client.post("/classify", content=b"{", headers=bearer),
            client.post("/classify", content=b" " * 101),
            client.post("/classify", json={"q": "a"}, headers=bearer),
            client.get("/nowhere"),
            client.put("/classify"),
        ]
        metrics = client.get("/metrics").text
    assert [answer.status_code for answer in sent] == [403, 400, 413, 429, 404, 405]
    for reason in ("key", "invalid", "size", "rate", "unknown", "method"):
        assert f'throughtime_refusals_total{{reason="{reason}"}} 1.0' in metrics
    (memory,) = [line for line in metrics.splitlines() if line.startswith("process_resident_memory_bytes")]
    assert float(memory.split()[1]) > 1e7
