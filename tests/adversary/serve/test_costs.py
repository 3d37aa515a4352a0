"""What a request costs is bounded before it is computed, and a computation ends when nobody waits for it."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.adversary.serve.probing import measure_waits, post, server

import throughtime as tt
from throughtime.interrupt import InterruptError, interruptible

DATES = [str(day) for day in np.arange("2024-01-01", "2024-01-09", dtype="datetime64[D]")]
LETTERS = {"model": "letters", "max_tokens": 2_000}
WHOLE = [{"unique_id": str(number), "y": [1] * 8, "ds": DATES} for number in range(40)]
SHORT = [{"unique_id": str(number), "y": [1]} for number in range(2_000)]
COMPLETIONS = "/v1/completions"
INFILL = {"model": "blanks", "prompt": ["a"] * 100, "suffix": "b " * 9_000}
BEAMS = {"prompt": ["a"] * 126, "search": "beam", "num_beams": 20}
STEPS, BYTES = b"5,000,000", b"16,000,000"
TOO_MUCH = {
    "blanks": ("/fill", {"q": "___ " * 2_000}, b"160,000,000", STEPS),
    "a suffix after many prompts": (COMPLETIONS, INFILL, b"180,010,000", STEPS),
    "log-probabilities": (
        COMPLETIONS,
        LETTERS | {"prompt": ["a"] * 8, "n": 16, "logprobs": 5},
        b"83,",
        BYTES,
    ),
    "attention": ("/inspect/attention", {"q": "a " * 1_000, "alternatives": 10}, b"67,320,000", BYTES),
    "gates": ("/inspect/gates", {"model": "letters", "q": "a " * 900, "units": 256}, b"22,118,400", BYTES),
    "beams": (COMPLETIONS, LETTERS | BEAMS, b"5,040,126", STEPS),
    "paths": ("/forecast", {"series": WHOLE, "h": 2_000, "level": [80]}, b"16,080,040", STEPS),
    "rows": ("/forecast", {"series": SHORT, "h": 2_000}, b"192,160,000", BYTES),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_costs_too_much_is_refused_at_once_with_its_limit(host, name):
    path, body, asked, limit = TOO_MUCH[name]
    began = time.monotonic()
    status, answer = post(host, path, body)
    assert time.monotonic() - began < 2
    assert (status, asked in answer, limit in answer) == (413, True, True), answer


CALLS = {
    "blanks": lambda model: model.fill(["the ___ sees ___ ___"] * 3),
    "letters": lambda model: model.score("the cat sleeps . " * 200),
    "topics": lambda model: model.classify(["the cat"] * 400),
    "tags": lambda model: model.tag(["bring tea"] * 200),
    "en-fr": lambda model: model.translate(["the cat sleeps"] * 3),
    "days": lambda model: model.forecast({"a": [1.0] * 8, "b": [2.0] * 8}, h=9),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_task_stops_within_a_call(folders, name):
    model = tt.load(folders[name], device="cpu")
    rounds = itertools.count()
    with interruptible(lambda: next(rounds) >= 2), pytest.raises(InterruptError):
        CALLS[name](model)
    assert next(rounds) == 3
    CALLS[name](model)


def test_many_blanks_are_guessed_a_few_at_a_time(folders, monkeypatch):
    model = tt.load(folders["blanks"], device="cpu")
    sizes, guess = [], model._guess

    def noted(partials, width):
        sizes.append(sum(len(one.blanks) for one in partials))
        return guess(partials, width)

    whole = model.fill(["the ___ ___ ___"] * 6)
    monkeypatch.setattr(model, "_guess", noted)
    monkeypatch.setattr("throughtime.tasks.fill.runner.BLANKS_AT_ONCE", 7)
    assert [one.tokens for one in model.fill(["the ___ ___ ___"] * 6)] == [one.tokens for one in whole]
    assert max(sizes) <= 7


MARKUP = """
import io, pathlib, re, sys
from starlette.testclient import TestClient
from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options

def peak():
    return int(re.search("VmHWM:[^0-9]*([0-9]+)", pathlib.Path("/proc/self/status").read_text())[1]) // 1024

models = Models.open([pathlib.Path(sys.argv[1])], "cpu")
(served,) = models
served.model.model.head.bias.data[served.model.codecs.end_id] = -30.0  # it always writes as much as it may
with TestClient(create_app(models, Options(timeout=600), log=io.StringIO())) as client:
    asked = {"source": "en", "target": "fr", "format": "html", "alternatives": 6}
    for count in (50, 2_000):
        answer = client.post("/translate", json={**asked, "q": "<b>a " * count})
        print(answer.status_code, len(answer.json()["alternatives"]), peak())
"""


def test_a_page_whose_words_all_have_tags_takes_little_memory(folders):
    """The attention of each word to each other word of the page would take a gigabyte."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("this system does not tell the peak of memory")
    words = [sys.executable, "-c", MARKUP, str(folders["en-fr"])]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    small, large = (list(map(int, line.split())) for line in ran.stdout.splitlines())
    assert small[:2] == large[:2] == [200, 6]
    assert large[2] - small[2] < 150


@pytest.fixture(scope="module")
def unlimited(folders):
    """A server without a limit of cost and with a short limit of time."""
    chosen = [folders["blanks"], folders["letters"]]
    with server(chosen, timeout=1.0, max_steps=10**12, max_answer=10**12) as found:
        yield found


LONG = {
    "fill": ("/fill", {"q": "___ " * 1_500}, {"q": "the ___"}),
    "suffix": (
        "/v1/completions",
        {"model": "blanks", "prompt": ["the cat " * 20] * 100, "suffix": "b " * 500},
        {"model": "blanks", "prompt": "the", "suffix": "."},
    ),
    "completions": (
        "/v1/completions",
        LETTERS | {"prompt": ["the"] * 8, "n": 16, "logprobs": 5},
        LETTERS | {"prompt": "the", "max_tokens": 2},
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_the_time_limit_ends_the_work(unlimited, name):
    path, long, short = LONG[name]
    began = time.monotonic()
    waits, status, answer = measure_waits(unlimited, path, long)
    assert (status, b"1 s" in answer) == (504, True)
    assert waits.are_short, waits
    deadline = time.monotonic() + 30
    while post(unlimited, path, short)[0] != 200:  # 504 while the thread still works for nobody
        assert time.monotonic() < deadline
    assert time.monotonic() - began < 60  # without a limit it takes minutes


def test_a_hang_up_ends_the_work(unlimited):
    host, port = unlimited.split(":")
    body = '{"q": "' + "___ " * 1_500 + '"}'
    head = f"POST /fill HTTP/1.1\r\nHost: {unlimited}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as client:
        client.sendall((head + body).encode())
        time.sleep(0.2)
    began = time.monotonic()
    while post(unlimited, "/fill", {"q": "the ___"})[0] != 200:
        assert time.monotonic() - began < 5
