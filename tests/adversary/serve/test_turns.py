"""What one turn of the event loop parses is bounded in bytes, chunks, fields and requests."""

from __future__ import annotations

import contextlib
import json
import threading
from unittest.mock import Mock

import h11
import httpx2
import pytest
from starlette.formparsers import FormParser, MultiPartParser
from tests.adversary.test_connections import connected
from tests.serve.conftest import serving
from tests.serve.test_server import gated
from tools.floods import FLOODS, MULTIPART, PART, chunked, form, many, request

from throughtime.interrupt import InterruptError, interruptible
from throughtime.serve import bodies, turns
from throughtime.serve.origins import SAFE_HEADERS
from throughtime.serve.requests import Options

CLIENTS = 8
EACH_TURN = {"bytes": 20_000, "chunks": 250, "fields": 400, "requests": 3}
"""The most that a turn may parse."""
POSTED = {
    "one-byte chunks": lambda: chunked(1, 9_000),
    "long chunks": lambda: chunked(4_000, 200),
    "chunk extensions": FLOODS["chunks with extensions"],
    "a body in one piece": lambda: form(b"x" * 900_000),
    "lines in a body": lambda: form(b"\r\n" * 40_000),
    "requests": lambda: many(request("/health", *(f"a{number}: b" for number in range(95)))),
    "a body that nobody reads": lambda: (
        request("/health", "Content-Length: 900000").replace(b"Connection: close\r\n", b"")
        + b"x" * 900_000
        + request("/health")
    ),
    "trailers": lambda: chunked(1, 1)[:-2] + b"a:\r\n" * 90 + b"\r\n",
}


class Counted:
    """Counts what each turn of a server parses."""

    def __init__(self, monkeypatch):
        self.turns = []
        run, parse, event = turns.Turns._run, turns.TurnProtocol.parse, turns.Parser.next_event

        def run_counted(queue):
            self.turns.append(dict.fromkeys(EACH_TURN, 0))
            run(queue)

        def parse_counted(connection):
            before = len(connection.unread)
            work = parse(connection)
            self.turns[-1]["bytes"] += before - len(connection.unread)
            return work

        def event_counted(parser):
            event_of = event(parser)
            now = self.turns[-1]
            if isinstance(event_of, h11.Request):
                now["requests"] += 1
            now["chunks"] += isinstance(event_of, h11.Data)
            now["fields"] += len(getattr(event_of, "headers", ()))
            return event_of

        monkeypatch.setattr(turns.Turns, "_run", run_counted)
        monkeypatch.setattr(turns.TurnProtocol, "parse", parse_counted)
        monkeypatch.setattr(turns.Parser, "next_event", event_counted)


def answers_to(address, content):
    """What the server sends until it hangs up, with a line of its own for each answer."""
    with connected(address) as line:
        with contextlib.suppress(OSError):  # it need not have read all
            line.sendall(content)
        return read_all(line)


def read_all(line):
    told = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := line.recv(65_536):
            told += piece
    return told


@pytest.mark.parametrize("name", POSTED)
def test_a_turn_parses_little_and_all_is_answered(name, monkeypatch):
    content, counted = POSTED[name](), Counted(monkeypatch)
    with serving(gated()[1]) as (_, address), contextlib.ExitStack() as opened:
        lines = [opened.enter_context(connected(address)) for _ in range(CLIENTS)]
        for line in lines:
            line.sendall(content)
        answers = [read_all(line).count(b"HTTP/1.1 ") for line in lines]
    assert answers == [content.count(b"HTTP/1.1\r\n")] * CLIENTS
    for kind, most in EACH_TURN.items():
        assert max(turn[kind] for turn in counted.turns) <= most, kind
    assert sum(turn["bytes"] for turn in counted.turns) == CLIENTS * len(content)


REFUSED = {
    "too many chunks": (413, chunked(1, turns.MAX_CHUNKS + 1)),
    "too many fields": (431, request("/health", *["a: b"] * 99)),
    "too many short lines": (431, FLOODS["header of many fields"]()),
    "too long a header": (431, request("/health", "a: " + "x" * 16_384)),
    "too long a path": (431, request("/" + "x" * 70_000)),
    "too long a trailer": (431, FLOODS["trailers"]()),
    "a folded header": (431, FLOODS["folded header"]()),
    "a query of many fields": (413, request("/health?" + "a&" * 100)),
    "no HTTP": (400, b"HELO there\r\n\r\n"),
    "another protocol": (400, b"\x16\x03\x01\x02\x00\x01"),
    "a bad chunk": (400, chunked(1, 1).replace(b"\r\n1\r\n", b"\r\nz\r\n")),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_told_as_every_error(name):
    status, content = REFUSED[name]
    with serving(gated()[1]) as (_, address):
        header, _, body = answers_to(address, content).partition(b"\r\n\r\n")
        assert httpx2.get(f"{address}/health").status_code == 200
        safe = httpx2.get(f"{address}/health").headers
    first, *lines = header.decode().split("\r\n")
    told = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert first.split()[1] == str(status)
    assert json.loads(body)["error"]
    assert (told["content-type"], told["connection"].lower()) == ("application/json", "close")
    assert {one.decode() for one in SAFE_HEADERS} <= told.keys()
    assert told["content-security-policy"].split("; ")[0] == safe["content-security-policy"].split("; ")[0]


HEADERS = {
    "a key": (403, ("Authorization: Bearer wrong",), "localhost"),
    "no key": (403, (), "localhost"),
    "another host": (421, ("Authorization: Bearer k",), "other.example"),
    "another origin": (403, ("Authorization: Bearer k", "Origin: https://other.example"), "localhost"),
    "a query of many fields": (413, ("Authorization: Bearer k",), "localhost"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_refused_before_its_body_is_parsed(name, monkeypatch):
    status, fields, host = HEADERS[name]
    counted = Counted(monkeypatch)
    path = "/classify" + "?a" * ("query" in name) + "&a" * 100 * ("query" in name)
    with serving(gated()[1], Options(api_key="k")) as (_, address):
        told = answers_to(address, chunked(1, 60_000, *fields, path=path, host=host))
    assert told.startswith(b"HTTP/1.1 %d " % status)
    # A connection that stays open for more requests would parse it all.
    assert sum(turn["chunks"] for turn in counted.turns) == 0


FORMS = {
    "percent-encoded": form(b"q=" + b"%41" * 1_000),
    "multipart": form(PART + b"a\r\n--x--\r\n", MULTIPART),
    "a file": form(PART.replace(b'"q"', b'"q"; filename="a"') + b"a\r\n--x--\r\n", MULTIPART),
    "too many parts": form((PART + b"a\r\n") * 1_001 + b"--x--\r\n", MULTIPART),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_parsed_beside_the_event_loop(name, monkeypatch):
    threads = set()
    for parser in (FormParser, MultiPartParser):
        parse = parser.parse

        async def noted(self, parse=parse):
            threads.add(threading.current_thread().name.partition("_")[0])
            return await parse(self)

        monkeypatch.setattr(parser, "parse", noted)
    with serving(gated()[1]) as (_, address):
        told = answers_to(address, FORMS[name])
    assert told.startswith(b"HTTP/1.1 400 ")
    assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]
    assert threads == {"aside"}


def test_a_body_that_nobody_waits_for_is_not_parsed():
    parse = Mock()
    with interruptible(lambda: True), pytest.raises(InterruptError):
        bodies._alone(parse)
    assert not parse.called
