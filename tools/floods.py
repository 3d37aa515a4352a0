"""Floods of a server on this machine, and how long `/health` waits meanwhile.

The clients of a flood are a process of their own, which does not hold up the one that asks for `/health`:
`python -m tools.floods HOST PORT SECONDS CLIENTS NAME`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

CLIENTS = 64
PAUSE = 0.02
"""Seconds between two probes."""
PATIENCE = 20.0
"""Seconds after which a probe is given up."""


def request(path: str, *fields: str, method: str = "GET", host: str = "localhost") -> bytes:
    """The header of a request, the last of its connection."""
    return "\r\n".join(
        [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *fields, "", ""]
    ).encode()


def many(last: bytes) -> bytes:
    """A request fifty times over one connection."""
    return last.replace(b"Connection: close\r\n", b"") * 49 + last


def chunked(size: int, count: int, *fields: str, path: str = "/translate", host: str = "localhost") -> bytes:
    """A request whose body comes in chunks of this size."""
    header = request(
        path,
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
        *fields,
        method="POST",
        host=host,
    )
    return header + b"%x\r\n%b\r\n" % (size, b" " * size) * count + b"0\r\n\r\n"


def form(body: bytes, kind: str = "application/x-www-form-urlencoded", path: str = "/translate") -> bytes:
    """A request with a form."""
    return request(path, f"Content-Type: {kind}", f"Content-Length: {len(body)}", method="POST") + body


MULTIPART = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n'
FLOODS: dict[str, Callable[[], bytes]] = {
    "one-byte chunks": lambda: chunked(1, 60_000),
    "one-byte chunks for another host": lambda: chunked(1, 60_000, host="other.example"),
    "chunks with extensions": lambda: chunked(1, 9_000).replace(b"\n1\r\n", b"\n1;" + b"x" * 40 + b"\r\n"),
    "trailers": lambda: chunked(1, 1)[:-2] + b"a:\r\n" * 15_000 + b"\r\n",
    "header of many fields": lambda: request("/health")[:-2] + b"a:\r\n" * 15_800 + b"\r\n",
    "header of one long field": lambda: request("/health", "a: " + "x" * 63_000),
    "folded header": lambda: request("/health", "a: b")[:-2] + b" x\r\n" * 15_000 + b"\r\n",
    "query of many fields": lambda: many(request("/health?" + "a&" * 8_000)),
    "percent-encoded query": lambda: many(request("/health?a=" + "%41" * 5_300)),
    "percent-encoded path": lambda: many(request("/" + "%ff%41" * 2_600)),
    "percent-encoded form": lambda: form(b"q=" + b"%41" * 333_000),
    "form of many fields": lambda: form(b"q=1&" * 999 + b"q=" + b"+" * 900_000),
    "multipart form of line ends": lambda: form(PART + b"\r\n-" * 330_000 + b"\r\n--x--\r\n", MULTIPART),
    "multipart form of many parts": lambda: form((PART + b"a\r\n") * 18_000 + b"--x--\r\n", MULTIPART),
    "lists": lambda: form(b'{"q": [' + b"[]," * 90_000 + b"[]]}", "application/json"),
    **{
        f"GET {path}": lambda path=path: many(request(path))
        for path in ("/health", "/ready", "/metrics", "/models", "/docs", "/openapi.json", "/", "/nowhere")
    },
    "connections": lambda: request("/health"),
    "handshakes": lambda: b"",
}
"""What each connection of a flood sends, before the next one is opened."""


class Wait(NamedTuple):
    """How long `/health` took, and how much the server computed meanwhile: less depends on other programs."""

    seconds: float
    cpu_seconds: float


class Waits(NamedTuple):
    """What came of asking for `/health` during a flood."""

    waits: list[Wait]
    closed: int  # connections of the flood, by the server

    @property
    def worst(self) -> Wait:
        """The most of both."""
        return Wait(*map(max, zip(*self.waits, strict=True)))


def probe(address: tuple[str, int], server: psutil.Process, tls: ssl.SSLContext | None = None) -> Wait:
    """Ask for `/health` over a new connection."""
    began, before = time.perf_counter(), sum(server.cpu_times()[:2])
    if tls is None:
        connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    else:
        connection = http.client.HTTPSConnection(*address, timeout=PATIENCE, context=tls)
    with contextlib.closing(connection):
        connection.request("GET", "/health", headers={"Host": "localhost"})
        with connection.getresponse() as answer:
            answer.read()
        if answer.status != 200:
            raise ValueError(f"/health was answered with {answer.status}")
    return Wait(time.perf_counter() - began, sum(server.cpu_times()[:2]) - before)


def measure_flood(
    address: tuple[str, int],
    server: psutil.Process,
    name: str,
    seconds: float = 5.0,
    clients: int = CLIENTS,
    tls: ssl.SSLContext | None = None,
) -> Waits:
    """Ask for `/health` while a flood lasts."""
    words = [sys.executable, "-m", "tools.floods", *map(str, address), str(seconds), str(clients), name]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it begins
            waits = []
            while process.poll() is None:
                waits.append(probe(address, server, tls))
                time.sleep(PAUSE)
            return Waits(waits, int(process.stdout.readline()))
        finally:
            process.kill()


async def flood(address: tuple[str, int], content: bytes, seconds: float, clients: int, tls: bool) -> int:
    """Send a content over ever new connections; return how many the server has closed."""
    context, closed = None, 0
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def run_client() -> None:
        nonlocal closed
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(*address, ssl=context)
                with contextlib.closing(writer):
                    writer.write(content)
                    while content and await reader.read(1 << 16):
                        pass
            closed += 1

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(run_client() for _ in range(clients)))
    return closed


if __name__ == "__main__":
    host, port, length, number, chosen = sys.argv[1:]
    print("begins", flush=True)
    print(
        asyncio.run(
            flood((host, int(port)), FLOODS[chosen](), float(length), int(number), chosen == "handshakes")
        )
    )
