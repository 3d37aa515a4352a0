"""The server under load and in trouble: limits, clients that leave, an orderly end, what it logs."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import signal
import socket
import threading
import time

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.refusals import lacks, refuses
from tests.serve.conftest import saved, serving

from throughtime.errors import ThroughtimeError
from throughtime.results import Classified
from throughtime.serve.app import create_app
from throughtime.serve.bodies import JSON
from throughtime.serve.models import Models, Served
from throughtime.serve.requests import Options
from throughtime.serve.server import format_address, listen


class Gated:
    """A classifier that answers when it is let, with the text itself as the label."""

    examples, facts = (), {}

    def __init__(self, is_open=True):
        self.open, self.begun, self.sizes = threading.Event(), threading.Event(), []
        if is_open:
            self.open.set()

    def input_warnings(self, texts):
        return {}

    def classify(self, texts, k=None):
        self.begun.set()
        assert self.open.wait(20)
        self.sizes.append(len(texts))
        return [Classified(text, ((text, 1.0),)) for text in texts]


def gated(is_open=True):
    model = Gated(is_open)
    return model, Models([Served("gated", "classify", model)])


def test_a_full_queue_is_503_and_a_slow_model_504():
    model, models = gated(is_open=False)
    with serving(models, Options(queue=2, batch=1, timeout=0.7)) as (_, address):
        statuses, answers = [], []

        def ask():
            answer = httpx2.post(f"{address}/classify", json={"q": "x"}, timeout=20)
            statuses.append(answer.status_code)
            answers.append(answer)

        clients = [threading.Thread(target=ask) for _ in range(5)]
        clients[0].start()
        assert model.begun.wait(10)
        for client in clients[1:]:
            client.start()
        for client in clients:
            client.join()
        model.open.set()
    assert sorted(statuses) == [503, 503, 504, 504, 504]
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert refused.headers["retry-after"] == "1"
    assert "gated" in refused.json()["error"]
    late = next(answer for answer in answers if answer.status_code == 504)
    assert "0.7 s" in late.json()["error"]


def test_a_client_that_vanished_is_not_computed():
    model, models = gated(is_open=False)
    log = io.StringIO()
    with serving(models, Options(batch=1), log) as (_, address):
        first = threading.Thread(
            target=httpx2.post, args=(f"{address}/classify",), kwargs={"json": {"q": "a"}}
        )
        first.start()
        assert model.begun.wait(10)
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{address}/classify", json={"q": ["b", "c"]}, timeout=0.2)
        until(lambda: "499" in log.getvalue())
        model.open.set()
        first.join()
    assert model.sizes == [1]


def test_a_stream_that_nobody_reads_stops_being_written(models):
    with serving(models, Options(max_tokens=10**6)) as (server, address):
        writer = server.config.app.state.service.writers["letters"]
        body = {"model": "letters", "prompt": "the", "max_tokens": 10**6, "stream": True}
        with httpx2.stream("POST", f"{address}/v1/completions", json=body, timeout=20) as answer:
            assert answer.status_code == 200
            assert next(answer.iter_lines()).startswith("data: ")
        # A text of a million letters is not over yet. A writer tells its rows at every letter: none for so
        # long means that it has stopped.
        until(lambda: not any(writer_rows(server) or time.sleep(0.02) for _ in range(20)))
        assert writer.waiting == 0


def test_a_stream_ends_in_a_sentence_when_its_time_is_over(models):
    with serving(models, Options(max_tokens=10**6, timeout=0.3)) as (_, address):
        body = {"model": "letters", "prompt": "the", "max_tokens": 10**6, "stream": True}
        lines = httpx2.post(f"{address}/v1/completions", json=body, timeout=20).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    error = json.loads(lines[-3].removeprefix("data: "))["error"]
    assert error["type"] == "timeout_error"


def half_sent(address, path=b"/classify"):
    """A connection with a request of which the end never comes."""
    host, port = address.removeprefix("http://").split(":")
    line = socket.create_connection((host, int(port)), timeout=10)
    line.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
    return line


def running(server) -> float:
    """The number of requests that a server is answering."""
    registry = server.config.app.state.service.metrics.registry
    return registry.get_sample_value("throughtime_requests_running")


def test_stopping_gives_up_bodies_that_are_not_whole_but_not_what_runs():
    model, models = gated(is_open=False)
    answers = []
    with contextlib.ExitStack() as lines:
        with serving(models) as (server, address):
            client = threading.Thread(
                target=lambda: answers.append(httpx2.post(f"{address}/classify", json={"q": "a"}, timeout=20))
            )
            client.start()
            assert model.begun.wait(10)
            paths = (b"/classify", b"/translate")  # FastAPI reads the one body, we the other
            halves = [lines.enter_context(half_sent(address, path)) for path in paths for _ in range(5)]
            until(lambda: running(server) == 11)
            server.should_exit = True
            for line in halves:
                with line.makefile("rb") as answered:
                    answer = answered.read()  # up to where the server hangs up
                assert b" 503 " in answer.split(b"\r\n")[0]
                assert b"the server is shutting down" in answer
            until(lambda: running(server) == 1)
            model.open.set()
            client.join()
            began = time.monotonic()
        assert time.monotonic() - began < 3  # not the 30 seconds that a body may take
    assert answers[0].status_code == 200


@pytest.mark.parametrize("apart", [0.0, 0.5])
def test_a_second_ctrl_c_hangs_up_at_once_and_quietly(capsys, apart):
    model, models = gated(is_open=False)
    log, failures = io.StringIO(), []

    def ask(address):
        try:
            httpx2.post(f"{address}/classify", json={"q": "a"}, timeout=20)
        except httpx2.TransportError as error:
            failures.append(error)

    with serving(models, log=log) as (server, address):
        client = threading.Thread(target=ask, args=(address,))
        client.start()
        assert model.begun.wait(10)
        with half_sent(address), half_sent(address, b"/translate"):
            until(lambda: running(server) == 3)
            began = time.monotonic()
            server.handle_exit(signal.SIGINT, None)
            time.sleep(apart)
            assert client.is_alive()
            server.handle_exit(signal.SIGINT, None)
            client.join(5)
            until(lambda: not server.server_state.tasks, 5)
        assert len(failures) == 1
    assert time.monotonic() - began < 4  # the model still computes, for nobody
    assert "POST /classify 499" in log.getvalue()
    assert capsys.readouterr().err == ""
    model.open.set()


def test_a_client_that_leaves_within_its_body_is_no_failure(capsys):
    _, models = gated()
    log = io.StringIO()
    with serving(models, log=log) as (server, address):
        with half_sent(address, b"/translate"):
            until(lambda: running(server) == 1)
        until(lambda: "POST /translate 499" in log.getvalue())
    assert capsys.readouterr().err == ""


def test_too_much_is_413_by_bytes_texts_and_characters():
    _, models = gated()
    with serving(models, Options(max_bytes=2_000, max_texts=3, max_characters=100)) as (_, address):

        def status(content):
            headers = {"Content-Type": "application/json"}
            return httpx2.post(
                f"{address}/classify", content=content, headers=headers, timeout=20
            ).status_code

        assert status(json.dumps({"q": ["a"] * 3})) == 200
        assert status(json.dumps({"q": ["a"] * 4})) == 413
        assert status(json.dumps({"q": "a" * 101})) == 413
        assert status(b" " * 2_001) == 413
        assert status(iter([b" " * 1_000] * 3)) == 413  # sent without a length
        assert status(b"{") == 400


def test_a_body_that_never_comes_is_given_up():
    _, models = gated()
    with serving(models, Options(timeout=0.3)) as (_, address), half_sent(address) as line:
        assert b" 408 " in line.recv(1_000).split(b"\r\n")[0]


COUNTED = {
    "POST": b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    "GET": b"GET /models HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "probe": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "preflight": b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a\r\n"
    b"Access-Control-Request-Method: POST\r\n\r\n",
    "other host": b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n",
    "no HTTP": b"HELO\r\n\r\n",
}


@pytest.mark.parametrize("kind", COUNTED)
def test_the_rate_of_a_client_counts_every_request_and_refuses_all_but_probes(kind):
    _, models = gated()
    with serving(models, Options(rate_limit=2, cors=("http://a",))) as (_, address):
        for _ in range(2):
            host, port = address.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port)), timeout=10) as line:
                line.sendall(COUNTED[kind])
                assert line.recv(1_000).startswith(b"HTTP/1.1 ")
        for path in ("/models", "/metrics", "/docs", "/nowhere"):
            answer = httpx2.get(f"{address}{path}")
            assert answer.status_code == 429
            assert 1 <= int(answer.headers["retry-after"]) <= 30
            assert not lacks(answer.json()["error"], "2")
        for path in ("/health", "/ready"):
            assert httpx2.get(f"{address}{path}").status_code == 200


def test_requests_are_logged_and_counted_but_not_what_was_in_them():
    _, models = gated()
    log = io.StringIO()
    with serving(models, Options(log_json=True, api_key="sesame"), log) as (_, address):
        headers = {"Authorization": "Bearer sesame"}
        answer = httpx2.post(f"{address}/classify", json={"q": "a secret"}, headers=headers)
        httpx2.get(f"{address}/no%0Awhere?key=sesame")
        counted = httpx2.get(f"{address}/metrics").text
    first, second, _ = map(json.loads, log.getvalue().splitlines())
    assert (first["method"], first["path"], first["status"]) == ("POST", "/classify", 200)
    assert first["request"] == answer.headers["x-request-id"]
    assert second["status"] == 404
    assert "secret" not in log.getvalue()
    assert "sesame" not in log.getvalue()
    assert 'throughtime_requests_total{method="POST",path="/classify",status="200"} 1.0' in counted
    assert 'throughtime_requests_total{method="GET",path="other",status="404"} 1.0' in counted
    assert 'throughtime_batch_items_count{model="gated"} 1.0' in counted
    assert 'throughtime_request_seconds_bucket{le="+Inf",path="/classify"} 1.0' in counted


def test_a_failing_model_is_500_in_one_sentence_and_the_log_has_the_rest(capsys):
    class Broken:
        def classify(self, texts, k=None):
            raise RuntimeError("out of cheese")

    with serving(Models([Served("broken", "classify", Broken())])) as (_, address):
        answer = httpx2.post(f"{address}/classify", json={"q": "a"})
    assert answer.status_code == 500
    assert answer.json().keys() == {"error"}
    assert "cheese" not in answer.text
    assert "out of cheese" in capsys.readouterr().err


def test_names_of_models_are_those_of_their_folders_and_must_differ(runs):
    with refuses("counted"):
        Models.open([runs["counted"], runs["counted"]])


def test_a_forecaster_with_further_columns_is_refused_at_the_start(tmp_path):
    rows = "".join(f"{t % 7},{t % 3},{t % 5}\n" for t in range(80))
    (tmp_path / "sales.csv").write_text("y,price,rain\n" + rows)
    small = {"lookback": 8, "horizon": 4, "hidden_size": 8, "device": "cpu", "precision": "float32"}
    columns = {"known": ["price"], "past": ["rain"]}
    run = saved(tmp_path / "sales", "forecast", tmp_path / "sales.csv", **columns, **small)
    with refuses("sales", "price", "rain"):
        Models.open([run], "cpu")


def test_a_port_in_use_is_one_sentence():
    with listen("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        assert format_address(listener) == f"http://127.0.0.1:{port}"
        with refuses(port, error=ThroughtimeError):
            listen("127.0.0.1", port)
    with refuses("host", "no.such.host"):
        listen("no.such.host.invalid", 0)


def until(true, seconds=60.0):
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def writer_rows(server):
    """How many texts are being written, as the writer last told."""
    return server.config.app.state.service.writers["letters"].writing


@pytest.mark.parametrize("path", ["/translate", "/fill"])
def test_what_a_refused_body_held_is_freed_at_once(models, path):
    content = b'{"q": [' + b"[]," * 30_000 + b"[]]}"
    with TestClient(create_app(models, Options(), log=io.StringIO())) as client:
        gc.collect()
        gc.disable()  # so that only references are counted
        try:
            before = len(gc.get_objects())
            for _ in range(3):
                assert client.post(path, content=content, headers={"Content-Type": JSON}).status_code == 400
            # Of three bodies of 30,000 lists, a thread may still hold that of the last request.
            assert len(gc.get_objects()) - before < 60_000
        finally:
            gc.enable()
