"""A thread of a model outlives what its computations raise."""

from __future__ import annotations

import threading

import httpx2
import pytest
from tests.serve.conftest import serving

import throughtime as tt
from throughtime.serve.batching import Batcher, WorkerError
from throughtime.serve.requests import Options
from throughtime.serve.writing import Draft, SamplingOptions, Writer
from throughtime.text.framing import Framing


class PanicError(BaseException):
    """As a tokenizer written in Rust raises it: no Exception."""


def double(items):
    if "bad" in items:
        raise PanicError("index out of bounds")
    return [item * 2 for item in items]


@pytest.fixture
def batcher():
    found = Batcher("model", wait=0.05)
    yield found
    found.close()


def test_a_panic_fails_its_own_request_alone(batcher):
    jobs = [batcher.submit("same", double, [item]) for item in ("a", "bad", "b")]
    assert [jobs[0].future.result(5), jobs[2].future.result(5)] == [["aa"], ["bb"]]
    with pytest.raises(WorkerError, match="PanicError: index out of bounds"):
        jobs[1].future.result(5)
    assert batcher.submit("same", double, ["c"]).future.result(5) == ["cc"]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), StopIteration(), GeneratorExit()])
def test_no_exception_that_ends_an_event_loop_is_handed_to_it(batcher, error):
    def fail(items):
        raise error

    with pytest.raises(WorkerError, match=type(error).__name__):
        batcher.submit("same", fail, [1]).future.result(5)


def test_a_thread_goes_on_after_a_failure_outside_of_computations(batcher, capsys):
    def observe(items):
        batcher.observe = lambda items: None
        raise PanicError("metrics")

    batcher.observe = observe
    assert batcher.submit("same", double, ["a"]).future.result(5) == ["aa"]
    assert batcher.submit("same", double, ["b"]).future.result(5) == ["bb"]
    assert "metrics" in capsys.readouterr().err


def test_closing_stops_the_thread(batcher):
    assert batcher.alive
    batcher.close()
    assert not batcher.alive


class Panicky(Framing):
    """The framing of a text whose tokenizer panics at its second token."""

    def addition(self, before, number):
        if before:
            raise PanicError("no such token")
        return super().addition(before, number)


def test_a_panic_in_one_text_leaves_the_others_alone(folders):
    language = tt.load(folders["letters"])
    over = threading.Semaphore(0)

    def draft(kind, prompt):
        hear = lambda one: over.release() if one.over else None  # noqa: E731
        framing = kind(language.framing.codec, marked=False)
        return Draft(prompt, SamplingOptions(max_tokens=8, seed=1), framing, hear)

    writer = Writer("letters", language)
    try:
        good, bad, unreadable = draft(Framing, [1]), draft(Panicky, []), draft(Framing, ["x"])
        writer.put([good, bad, unreadable])
        for _ in range(3):
            assert over.acquire(timeout=10)
    finally:
        writer.close()
    assert (good.failure, len(good.tokens)) == (None, 8)
    assert isinstance(bad.failure, WorkerError)
    assert isinstance(unreadable.failure, Exception)
    assert unreadable.finish is None


def test_ready_tells_of_a_thread_that_is_stuck(models):
    go, begun = threading.Event(), threading.Event()

    def hang(items):
        begun.set()
        go.wait(20)  # never asks whether it is still wanted
        return items

    with serving(models, Options(timeout=30)) as (server, address), httpx2.Client(base_url=address) as client:
        batchers = server.config.app.state.service.batchers
        answer = client.get("/ready")
        assert answer.status_code == 200
        assert answer.json() == {"status": "ready", "models": dict.fromkeys(batchers, "ready")}
        job = batchers["blanks"].submit("key", hang, [1])
        assert begun.wait(5)
        assert client.get("/ready").status_code == 200  # busy, as it may be
        batchers["blanks"]._busy_since -= 60
        answer = client.get("/ready")
        assert (answer.status_code, answer.json()["models"]["blanks"]) == (503, "stuck")
        assert client.get("/health").status_code == 200
        go.set()
        assert job.future.result(5) == [1]
        assert client.get("/ready").status_code == 200


def test_a_panic_beside_the_event_loop_fails_its_own_request_alone(models, monkeypatch):
    def panic(model, texts, **how):
        raise PanicError("index out of bounds")

    with serving(models) as (_, address), httpx2.Client(base_url=address) as client:
        asked = {"q": "the ___ sleeps"}
        with monkeypatch.context() as patch:
            patch.setattr(type(models.get("blanks").model), "input_warnings", panic)
            answer = client.post("/fill", json=asked)
            assert (answer.status_code, list(answer.json())) == (500, ["error"])
        assert client.post("/fill", json=asked).status_code == 200
