"""Slow, silent and numerous clients: each is given up in time, and none keeps others out."""

from __future__ import annotations

import contextlib
import errno
import random
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from tests.serve.conftest import serving
from tests.serve.test_server import gated, until

from throughtime.serve.models import Models, Served
from throughtime.serve.requests import Options

POST = (
    b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)
FAST = Options(header_timeout=0.6, idle_timeout=0.6, timeout=0.6)


def connected(address, source="127.0.0.1"):
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10, source_address=(source, 0))


def seconds_until_closed(line, *, drip=b""):
    """How long the server keeps a connection on which a byte comes now and then."""
    began = time.monotonic()
    line.settimeout(0.1)
    while time.monotonic() < began + 10:
        try:
            if drip:
                line.sendall(drip)
            if not line.recv(65_536):
                break
        except TimeoutError:
            pass
        except OSError:
            break
    return time.monotonic() - began


def refused(address, reason):
    found = re.search(rf'refusals_total{{reason="{reason}"}} (\d+)', httpx2.get(f"{address}/metrics").text)
    return int(found[1]) if found else 0


def test_slow_clients_are_given_up():
    slow = {
        "silent": (b"", b""),
        "header": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ", b"x"),
        "idle": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
        "second header": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /", b"x"),
        "body": (POST % 1_000, b"x"),
        "body after its answer": ((POST % 1_000).replace(b"/classify", b"/nowhere"), b"x"),
    }
    with serving(gated()[1], FAST) as (_, address), ThreadPoolExecutor(len(slow)) as threads:

        def seconds(first, drip):
            with connected(address) as line:
                line.sendall(first)
                return seconds_until_closed(line, drip=drip)

        kept = dict(zip(slow, threads.map(lambda one: seconds(*one), slow.values()), strict=True))
        assert httpx2.get(f"{address}/health").status_code == 200
    assert {name: time for name, time in kept.items() if not 0.4 < time < 8} == {}


class Verbose:
    """A classifier whose answer is long."""

    def input_warnings(self, texts):
        return {}

    def classify(self, texts, k=None):
        from throughtime.results import Classified

        return [Classified(text, (("x" * 15_000_000, 1.0),)) for text in texts]


def test_an_answer_that_nobody_reads_is_given_up():
    options = Options(timeout=2.0, max_answer=10**8)
    with serving(Models([Served("long", "classify", Verbose())]), options) as (server, address):
        with connected(address) as line:
            line.sendall(POST % 10 + b'{"q": "a"}')
            until(lambda: refused(address, "unread answer"), 10)
        until(lambda: len(server.server_state.connections) < 2, 5)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n", POST % 10 + b"{"], ids=["header", "body"])
def test_a_thousand_half_open_connections_keep_nobody_out(sent):
    options = Options(max_connections=400, max_connections_per_client=200)
    with serving(gated()[1], options) as (server, address), contextlib.ExitStack() as lines:
        for number in range(1_000):
            line = lines.enter_context(connected(address, f"127.0.0.{2 + number % 5}"))
            with contextlib.suppress(OSError):
                line.sendall(sent)
        for _ in range(5):
            began = time.monotonic()
            assert httpx2.post(f"{address}/classify", json={"q": "a"}, timeout=10).status_code == 200
            assert time.monotonic() - began < 5
        until(lambda: len(server.server_state.connections) <= 400, 5)


def test_clients_whose_requests_run_are_not_dropped_and_a_further_one_is_told():
    model, models = gated(is_open=False)
    options = Options(max_connections=10, max_connections_per_client=3, batch=1)
    answers = []
    with serving(models, options) as (_, address):

        def ask():
            answers.append(httpx2.post(f"{address}/classify", json={"q": "a"}, timeout=20).status_code)

        clients = [threading.Thread(target=ask) for _ in range(3)]
        for client in clients:
            client.start()
        with connected(address, "127.0.0.2") as other:
            until(lambda: b"requests_running 4.0" in metrics_over(other), 10)
            with connected(address) as line:
                assert line.recv(1_000).startswith(b"HTTP/1.1 503 ")
            until(lambda: b'refusals_total{reason="connections"} 1.0' in metrics_over(other), 5)
        model.open.set()
        for client in clients:
            client.join()
    assert answers == [200] * 3


def metrics_over(line):
    return got(line, b"/metrics")


def got(line, path):
    """The answer to a request over a connection that stays open."""
    line.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    header, body = b"", b""
    while b"\r\n\r\n" not in header:
        header += line.recv(65_536)
    header, _, body = header.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", header)[1])
    while len(body) < length:
        body += line.recv(65_536)
    return body


class Exhausted(socket.socket):
    """A listener of a process that has no file left, until it has."""

    until = 0.0

    def accept(self):
        if time.monotonic() < self.until:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_running_out_of_files_is_a_line_a_second_and_no_end(capfd, monkeypatch):
    import tests.serve.conftest as conftest

    plain = conftest.listen

    def exhausted(host, port):
        listener = Exhausted(fileno=plain(host, port).detach())
        listener.until = time.monotonic() + 1.3
        return listener

    monkeypatch.setattr(conftest, "listen", exhausted)
    with serving(gated()[1]) as (_, address):
        assert httpx2.get(f"{address}/health", timeout=20).status_code == 200
    lines = capfd.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 3
    assert all("Too many open files" in line for line in lines)


def test_small_answers_are_not_held_back():
    with serving(gated()[1]) as (server, address), connected(address) as line:
        assert b"ok" in got(line, b"/health")
        (connection,) = server.server_state.connections
        own = connection.transport.get_extra_info("socket")
        # Without it the kernel keeps the body back until the header is acknowledged, 40 ms later.
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def mangled(draw):
    """One to three requests in a row, with bytes lost, doubled or changed, cut into pieces."""
    start = b"POST /classify HTTP/1.1\r\nHost: localhost\r\n"
    heads = [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        POST % 10 + b'{"q": "a"}',
        start + b"Transfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n",
        start.replace(b"classify", b"nowhere") + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    ]
    sent = bytearray(b"".join(draw.choices(heads, k=draw.randint(1, 3))))
    for _ in range(draw.randint(0, 4)):
        place = draw.randrange(len(sent))
        sent[place : place + draw.randint(0, 2)] = draw.choice(
            [b"", b"\0", b"\r\n", b"\xff", b":", b" ", b"999"]
        )
    cut = draw.randrange(len(sent) + 1)
    return bytes(sent[:cut]), bytes(sent[cut:])


def test_no_bytes_make_the_server_fail(capfd):
    draw = random.Random(7)
    with serving(gated()[1], Options(max_connections=50)) as (server, address):
        for number in range(200):
            with connected(address) as line, contextlib.suppress(OSError):
                for piece in mangled(draw):
                    line.sendall(piece)
                    if number % 4 == 0:
                        line.settimeout(0.02)
                        with contextlib.suppress(TimeoutError):
                            line.recv(65_536)
        assert httpx2.get(f"{address}/health").status_code == 200
        until(lambda: len(server.server_state.connections) <= 1, 10)
        until(lambda: not server.server_state.tasks, 10)
    told = set(capfd.readouterr().err.splitlines())
    assert {line for line in told if "Invalid HTTP request received." not in line} == set()
