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


class Probes(NamedTuple):
    """Seconds that each probe took, and how many connections of the flood the server has closed meanwhile."""

    waits: list[float]
    closed: int

    @property
    def worst(self) -> float:
        """Seconds of the slowest probe."""
        return max(self.waits)


def probe(address: tuple[str, int], path: str = "/health", tls: ssl.SSLContext | None = None) -> float:
    """Return the seconds until `/health` is answered over a new connection; `PATIENCE` if it is not."""
    began = time.perf_counter()
    kind = http.client.HTTPConnection if tls is None else http.client.HTTPSConnection
    more = {} if tls is None else {"context": tls}
    with contextlib.closing(kind(*address, timeout=PATIENCE, **more)) as connection:
        try:
            connection.request("GET", path, headers={"Host": "localhost"})
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return PATIENCE
    return time.perf_counter() - began


def measure_flood(
    address: tuple[str, int],
    name: str,
    seconds: float = 5.0,
    clients: int = CLIENTS,
    tls: ssl.SSLContext | None = None,
) -> Probes:
    """Ask for `/health` while a flood lasts."""
    words = [sys.executable, "-m", "tools.floods", *map(str, address), str(seconds), str(clients), name]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it begins
            waits = []
            while process.poll() is None:
                waits.append(probe(address, tls=tls))
                time.sleep(PAUSE)
            return Probes(waits, int(process.stdout.readline()))
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
