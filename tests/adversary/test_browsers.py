"""What pages of other sites, rebound names and ambiguous requests can do to a server: nothing."""

from __future__ import annotations

import base64
import hashlib
import re
import socket

import httpx2
import pytest
from tests.serve.conftest import serving
from tests.serve.test_server import gated

from throughtime.serve.requests import Options

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def address():
    with serving(gated()[1], Options(hosts=("Models.Example.org",), cors=("https://friend.example",))) as (
        _,
        found,
    ):
        yield found


def answered(address, *lines):
    """The status of the answers to raw bytes, until the server hangs up."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall("\r\n".join(lines).encode())
        with line.makefile("rb") as file:
            return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+)", file.read())]


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1.attacker.example", "0.0.0.0", "10.1.2.3", "x:8000"]
)
def test_a_name_that_an_attacker_rebinds_is_refused(address, host):
    for method, path in (("GET", "/models"), ("POST", "/classify"), ("OPTIONS", "/classify")):
        assert httpx2.request(method, f"{address}{path}", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.:9", "127.0.0.1:9", "127.8.8.8", "[::1]:9", "models.example.ORG:443"]
)
def test_own_and_allowed_names_are_answered(address, host):
    assert httpx2.get(f"{address}/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("kind", [FORM, "text/plain", "application/json", "multipart/form-data; boundary=x"])
@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Origin": "http://localhost:1", "Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "https://friend.example", "Sec-Fetch-Site": "cross-site"}, True),
        ({"Origin": "http://HERE"}, True),
        ({"Origin": "https://proxied.example", "Sec-Fetch-Site": "same-origin"}, True),
        ({}, True),
    ],
)
def test_a_post_of_another_site_reaches_no_model(address, kind, headers, allowed):
    headers = {name: value.replace("HERE", address[7:]) for name, value in headers.items()}
    answer = httpx2.post(
        f"{address}/classify", content=b'{"q": "a"}', headers={"Content-Type": kind, **headers}
    )
    assert (answer.status_code == 403) != allowed


def test_a_request_of_two_lengths_is_one_refusal_and_nothing_after_it_is_read(address):
    smuggled = ("GET /health HTTP/1.1", "Host: localhost", "Connection: close", "", "")
    start = ("POST /classify HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    both = (*start, "Content-Length: 4", "Transfer-Encoding: chunked", "", "0", "", "")
    assert answered(address, *both[:-1], *smuggled) == [400]
    assert answered(address, *start, "Content-Length: 4", "Content-Length: 5", "", "null", *smuggled) == [400]
    assert answered(address, *start, "Transfer-Encoding: gzip, chunked", "", "0", "", *smuggled) == [400]
    assert answered(address, "GET /health HTTP/1.1", "Host: localhost", "Host: attacker", "", "") == [400]
    assert answered(address, *smuggled) == [200]


@pytest.mark.parametrize("path", ["/", "/docs", "/main.js", "/health", "/nowhere"])
def test_every_answer_tells_browsers_what_they_may_do(address, path):
    answer = httpx2.get(f"{address}{path}")
    told = answer.headers
    assert told["x-content-type-options"] == "nosniff"
    assert told["x-frame-options"] == "DENY"
    assert told["referrer-policy"] == "no-referrer"
    policy = dict(part.split(" ", 1) for part in told["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "blob:" in policy["worker-src"]
    assert "'wasm-unsafe-eval'" in policy["script-src"]
    assert "unsafe-inline" not in told["content-security-policy"]
    assert not re.search(r"\s(on\w+|style)=", answer.text) or "html" not in told["content-type"]
    for tag, attributes, text in re.findall(r"<(script|style)([^>]*)>(.*?)</", answer.text, re.DOTALL):
        hashed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert "src=" in attributes or f"'sha256-{hashed}'" in policy[f"{tag}-src"]


FRIEND = "https://friend.example"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}
STRANGERS = [
    "https://friend.example.evil",
    "https://evil.example/https://friend.example",
    "http://friend.example",
    "https://friend.example:444",
    "https://FRIEND.example",
    "https://friend.example,https://evil.example",
    "null",
]


@pytest.mark.parametrize("origin", [FRIEND, *STRANGERS])
def test_pages_of_the_allowed_origin_alone_may_ask_and_read(address, origin):
    headers, allowed = {"Origin": origin}, origin == FRIEND
    before = httpx2.options(f"{address}/classify", headers=headers | PREFLIGHT)
    read = httpx2.get(f"{address}/health", headers=headers)
    posted = httpx2.post(f"{address}/classify", json={"q": "a"}, headers=headers)
    statuses = [answer.status_code for answer in (before, read, posted)]
    assert statuses == ([200, 200, 200] if allowed else [400, 200, 403])
    for answer in (before, read, posted):
        assert answer.headers.get("access-control-allow-origin") == (FRIEND if allowed else None)
        assert "access-control-allow-credentials" not in answer.headers
    assert "Origin" in read.headers["vary"]  # so that no cache gives one origin the answer of another


def test_pages_of_an_allowed_origin_read_refusals_too():
    options = Options(cors=(FRIEND,), api_key="k", max_bytes=100, rate_limit=7)
    asked = [
        ("GET", "/models", 200, {}),
        ("POST", "/classify", 403, {"json": {"q": "a"}}),
        ("POST", "/v1/completions", 401, {"json": {"prompt": "a"}}),
        ("POST", "/classify", 413, {"content": b" " * 101}),
        ("GET", "/nowhere", 404, {}),
        ("PUT", "/classify", 405, {}),
        ("GET", f"/models?{'a&' * 100}", 413, {}),
        ("GET", "/models", 429, {}),
    ]
    with serving(gated()[1], options) as (_, address):
        for method, path, status, more in asked:
            answer = httpx2.request(method, f"{address}{path}", headers={"Origin": FRIEND}, **more)
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, FRIEND)
