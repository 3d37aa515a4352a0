"""What a server tells its operator: ids, log lines and metrics that nobody outside can forge or flood."""

from __future__ import annotations

import io
import json
from urllib.parse import unquote

import httpx2
import pytest
from tests.adversary.test_connections import connected, got
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
        serving(gated()[1], Options(max_bytes=100, rate_limit=6, api_key="k")) as (_, address),
        httpx2.Client(base_url=address) as client,
    ):
        bearer = {"Authorization": "Bearer k"}
        sent = [
            client.post("/classify", json={"q": "a"}),
            client.post("/classify", content=b"{", headers=bearer),
            client.post("/classify", content=b" " * 101),
            client.get("/nowhere"),
            client.put("/classify"),
            client.get(f"/models?{'a&' * 100}"),
            client.post("/classify", json={"q": "a"}, headers=bearer),
        ]
        with connected(address, "127.0.0.2") as other:
            metrics = got(other, b"/metrics").decode()
    assert [answer.status_code for answer in sent] == [403, 400, 413, 404, 405, 413, 429]
    for reason, times in {"key": 1, "invalid": 1, "size": 2, "rate": 1, "unknown": 1, "method": 1}.items():
        assert f'throughtime_refusals_total{{reason="{reason}"}} {times}.0' in metrics
    (memory,) = [line for line in metrics.splitlines() if line.startswith("process_resident_memory_bytes")]
    assert float(memory.split()[1]) > 1e7


@pytest.mark.parametrize("path", ["/a 200 5 ms", "/a%20200", "/\u00e9\u2028", "/%0a[31m", "/" + "x" * 300])
def test_a_path_forges_no_field_of_a_log_line(path):
    log = io.StringIO()
    with serving(gated()[1], Options(), log) as (_, address):
        assert httpx2.get(f"{address}{path}").status_code == 404
    _, client, method, shown, status, _, unit, _ = log.getvalue().split(" ")
    assert (client, method, status, unit) == ("127.0.0.1", "GET", "404", "ms")
    assert shown.isascii()
    assert shown.isprintable()
    assert unquote(shown) == unquote(path)[:200]
