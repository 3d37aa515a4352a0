"""`throughtime serve` as a person uses it: in a process of its own, stopped by Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from tests.refusals import lacks

from throughtime.data.datasets import open_dataset
from throughtime.serve.server import listen
from throughtime.tasks.ngram.config import NgramConfig
from throughtime.tasks.ngram.model import NgramLanguageModel

ENDLESS = """
import torch
from throughtime.serve.models import Models, Served


class Endless:
    examples, facts = (), {}

    def classify(self, texts, k=None):
        while True:
            torch.ones(50, 50) @ torch.ones(50, 50)


Models.open = lambda runs, device, **more: Models([Served("endless", "classify", Endless())])
from throughtime.cli.main import run

run()
"""


def started(command, request, lines=3):
    """A server in a process of its own, which ends with the test, and its first lines."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    request.addfinalizer(lambda: (process.kill(), process.communicate()))
    return process, [process.stderr.readline() for _ in range(lines)]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_serve_greets_answers_and_ends_in_order(tmp_path, throughtime, request, stop):
    (tmp_path / "lines.txt").write_text("the cat sleeps .\nthe dog sleeps .\n")
    lines = open_dataset(str(tmp_path / "lines.txt"), layout="lines")
    config = NgramConfig(data="lines", order=2, layout="lines", tokens="space")
    NgramLanguageModel.create(config, lines).count(lines).save(tmp_path / "cats")
    folders = [str(tmp_path / "nowhere"), str(tmp_path / "cats")]
    command = [sys.executable, "-m", "throughtime", "serve", *folders, "--port", "0", "--json"]
    process, [warning, *greeting] = started(command, request, 4)
    assert not lacks(warning, "warning:", folders[0])
    address = re.search(r"Serving at (http://127.0.0.1:\d+)", greeting[0])
    assert address is not None
    assert greeting[1] == "  cats: ngram\n"
    assert greeting[2].startswith(f"Try: curl {address[1]}/v1/completions")
    body = re.search(r"-d '(.*)'", greeting[2])
    assert body is not None
    asked = urllib.request.Request(
        f"{address[1]}/v1/completions", body[1].encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert json.load(answer)["usage"]["prompt_tokens"] == 1  # its first word
    process.send_signal(stop)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "POST /v1/completions 200" in err
    assert err.endswith("Stopped after 1 requests.\n")
    assert json.loads(out)["requests"] == 1
    assert [one["run"] for one in json.loads(out)["left_out"]] == folders[:1]
    with listen("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        ran = throughtime("serve", tmp_path / "cats", "--port", port)
    assert ran.code == 1
    assert not lacks(ran.err, "error:", port)
    missing = throughtime("serve", tmp_path / "nowhere", "--port", 0)
    assert missing.code == 2
    assert missing.err.startswith(f"error: {tmp_path / 'nowhere'}: ")


def test_a_second_ctrl_c_ends_serve_though_a_model_still_computes(request):
    command = [sys.executable, "-c", ENDLESS, "serve", "anything", "--port", "0"]
    process, greeting = started(command, request)
    port = re.search(r"http://127.0.0.1:(\d+)", greeting[0])
    assert port is not None
    with socket.create_connection(("127.0.0.1", int(port[1])), timeout=10) as line:
        body = b'{"q": "a"}'
        line.sendall(
            b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        metrics = f"http://127.0.0.1:{port[1]}/metrics"
        while b"requests_running 2.0" not in urllib.request.urlopen(metrics, timeout=10).read():
            time.sleep(0.05)  # until there are that request and this one
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None  # it waits for the one that runs
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 0
    *_, first, second = err.splitlines()
    assert "POST /classify 499" in first
    assert second.startswith("Stopped after ")
