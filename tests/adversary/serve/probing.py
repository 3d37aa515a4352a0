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
from typing import Any

SERVER = """
import sys
from pathlib import Path
from throughtime.serve.app import create_app
from throughtime.serve.models import Models
from throughtime.serve.requests import Options
from throughtime.serve.server import Server, format_address, listen
from throughtime.serve.service import prepare_interpreter

options = Options(**eval(sys.argv[1]))
app = create_app(Models.open([Path(one) for one in sys.argv[2:]], "cpu"), options, log=open("/dev/null", "w"))
prepare_interpreter()
with listen("127.0.0.1", 0) as listener:
    print("at", format_address(listener), flush=True)
    Server(app, options.timeout).run(sockets=[listener])
"""


@contextlib.contextmanager
def server(folders: list[Path], **options: Any) -> Iterator[str]:
    """The host and port of a server of these models."""
    words = [sys.executable, "-c", SERVER, repr(options), *map(str, folders)]
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


def waits_during(host: str, path: str, body: Any, probes: int = 20) -> tuple[list[float], int, bytes]:
    """Seconds that `/health` and `/ready` took while a request was answered and at least `probes` times."""
    answers: list[tuple[int, bytes]] = []
    asking = threading.Thread(target=lambda: answers.append(post(host, path, body)))
    asking.start()
    waits: list[float] = []
    while asking.is_alive() or len(waits) < probes:
        for probe in ("/health", "/ready"):
            began = time.monotonic()
            with contextlib.closing(http.client.HTTPConnection(host, timeout=60)) as connection:
                connection.request("GET", probe)
                with connection.getresponse() as answer:
                    assert answer.status == 200
            waits.append(time.monotonic() - began)
    asking.join()
    return waits, *answers[0]
