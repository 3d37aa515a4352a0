"""A server in a process of its own, and how long its probes wait while a request is answered."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Waits(NamedTuple):
    """Seconds that each probe took, and CPU seconds of the longest step of the event loop meanwhile."""

    probes: list[float]
    longest_step: float

    @property
    def are_short(self) -> bool:
        """Whether nothing stood still; probes may wait for a machine that does other things, too."""
        return self.longest_step < 0.1 and max(self.probes) < 5


@contextlib.contextmanager
def server(folders: list[Path], **options: Any) -> Iterator[str]:
    """The host and port of a server of these models."""
    program = Path(__file__).with_name("serve_alone.py")
    words = [sys.executable, str(program), json.dumps(options), *map(str, folders)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://(\S+)", process.stdout.readline())
            assert found is not None
            yield found[1]
        finally:
            process.terminate()


def post(host: str, path: str, body: Any, timeout: float = 60.0) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    with contextlib.closing(http.client.HTTPConnection(host, timeout=timeout)) as connection:
        connection.request("POST", path, sent, {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            return answer.status, answer.read()


def get(host: str, path: str) -> bytes:
    """The body of an answer with the status 200."""
    with contextlib.closing(http.client.HTTPConnection(host, timeout=60)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            assert answer.status == 200
            return answer.read()


def measure_waits(host: str, path: str, body: Any, probes: int = 20) -> tuple[Waits, int, bytes]:
    """How `/health` and `/ready` were answered while a request was, and at least `probes` times."""
    get(host, "/longest")
    answers: list[tuple[int, bytes]] = []
    asking = threading.Thread(target=lambda: answers.append(post(host, path, body)))
    asking.start()
    waits: list[float] = []
    while asking.is_alive() or len(waits) < probes:
        for probe in ("/health", "/ready"):
            began = time.monotonic()
            get(host, probe)
            waits.append(time.monotonic() - began)
    asking.join()
    return Waits(waits, float(get(host, "/longest"))), *answers[0]
